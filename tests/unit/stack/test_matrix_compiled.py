"""The compiled form: the same rows as the text, quickly, and never in the way."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from provisioner import resources
from provisioner.errors import MatrixError
from provisioner.stack import compiled
from provisioner.stack.matrix import SECTIONS, Matrix, load_matrix

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = resources.resource("compat_matrix.yaml").read_text(encoding="utf-8")
SHA256 = hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.fixture(scope="module")
def form() -> str:
    return compiled.compile_json(TEXT)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Matrix]:
    """`shipped_matrix` of a data folder and a cache folder that are this test's own."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/compat_matrix.yaml").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(resources, "resource", (tmp_path / "data").joinpath)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return compiled.shipped_matrix.__wrapped__


def never(*_: object) -> str:
    raise AssertionError("compiled again")


def test_the_compiled_rows_are_the_decoded_rows(form: str) -> None:
    decoded = load_matrix(TEXT, "compat_matrix.yaml")
    revived = compiled.matrix_of(json.loads(form), SHA256)
    assert revived.collected == decoded.collected == "2026-12-01"
    assert revived.sha256 == decoded.sha256
    for section in SECTIONS:
        assert revived.rows(section) == decoded.rows(section), section
        for row, other in zip(revived.rows(section), decoded.rows(section), strict=True):
            assert repr(row) == repr(other)  # the same text and types, not only equal


def test_a_checkout_compiles_once(shipped: Callable[[], Matrix], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = shipped()
    assert [path.name for path in (tmp_path / "cache/provisioner").iterdir()] == [f"compat_matrix.{SHA256}.json"]
    monkeypatch.setattr(compiled, "compile_json", never)
    assert shipped().gpus == first.gpus
    assert first.sha256 == SHA256


def test_a_wheel_brings_its_compiled_form(
    shipped: Callable[[], Matrix], form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / f"compat_matrix.{SHA256}.json").write_text(form, encoding="utf-8")
    monkeypatch.setattr(compiled, "compile_json", never)
    assert len(shipped().gpus) == 429
    assert not (tmp_path / "cache").exists()


def test_an_edited_text_is_compiled_again(shipped: Callable[[], Matrix], form: str, tmp_path: Path) -> None:
    (tmp_path / "data" / f"compat_matrix.{SHA256}.json").write_text(form, encoding="utf-8")
    (tmp_path / "data/compat_matrix.yaml").write_text(
        TEXT.replace("collected: '2026-12-01'", "collected: '2027-01-01'", 1), encoding="utf-8"
    )
    assert shipped().collected == "2027-01-01"


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"collected": "x", "sections": {}}', "null"])
def test_a_broken_cache_is_made_again(shipped: Callable[[], Matrix], tmp_path: Path, broken: str) -> None:
    cached = tmp_path / "cache/provisioner" / f"compat_matrix.{SHA256}.json"
    cached.parent.mkdir(parents=True)
    cached.write_text(broken, encoding="utf-8")
    assert len(shipped().gpus) == 429
    assert len(cached.read_text(encoding="utf-8")) > 100_000


def test_a_form_of_other_row_classes_is_made_again(shipped: Callable[[], Matrix], form: str, tmp_path: Path) -> None:
    older = json.loads(form)
    older["sections"]["gpus"]["form"] = "name: str"
    cached = tmp_path / "cache/provisioner" / f"compat_matrix.{SHA256}.json"
    cached.parent.mkdir(parents=True)
    cached.write_text(json.dumps(older), encoding="utf-8")
    assert len(shipped().gpus) == 429
    assert json.loads(cached.read_text(encoding="utf-8")) == json.loads(form)


def test_a_cache_that_cannot_be_written_is_no_error(shipped: Callable[[], Matrix], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be", encoding="utf-8")
    assert len(shipped().gpus) == 429


def test_a_missing_text_is_an_error_with_its_path(shipped: Callable[[], Matrix], tmp_path: Path) -> None:
    path = tmp_path / "data/compat_matrix.yaml"
    path.unlink()
    with pytest.raises(MatrixError, match="no such file"):
        shipped()


def test_a_broken_text_is_an_error_with_its_place(shipped: Callable[[], Matrix], tmp_path: Path) -> None:
    (tmp_path / "data/compat_matrix.yaml").write_text("schema: 1\ngpus: 7\n", encoding="utf-8")
    with pytest.raises(MatrixError, match=r"compat_matrix\.yaml:2:7: gpus must be a list"):
        shipped()


def test_the_fast_path_loads_no_yaml(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "provisioner"
    folder.mkdir()
    (folder / f"compat_matrix.{SHA256}.json").write_text(form, encoding="utf-8")
    program = (
        "import sys; from provisioner.stack.compiled import shipped_matrix; m = shipped_matrix(); m.gpus, m.variants, m.images;"
        "print(sorted({'yaml', 'typing_extensions', 'tempfile', 'provisioner.decode'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"XDG_CACHE_HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "[]\n"


def test_a_section_is_made_when_it_is_asked_for(form: str) -> None:
    plain = json.loads(form)
    plain["sections"]["images"]["rows"] = None
    matrix = compiled.matrix_of(plain, SHA256)
    assert len(matrix.gpus) == 429
    with pytest.raises(TypeError, match="not iterable"):
        matrix.images  # noqa: B018 - asking for it is the test
