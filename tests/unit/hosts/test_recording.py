"""Recordings: written by a real probe, replayed to the same facts; broken and hostile folders are told with their places."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import provisioner
from provisioner.commands import Command, Completed
from provisioner.edges.local import LocalRunner
from provisioner.errors import HostError, RecordingError
from provisioner.facts import FACTS, DriverFact
from provisioner.findings import Seen
from provisioner.hosts.plan import goal_of, plan, step_checks
from provisioner.hosts.playbook import load_playbook
from provisioner.hosts.probe import probe
from provisioner.hosts.recording import RecordingRunner, ReplayRunner
from provisioner.hosts.sections import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Tell = Callable[[str], None]

_TESTS = Path(__file__).parents[2] / "recordings"
_SHIPPED = Path(provisioner.__file__).parent / "data" / "recordings"
_ALL = sorted([*_TESTS.iterdir(), *_SHIPPED.iterdir()])


def test_a_replay_of_a_record_says_the_same(tmp_path: Path) -> None:
    runner = RecordingRunner(LocalRunner(), tmp_path / "new" / "rec")
    steps = {"yes": ("true",), "no": ("false",)}
    live = probe(runner, steps=steps)
    echo = Command(argv=("sh", "-c", 'cat; echo "tok"; exit 3'), stdin=b"in\n", secrets=("tok",))
    done = runner.run(echo)
    runner.close()
    replay = ReplayRunner(tmp_path / "new" / "rec", host="local")
    assert replay.recording.kind == "recorded"
    assert probe(replay, steps=steps) == live
    kept = "".join(path.read_text() for path in (tmp_path / "new" / "rec").rglob("*.yaml"))
    assert "tok" not in kept
    told: list[str] = []
    hidden = Command(argv=tuple(word.replace("tok", "***") for word in echo.argv), stdin=echo.stdin)
    again = replay.run(hidden, tell=told.append)
    assert (again.exit, again.stdout, again.stderr) == (done.exit, done.stdout, done.stderr) == (3, "in\n***\n", "")
    assert told == ["in", "***"]
    with pytest.raises(HostError, match="does not hold an answer to `docker version`"):
        replay.run(Command(argv=("docker", "version")))


def test_answers_come_in_their_turn_and_the_last_again(tmp_path: Path) -> None:
    class Counter:
        host = "h"
        count = 0

        def run(self, command: Command, *, tell: Tell | None = None) -> Completed:
            del command, tell
            self.count += 1
            return Completed(exit=self.count, stdout=f"\x1b[31m{self.count}\x00\r\n", stderr="é\n")

        def close(self) -> None: ...

    inner = Counter()
    ask = Command(argv=("next",))
    first = RecordingRunner(inner, tmp_path / "r")
    first.run(ask)
    RecordingRunner(inner, tmp_path / "r").run(ask)  # a recording is continued
    replay = ReplayRunner(tmp_path / "r")
    answers = [replay.run(ask) for _ in range(3)]
    assert [answer.exit for answer in answers] == [1, 2, 2]
    assert (answers[0].stdout, answers[0].stderr) == ("\x1b[31m1\x00\r\n", "é\n")


@pytest.mark.parametrize("folder", _ALL, ids=lambda folder: folder.name)
def test_every_recording_names_its_sources_and_answers_everything(folder: Path) -> None:
    replay = ReplayRunner(folder)
    assert replay.recording.sources
    assert replay.recording.why
    facts = probe(replay)
    assert [name for name in FACTS if not getattr(facts, name).known] == []


def test_the_shipped_recording_leaves_the_container_toolkit_to_be_done() -> None:
    playbook = load_playbook("container-toolkit")
    goal = goal_of(playbook, [])
    facts = probe(ReplayRunner(_SHIPPED / "ubuntu2404-rtx5090"), steps=step_checks(playbook, goal))
    assert facts.driver == Seen(DriverFact(version="580.95.05", flavour="open", cuda="13.0"))
    assert [gpu.name for gpu in facts.gpus.found] == ["NVIDIA GeForce RTX 5090"]
    assert facts.toolkit == Seen(None)
    assert [step.id for step in playbook.steps if not facts.steps[step.id].known] == []
    answer = plan(playbook, facts, goal)
    assert answer.refusals == ()
    assert answer.steps


def test_the_v100_node_has_nothing_left_to_do() -> None:
    playbook = load_playbook("container-toolkit")
    goal = goal_of(playbook, [])
    facts = probe(ReplayRunner(_TESTS / "ubuntu2204-v100"), steps=step_checks(playbook, goal))
    assert facts.driver.found == DriverFact(version="580.95.05", flavour="proprietary", cuda="13.0")
    assert (plan(playbook, facts, goal).steps, plan(playbook, facts, goal).refusals) == ((), ())


@pytest.mark.parametrize("folder", _ALL, ids=lambda folder: folder.name)
def test_the_checks_of_a_composed_recording_are_those_of_the_playbook_today(folder: Path) -> None:
    """REGOLD=1 writes their SHA-256 anew: for whoever changes the playbook and has looked at what the recording answers."""
    playbook = load_playbook("container-toolkit")
    for name, argv in step_checks(playbook, goal_of(playbook, [])).items():
        path = folder / "steps" / f"{name}.sha256"
        if not path.with_suffix(".exit").exists():
            continue
        if os.environ.get("REGOLD"):
            path.write_text(f"{digest_of(argv)}\n")
        assert path.read_text() == f"{digest_of(argv)}\n"


def test_a_recorded_check_counts_for_its_own_goal_only() -> None:
    playbook = load_playbook("container-toolkit")
    goal = goal_of(playbook, ["toolkit=1.17.0"])
    facts = probe(ReplayRunner(_TESTS / "ubuntu2204-v100"), steps=step_checks(playbook, goal))
    made = plan(playbook, facts, goal)
    assert [(step.id, step.unseen) for step in made.steps] == [("packages", "recorded for another goal")]


def test_a_recorded_check_that_does_not_say_what_it_was_is_unseen(tmp_path: Path) -> None:
    _break(tmp_path, "steps/a.exit", b"0\n")
    assert probe(ReplayRunner(tmp_path), steps={"a": ("true",)}).steps["a"] == Seen.unseen("recorded for another goal")
    (tmp_path / "steps/a.sha256").write_text(digest_of(("true",)))
    assert probe(ReplayRunner(tmp_path), steps={"a": ("true",)}).steps["a"] == Seen(True)
    (tmp_path / "steps/a.exit").unlink()
    assert probe(ReplayRunner(tmp_path), steps={"a": ("true",)}).steps["a"] == Seen.unseen("not in this recording")


def test_a_missing_file_is_unseen(tmp_path: Path) -> None:
    (tmp_path / "recording.yaml").write_text("format: 1\nkind: composed\n")
    facts = probe(ReplayRunner(tmp_path), steps={"a": ("true",)})
    assert facts.kernel == Seen.unseen("not in this recording")
    assert facts.steps["a"] == Seen.unseen("not in this recording")


def test_files_of_facts_that_are_not_known_yet_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "recording.yaml").write_text("format: 1\nkind: composed\n")
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "nvlink_of_tomorrow.out").write_text("x")
    (tmp_path / "facts" / "kernel.out").write_text("6.8.0\n")
    assert probe(ReplayRunner(tmp_path)).kernel == Seen("6.8.0")


def _break(folder: Path, name: str, data: bytes | None) -> None:
    (folder / "recording.yaml").write_text("format: 1\nkind: composed\n")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if data is None:
        path.symlink_to("/etc/passwd")
    else:
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("recording.yaml", b"format: 1\nkind: dreamt\n", "recording.yaml:2:7: kind must be one of recorded, composed"),
        ("recording.yaml", b"format: 2\nkind: composed\n", "recording.yaml:1:9: made by a newer provisioner"),
        ("recording.yaml", b"kind: &a [*a]\n", "recording.yaml:1"),
        ("recording.yaml", b"\xff\xfe", "recording.yaml:1:1: not UTF-8 text"),
        ("facts/kernel.out", b"\xff", "kernel.out:1:1: not UTF-8 text"),
        ("facts/kernel.exit", b"soon\n", "kernel.exit:1:1: 'soon' is no exit code"),
        ("facts/kernel.exit", b"99999\n", "is no exit code"),
        ("steps/a.sha256", b"abc\n", "a.sha256:1:1: 'abc' is no SHA-256"),
        ("facts/kernel.out", None, "kernel.out: not a plain file"),
        ("facts/$(id).out", b"", "$(id).out: not a file of a recording"),
        ("steps/a/b", b"", "steps/a: not a plain file"),
        ("commands/001.yaml", b"argv: [a]\nexit: x\n", "001.yaml:2:7: exit must be a whole number"),
        ("commands/001.yaml", b"argv: a\nexit: 0\nshell: yes\n", "001.yaml:3:1: unknown key shell"),
        ("facts/kernel.out", b"x" * 10_000_001, "MB, which no recording has"),
    ],
)
def test_a_broken_or_hostile_folder_is_told_with_its_place(name: str, data: bytes | None, told: str, tmp_path: Path) -> None:
    _break(tmp_path, name, data)
    with pytest.raises(RecordingError) as caught:
        ReplayRunner(tmp_path)
    assert told in caught.value.message


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    _break(tmp_path, "facts/kernel.exit", b"soon")
    _break(tmp_path, "commands/001.yaml", b"argv: []\n")
    with pytest.raises(RecordingError) as caught:
        ReplayRunner(tmp_path)
    assert len(caught.value.problems) == 2


def test_no_folder_is_a_recording_error(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(RecordingError):
            ReplayRunner(folder)


def test_a_record_writes_into_no_folder_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(RecordingError, match="is no recording"):
        RecordingRunner(LocalRunner(), tmp_path)
    with pytest.raises(RecordingError, match="is no recording"):
        RecordingRunner(LocalRunner(), tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
