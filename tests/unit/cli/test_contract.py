"""What the command promises (contracts.md): exit codes, one JSON object, data on stdout, one clear error without a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provisioner.cli import run

RESOLVE = ["resolve", "--offline"]


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run([*arguments, "--json"])
    out = capsys.readouterr().out
    answer: dict[str, Any] = json.loads(out)
    assert answer["format"] == 1
    assert answer["exit"] == code
    assert answer["verdict"] in {"ok", "conflict", "fault", "unknown"}
    for finding in answer["findings"]:
        assert {"id", "rule", "severity", "message", "evidence", "because", "remedies", "ask"} <= set(finding)
    return code, answer


def test_cuda_13_has_no_code_for_volta_and_the_other_builds_of_the_release_work(capsys: pytest.CaptureFixture[str]) -> None:
    gpu = ("--gpu", "Tesla V100-SXM2-32GB", "--driver", "580.95.05")
    code, answer = _json(capsys, *RESOLVE, "torch==2.9.1", *gpu, "--variant", "cu130")
    assert code == 4
    first = answer["findings"][0]
    assert first["id"] == "arch-dropped-by-cuda-major"
    assert "CUDA 13" in first["message"]
    assert "sm_70" in first["message"]
    assert any("ptxas" in reason["source"] for reason in first["because"])
    tags = {remedy["changes"].get("variant") for finding in answer["findings"] for remedy in finding["remedies"]}
    assert {"cu126", "cu128"} <= tags
    for tag in ("cu126", "cu128"):
        assert _json(capsys, *RESOLVE, "torch==2.9.1", *gpu, "--variant", tag)[0] == 0


def test_blackwell_needs_a_newer_torch_and_a_newer_driver_with_open_modules(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RESOLVE, "torch==2.5.1", "--gpu", "rtx5090", "--variant", "cu124"]) == 4
    text = capsys.readouterr().out
    assert "2.7" in text
    assert "cu128" in text
    assert "570" in text
    assert "open" in text


def test_minor_version_compatibility_says_what_it_excludes_and_what_not(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _json(capsys, *RESOLVE, "torch==2.9.1", "--gpu", "h100", "--driver", "535.183.01")
    stack = answer["stack"]
    assert code == 0
    assert stack["cuda"].startswith("12.")
    assert stack["compatibility"] == "minor-version"
    assert any("PTX" in sentence for sentence in stack["excludes"])
    assert any("torch.compile" in sentence for sentence in stack["excludes"])
    assert {"framework", "version", "variant", "index", "cuda", "cudnn", "python", "image", "min_driver"} <= set(stack)
    assert {"kernel_modules", "compatibility", "packages", "size", "command", "because"} <= set(stack)
    assert stack["image"].startswith("python:")
    assert answer["stacks"][0]["stack"] == stack


def test_an_ambiguous_name_lists_its_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RESOLVE, "torch==2.9.1", "--gpu", "rtx6000"]) == 4
    text = " ".join(capsys.readouterr().out.split())
    for name in ("Quadro RTX 6000", "NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX PRO 6000 Blackwell Server Edition"):
        assert name in text


def test_a_release_newer_than_the_data_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _json(capsys, *RESOLVE, "torch==9.9", "--gpu", "h100")
    assert (code, answer["verdict"]) == (8, "unknown")
    assert "2026-12-01" in answer["findings"][0]["message"]


def test_resolve_ends_with_the_one_command_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RESOLVE, "torch==2.9.1", "--gpu", "v100", "--driver", "580.95.05", "--variant", "cu126"]) == 0
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert last == "pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu126"


def test_explain_names_every_candidate_and_the_rule_that_refused_it(capsys: pytest.CaptureFixture[str]) -> None:
    _, answer = _json(capsys, "explain", "--offline", "torch==2.9.1", "--gpu", "v100", "--driver", "580.95.05")
    by_tag = {candidate["variant"]: candidate for candidate in answer["candidates"]}
    assert by_tag["cu126"]["kept"]
    assert not by_tag["cu130"]["kept"]
    assert {"rule", "fact", "source"} <= set(by_tag["cu130"]["refused_by"][0])
    assert not by_tag["cpu"]["kept"]


def test_the_wrong_command_line_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resolve", "--nope"]) == 2
    assert run(["nope"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "what to do" in captured.err


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"gpus: [h100\n", "not valid YAML"),
        (b"gpuss: [h100]\n", "did you mean gpus"),
        (b"gpus: [h100]\ngpus: [a100]\n", "twice"),
        (b"gpus: h100\n", "must be a list"),
        (b"a: &a [x]\nb: *a\n", "unknown key"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"format: 2\n", "made by a newer provisioner"),
        (b"[" * 100_000, "not valid YAML"),
        (b"", "empty"),
        (b"driver: 550\x00\n", "not valid YAML"),
    ],
)
def test_a_bad_file_is_3_with_its_place_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, what: str
) -> None:
    path = tmp_path / "request.yaml"
    path.write_bytes(content)
    output = tmp_path / "stack.lock.yaml"
    assert run(["lock", "--request", str(path), "--offline", "-o", str(output)]) == 3
    captured = capsys.readouterr()
    assert what in captured.err
    assert str(path) in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not output.exists()


def test_every_mistake_is_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "request.yaml"
    path.write_text("gpus: h100\npythn: 3.12\npurpose: play\n")
    code, answer = _json(capsys, *RESOLVE, "--request", str(path))
    assert code == 3
    assert [entry["line"] for entry in answer["findings"][0]["evidence"]] == [1, 2, 3]


def test_a_python_of_two_digits_keeps_its_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "request.yaml"
    path.write_text("gpus: [h100]\ndriver: 550.54.14\npython: 3.10\npackages: [torch==2.9.1]\n")
    assert _json(capsys, *RESOLVE, "--request", str(path))[1]["stack"]["python"] == "3.10"


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "stack.lock.yaml"
    output.write_text("mine\n")
    arguments = ["lock", "torch==2.9.1", "--gpu", "h100", "--driver", "550", "--offline", "-o", str(output)]
    assert run(arguments) == 2
    assert output.read_text() == "mine\n"
    assert "--force" in capsys.readouterr().err
    assert run([*arguments, "--force"]) == 0
    first = output.read_bytes()
    assert run(arguments) == 0  # its own file it may replace
    assert output.read_bytes() == first


def test_a_request_is_the_users_own_file_though_it_says_format_1(tmp_path: Path) -> None:
    request = tmp_path / "request.yaml"
    request.write_text("format: 1\ngpus: [h100]\ndriver: 550.54.14\npackages: [torch==2.9.1]\n")
    assert run(["lock", "--request", str(request), "--offline", "-o", str(request)]) == 2
    assert request.read_text().startswith("format: 1\ngpus")


def test_terminal_escapes_in_names_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run([*RESOLVE, "torch", "--gpu", "\x1b]0;owned\x07h\x1b[31mx"])
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err


def test_a_bug_says_that_it_is_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("provisioner.flows.inputs.matrix_with", broken)
    assert run(["matrix", "check"]) == 1
    err = capsys.readouterr().err
    assert "a bug in provisioner: ZeroDivisionError: boom" in err
    assert "Traceback" not in err
    kept = Path(err.split("the traceback is in ")[1].strip())
    assert "ZeroDivisionError" in kept.read_text()


def test_interrupted_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("provisioner.flows.inputs.matrix_with", interrupt)
    assert run(["matrix", "check"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_the_matrix_shows_a_row_with_its_documents(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _json(capsys, "matrix", "show", "torch", "2.9.1", "cu128", "linux/amd64")
    assert code == 0
    assert answer["rows"][0]["row"]["cuda"] == "12.8"
    assert answer["rows"][0]["documents"]
    assert run(["matrix", "show", "no such row"]) == 2
    assert run(["matrix", "check"]) == 0


@pytest.mark.parametrize("package", ["pytorch==2.6", "torch2.6", "numpy"])
def test_packages_without_a_framework_are_never_ok(package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _json(capsys, *RESOLVE, package, "--gpu", "a100")
    assert (code, answer["stack"]) == (8, None)
    assert "torch" in answer["findings"][0]["message"]
    assert run(["explain", package, "--gpu", "a100", "--offline"]) == 8
    assert run(["lock", package, "--gpu", "a100", "--offline", "-o", str(tmp_path / "x.yaml")]) == 8
    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--gpu", "2xa100"], "gpus_per_node"),
        (["--gpu", "a100:2"], "gpus_per_node"),
        (["--gpu", "v100,h100"], "several names"),
        (["--gpu", "h100", "--driver", "12.4"], "Driver Version"),
    ],
)
def test_common_slips_are_named(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _json(capsys, *RESOLVE, "torch", *flags)
    assert code == 8
    assert said in answer["findings"][0]["message"]


def test_a_gpu_that_drivers_have_dropped_has_a_last_branch(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RESOLVE, "torch", "--gpu", "k80"]) == 0
    assert "branch 470 at most" in " ".join(capsys.readouterr().out.split())


def test_a_lock_in_the_place_of_a_request_is_called_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "stack.lock.yaml"
    assert run(["lock", "torch==2.9.1", "--gpu", "h100", "--driver", "550", "--offline", "-o", str(lock)]) == 0
    capsys.readouterr()
    assert run([*RESOLVE, "--request", str(lock)]) == 3
    assert "this is a lock" in capsys.readouterr().err


def test_the_machine_may_be_named_as_uname_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        _json(capsys, *RESOLVE, "torch==2.9.1", "--gpu", "none", "--platform", "aarch64")[1]["stack"]["platform"] == "linux/arm64"
    )
