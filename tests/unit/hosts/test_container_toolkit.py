"""The shipped playbook, exported and run by a real bash against stand-ins of apt, Docker and the toolkit: from bare to done.

The stand-ins keep their state in files, so that each check of the playbook is asked of something that really changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from provisioner.findings import Seen
from provisioner.hosts.export import export_shell
from provisioner.hosts.plan import plan, step_checks
from provisioner.hosts.playbook import Playbook, read_playbook
from provisioner.resources import resource
from tests.unit.hosts.made import host

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the script runs as root only; in the test bed it does")

STAND_INS = {
    "apt-get": """
echo "apt-get $*" >>"$STATE/log"
[ -e "$STATE/apt-broken" ] && { echo "E: Could not get lock" >&2; exit 100; }
for word do
  case $word in
    -*) ;;
    *=*) echo "${word#*=}" >"$STATE/dpkg/${word%%=*}" ;;
    ca-certificates) echo 20230311 >"$STATE/dpkg/$word" ;;
  esac
done
""",
    "dpkg-query": """
for last do :; done
[ -e "$STATE/dpkg/$last" ] || exit 1
case $2 in
  *Version*) printf 'installed %s' "$(cat "$STATE/dpkg/$last")" ;;
  *) printf installed ;;
esac
""",
    "docker": """
case "$*" in
  version*) echo 28.5.1 ;;
  *SecurityOptions*) echo '[name=seccomp]' ;;
  *Runtimes*) cat "$STATE/runtimes" ;;
esac
""",
    "nvidia-ctk": """
echo "nvidia-ctk $*" >>"$STATE/log"
case "$*" in
  'runtime configure --runtime=docker')
    echo '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}' >"$STATE/docker/daemon.json"
    ;;
  'cdi list') cat "$STATE"/cdi/list 2>/dev/null ;;
  'cdi generate '*) printf 'nvidia.com/gpu=0\\n' >"$STATE/cdi/list"; echo /lib/libcuda.so.580.95.05 >"$STATE/cdi/nvidia.yaml" ;;
esac
""",
    "systemctl": """
echo "systemctl $*" >>"$STATE/log"
case "$*" in
  'restart docker') grep -q nvidia "$STATE/docker/daemon.json" && echo '{"nvidia":{},"runc":{}}' >"$STATE/runtimes" ;;
  'restart nvidia-cdi-refresh.service') nvidia-ctk cdi generate --output=x ;;
esac
""",
    "uname": "echo x86_64\n",
}


class Machine:
    """A folder that stands for a machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "dpkg", "docker", "cdi", "apt"):
            (folder / name).mkdir()
        for name, text in STAND_INS.items():
            (folder / "bin" / name).write_text(f"#!/bin/sh{text if text[0] == chr(10) else chr(10) + text}")
            (folder / "bin" / name).chmod(0o755)
        (folder / "driver").write_text("580.95.05\n")
        (folder / "docker/daemon.json").write_text('{"log-driver": "local"}\n')
        (folder / "runtimes").write_text('{"runc":{}}\n')
        self.environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "STATE": str(folder)}

    def here(self, text: str) -> str:
        """`text` with the paths of the system as paths of this machine."""
        for path, name in (
            ("/usr/share/keyrings", "keys"),
            ("/etc/apt/sources.list.d", "apt"),
            ("/etc/docker", "docker"),
            ("/var/run/cdi", "cdi"),
            ("/etc/cdi", "none"),
            ("/sys/module/nvidia/version", "driver"),
            ("/var/backups/provisioner", "backups"),
            ("/etc/os-release", "os-release"),
        ):
            text = text.replace(path, f"{self.folder}/{name}")
        return text

    def playbook(self) -> Playbook:
        text = resource("playbooks", "container-toolkit.yaml").read_text(encoding="utf-8")
        return read_playbook(self.here(text), "container-toolkit.yaml")

    def run(self, *arguments: str, **goal: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "os-release").write_text('ID=debian\nVERSION_ID="12"\n')
        script = self.folder / "host-setup.sh"
        script.write_text(self.here(export_shell(self.playbook(), "debian12", goal)), encoding="utf-8")
        bash = shutil.which("bash") or "bash"
        return subprocess.run(
            [bash, str(script), *arguments], env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )

    def steps(self, **goal: str) -> dict[str, Seen[bool]]:
        """What the probe would say of each step."""
        checks = step_checks(self.playbook(), goal)
        return {
            name: Seen(subprocess.run(argv, env=self.environment, capture_output=True, check=False).returncode == 0)
            for name, argv in checks.items()
        }

    def log(self) -> list[str]:
        path = self.folder / "log"
        return [line for line in path.read_text().splitlines() if "cdi list" not in line] if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_from_bare_to_done_and_the_plan_after_that_is_empty(machine: Machine) -> None:
    bare = plan(machine.playbook(), host(steps=machine.steps()), {})
    assert [step.id for step in bare.steps] == [step.id for step in machine.playbook().steps]
    done = machine.run()
    assert done.returncode == 0, done
    assert "Done: changed by 7 of 7 steps, 0 were done already." in done.stdout
    changes = [line for line in machine.log() if "update" not in line]
    assert [line.split(" ", 2)[:2] for line in changes[2:]] == [
        ["nvidia-ctk", "runtime"],
        ["systemctl", "restart"],
        ["systemctl", "restart"],
        ["nvidia-ctk", "cdi"],
    ]
    assert changes[1].endswith(
        " ".join(
            f"{name}=1.20.0-1"
            for name in (
                "nvidia-container-toolkit",
                "nvidia-container-toolkit-base",
                "libnvidia-container-tools",
                "libnvidia-container1",
            )
        )
    )
    assert plan(machine.playbook(), host(steps=machine.steps()), {}).empty
    before = machine.log()
    again = machine.run()
    assert "Done: changed by 0 of 7 steps, 7 were done already." in again.stdout
    assert machine.log() == before
    kept = machine.folder / f"backups/container-toolkit{machine.folder}/docker/daemon.json"
    assert kept.read_text() == '{"log-driver": "local"}\n'


