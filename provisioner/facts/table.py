"""FACTS: one row for each fact of a host: the sh text that prints it, what it costs, whether root helps, and its parser.

Each text runs in a process group of its own with a deadline of its own, LC_ALL=C and a PATH with the sbin folders. POSIX sh only:
dash, busybox and bash run it. What looks for a thing prints `none` when it is not there, so that absent and unseen stay apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from provisioner.commands import TIMEOUTS, Completed
from provisioner.facts import parsers
from provisioner.facts.records import HostFacts
from provisioner.findings import Seen
from provisioner.values import value

#: quick: files and small programs; check: asks the driver, an engine or a package database; load: puts work on the GPU.
Cost = Literal["quick", "check", "load"]


@value
class Fact:
    """One row. `root`: tried again as root where the user may not look. `partial`: what came before the deadline is read too."""

    id: str
    cost: Cost
    script: str
    parse: Callable[[Completed], Seen[Any]]
    root: bool = False
    partial: bool = False
    seconds: float = TIMEOUTS["section"]


_BUS = """
[ -d /sys/bus ] || { echo 'sysfs is not to be seen' >&2; exit 1; }
for device in /sys/bus/pci/devices/*; do
  [ -r "$device/class" ] || continue
  read -r vendor <"$device/vendor"; read -r class <"$device/class"; read -r id <"$device/device"
  case $vendor,$class in 0x10de,0x03*) echo "10de:${id#0x}" ;; esac
done
"""

_GPUS = (
    """
echo '@ smi'
if command -v nvidia-smi >/dev/null; then
  fields=index,name,uuid,memory.total,driver_version
  for newer in ,compute_cap,mig.mode.current ,mig.mode.current ''; do
    said=$(nvidia-smi --query-gpu="$fields$newer" --format=csv 2>&1)
    case $said in *'is not a valid field to query'*) ;; *) break ;; esac
  done
  printf '%s\\n' "$said"
else
  echo 'there is no nvidia-smi'
fi
echo '@ loaded'
for path in /proc/driver/nvidia /sys/module/nvidia /dev/nvidiactl /dev/dxg; do [ ! -e "$path" ] || echo "$path"; done
echo '@ bus'
"""
    + _BUS
)

_DRIVER = """
echo '@ proc'; cat /proc/driver/nvidia/version 2>/dev/null
echo '@ module'; cat /sys/module/nvidia/version 2>/dev/null
echo '@ license'; [ ! -d /sys/module/nvidia ] || modinfo -F license nvidia 2>/dev/null
echo '@ smi'; nvidia-smi -q -d COMPUTE 2>&1
:
"""

_SECURE_BOOT = """
[ -d /sys/firmware/efi ] || { echo legacy; exit 0; }
mokutil --sb-state 2>/dev/null && exit 0
od -An -tu1 -j4 -N1 /sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
"""

_PACKAGES = """
if command -v dpkg-query >/dev/null; then
  dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' 'nvidia*' 'libnvidia*' 'libcuda1*' 'cuda-drivers*' \\
    cuda-keyring 'linux-modules-nvidia*' 'linux-objects-nvidia*' 'docker*' 'containerd*' 'podman*'
elif command -v rpm >/dev/null; then
  rpm -qa --qf 'installed %{NAME} %{VERSION}-%{RELEASE}\\n' 'nvidia*' 'libnvidia*' 'kmod-nvidia*' 'cuda-drivers*' 'docker*' \\
    'containerd*' 'podman*'
else
  echo none
fi
"""

_HOLDS = """
if command -v dpkg-query >/dev/null; then
  dpkg-query -W -f '${db:Status-Want} ${Package}\\n' | sed -n 's/^hold //p'
elif command -v rpm >/dev/null; then
  for file in /etc/dnf/plugins/versionlock.list /etc/yum/pluginconf.d/versionlock.list; do
    [ ! -r "$file" ] || sed '/^ *#/d; /^ *$/d' "$file"
  done
else
  echo none
fi
"""

# Only these fields: docker info also shows proxies and mirrors, which may hold passwords.
_ENGINE = """
if command -v docker >/dev/null && ! docker --version 2>/dev/null | grep -qi podman; then
  echo '@ docker'
  what='{"version":{{json .ServerVersion}},"runtimes":{{json .Runtimes}}'
  docker info --format "$what"',"default":{{json .DefaultRuntime}},"security":{{json .SecurityOptions}}}' || exit
  echo '@ cdi'; docker info --format '{{json .CDISpecDirs}}' 2>/dev/null
  echo '@ buildx'; docker buildx version 2>/dev/null
elif command -v podman >/dev/null; then
  echo '@ podman'; podman version --format '{{.Client.Version}}' && id -u
else
  echo none
fi
:
"""

_CDI = """
if command -v nvidia-ctk >/dev/null; then nvidia-ctk cdi list 2>/dev/null; exit; fi
echo '@ specs'
for file in /etc/cdi/*.yaml /var/run/cdi/*.yaml; do
  [ ! -r "$file" ] || sed -n 's/^kind: */kind /p; s/^ *-* *name: */name /p' "$file"
