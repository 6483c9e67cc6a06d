"""What a variant of a step means on a host: its commands as argv, and one line for people. Pure."""

from __future__ import annotations

import hashlib
import shlex
from typing import TYPE_CHECKING, Final

from provisioner.errors import UsageError
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from provisioner.hosts.playbook import Argv, Packages, Service, Step, Variant

    Fill = Callable[[str], str]

#: Where files are kept before a step changes them: this folder, the playbook's name, the file's path.
BACKUPS: Final = "/var/backups/provisioner"
# These three are sh texts without `set -e`, which a shell ignores where the result of a function is looked at.
#: Writes standard input to $1 with the mode $2: whole or not at all, readable by nobody else before it is complete.
WRITE: Final = (
    'umask 022 && mkdir -p -- "${1%/*}" && umask 077 && rm -f -- "$1.new" && cat >"$1.new" && '
    'chmod -- "$2" "$1.new" && mv -f -- "$1.new" "$1"'
)
#: Keeps $1 as $2, or $2.absent where there is no $1. What is kept once is not kept again: it would be our own file.
KEEP: Final = (
    'test -e "$2" || test -e "$2.absent" || { umask 077 && mkdir -p -- "${2%/*}" && '
    'if test -e "$1"; then cp -p -- "$1" "$2.new" && mv -f -- "$2.new" "$2"; else : >"$2.absent"; fi; }'
)
#: Puts $1 back as $2 keeps it.
RESTORE: Final = (
    'if test -e "$2"; then cp -p -- "$2" "$1"; elif test -e "$2.absent"; then rm -f -- "$1"; '
    'else echo "nothing was kept of $1" >&2; exit 1; fi'
)
#: Whether $1 has the SHA-256 $2 and the mode $3.
SAME: Final = 'test "$(sha256sum <"$1")" = "$2  -" && test "$(stat -c %a -- "$1")" = "$3"'
#: apt without questions: waits for another apt, keeps changed configuration files, goes back to an older version that is named.
_APT_INSTALL: Final = (
    *("env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "apt-get", "install", "--yes", "--no-install-recommends"),
    *("--allow-downgrades", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"),
)
_APT_REMOVE: Final = (
    *(
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "NEEDRESTART_MODE=l",
        "apt-get",
        "remove",
        "--yes",
        "-o",
        "DPkg::Lock::Timeout=300",
    ),
)
#: The families whose packages this version knows how to change.
PACKAGE_FAMILIES: Final = frozenset({"debian"})


@value
class PlannedCommand:
    """One command of a plan, to be run as root. `stdin` is fed whole, as UTF-8."""

    argv: tuple[str, ...]
    stdin: str = ""


def commands_of(variant: Variant, playbook: str, family: str, fill: Fill) -> tuple[PlannedCommand, ...]:
    """The commands of a variant; UsageError where the family's packages are not known."""
    if variant.run:
        return (_root(tuple(map(fill, variant.run))),)
    if variant.write:
        argv = ("sh", "-c", WRITE, "sh", variant.write.path, variant.write.mode)
        return (PlannedCommand(argv=argv, stdin=fill(variant.write.content)),)
    if variant.packages:
        if family not in PACKAGE_FAMILIES:
            raise UsageError(f"how packages are installed on {family} is not known", hint="use a host of the Debian family")
        return tuple(map(_root, _apt(variant.packages, fill)))
    restored = [_root(("sh", "-c", RESTORE, "sh", path, kept_as(path, playbook))) for path in variant.restore]
    services = [_root(argv) for argv in _systemctl(variant.service)] if variant.service else []
    return (*restored, *services) if restored or services else (_root(("systemctl", "reboot")),)


def keeping(step: Step, playbook: str) -> tuple[PlannedCommand, ...]:
    """The commands that keep the files of a step before it changes them."""
    return tuple(_root(("sh", "-c", KEEP, "sh", path, kept_as(path, playbook))) for path in dict.fromkeys(step.kept))


def kept_as(path: str, playbook: str) -> str:
    """Where a file is kept."""
    return f"{BACKUPS}/{playbook}{path}"


def unless_of(step: Step, fill: Fill) -> Argv:
    """The check that the step is done already: its own, or that the file is there with this content and mode."""
    return tuple(map(fill, step.unless)) if step.unless else _same(step, fill)


def then_of(step: Step, fill: Fill) -> Argv:
    """The check after the step; where the playbook names none, the one before it must hold now."""
    return tuple(map(fill, step.then)) if step.then else unless_of(step, fill)


def action_text(variant: Variant, playbook: str, fill: Fill) -> str:
    """What a variant does, in one line."""
    if variant.run:
        return shlex.join(map(fill, variant.run))
    if variant.write:
        size = len(fill(variant.write.content).encode())
        return f"write {variant.write.path} ({size} bytes, mode {variant.write.mode})"
    if variant.packages:
        return _packages_text(variant.packages, fill)
    restored = [
        f"put {path} back as it was ({kept_as(path, playbook)}; remove it where that does not exist)" for path in variant.restore
    ]
    services = [_service_text(variant.service)] if variant.service else []
    return ", then ".join([*restored, *services]) or "reboot the host"


def way_back_of(step: Step, variants: Iterable[Variant], undo: Variant | None, playbook: str, fill: Fill) -> str | None:
    """The way back of a step that may be done by `variants`, in one line: its `undo`, whose variant for the host is `undo`.

    A step that names none leaves nothing behind where it only restarts something; else there is no way back, which is None.
    """
    if undo is not None:
        return action_text(undo, playbook, fill)
    return "nothing to undo" if not step.undo and all(map(_leaves_nothing, variants)) else None


def _leaves_nothing(variant: Variant) -> bool:
    """Whether there is nothing to undo: a restart or a reload."""
    service = variant.service
    return service is not None and not variant.restore and service.enabled is None and service.state in {"restarted", "reloaded"}


def _root(argv: Argv) -> PlannedCommand:
    return PlannedCommand(argv=argv)


def _apt(packages: Packages, fill: Fill) -> list[Argv]:
    parts: list[Argv] = [("apt-get", "update")] if packages.refresh else []
    for head, names in (
        (("apt-mark", "unhold"), packages.unhold),
        (_APT_REMOVE, packages.remove),
        (_APT_INSTALL, packages.install),
        (("apt-mark", "hold"), packages.hold),
    ):
        if names:
            parts.append((*head, *map(fill, names)))
    return parts


def _systemctl(service: Service) -> list[Argv]:
    verbs = {"started": "start", "restarted": "restart", "reloaded": "reload", "stopped": "stop"}
    parts: list[Argv] = []
    if service.enabled is not None:
        parts.append(("systemctl", "enable" if service.enabled else "disable", service.unit))
    if service.state:
        parts.append(("systemctl", verbs[service.state], service.unit))
    return parts


def _service_text(service: Service) -> str:
    return " and ".join(f"{argv[1]} {argv[2]}" for argv in _systemctl(service))


def _packages_text(packages: Packages, fill: Fill) -> str:
    parts = ["fetch the package lists"] if packages.refresh else []
    for verb in ("unhold", "remove", "install", "hold"):
        names = getattr(packages, verb)
        if names:
            parts.append(f"{verb} {' '.join(map(fill, names))}")
    return ", ".join(parts)


def _same(step: Step, fill: Fill) -> Argv:
    write = step.do[0].write
    assert write is not None  # noqa: S101 - Step has no other form without unless
    digest = hashlib.sha256(fill(write.content).encode()).hexdigest()
    return ("sh", "-c", SAME, "sh", write.path, digest, write.mode.removeprefix("0"))
