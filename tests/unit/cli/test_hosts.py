"""The verbs for hosts, on a recording: probe, plan, export; and what hosts said as input of resolve."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provisioner.cli import run
from provisioner.flows.up import RECORDING
from tests.testbed.processes import free_port

if TYPE_CHECKING:
    import pytest

RECORDINGS = Path(__file__).parents[2] / "recordings"
REPLAY = f"replay:{RECORDING}"

# The head of nvidia-smi's table as R535 prints it; form: NVIDIA/nvidia-docker issue threads (2023).
PASTED = """\
Fri Nov 17 10:02:11 2023
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  Tesla T4                       On  | 00000000:00:1E.0 Off |                    0 |
| N/A   27C    P8               9W /  70W |      2MiB / 15360MiB |      0%      Default |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+
"""


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run([*arguments, "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, answer


def test_a_recording_answers_a_probe(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _json(capsys, "probe", REPLAY)
    assert code == 0
    (host,) = answer["hosts"]
    assert {"host", "verdict", "error", "findings", "checks"} <= set(host)
    assert host["facts"]["gpus"]["found"][0]["name"] == "NVIDIA GeForce RTX 5090"
    assert host["facts"]["toolkit"] == {"found": None}, "absent is not unseen"


def test_facts_of_a_probe_are_an_input_of_resolve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts.json"
    assert run(["probe", REPLAY, "-o", str(facts)]) == 0
    capsys.readouterr()
    code, answer = _json(capsys, "resolve", "torch==2.9.1", "--offline", "--facts", str(facts))
    assert code == 0
    assert answer["stack"]["gpus"] == ["NVIDIA GeForce RTX 5090"]
    assert answer["stack"]["driver"] == "580.95.05"


def test_pasted_nvidia_smi_is_an_input_of_resolve(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PASTED))
    assert run(["resolve", "torch==2.9.1", "--offline", "--facts", "-"]) == 0
    captured = capsys.readouterr()
    assert "Tesla T4" in captured.out
    assert "driver 535.129.03" in captured.out
    assert "standard input: Tesla T4" in captured.err


def test_a_text_that_is_neither_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n"))
    assert run(["resolve", "torch", "--offline", "--facts", "-"]) == 2
    assert "neither facts.json nor" in capsys.readouterr().err


def test_with_nothing_named_this_machine_is_looked_at_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["resolve", "torch", "--offline"])
    captured = capsys.readouterr()
    assert code in {0, 4, 8}
    assert "this machine" in captured.out + captured.err


def test_plan_lists_steps_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _json(capsys, "plan", REPLAY, "--playbook", "container-toolkit", "-o", str(tmp_path / "plan.json"))
    assert code == 0
    assert {"id", "why", "action", "restarts", "reboot", "way_back"} <= set(answer["steps"][0])
    assert answer["refusals"] == []
    assert len(answer["plan"]) == 64
    kept = json.loads((tmp_path / "plan.json").read_text())
    assert (kept["format"], len(kept["hosts"])) == (1, 1)


def test_a_lock_is_a_goal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "stack.lock.yaml"
    assert run(["lock", "torch==2.9.1", "--gpu", "rtx5090", "--driver", "580.95.05", "--offline", "-o", str(lock)]) == 0
    capsys.readouterr()
    assert _json(capsys, "plan", REPLAY, "--goal", str(lock))[0] == 0
    assert run(["plan", REPLAY, "--goal", str(tmp_path / "not-there.yaml")]) == 2
    assert run(["plan", REPLAY, "--goal", "toolkt=1.20.0"]) == 2
    assert "toolkit" in capsys.readouterr().err


def test_an_exported_script_is_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "host-setup.sh"
    assert run(["export", "shell", "--os", "ubuntu24.04", "-o", str(path)]) == 0
    assert "on the host: sudo bash host-setup.sh --dry-run" in capsys.readouterr().err
    assert path.stat().st_mode & 0o111
    assert path.read_text().startswith("#!")
    assert run(["export", "shell", "--os", "ubuntu24.04", "-o", str(path)]) == 0, "its own file it may replace"
    assert run(["export", "shell", "--os", "windows11"]) != 0
    assert "Traceback" not in capsys.readouterr().err


def test_a_host_that_means_nothing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("gpu99", "-oProxyCommand=x", "a b", "replay:/nowhere/at/all"):
        assert run(["probe", name]) in {2, 3}
        err = capsys.readouterr().err
        assert "Traceback" not in err
        assert err.strip()


def test_a_recording_is_made_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "recordings"
    assert run(["probe", "local", "--record", str(folder)]) in {0, 8}
    (made,) = folder.iterdir()
    capsys.readouterr()
    _, real = _json(capsys, "probe", "local")
    _, again = _json(capsys, "probe", f"replay:{made}")
    assert run(["plan", f"replay:{made}"]) in {0, 7}
    assert "this recording holds facts only" in capsys.readouterr().out
    for name in ("kernel", "machine", "system", "boot_id"):
        assert real["facts"][name] == again["facts"][name]


def test_a_plan_is_recorded_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "it is"
    assert run(["plan", REPLAY, "--record", str(folder)]) == 0
    (made,) = folder.iterdir()
    captured = capsys.readouterr()
    assert f"recorded: {made} (replay it: provisioner plan 'replay:{made}')" in captured.err
    _, first = _json(capsys, "plan", REPLAY)
    _, again = _json(capsys, "plan", f"replay:{made}")
    assert [step["id"] for step in again["steps"]] == [step["id"] for step in first["steps"]]
    assert [step["unseen"] for step in again["steps"]] == [None] * len(again["steps"])


def test_a_recording_answers_for_its_own_goal_only(capsys: pytest.CaptureFixture[str]) -> None:
    folder = f"replay:{RECORDINGS / 'ubuntu2204-v100'}"
    assert run(["plan", folder]) == 0
    assert "Nothing to do" in capsys.readouterr().out
    assert run(["plan", folder, "--goal", "toolkit=1.17.0"]) == 0
    text = capsys.readouterr().out
    assert "Nothing to do" not in text
    assert "not seen: whether this is done already (recorded for another goal)" in text


def test_a_shipped_recording_has_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "replay:ubuntu2404-rtx5090"]) == 0
    capsys.readouterr()
    assert run(["probe", "replay:ubuntu2404"]) == 3
    assert "comes with the tool: ubuntu2404-rtx5090" in capsys.readouterr().err


def test_facts_are_written_of_those_that_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory, book = tmp_path / "hosts.yaml", tmp_path / "known_hosts"
    inventory.write_text(f"format: 1\nhosts:\n  dead: {{address: 127.0.0.1, port: {free_port('127.0.0.1')}, user: root}}\n")
    facts = tmp_path / "facts.json"
    options = ("--inventory", str(inventory), "--known-hosts", str(book), "-o", str(facts))
    assert run(["probe", "all", *options]) == 5
    assert f"not written: {facts} (0 of 1 hosts answered)" in capsys.readouterr().err
    assert not facts.exists()
    assert run(["plan", "dead", *options]) == 5
    assert not facts.exists()
    assert run(["probe", "dead", REPLAY, *options]) == 5
    assert f"written: {facts} (1 of 2 hosts)" in capsys.readouterr().err
    (host,) = json.loads(facts.read_text())["hosts"]
    assert host["engine"]["found"]["name"] == "docker", "a default is written out"


def test_help_says_what_a_host_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("probe", "plan"):
        assert run([verb, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "HOST is a name or a group of the inventory (all: every host of it), a name of ~/.ssh/config, a range" in text
        assert "later apply" not in text
        assert "on each line `gpu01 SHA256:…`" in text
