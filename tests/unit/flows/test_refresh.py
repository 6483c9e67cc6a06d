"""matrix refresh as a whole, on an index that stands in: what it answers, when it writes, and where."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from provisioner.cli import run
from provisioner.edges.index import Unreachable
from provisioner.edges.wheel_reader import Cost, Listed
from provisioner.flows import refresh as flow
from provisioner.flows.inputs import matrix_with, own_rows
from provisioner.resources import resource
from provisioner.stack.compiled import shipped_matrix
from tests.unit.stack.test_refresh import LISTED, METADATA, TABLE, VERSION_PY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

MATRIX = resource("compat_matrix.yaml")
NEW = "2.16.0"
TODAY = dt.datetime.now(dt.UTC).date().isoformat()
PYTHONS = ("311-cp311", "312-cp312", "313-cp313", "314-cp314", "314-cp314t", "315-cp315", "315-cp315t")


class Index:
    """Serves the shipped default builds by name, and `new` with the texts of 2.15.0 under its own number."""

    def __init__(
        self, *, new: str = NEW, library: bytes = LISTED, silent: bool = False, pythons: tuple[str, ...] = PYTHONS
    ) -> None:
        self.cost = Cost()
        self.new, self.library, self.silent, self.pythons = new, library, silent, pythons

    def files(self, project: str, *, every: bool = False) -> tuple[Listed, ...]:  # noqa: ARG002 - as the real one
        if self.silent:
            raise Unreachable("the package index does not answer: connection refused")
        days = {"torch": "2026-12-01", "torchvision": "2026-12-01", "torchaudio": "2026-03-23"}
        if project != "torch":
            number = {"torchvision": "0.30.0", "torchaudio": "2.11.0"}.get(project, "1.0")
            return (self._file(f"{project}-{number}-py3-none-manylinux_2_28_x86_64.whl", days[project]),)
        machines = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
        known = [
            f"torch-{row.version}-cp312-cp312-manylinux_2_28_{machines[row.platform]}.whl"
            for row in shipped_matrix().variants_of("torch")
            if row.default
        ]
        fresh = [f"torch-{self.new}-cp{python}-manylinux_2_28_x86_64.whl" for python in self.pythons] if self.new else []
        return tuple(self._file(name, days[project]) for name in (*known, *fresh))

    def _file(self, name: str, day: str) -> Listed:
        return Listed(name=name, address=f"memory:{name}", size=500_000_000, day=day)

    def open(self, file: Listed) -> Wheel:
        self.cost.requests += 1
        return Wheel(self, file.name)


class Wheel:
    def __init__(self, index: Index, name: str) -> None:
        self.index, self.name = index, name

    def member(self, ending: str) -> str:
        return ending

    def read(self, name: str) -> bytes:
        if self.name.startswith("torchvision"):
            return b"Requires-Dist: torch>=2.14.0\n"
        if self.name.startswith("torchaudio"):
            return b"Name: torchaudio\n"
        texts = {"torch/version.py": VERSION_PY.replace("2.15.0", self.index.new), "METADATA": METADATA}
        return texts.get(name, TABLE).encode()

    def stream(self, _: str) -> Iterator[bytes]:
        yield self.index.library + b"numpy._core"


def stand_in(monkeypatch: pytest.MonkeyPatch, index: Index, *, checkout: bool = False) -> None:
    monkeypatch.setattr(flow, "_listing", lambda *_: contextlib.nullcontext(index))
    monkeypatch.setattr("provisioner.resources.in_checkout", lambda: checkout)


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = run(["matrix", "refresh", "torch", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_a_new_release_is_shown_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, Index())
    code, answer = answered(capsys)
    assert (code, answer["verdict"], answer["written"]) == (0, "ok", None)
    [release] = answer["releases"]
    assert (release["version"], release["state"]) == (NEW, "new")
    assert {row["id"] for row in release["rows"]} >= {f"torch {NEW}", f"torch {NEW} cu132 linux/amd64"}
    assert not own_rows().exists()
    assert run(["matrix", "refresh", "torch"]) == 0
    text = capsys.readouterr().out
    assert f"+ torch {NEW}" in text
    assert "--write keeps these rows" in text
    assert "read in " in text


def test_an_installed_tool_keeps_rows_in_the_users_folder_and_every_verb_reads_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, Index())
    before = MATRIX.read_bytes()
    code, answer = answered(capsys, "--write")
    assert (code, answer["written"]) == (0, str(own_rows()))
    assert MATRIX.read_bytes() == before
    assert run(["matrix", "show", "torch", NEW]) == 0
    assert "torchvision: 0.30.0" in capsys.readouterr().out
    assert run(["resolve", f"torch=={NEW}", "--gpu", "h100", "--driver", "595", "--offline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stack"]["version"] == NEW
    kept = own_rows().read_bytes()
    assert answered(capsys, "--write")[1]["releases"] == []
    assert own_rows().read_bytes() == kept


def test_a_checkout_keeps_rows_in_its_matrix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stand_in(monkeypatch, Index(), checkout=True)
    copy = tmp_path / "compat_matrix.yaml"
    copy.write_bytes(MATRIX.read_bytes())
    monkeypatch.setattr("provisioner.resources.resource", lambda *_: copy)
    code, answer = answered(capsys, "--write")
    assert (code, answer["written"]) == (0, str(copy))
    fresh = [line for line in copy.read_text().splitlines() if line not in set(MATRIX.read_text().splitlines())]
    begins = [line.partition(" ")[2].split(",")[0] for line in fresh if line.startswith("- ")]
    assert begins == [f"{{id: index_{TODAY}", *["{framework: torch"] * 3]


def test_a_bound_that_moves_waits_for_a_human(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(monkeypatch, Index(library=b"\0sm_80 sm_86 sm_90 sm_100 sm_120\0"))
    code, answer = answered(capsys, "--write")
    assert (code, answer["verdict"], answer["written"]) == (7, "fault", None)
    assert {found["id"] for found in answer["findings"]} >= {"refresh-bound-moves", "refresh-disagreement"}
    moved = next(found for found in answer["findings"] if found["id"] == "refresh-bound-moves")
    assert "the oldest GPU moves from 7.5 to 8.0" in moved["message"]
    assert "--accept" in moved["remedies"][0]["commands"][0]
    code, answer = answered(capsys, "--write", "--accept")
    assert (code, answer["written"]) == (0, str(own_rows()))


def test_what_fails_is_never_written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(monkeypatch, Index(library=b"no list in it"))
    code, answer = answered(capsys, "--write", "--accept")
    assert (code, answer["written"]) == (7, None)
    assert answer["findings"][0]["id"] == "refresh-list-shrinks"
    assert not own_rows().exists()


def test_other_frameworks_and_an_index_that_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, Index(silent=True))
    assert run(["matrix", "refresh", "torch"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert run(["matrix", "refresh", "fish"]) == 2
    assert "this can: torch, tensorflow, jax" in capsys.readouterr().err
    assert run(["matrix", "check", "--online"]) == 8
    assert "does not answer" in capsys.readouterr().out


def test_check_online_finds_what_the_index_lost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lost = Index(new="")
    files = lost.files("torch")
    monkeypatch.setattr(
        lost, "files", lambda project, **_: tuple(file for file in files if "-2.9.1-" not in file.name and project == "torch")
    )
    stand_in(monkeypatch, lost)
    code = run(["matrix", "check", "--online", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert code == 7
    assert any("torch 2.9.1 cu128 linux/amd64" in found["message"] for found in answer["findings"])


def test_a_broken_file_of_own_rows_is_said_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    own_rows().parent.mkdir(parents=True, exist_ok=True)
    own_rows().write_text("schema: 1\ncollected: '2026-12-02'\nvariants:\n- {framework: torch, cuda: 12.10}\n", encoding="utf-8")
    assert run(["matrix", "check"]) == 3
    assert f"{own_rows()}:4:" in capsys.readouterr().err
    own_rows().unlink()
    assert matrix_with(None).sha256 == shipped_matrix().sha256


def test_rows_that_came_with_an_update_win_over_older_refreshed_ones() -> None:
    source = "- {id: old, document: a listing of last year}\n"
    row = "- {framework: torch, version: '2.9.1', date: '2001-01-01', companions: {}, source: [old], verified: metadata}\n"
    own_rows().parent.mkdir(parents=True, exist_ok=True)
    for day, date in (("2025-01-01", "2025-11-12"), ("2999-01-01", "2001-01-01")):
        own_rows().write_text(f"schema: 1\ncollected: '{day}'\nsources:\n{source}releases:\n{row}", encoding="utf-8")
        assert matrix_with(None).row("releases", "torch 2.9.1").date == date