def test_a_dry_run_changes_nothing(machine: Machine) -> None:
    done = machine.run("--dry-run")
    assert done.returncode == 0, done
    assert machine.log() == []
    assert not (machine.folder / "keys").exists()
    assert done.stdout.count("would do: ") == 7


def test_another_version_changes_what_it_must(machine: Machine) -> None:
    assert machine.run().returncode == 0
    left = plan(machine.playbook(), host(steps=machine.steps(toolkit="1.19.1")), {"toolkit": "1.19.1"})
    assert [step.id for step in left.steps] == ["packages"]
    done = machine.run(toolkit="1.19.1")
    assert "Done: changed by 1 of 7 steps, 6 were done already." in done.stdout, done


def test_a_list_for_another_driver_is_not_a_list(machine: Machine) -> None:
    assert machine.run().returncode == 0
    (machine.folder / "driver").write_text("595.45.04\n")
    assert [name for name, seen in machine.steps().items() if not seen.found] == ["cdi"]
    (machine.folder / "driver").unlink()
    assert [name for name, seen in machine.steps().items() if not seen.found] == ["cdi"]


def test_a_changed_file_is_set_right_again(machine: Machine) -> None:
    assert machine.run().returncode == 0
    (machine.folder / "apt/nvidia-container-toolkit.list").write_text("deb [trusted=yes] https://evil.example /\n")
    (machine.folder / "keys/nvidia-container-toolkit-keyring.asc").chmod(0o666)
    assert [name for name, seen in machine.steps().items() if not seen.found] == ["signing-key", "repository"]
    assert "Done: changed by 2 of 7 steps, 5 were done already." in machine.run().stdout


def test_a_failure_of_apt_names_the_step_and_the_next_run_goes_on(machine: Machine) -> None:
    (machine.folder / "dpkg/ca-certificates").write_text("1\n")
    (machine.folder / "apt-broken").touch()
    done = machine.run()
    assert done.returncode == 1
    assert "E: Could not get lock" in done.stderr
    assert "the step packages failed: apt-get ended with code 100" in done.stderr
    assert "To undo this step: remove nvidia-container-toolkit" in done.stderr
    (machine.folder / "apt-broken").unlink()
    assert "Done: changed by 4 of 7 steps, 3 were done already." in machine.run().stdout


@pytest.mark.parametrize(
    ("missing", "said"), [("driver", "NOT MET: NVIDIA driver is none"), ("bin/docker", "NOT MET: container engine is none")]
)
def test_nothing_is_begun_without_driver_or_engine(machine: Machine, missing: str, said: str) -> None:
    if missing == "bin/docker":
        (machine.folder / missing).write_text("#!/bin/sh\necho\nexit 1\n")  # the client of an engine that is not there
    else:
        (machine.folder / missing).unlink()
    done = machine.run()
    assert done.returncode == 1
    assert said in done.stderr
    assert machine.log() == []
