"""What a section of the probe printed → the fact. Pure; each says when its fact is absent and when it was not seen.

A section prints `none` when it looked and there is nothing, and parts under lines such as `@ proc`. An exit code that is not zero
and is not explained here means unseen.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from provisioner.facts.records import DriverFact, EngineFact, GpuFact, SystemFact
from provisioner.facts.smi import gpus_from_nvidia_smi
from provisioner.findings import Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from provisioner.commands import Completed

T = TypeVar("T")

_LONGEST = 200  # characters of a reason
_PCI = re.compile(r"10de:[0-9a-f]{4}")
_CDI_NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+=\S+")
_NVRM = re.compile(r"NVRM version:.*?\s(?P<version>\d+\.\d+(?:\.\d+)?)(?:\s|$)")
_MEMINFO = re.compile(r"MemTotal: +(\d{1,15}) kB")
_EFI_BYTE = re.compile(r"\s*([01])\s*")


def why(done: Completed) -> str:
    """Why a section failed: the last thing it said."""
    said = [
        line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip() and not line.startswith("@ ")
    ]
    errors = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return ((errors or said or [""])[-1] or f"it ended with {done.exit}")[:_LONGEST]


def parts(text: str) -> Mapping[str, str]:
    """The texts under each `@ name` line."""
    found: dict[str, list[str]] = {}
    lines = found.setdefault("", [])
    for line in text.splitlines():
        if line.startswith("@ "):
            lines = found.setdefault(line[2:].strip(), [])
        else:
            lines.append(line)
    return {name: "\n".join(entries).strip() for name, entries in found.items()}


def word(done: Completed) -> Seen[str]:
    """One word or line; nothing printed is unseen."""
    text = done.stdout.strip()
    return Seen(text.splitlines()[0].strip()) if done.ok and text else Seen.unseen(why(done))


def truth(done: Completed) -> Seen[bool]:
    """`yes` or `no`."""
    text = done.stdout.strip()
    return Seen(text == "yes") if done.ok and text in {"yes", "no"} else Seen.unseen(why(done))


def version_after(pattern: str) -> Callable[[Completed], Seen[str | None]]:
    """A parser of a program's version: `none` is absent, the first group of `pattern` the version, anything else unseen."""

    def parse(done: Completed) -> Seen[str | None]:
        text = done.stdout.strip()
        if done.ok and text == "none":
            return Seen(None)
        match = re.search(pattern, text)
        return Seen(match[1]) if done.ok and match else Seen.unseen(why(done))

    return parse


def lines(done: Completed) -> Seen[tuple[str, ...]]:
    """Each line an entry; no line is an empty answer."""
    return Seen(tuple(filter(None, map(str.strip, done.stdout.splitlines())))) if done.ok else Seen.unseen(why(done))


def system(done: Completed) -> Seen[SystemFact]:
    """/etc/os-release (os-release(5)): KEY=value with shell quotes."""
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        key, equals, text = line.strip().partition("=")
        if equals and not key.startswith("#"):
            found[key] = text.strip("'\"") if text[:1] in {"'", '"'} else text
    if not done.ok or not found.get("ID"):
        return Seen.unseen(why(done) if not done.ok else "os-release has no ID")
    name = found.get("PRETTY_NAME") or found.get("NAME") or found["ID"]
    return Seen(
        SystemFact(id=found["ID"], version=found.get("VERSION_ID", ""), name=name, like=tuple(found.get("ID_LIKE", "").split()))
    )


def glibc(done: Completed) -> Seen[str | None]:
    """`getconf GNU_LIBC_VERSION`, else `ldd --version`, which musl answers on standard error and with exit 1."""
    text = f"{done.stdout}\n{done.stderr}"
    if re.search(r"\bmusl\b", text):
        return Seen(None)
    match = re.search(r"^glibc (\d+\.\d+)", text, re.MULTILINE) or re.search(r"^ldd \(.*\) (\d+\.\d+)", text, re.MULTILINE)
    return Seen(match[1]) if match else Seen.unseen(why(done))


def sudo(done: Completed) -> Seen[bool]:
    """Whether root can be had: `root` or `sudo` was printed. A sudo that is missing or refuses means no."""
    return Seen(done.ok and done.stdout.strip() in {"root", "sudo"})


def gpus(done: Completed) -> Seen[tuple[GpuFact, ...]]:
    """The GPUs as the driver lists them.

    None of them is an answer only where nothing NVIDIA is on the PCI bus and no driver is loaded. A bare node with a GPU and no
    driver is therefore unseen, and so is a GPU that fell off the bus.
    """
    part = parts(done.stdout)
    found, _, _ = gpus_from_nvidia_smi(part.get("smi", ""))
    if found:
        return Seen(found)
    said = next((line.strip() for line in part.get("smi", "").splitlines() if line.strip()), "nvidia-smi said nothing")[:_LONGEST]
    on_bus = _PCI.findall(part.get("bus", ""))
    if on_bus:
        return Seen.unseen(
            f"{said}; the PCI bus shows {len(on_bus)} NVIDIA device{'s' * (len(on_bus) > 1)} ({', '.join(sorted(set(on_bus)))})"
        )
    if part.get("loaded"):
        return Seen.unseen(f"{said}; {part['loaded'].splitlines()[0]} is there")
    return Seen(()) if done.ok and "smi" in part else Seen.unseen(why(done))


