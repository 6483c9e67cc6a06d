"""The README is true: each console example prints what it says, and the commands that need nothing else run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from provisioner.cli import run
from provisioner.decode import decode
from provisioner.stack.request import Request

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n\$ provisioner (.+?)\n(.*?)```", README, re.DOTALL)
YAML = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(CONSOLE) >= 2
    assert YAML


@pytest.mark.parametrize(("command", "printed"), CONSOLE)
def test_an_example_prints_what_the_readme_shows(command: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([*shlex.split(command), "--offline"])
    assert capsys.readouterr().out == printed


def test_the_request_of_the_readme_leads_to_the_files_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert decode(YAML[0], "README.md", Request).jobs[0].gpus_per_node == 2
    monkeypatch.chdir(tmp_path)
    Path("request.yaml").write_text(YAML[0])
    assert run(["lock", "--request", "request.yaml", "--offline", "-o", "stack.lock.yaml"]) == 0
    assert run(["render", "stack.lock.yaml", "--to", "image/"]) == 0
    for name in ("Dockerfile", "train.sbatch", "host-setup.sh", "requirements.txt"):
        assert (tmp_path / "image" / name).is_file()


@pytest.mark.parametrize("command", re.findall(r"^provisioner ((?:matrix|export) [^#|\n]+)", README, re.MULTILINE))
def test_a_command_that_needs_nothing_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(command)) == 0


def test_every_verb_of_the_readme_exists() -> None:
    from provisioner.cli.group import VERBS

    assert set(re.findall(r"provisioner ([a-z]+)\b", README)) - {"resolves", "today"} <= {*VERBS, "brings"}
