"""matrix refresh tensorflow and jax as a whole, on an index that stands in and serves the texts of real wheels."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from provisioner.cli import run
from provisioner.edges.wheel_reader import Cost, Listed
from provisioner.flows import refresh as flow
from provisioner.flows.inputs import own_rows
from provisioner.stack.compiled import shipped_matrix
from tests.unit.stack.test_refresh_extras import BUILD_INFO, BUILD_INFO_CPU, JAX, JAX_PYTHONS, METADATA, PLUGINS, TF_PYTHONS

MACHINES = ("x86_64", "aarch64")


class Index:
    """Every known release by name, and one new one with the texts of the newest known one under its own number."""

    def __init__(
        self, *, tensorflow: str = "2.22.0", jax: str = "0.13.0", plugins: tuple[str, ...] = ("cuda12", "cuda13")
    ) -> None:
        self.cost = Cost()
        self.new, self.plugins = {"tensorflow": tensorflow, "jax": jax}, plugins

    def files(self, project: str, *, every: bool = False) -> tuple[Listed, ...]:  # noqa: ARG002 - as the real one
        known = [str(row.version) for row in shipped_matrix().releases_of(project)]
        names = [f"{project}-{number}.tar.gz" for number in known]
        if project == "tensorflow":
            names += self._wheels(project, self.new["tensorflow"], TF_PYTHONS)
        elif project == "jax":
            names.append(f"jax-{self.new['jax']}-py3-none-any.whl")
        elif project.endswith("-pjrt"):
            names += [
                f"{project.replace('-', '_')}-{self.new['jax']}-py3-none-manylinux_2_27_{machine}.whl" for machine in MACHINES
            ]
        elif project == "jaxlib" or any(tag in project for tag in self.plugins):
            names += self._wheels(project.replace("-", "_"), self.new["jax"], JAX_PYTHONS)
        return tuple(Listed(name=name, address=f"memory:{name}", size=600_000_000, day="2026-12-20") for name in names)

    def _wheels(self, project: str, number: str, pythons: tuple[str, ...]) -> list[str]:
        return [f"{project}-{number}-cp{python}-manylinux_2_27_{machine}.whl" for machine in MACHINES for python in pythons]

    def open(self, file: Listed) -> Wheel:
        self.cost.requests += 1
        return Wheel(self, file.name)


class Wheel:
    def __init__(self, index: Index, name: str) -> None:
        self.index, self.name = index, name

    def member(self, ending: str) -> str:
        return ending

    def read(self, name: str) -> bytes:
        if name.endswith("build_info.py"):
            return (BUILD_INFO if "x86_64" in self.name else BUILD_INFO_CPU).encode()
        if self.name.startswith("tensorflow"):
            return METADATA.encode()
        tag = next((tag for tag in PLUGINS if tag in self.name), None)
        return (PLUGINS[tag] if tag else JAX).replace("0.12.0.1", self.index.new["jax"]).encode()


def answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], index: Index, *words: str
) -> tuple[int, dict[str, Any]]:
    monkeypatch.setattr(flow, "_listing", lambda *_: contextlib.nullcontext(index))
    monkeypatch.setattr("provisioner.resources.in_checkout", lambda: False)
    code = run(["matrix", "refresh", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_new_tensorflow_is_kept_and_resolves(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = answered(monkeypatch, capsys, Index(), "tensorflow", "--write")
    assert (code, answer["written"], answer["findings"]) == (0, str(own_rows()), [])
    [release] = answer["releases"]
    assert {row["id"] for row in release["rows"]} == {
        "tensorflow 2.22.0",
        *(f"tensorflow 2.22.0 {tag} linux/amd64" for tag in ("and-cuda", "cpu", "cu125")),
        "tensorflow 2.22.0 cpu linux/arm64",
    }
    assert run(["resolve", "tensorflow==2.22.0", "--gpu", "h100", "--driver", "580", "--offline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stack"]["version"] == "2.22.0"


def test_a_new_jax_is_kept_beside_it_and_what_is_not_known_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(monkeypatch, capsys, Index(), "tensorflow", "--write")[0] == 0
    code, answer = answered(monkeypatch, capsys, Index(), "jax", "--write")
    assert (code, answer["written"], len(answer["releases"][0]["rows"])) == (0, str(own_rows()), 7)
    text = own_rows().read_text(encoding="utf-8")
    assert "index_tensorflow_" in text
    assert "index_jax_" in text
    assert "targets were not read" in text
    for wish, version, unknown in (("jax", "0.12.0.1", False), ("jax==0.13.0", "0.13.0", True)):
        assert run(["resolve", wish, "--gpu", "h100", "--driver", "595", "--offline", "--json"]) == 0
        said = capsys.readouterr().out
        assert json.loads(said)["stack"]["version"] == version
        assert ("holds code for h100 (sm_90) is not known" in said) == unknown
    assert answered(monkeypatch, capsys, Index(), "jax")[1]["releases"] == []


def test_a_plugin_that_is_not_there_yet_is_said_and_waits_for_a_human(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = answered(monkeypatch, capsys, Index(plugins=("cuda12",)), "jax", "--write")
    assert (code, answer["written"]) == (7, None)
    messages = [found["message"] for found in answer["findings"]]
    assert any("cuda13, which 0.12.0.1 has, is gone" in text for text in messages)
    assert any("jax-cuda13-plugin<=0.13.0,>=0.13.0, which the index does not have" in text for text in messages)


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_a_release_that_is_newer_than_the_data_says_how_to_get_newer_data(
    framework: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["resolve", f"{framework}==99.9", "--gpu", "h100", "--offline", "--json"]) == 8
    assert f"provisioner matrix refresh {framework} --write" in capsys.readouterr().out
