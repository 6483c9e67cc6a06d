"""`for` and `needs` of a playbook: one grammar over a closed list of what is known of a host.

`fact: value`, `fact: [values]` or `fact: ">=580"`, joined by AND. A fact that is absent has the value `none`, one that could not
be seen is neither: a condition on it is unknown, which is never a yes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import yaml

from provisioner.facts import HostFacts
from provisioner.findings import Seen
from provisioner.values import value
from provisioner.versions import Range, Version

if TYPE_CHECKING:
    from provisioner.decode import Decoder
    from provisioner.facts import DriverFact, EngineFact

T = TypeVar("T")

#: What an absent thing is called in a condition.
NONE: Final = "none"
_FAMILIES: Final = {
    "debian": "debian",
    "ubuntu": "debian",
    "rhel": "rhel",
    "rocky": "rhel",
    "almalinux": "rhel",
    "centos": "rhel",
    "fedora": "rhel",
    "ol": "rhel",
    "sles": "suse",
    "suse": "suse",
    "opensuse-leap": "suse",
    "amzn": "amazon",
}
#: What Debian calls the machines of `uname -m`.
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_SYSTEM: Final = re.compile(r"(?P<id>[a-z][a-z-]*)(?P<version>\d[\w.]*)?")


@value
class HostFact:
    """One row: how the fact is read from HostFacts, what people call it, what to do where it is not as needed.

    `ask` is the sh text that prints it on the host itself, for the exported script; None where no short one tells the same.
    """

    read: Callable[[HostFacts], Seen[str]]
    called: str
    remedy: str
    ask: str | None = None


def _then(seen: Seen[T], read: Callable[[T], str]) -> Seen[str]:
    return Seen(read(seen.found)) if seen.known else Seen.unseen(seen.why_not or "")


def _truth(condition: bool) -> str:  # noqa: FBT001 - it is the value itself
    return "true" if condition else "false"


def family_of(system: str, like: tuple[str, ...] = ()) -> str:
    """The family (debian, rhel, suse …) of a system's id, or the id itself where no family is known."""
    return next((_FAMILIES[name] for name in (system, *like) if name in _FAMILIES), system)


def _engine(facts: HostFacts, read: Callable[[EngineFact], str], absent: str) -> Seen[str]:
    return _then(facts.engine, lambda engine: absent if engine is None else read(engine))


def _driver(facts: HostFacts, read: Callable[[DriverFact], str]) -> Seen[str]:
    return _then(facts.driver, lambda driver: NONE if driver is None else read(driver))


_DRIVER_FILE = "if [ -r /sys/module/nvidia/version ]; then {} /sys/module/nvidia/version; else echo none; fi"
_OTHER_SYSTEM = "use a host with one of these systems, or write a playbook for this one"
_DRIVER_FIRST = "install the NVIDIA driver first, and reboot where its installer says so; nvidia-smi must list the GPUs"

#: The closed list: every key that `for` and `needs` may name, but `goal.KEY`.
HOST_FACTS: Final[Mapping[str, HostFact]] = {
    "os": HostFact(
        read=lambda facts: _then(facts.system, lambda system: system.os),
        called="operating system",
        remedy=_OTHER_SYSTEM,
    ),
    "id": HostFact(
        read=lambda facts: _then(facts.system, lambda system: system.id),
        called="distribution",
        remedy=_OTHER_SYSTEM,
    ),
    "version": HostFact(
        read=lambda facts: _then(facts.system, lambda system: system.version or NONE),
        called="version of the distribution",
        remedy=_OTHER_SYSTEM,
    ),
    "family": HostFact(
        read=lambda facts: _then(facts.system, lambda system: family_of(system.id, system.like)),
        called="family of distributions",
        remedy=_OTHER_SYSTEM,
    ),
    "machine": HostFact(
        read=lambda facts: facts.machine, called="machine", remedy="use a host with such a processor", ask="uname -m"
    ),
    "kernel": HostFact(read=lambda facts: facts.kernel, called="kernel", remedy="boot such a kernel", ask="uname -r"),
    "sudo": HostFact(
        read=lambda facts: _then(facts.sudo, _truth),
        called="root without a password",
        remedy="log in as root, or give the user sudo without a password",
    ),
    "engine": HostFact(
        read=lambda facts: _engine(facts, lambda engine: engine.version, NONE),
        called="container engine",
        remedy="install Docker Engine first (docs.docker.com/engine/install) and start it; `docker version` must name a server",
        ask="docker version --format '{{.Server.Version}}' 2>/dev/null | grep . || echo none",
    ),
    "rootless": HostFact(
        read=lambda facts: _engine(facts, lambda engine: _truth(engine.rootless), "false"),
        called="rootless engine",
        remedy="this playbook configures the engine of the system; a rootless one is configured by its user, see "
        "the rootless section of the container toolkit's installation guide",
        ask="if docker info --format '{{.SecurityOptions}}' 2>/dev/null | grep -q rootless; then echo true; else echo false; fi",
    ),
    "driver": HostFact(
        read=lambda facts: _driver(facts, lambda driver: driver.version),
        called="NVIDIA driver",
        remedy=_DRIVER_FIRST,
        ask=_DRIVER_FILE.format("cat"),
    ),
    "driver_branch": HostFact(
        read=lambda facts: _driver(facts, lambda driver: driver.version.partition(".")[0]),
        called="driver branch",
        remedy=_DRIVER_FIRST,
        ask=_DRIVER_FILE.format("cut -d. -f1"),
    ),
    "flavour": HostFact(
        read=lambda facts: _driver(facts, lambda driver: driver.flavour or NONE),
        called="kernel module flavour",
        remedy="install the other flavour of the kernel modules",
    ),
    "gpus": HostFact(
        read=lambda facts: _then(facts.gpus, lambda gpus: str(len(gpus))),
        called="number of GPUs",
        remedy="see that nvidia-smi lists the GPUs",
    ),
    "nvidia_devices": HostFact(
        read=lambda facts: _then(facts.pci, lambda devices: str(len(devices))),
        called="number of NVIDIA devices on the PCI bus",
        remedy="use a host with an NVIDIA GPU",
    ),
    "nouveau": HostFact(
        read=lambda facts: _then(facts.nouveau, _truth),
        called="nouveau loaded",
        remedy="keep nouveau from loading, and reboot",
    ),
    "secure_boot": HostFact(
        read=lambda facts: _then(facts.secure_boot, _truth),
        called="Secure Boot",
        remedy="enrol a key for the kernel modules, or switch Secure Boot off in the firmware",
    ),
    "toolkit": HostFact(
        read=lambda facts: _then(facts.toolkit, lambda version: version or NONE),
        called="container toolkit",
        remedy="install the container toolkit first: provisioner plan HOST --playbook container-toolkit",
    ),
    "slurm": HostFact(
        read=lambda facts: _then(facts.slurm, lambda version: version or NONE),
        called="Slurm",
        remedy="use a node of the cluster",
    ),
    "virtualization": HostFact(
        read=lambda facts: facts.virtualization, called="virtualization", remedy="use a host of the named kind"
    ),
}
#: What `{host.KEY}` may be, and the sh text that prints it on the host itself.
HOST_WORDS: Final[Mapping[str, str]] = {
    "os": '(. /etc/os-release && echo "${ID}${VERSION_ID:-}")',
    "machine": "uname -m",
    "arch": "dpkg --print-architecture",
    "kernel": "uname -r",
}