def pci(done: Completed) -> Seen[tuple[str, ...]]:
    """`10de:2b85` for each NVIDIA display controller; the section fails where sysfs is hidden."""
    return Seen(tuple(_PCI.findall(done.stdout))) if done.ok else Seen.unseen(why(done))


def driver(done: Completed) -> Seen[DriverFact | None]:
    """The loaded module: /proc/driver/nvidia/version says its version and flavour, nvidia-smi the CUDA driver version.

    A module that is installed and not loaded is none. On WSL there is no module; nvidia-smi names the driver of Windows.
    """
    part = parts(done.stdout)
    _, smi_version, cuda = gpus_from_nvidia_smi(part.get("smi", ""))
    match = _NVRM.search(part.get("proc", ""))
    flavour: Literal["open", "proprietary"] | None = None
    if match:
        flavour = "open" if "Open Kernel Module" in part["proc"] else "proprietary"
        return Seen(DriverFact(version=match["version"], flavour=flavour, cuda=cuda))
    loaded = part.get("module", "")
    if loaded:
        flavour = {"NVIDIA": "proprietary", "Dual MIT/GPL": "open"}.get(part.get("license", ""))  # type: ignore[assignment]  # of the Literal
        return Seen(DriverFact(version=loaded.split()[0], flavour=flavour, cuda=cuda))
    if smi_version:
        return Seen(DriverFact(version=smi_version, cuda=cuda))
    return Seen(None) if "smi" in part else Seen.unseen(why(done))


def secure_boot(done: Completed) -> Seen[bool]:
    """`legacy` (no EFI), what mokutil says, or the byte of the EFI variable."""
    text = done.stdout.strip()
    if text == "legacy" or "doesn't support Secure Boot" in text + done.stderr:
        return Seen(False)  # noqa: FBT003 - it is the value
    if "SecureBoot" in text:
        return Seen("SecureBoot enabled" in text)
    byte = _EFI_BYTE.fullmatch(done.stdout)
    return Seen(byte[1] == "1") if byte else Seen.unseen(why(done))


def packages(done: Completed) -> Seen[Mapping[str, str]]:
    """`installed NAME VERSION` lines. dpkg-query ends with 1 when one of the patterns matches nothing."""
    if done.stdout.strip() == "none":
        return Seen.unseen("neither dpkg nor rpm is there")
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "installed":  # noqa: PLR2004 - see above
            found[words[1]] = words[2]
    failed = not done.ok and not found and "no packages found" not in done.stderr and "is not installed" not in done.stdout
    return Seen.unseen(why(done)) if failed else Seen(found)


def holds(done: Completed) -> Seen[tuple[str, ...]]:
    """Names of packages on hold, or lines of dnf's version lock."""
    if done.stdout.strip() == "none":
        return Seen.unseen("neither dpkg nor rpm is there")
    return lines(done)


def engine(done: Completed) -> Seen[EngineFact | None]:
    """`docker info` as the JSON that its section asks for, or podman's version. A daemon that does not answer is unseen."""
    part = parts(done.stdout)
    if part.get("", "") == "none":
        return Seen(None)
    if part.get("podman"):
        version, _, user = part["podman"].partition("\n")
        return Seen(EngineFact(name="podman", version=version.strip(), rootless=user.strip() not in {"", "0"}))
    info = _json(part.get("docker", ""))
    if not done.ok or not isinstance(info, dict) or not info.get("version"):
        return Seen.unseen(f"docker does not answer: {why(done)}")
    buildx = re.search(r"buildx v?(\d[\w.+-]*)", part.get("buildx", ""))
    folders = _json(part.get("cdi", ""))
    return Seen(
        EngineFact(
            version=str(info["version"]),
            buildx=buildx[1] if buildx else None,
            runtimes=tuple(sorted(info.get("runtimes") or ())),
            default_runtime=str(info.get("default") or ""),
            cdi_folders=tuple(map(str, folders)) if isinstance(folders, list) else (),
            rootless=any("rootless" in str(option) for option in info.get("security") or ()),
        )
    )


def _json(text: str) -> Any:  # noqa: ANN401 - whatever stands there
    try:
        return json.loads(text.partition("\n")[0])
    except ValueError:
        return None


def cdi(done: Completed) -> Seen[tuple[str, ...]]:
    """Device names (`nvidia.com/gpu=all`) as `nvidia-ctk cdi list` prints them, else from the YAML specs."""
    part = parts(done.stdout)
    if "specs" not in part:
        return Seen(tuple(_CDI_NAME.findall(part.get("", "")))) if done.ok else Seen.unseen(why(done))
    found: list[str] = []
    kind = ""
    for line in part["specs"].splitlines():
        key, _, text = line.partition(" ")
        text = text.strip("'\" ")
        if key == "kind":
            kind = text
        elif key == "name" and kind:
            found.append(f"{kind}={text}")
    return Seen(tuple(dict.fromkeys(found)))


def memory(done: Completed) -> Seen[int]:
    """/proc/meminfo, in MiB."""
    match = _MEMINFO.search(done.stdout)
    return Seen(int(match[1]) // 1024) if match else Seen.unseen(why(done))


def disk(done: Completed) -> Seen[int]:
    """`df -Pk`: the fourth column of its last line, in KiB → MiB."""
    rows = done.stdout.strip().splitlines()
    cells = rows[-1].split() if rows else []
    free = [cell for position, cell in enumerate(cells) if position + 1 < len(cells) and cells[position + 1].endswith("%")]
    return Seen(int(free[0]) // 1024) if free and re.fullmatch(r"\d{1,15}", free[0]) else Seen.unseen(why(done))
