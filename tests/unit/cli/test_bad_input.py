"""Hostile files and words: one clear error with its place and its exit code, never a traceback, a flood, or a wait."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from provisioner.cli import run
from provisioner.resources import resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RESOLVE = ("resolve", "--offline", "torch", "--gpu", "h100")
_RTL = "\N{RIGHT-TO-LEFT OVERRIDE}"
_LINE = "\N{LINE SEPARATOR}"


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command line, which must end with `code`; what it says on standard error."""

    def fails(code: int, *arguments: object) -> str:
        assert run([str(argument) for argument in arguments]) == code
        said = capsys.readouterr().err
        assert "a bug in provisioner" not in said
        return said

    return fails


@pytest.fixture
def lock_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The lock of the example."""
    path = tmp_path / "stack.lock.yaml"
    assert run(["lock", "--request", str(resource("examples", "request.yaml")), "--offline", "-o", str(path)]) == 0
    capsys.readouterr()
    return path


def _changed(path: Path, place: str, text: object) -> Path:
    plain: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    node = plain
    *parents, last = place.split(".")
    for name in parents:
        node = node[name]
    node[last] = text
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    return path


@pytest.mark.parametrize("verb", ["--request", "--site", "--facts", "--matrix"])
def test_a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for(verb: str, tmp_path: Path, fails: Callable[..., str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a file, but a pipe" in fails(3, *RESOLVE, verb, tmp_path / "pipe")


def test_a_stream_of_the_shell_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"format: 1\ngpus: [h100]\npackages: [torch]\n")
    os.close(writing)
    assert run(["resolve", "--offline", "--request", f"/dev/fd/{reading}"]) == 0
    os.close(reading)
    assert "sm_90" in capsys.readouterr().out


def test_thousands_of_mistakes_are_told_as_a_few(tmp_path: Path, fails: Callable[..., str]) -> None:
    path = tmp_path / "request.yaml"
    path.write_text("".join(f"unknown{number}: 1\n" for number in range(20_000)), encoding="utf-8")
    said = fails(3, *RESOLVE, "--request", path)
    assert f"{path}:1:1: unknown key unknown0" in said
    assert "there are more mistakes" in said
    assert len(said.splitlines()) < 60


def test_a_long_text_is_not_printed_whole(tmp_path: Path, fails: Callable[..., str]) -> None:
    path = tmp_path / "request.yaml"
    path.write_text("format: 1\nplatform: " + "x" * 10_000 + "\n" + "y" * 10_000 + ": 1\n", encoding="utf-8")
    assert len(fails(3, *RESOLVE, "--request", path)) < 2000
    assert len(fails(2, "resolve", "torch==" + "9" * 10_000, "--gpu", "h100")) < 2000
    assert len(fails(2, "resolve", "torch", "--gpu", "h100", "--driver", "9" * 10_000)) < 2000


def test_keys_that_are_no_text(tmp_path: Path, fails: Callable[..., str]) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("format: 1\n? [a]\n: 1\n", encoding="utf-8")
    assert f"{path}:2:3: a key must be a plain text" in fails(3, *RESOLVE, "--site", path)


@pytest.mark.parametrize("form", ["9" * 6000, "\N{SUPERSCRIPT TWO}", "2", "1e0", "\N{ARABIC-INDIC DIGIT TWO}"])
def test_a_format_that_is_none_of_ours(form: str, tmp_path: Path, fails: Callable[..., str]) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(f"format: {form}\nhosts: []\n", encoding="utf-8")
    for arguments in (
        ("render", path, "--to", tmp_path / "out"),
        ("resolve", "torch", "--facts", path),
        (*RESOLVE, "--site", path),
    ):
        assert str(path) in fails(3, *arguments)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("generator", f"provisioner{_LINE}1"),
        ("stack.framework", "../../etc"),
        ("stack.variant", "../../etc/passwd"),
        ("stack.index", "--index-url=http://evil.example"),
        ("stack.version", "\N{ARABIC-INDIC DIGIT TWO}.1"),
        ("stack.python", "3.12\nUSER root"),
        ("os", f"ubuntu{_RTL}24.04"),
        ("project", "../../etc"),
        ("project", "/etc"),
        ("project", "a\tb"),
        ("options", {"torch_compile": "\x1b[31m"}),
        ("pins", {"packages": [{"name": "torch", "version": "2.9.1", "index": "a b"}]}),
    ],
)
def test_a_lock_that_was_edited_is_refused_with_its_file(
    place: str, text: object, lock_file: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    _changed(lock_file, place, text)
    for arguments in (("render", lock_file, "--to", tmp_path / "out"), ("mirror", "list", lock_file)):
        said = fails(3, *arguments)
        assert str(lock_file) in said
        assert _RTL not in said
    assert not (tmp_path / "out").exists()


def test_what_no_file_can_be_made_of_is_a_mistake_of_the_request(tmp_path: Path, fails: Callable[..., str]) -> None:
    path = tmp_path / "request.yaml"
    path.write_text("format: 1\ngpus: [h100]\npackages: [torch]\njobs: [{name: ../x, time: soon}]\n", encoding="utf-8")
    said = fails(3, "lock", "--offline", "--request", path, "-o", tmp_path / "stack.lock.yaml")
    assert "a job's name is a file name too" in said
    assert "[DAYS-]HH:MM:SS" in said
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("option", ["--gpu", "--driver", "--python", "--os", "--variant", "--image", "--allow"])
def test_an_option_that_is_empty_is_not_a_free_choice(option: str, fails: Callable[..., str]) -> None:
    assert "is given and empty" in fails(2, *RESOLVE, option, "")


def test_bounds_that_are_none(fails: Callable[..., str]) -> None:
    assert "~= needs two numbers (~=2.0)" in fails(2, "resolve", "torch~=2", "--gpu", "h100")
    assert "is not a version" in fails(2, *RESOLVE, "--driver", "\N{ARABIC-INDIC DIGIT FIVE}35")


def test_an_image_whose_python_the_build_does_not_have_is_no_yes(capsys: pytest.CaptureFixture[str]) -> None:
    pinned = ("resolve", "--offline", "torch==2.9.1", "--gpu", "h100", "--image", "nvidia/cuda:11.8.0-base-ubi8")
    assert run([*pinned]) == 4
    out = capsys.readouterr().out
    assert "no-wheel-for-python" in out or "has-python" in out
    assert "nvidia/cuda:11.8.0-base-ubi8 has 3.6" in out


def test_marks_of_writing_direction_reach_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resolve", "--offline", "torch", "--gpu", f"{_RTL}h100"]) in {0, 8}
    captured = capsys.readouterr()
    assert _RTL not in captured.out + captured.err


def test_help_keeps_the_lines_of_its_examples(capsys: pytest.CaptureFixture[str]) -> None:
    run(["resolve", "--help"])
    out = capsys.readouterr().out
    assert "\\b" not in out
    assert "  nvidia-smi | provisioner resolve torch --facts -\n" in out


def test_an_empty_name_is_not_the_folder_one_is_in(lock_file: Path, fails: Callable[..., str]) -> None:
    assert "given and empty" in fails(2, "render", lock_file, "--to", "")


def test_what_is_no_file_is_neither_waited_for_nor_replaced(lock_file: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for force in ((), ("--force",)):
        assert "is not a file" in fails(2, "lock", *RESOLVE[1:], "-o", tmp_path / "pipe", *force)
        assert "is not a file" in fails(2, "lock", *RESOLVE[1:], "-o", "/dev/null", *force)
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree" / "Dockerfile")
    assert "is a pipe" in fails(2, "render", lock_file, "--to", tmp_path / "tree", "--force")
    assert [path.name for path in (tmp_path / "tree").iterdir()] == ["Dockerfile"]


def test_a_name_that_is_too_long_is_told(tmp_path: Path, fails: Callable[..., str]) -> None:
    assert "file name too long" in fails(1, "lock", *RESOLVE[1:], "-o", tmp_path / ("x" * 300))


@pytest.mark.parametrize("manifest", ["[" * 100_000, "{}", '{"files": {"Dockerfile": 1}}'])
def test_a_list_of_files_that_cannot_be_read_counts_as_none(
    manifest: str, lock_file: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".provisioner.json").write_text(manifest, encoding="utf-8")
    fails(0, "render", lock_file, "--to", tmp_path / "tree")
    (tmp_path / "tree" / "Dockerfile").write_text("FROM mine\n", encoding="utf-8")
    assert "not overwritten" in fails(2, "render", lock_file, "--to", tmp_path / "tree")


def test_a_file_named_in_a_file_may_be_hostile_too(tmp_path: Path, fails: Callable[..., str]) -> None:
    path = tmp_path / "site.yaml"
    path.write_text('format: 1\nca_bundle: "a\\0b"\n', encoding="utf-8")
    assert f"{path}:2:12" in fails(3, *RESOLVE, "--site", path)


def test_a_password_is_neither_taken_nor_repeated(tmp_path: Path, fails: Callable[..., str]) -> None:
    for requirement in (
        "x @ https://u:hunter2@h.example/x.whl",
        "x @ git+https://hunter2@h.example/x",
        "torch @ http://hunter2@h/x",
    ):
        said = fails(2, *RESOLVE, requirement)
        assert "must not stand in a requirement" in said
        assert "hunter2" not in said
    assert run([*RESOLVE, "x @ git+ssh://git@h.example/x"]) == 0
    path = tmp_path / "site.yaml"
    path.write_text(
        'format: 1\nindexes: {pypi: "ftp://h.example/?token=hunter2"}\nregistries: {docker.io: "u:hunter2@h.example"}\n',
        encoding="utf-8",
    )
    assert "hunter2" not in fails(3, *RESOLVE, "--site", path)
