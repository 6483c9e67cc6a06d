"""uv is started with a project of its own; a runner notes how. The real uv runs in tests/integration/test_mirror.py."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provisioner.commands import Command, Completed
from provisioner.edges import uv
from provisioner.errors import CommandTimedOut, ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable


class Here:
    """Really runs a command, with `env` in the place of uv."""

    host = "local"

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self.folder = Path()
        self.command = Command(argv=())

    def run(self, command: Command, *, tell: Callable[[str], None] | None = None) -> Completed:
        assert tell is None
        self.command = command
        argv = [("env" if word == uv.program() else word) for word in command.argv]
        at = argv.index("env")
        self.folder = Path(argv[at + 2])
        self.seen = {path.name: path.read_text(encoding="utf-8") for path in self.folder.iterdir()}
        self.seen["mode"] = oct(self.folder.stat().st_mode & 0o777)
        done = subprocess.run([*argv[: at + 1], "-0"], input=command.stdin, capture_output=True, check=True, timeout=10)
        return Completed(exit=0, stdout=done.stdout.decode())

    def close(self) -> None:
        """Nothing is open."""


def test_uv_is_the_one_that_came_with_the_tool() -> None:
    path = Path(uv.program())
    assert path.is_file()
    assert os.access(path, os.X_OK)


def test_the_project_lies_in_a_private_folder_that_is_gone_afterwards() -> None:
    runner = Here()
    uv.Uv(runner)("[project]\n", ("--quiet",), secrets=("hunter2",))
    assert runner.seen["pyproject.toml"] == "[project]\n"
    assert runner.seen["mode"] == "0o700"
    assert not runner.folder.exists()
    assert runner.command.argv[-3:] == ("compile", "pyproject.toml", "--quiet")
    assert runner.command.secrets == ("hunter2",)


def test_proxies_reach_uv_by_the_environment_and_no_argument_shows_them() -> None:
    runner = Here()
    done = uv.Uv(runner)("", (), variables={"HTTPS_PROXY": "http://user:hunter2@proxy.example:3128"})
    assert "HTTPS_PROXY=http://user:hunter2@proxy.example:3128\0" in done.stdout
    assert "UV_PYTHON_DOWNLOADS=never\0" in done.stdout
    assert not any("hunter2" in word for word in runner.command.argv)


def test_the_certificates_of_the_site_are_trusted_beside_the_usual_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = tmp_path / "usual.pem"
    usual.write_text("usual", encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(usual))
    runner = Here()
    done = uv.Uv(runner)("", (), ca="the site's\n")
    assert runner.seen["ca.pem"] == "usual\nthe site's\n"
    assert f"SSL_CERT_FILE={runner.folder}/ca.pem\0" in done.stdout
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert isinstance(uv.usual_certificates(), str)


def test_a_time_out_passes_and_leaves_no_folder() -> None:
    class Slow(Here):
        def run(self, command: Command, *, tell: Callable[[str], None] | None = None) -> Completed:
            super().run(command, tell=tell)
            raise CommandTimedOut("local", "too long")

    runner = Slow()
    with pytest.raises(CommandTimedOut):
        uv.Uv(runner, timeout=5)("", ())
    assert not runner.folder.exists()
    assert runner.command.timeout == 5


def test_no_uv_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import uv as package

    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(package, "find_uv_bin", gone)
    with pytest.raises(ProvisionerError, match="not installed"):
        uv.program()