done
:
"""

_DISK = """
root=$(docker info --format '{{.DockerRootDir}}' 2>/dev/null)
for folder in "$root" /var/lib/docker /var/lib /; do
  [ -z "$folder" ] || [ ! -d "$folder" ] || { df -Pk "$folder" && exit; }
done
"""

_NODES = """
for node in /dev/nvidia* /dev/nvidia-caps/* /dev/dxg /dev/dri/renderD*; do [ ! -e "$node" ] || echo "$node"; done
"""

_SLURM = """
for program in slurmd srun sinfo; do
  if command -v "$program" >/dev/null; then "$program" -V; exit; fi
done
echo none
"""

_VIRTUALIZATION = """
kind=$(systemd-detect-virt 2>/dev/null)
if [ -n "$kind" ]; then echo "$kind"
elif grep -qi microsoft /proc/version; then echo wsl
elif [ -e /.dockerenv ] || [ -e /run/.containerenv ]; then echo container
elif grep -q '^flags.* hypervisor' /proc/cpuinfo; then echo vm-other
elif grep -q '^flags' /proc/cpuinfo; then echo none
else echo 'no systemd-detect-virt, and this processor does not tell' >&2; exit 1
fi
"""

_ROWS = (
    Fact(id="system", cost="quick", script="cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release", parse=parsers.system),
    Fact(id="kernel", cost="quick", script="uname -r", parse=parsers.word),
    Fact(id="machine", cost="quick", script="uname -m", parse=parsers.word),
    Fact(id="glibc", cost="quick", script="getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version", parse=parsers.glibc),
    Fact(id="boot_id", cost="quick", script="cat /proc/sys/kernel/random/boot_id", parse=parsers.word),
    Fact(id="user", cost="quick", script="id -un", parse=parsers.word),
    Fact(
        id="sudo",
        cost="quick",
        script='if [ "$(id -u)" = 0 ]; then echo root; else sudo -n true && echo sudo; fi',
        parse=parsers.sudo,
    ),
    Fact(id="gpus", cost="check", script=_GPUS, parse=parsers.gpus),
    Fact(id="pci", cost="quick", script=_BUS, parse=parsers.pci),
    Fact(id="driver", cost="check", script=_DRIVER, parse=parsers.driver, partial=True),
    Fact(
        id="nouveau",
        cost="quick",
        script="[ -d /sys/module ] || { echo 'sysfs is not to be seen' >&2; exit 1; }; "
        "if [ -d /sys/module/nouveau ]; then echo yes; else echo no; fi",
        parse=parsers.truth,
    ),
    Fact(id="secure_boot", cost="quick", script=_SECURE_BOOT, parse=parsers.secure_boot),
    Fact(id="packages", cost="check", script=_PACKAGES, parse=parsers.packages),
    Fact(id="holds", cost="check", script=_HOLDS, parse=parsers.holds),
    Fact(id="engine", cost="check", script=_ENGINE, parse=parsers.engine, root=True),
    Fact(
        id="toolkit",
        cost="quick",
        script="if command -v nvidia-ctk >/dev/null; then nvidia-ctk --version; else echo none; fi",
        parse=parsers.version_after(r"version v?(\d[\w.+~-]*)"),
    ),
    Fact(id="cdi", cost="quick", script=_CDI, parse=parsers.cdi),
    Fact(
        id="device_nodes",
        cost="quick",
        script=_NODES,
        parse=parsers.lines,
    ),
    Fact(id="memory_mib", cost="quick", script="grep '^MemTotal:' /proc/meminfo", parse=parsers.memory),
    Fact(id="disk_free_mib", cost="check", script=_DISK, parse=parsers.disk),
    Fact(id="slurm", cost="quick", script=_SLURM, parse=parsers.version_after(r"slurm\S* (\d[\w.-]*)")),
    Fact(id="virtualization", cost="quick", script=_VIRTUALIZATION, parse=parsers.word),
)

#: The rows by the field of HostFacts that they fill.
FACTS: Mapping[str, Fact] = {row.id: row for row in _ROWS}

#: What a field says when nobody asked for it.
NOT_ASKED = "not asked"


def facts_of(host: str, found: Mapping[str, Seen[Any]], steps: Mapping[str, Seen[bool]] | None = None) -> HostFacts:
    """Facts of a host; a field that is not in `found` was not asked."""
    fields = [field.name for field in dataclasses.fields(HostFacts) if field.name not in {"host", "steps"}]
    return HostFacts(host=host, steps=steps or {}, **{name: found.get(name, Seen.unseen(NOT_ASKED)) for name in fields})
