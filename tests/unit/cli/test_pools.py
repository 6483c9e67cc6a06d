"""Pools and images on the command line: one JSON object, text that says who gets which, a lock for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provisioner.cli import run
from provisioner.facts import DriverFact, GpuFact, HostFacts, facts_json
from provisioner.findings import Seen

RECORDINGS = Path(__file__).parents[2] / "recordings"
POOL = """\
format: 1
pool:
  - {name: train, gpu: a100, driver: 535.261.03, hosts: "gpu[01-04]"}
  - {name: blackwell, gpu: rtx-pro-6000-blackwell-server, driver: 580.95.05, count: 2}
  - {name: old, gpu: k80, driver: 470.57.02, hosts: "k[1-12]"}
packages: [torch]
"""


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run([*arguments, "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, answer


@pytest.fixture
def request_file(tmp_path: Path) -> str:
    path = tmp_path / "request.yaml"
    path.write_text(POOL, encoding="utf-8")
    return str(path)


def test_a_covered_pool_is_ok_and_has_no_single_stack(capsys: pytest.CaptureFixture[str], request_file: str) -> None:
    code, answer = _json(capsys, "resolve", "--offline", "--request", request_file)
    assert (code, answer["verdict"], answer["stack"]) == (0, "ok", None)
    assert [[member["name"] for member in share["members"]] for share in answer["stacks"]] == [["train", "blackwell"], ["old"]]
    assert answer["stacks"][0]["hosts"] == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert answer["stacks"][0]["stack"]["min_driver"]
    assert answer["stacks"][1]["gpus"] == ["Tesla K80"]
    assert len(answer["stacks"][1]["hosts"]) == 12
    for one in answer["alternatives"]:
        assert one["price"]
        assert one["stacks"][0]["stack"]["framework"] == "torch"
    said = [finding for finding in answer["findings"] if finding["id"] == "pool-alternative"]
    assert len(said) == len(answer["alternatives"]) >= 1
    assert {finding["severity"] for finding in answer["findings"]} == {"info"}


def test_the_text_says_who_gets_which_and_what_else_there_is(capsys: pytest.CaptureFixture[str], request_file: str) -> None:
    assert run(["resolve", "--offline", "--request", request_file]) == 0
    text = capsys.readouterr().out
    assert "Stack 1 of 2:\n  - train: 4 hosts (gpu01, gpu02, gpu03, gpu04), a100, driver 535.261.03\n" in text
    assert "Stack 2 of 2:\n  - old: 12 hosts (k1, k2, k3, k4, k5, k6, k7, k8, …), Tesla K80, driver 470.57.02\n" in text
    assert text.count("pip install torch==") == 2
    assert "Instead, at a price (each was resolved):" in text


def test_a_lock_holds_one_stack_and_says_how_to_get_each(
    capsys: pytest.CaptureFixture[str], request_file: str, tmp_path: Path
) -> None:
    lock = tmp_path / "stack.lock.yaml"
    assert run(["lock", "--offline", "--request", request_file, "-o", str(lock)]) == 2
    said = capsys.readouterr().err
    assert "this pool needs 2 stacks, and a lock holds one" in said
    assert "--member train or --member old" in said
    assert not lock.exists()
    assert run(["lock", "--offline", "--request", request_file, "--member", "nobody", "-o", str(lock)]) == 2
    assert "its members are train, blackwell, old" in capsys.readouterr().err
    assert run(["lock", "--offline", "--request", request_file, "--member", "old", "-o", str(lock)]) == 0
    assert "Tesla K80" in lock.read_text(encoding="utf-8")
    assert run(["render", str(lock), "--to", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    code, answer = _json(capsys, "lock", "--offline", "--request", request_file, "--member", "train", "--force", "-o", str(lock))
    assert code == 0
    assert answer["stack"]["gpus"] == ["a100", "NVIDIA RTX PRO 6000 Blackwell Server Edition"]


def test_flags_replace_the_pool_or_its_drivers(capsys: pytest.CaptureFixture[str], request_file: str) -> None:
    code, answer = _json(capsys, "resolve", "--offline", "--request", request_file, "--gpu", "h100", "--driver", "570")
    assert (code, answer["stack"]["gpus"], answer["stack"]["driver"]) == (0, ["h100"], "570")
    code, answer = _json(capsys, "resolve", "--offline", "--request", request_file, "--driver", "any")
    assert code == 0
    assert {member["driver"] for share in answer["stacks"] for member in share["members"]} == {"any"}


def _host(name: str, gpu: str, driver: str) -> HostFacts:
    unseen: Seen[Any] = Seen.unseen("not asked")
    fields: dict[str, Any] = {field: unseen for field in HostFacts.__dataclass_fields__ if field not in {"host", "steps"}}
    fields["gpus"] = Seen((GpuFact(index=0, name=gpu),))
    fields["driver"] = Seen(DriverFact(version=driver, flavour="open"))
    return HostFacts(**{**fields, "host": name})


def test_facts_of_several_hosts_are_a_pool(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hosts = [_host(name, "NVIDIA A100-SXM4-80GB", "535.261.03") for name in ("gpu01", "gpu02")]
    hosts.append(_host("gpu03", "NVIDIA B200", "580.95.05"))
    path = tmp_path / "facts.json"
    path.write_text(facts_json(tuple(hosts)), encoding="utf-8")
    code, answer = _json(capsys, "resolve", "torch==2.9.1", "--offline", "--facts", str(path))
    assert code == 0
    assert [host for share in answer["stacks"] for host in share["hosts"]] == ["gpu01", "gpu02", "gpu03"]
    path.write_text(facts_json(tuple(hosts[:2])), encoding="utf-8")
    code, answer = _json(capsys, "resolve", "torch==2.9.1", "--offline", "--facts", str(path))
    assert answer["stacks"][0]["hosts"] == ["gpu01", "gpu02"]


def test_recordings_are_facts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, answer = _json(capsys, "resolve", "torch", "--offline", "--facts", f"replay:{RECORDINGS / 'ubuntu2204-v100'}")
    assert code == 0
    assert answer["stack"]["gpus"] == ["Tesla V100-SXM2-32GB"]
    code, answer = _json(capsys, "resolve", "torch", "--offline", "--facts", f"replay:{tmp_path / 'nothing'}")
    assert code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            ("--image", "nvidia/cuda:12.9.1-base-ubuntu22.04", "--gpu", "rtx3090", "--driver", "550.163.01"),
            4,
            "starts only where",
        ),
        (("--image", "nvcr.io/nvidia/pytorch:25.01-py3", "--gpu", "h100", "--driver", "535.261.03"), 0, "cuda-compat is in it"),
        (("--image", "nvcr.io/nvidia/pytorch:25.01-py3", "--gpu", "rtx4090", "--driver", "upgrade"), 0, "install driver branch"),
        (("--image", "nvcr.io/nvidia/pytorch:25.01-py3", "--gpu", "h100"), 0, "branch 570 (570.26) is the first that does"),
    ],
)
def test_an_image_by_itself(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, says: str) -> None:
    assert run(["resolve", "--offline", *arguments]) == code
    assert says in " ".join(capsys.readouterr().out.split())


def test_upgrade_shows_branch_and_flavour(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["resolve", "torch==2.9.1", "--offline", "--gpu", "b200", "--driver", "upgrade"]
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert "  install   driver branch " in text
    assert "with the open kernel modules" in text
    code, answer = _json(capsys, *arguments)
    assert code == 0
    assert answer["stack"]["driver_branch"]
    assert answer["stack"]["kernel_modules"] == ["open"]
    assert any(reason["fact"].startswith("install driver branch") for reason in answer["stack"]["because"])


def test_an_image_for_a_pool_starts_on_the_member_with_the_oldest_driver(tmp_path: Path) -> None:
    pool = tmp_path / "pool.yaml"
    pool.write_text(
        "format: 1\npackages: [torch==2.10.0]\npool:\n"
        "  - {name: old, gpu: v100, driver: 535.261.03}\n"
        "  - {name: blackwell, gpu: rtx-pro-6000-blackwell-server, driver: 580.95.05}\n"
    )
    lock = tmp_path / "stack.lock.yaml"
    assert run(["lock", "--request", str(pool), "--offline", "-o", str(lock)]) == 0
    assert run(["render", str(lock), "--to", str(tmp_path / "tree"), "--only", "dockerfile"]) == 0
    assert 'NVIDIA_REQUIRE_DRIVER="driver>=525"' in (tmp_path / "tree" / "Dockerfile").read_text()