def host_word(key: str, facts: HostFacts) -> Seen[str]:
    """The value of `{host.KEY}` on a host."""
    if key == "arch":
        machine = facts.machine
        return Seen(ARCHITECTURES.get(machine.found, machine.found)) if machine.known else machine
    return HOST_FACTS[key].read(facts)


@value
class Condition:
    """What one fact must be: one of `values`, or a version within `range`."""

    values: tuple[str, ...] = ()
    range: Range | None = None

    @classmethod
    def decode_node(cls, node: yaml.Node, decoder: Decoder) -> Condition | object:
        """Read a value, a list of values, or bounds such as `>=580`."""
        scalars = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not scalars or not all(isinstance(child, yaml.ScalarNode) and child.value for child in scalars):
            return decoder.note(node, 'a condition is a value, a list of values, or bounds such as ">=580"')
        texts = tuple(str(child.value) for child in scalars)
        if not any(text[0] in "<>=!~" for text in texts):
            return cls(values=texts)
        if len(texts) > 1 or "~" in texts[0]:
            return decoder.note(node, 'bounds stand alone, with commas between: ">=1.12,<1.18"')
        try:
            return cls(range=Range(texts[0]))
        except ValueError as failure:
            return decoder.note(node, str(failure))

    def holds(self, text: str) -> bool:
        """Whether `text` is what is wanted; what is no version is within no range."""
        if self.range is None:
            return text in self.values
        try:
            return Version(text) in self.range
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.range is not None:
            return str(self.range)
        return self.values[0] if len(self.values) == 1 else f"one of {', '.join(self.values)}"


@value
class Judged:
    """One condition on one host: yes, no or unknown, what was wanted, and what there is (or why it was not seen)."""

    key: str
    wanted: Condition
    verdict: Literal["yes", "no", "unknown"]
    actual: str


def check_keys(conditions: Mapping[str, Condition]) -> None:
    """ValueError for a key that is neither a fact of the list nor `goal.KEY`."""
    import difflib

    for key in conditions:
        if key not in HOST_FACTS and not key.startswith("goal."):
            close = difflib.get_close_matches(key, HOST_FACTS, n=1)
            advice = f"; did you mean {close[0]}?" if close else f" (known: {', '.join(HOST_FACTS)})"
            raise ValueError(f"{key} is no fact of a host{advice}")


def judge(conditions: Mapping[str, Condition], facts: HostFacts, goal: Mapping[str, str]) -> tuple[Judged, ...]:
    """Each condition on a host; all must be yes."""
    return tuple(_judged(key, wanted, facts, goal) for key, wanted in conditions.items())


def _judged(key: str, wanted: Condition, facts: HostFacts, goal: Mapping[str, str]) -> Judged:
    seen = Seen(goal[key.removeprefix("goal.")]) if key.startswith("goal.") else HOST_FACTS[key].read(facts)
    if not seen.known:
        return Judged(key=key, wanted=wanted, verdict="unknown", actual=seen.why_not or "")
    return Judged(key=key, wanted=wanted, verdict="yes" if wanted.holds(seen.found) else "no", actual=seen.found)


def split_system(os_id: str) -> tuple[str, str] | None:
    """`debian12` as ("debian", "12"), `rhel9` alike; None where the text is no system's id."""
    match = _SYSTEM.fullmatch(os_id)
    return (match["id"], match["version"] or "") if match else None
