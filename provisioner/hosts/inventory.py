"""The inventory (`hosts.yaml`) and the names a command takes: hosts, groups, ranges, addresses, `local` and `replay:FOLDER`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal

from provisioner.commands import Address
from provisioner.decode import read_text
from provisioner.errors import InventoryError, UsageError
from provisioner.hosts.reading import Reading, pairs, scalars
from provisioner.ranges import expand_range
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import yaml

_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}\$?")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9._-]+)?")
_RESERVED: Final = {"local", "replay", "all"}
_BRACKETS: Final = re.compile(r"\[[^\[\]]*\]")
_WHAT: Final = "a host is a name of the inventory or of ~/.ssh/config, user@address[:port], local, or replay:FOLDER"
#: What an error about an inventory ends with.
_SUCH_AS: Final = "such as: gpu01: {address: 10.0.0.7, user: root, port: 22, key: ~/.ssh/id_ed25519, jump: bastion}"
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@value
class HostEntry:
    """How one host is reached; what is left out is for ~/.ssh/config to say. `address` defaults to the name, `port` to 22.

    `key` is the file of a private key, `jump` a host of this inventory or an address.
    """

    address: str | None = None
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None

    def __post_init__(self) -> None:
        """ValueError with what is wrong."""
        if self.address is not None and not _ADDRESS.fullmatch(self.address):
            raise ValueError(f"address: {self.address[:80]!r} is not the name or the address of a host")
        if self.user is not None and not _USER.fullmatch(self.user):
            raise ValueError(f"user: {self.user[:80]!r} is not the name of a user")
        if self.port is not None and not 0 < self.port < 65536:  # noqa: PLR2004 - TCP
            raise ValueError(f"port: {self.port} is not a port (1 to 65535)")
        if self.key is not None and (not _PRINTABLE.fullmatch(self.key) or self.key.startswith("-")):
            raise ValueError(f"key: {self.key[:80]!r} is not the path of a file")
        if self.jump is not None:
            _address(self.jump)


@value
class Inventory:
    """Hosts by name, and groups of hosts, groups and ranges. Ranges among the keys of `hosts` are expanded when it is read."""

    format: Literal[1] = 1
    hosts: Mapping[str, HostEntry | None] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@value
class Target:
    """One host that a command means. `name` is what the user called it, `folder` the recording of a `replay`."""

    name: str
    kind: Literal["local", "replay", "ssh"]
    address: str = ""
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None
    folder: str | None = None

    @property
    def ssh(self) -> Address:
        """Where SSH goes."""
        return Address(host=self.address or self.name, user=self.user, port=self.port, key=self.key, jump=self.jump)


def load_inventory(path: Path) -> Inventory:
    """The inventory at `path`; InventoryError with every mistake and its place."""
    return read_inventory(read_text(path, InventoryError), str(path))


def read_inventory(text: str, source: str) -> Inventory:
    """The inventory that `text` holds, its hosts expanded; InventoryError with every mistake and its place."""
    reading = Reading(text, source, InventoryError, hint=_SUCH_AS)
    inventory = reading.read(Inventory)
    root = dict(pairs(reading.root))
    hosts: dict[str, HostEntry | None] = {}
    entries = inventory.hosts if inventory else {}
    for key, node in pairs(root.get("hosts")):
        names, entry = _expanded(key, node, reading), entries.get(key)
        if len(names) > 1 and entry is not None and entry.address is not None:
            reading.note(node, f"{key} are {len(names)} hosts, and they cannot all have the address {entry.address}")
        for name in names:
            if name in hosts:
                reading.note(node, f"the host {name} stands here twice")
            hosts[name] = entry
    groups = dict(pairs(root.get("groups")))
    for group, node in groups.items():
        _expanded(group, node, reading, group=True)
        if group in hosts:
            reading.note(node, f"{group} is a host already; a group needs another name")
        for member in scalars(node):
            for name in _expanded(member.value, member, reading):
                if name not in hosts and name not in groups:
                    reading.note(member, f"there is no host or group {name}{_near(name, [*hosts, *groups])}")
    reading.finish()
    assert inventory is not None  # noqa: S101 - finish has raised otherwise
    _refuse_circles(inventory.groups, groups, reading)
    reading.finish()
    return Inventory(hosts=hosts, groups=inventory.groups)


def expand(
    names: Sequence[str], inventory: Inventory | None, *, known: Callable[[str], bool] = lambda _: False
) -> tuple[Target, ...]:
    """The hosts that `names` mean, in that order, each once; UsageError, with near matches, where one means nothing.

    `known` says whether ~/.ssh/config has a host of that name; the inventory goes before it.
    """
    found: dict[str, Target] = {}
    for name in names:
        for target in _targets(name, inventory or Inventory(), known):
            found.setdefault(target.name, target)
    return tuple(found.values())


def _targets(name: str, inventory: Inventory, known: Callable[[str], bool]) -> Iterable[Target]:
    if not _PRINTABLE.fullmatch(name) or name.startswith("-"):
        raise UsageError(f"{name[:80]!r} is not the name of a host")
    if name == "local":
        return [Target(name="local", kind="local")]
    if name.startswith("replay:"):
        folder = name.removeprefix("replay:")
        if not folder:
            raise UsageError("replay: names no recording", hint="write replay:FOLDER")
        return [Target(name=name, kind="replay", folder=folder)]
    if name == "all":
        if not inventory.hosts:
            raise UsageError("all means every host of the inventory, and there is none", hint="name one: --inventory FILE")
        return [target for entry in inventory.hosts for target in _known(entry, inventory, known)]
    if "@" in name:
        try:
            return [_at(name)]
        except ValueError as failure:
            raise UsageError(str(failure)) from failure
    try:
        wanted = expand_range(name)
    except ValueError as failure:
        several = "," in _BRACKETS.sub("", name)
        hint = "separate several hosts by spaces, or write gpu[01-02]" if several else _WHAT
        raise UsageError(str(failure), hint=hint) from failure
    return [target for entry in wanted for target in _known(entry, inventory, known)]


def _known(name: str, inventory: Inventory, known: Callable[[str], bool]) -> Iterable[Target]:
    if name in inventory.groups:
        members = [entry for member in inventory.groups[name] for entry in expand_range(member)]
        return [target for member in members for target in _known(member, inventory, known)]
    if name not in inventory.hosts:
        if known(name):
            return [Target(name=name, kind="ssh", address=name)]
        names = [*inventory.hosts, *inventory.groups]
        hint = (
            f"for a host that is in no inventory write user@{name}"
            if names
            else f"write user@{name}, name an inventory (--inventory FILE), or give it a Host line in ~/.ssh/config"
        )
        raise UsageError(f"there is no host or group {name}{_near(name, names)}", hint=hint)
    entry = inventory.hosts[name] or HostEntry()
    return [
        Target(
            name=name,
            kind="ssh",
            address=entry.address or name,
            user=entry.user,
            port=entry.port,
            key=entry.key,
            jump=_jump(entry.jump, inventory),
        )
    ]


def _jump(jump: str | None, inventory: Inventory) -> str | None:
    """The address of a jump host; a name of the inventory becomes the address that stands there."""
    entry = inventory.hosts.get(jump) if jump else None
    return str(Address(host=entry.address or str(jump), user=entry.user, port=entry.port)) if entry else jump


def _address(text: str) -> Address:
    """`[user@]address[:port]` with plain characters only; ValueError with a sentence."""
    parsed = Address.parse(text)
    if not _ADDRESS.fullmatch(parsed.host) or (parsed.user is not None and not _USER.fullmatch(parsed.user)):
        raise ValueError(f"{text[:80]!r} is not an address such as root@gpu01, root@10.0.0.7:2222 or root@[fd00::7]:2222")
    return parsed


def _at(name: str) -> Target:
    parsed = _address(name)
    return Target(name=name, kind="ssh", address=parsed.host, user=parsed.user, port=parsed.port)


def _expanded(text: str, node: yaml.Node, reading: Reading, *, group: bool = False) -> tuple[str, ...]:
    """The names of a key or a member; a problem is noted, and nothing returned, where it is none."""
    try:
        names = expand_range(text)
    except ValueError as failure:
        reading.note(node, str(failure))
        return ()
    if group and names != (text,):
        reading.note(node, f"{text} is a range; a group has one name")
    taken = _RESERVED.intersection(names)
    if taken:
        reading.note(node, f"{min(taken)} means something else on the command line; take another name")
    return names


def _refuse_circles(groups: Mapping[str, tuple[str, ...]], nodes: Mapping[str, yaml.Node], reading: Reading) -> None:
    """Note each group that contains itself."""
    for group in groups:
        reached: set[str] = set()
        waiting = [group]
        while waiting:
            for member in groups.get(waiting.pop(), ()):
                inner = [name for name in expand_range(member) if name in groups and name not in reached]
                reached.update(inner)
                waiting += inner
        if group in reached:
            reading.note(nodes[group], f"the group {group} contains itself")


def _near(name: str, known: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
