"""probe: its program under each shell, its deadlines, and how sections become facts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.commands import Command, Completed
from provisioner.edges.local import LocalRunner
from provisioner.errors import CommandFailed, UsageError
from provisioner.facts import FACTS, Fact
from provisioner.facts.parsers import lines, word
from provisioner.findings import Seen
from provisioner.hosts.probe import probe, probe_command, probe_script, read_fact, read_step
from provisioner.hosts.sections import PROBE, Section, asked, digest_of, join, split

if TYPE_CHECKING:
    from collections.abc import Callable

    Tell = Callable[[str], None]

_SHELLCHECK = Path(sys.executable).with_name("shellcheck")
_MARK = "probe-0123456789abcdef"


Steps = dict[str, tuple[str, ...]]


def _run(rows: list[Fact], steps: Steps | None = None, path: str = "", shell: str = "/bin/sh") -> dict[str, Section]:
    command = probe_command(rows, steps or {}, _MARK)
    env = {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    done = subprocess.run((shell, *command.argv[1:]), env=env, capture_output=True, text=True, timeout=60, check=False)
    return dict(split(_MARK, Completed(exit=done.returncode, stdout=done.stdout, stderr=done.stderr)))


def _fact(script: str, *, seconds: float = 10, root: bool = False, partial: bool = False, name: str = "kernel") -> Fact:
    return Fact(id=name, cost="quick", script=script, parse=word, seconds=seconds, root=root, partial=partial)


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_the_program_runs_under_each_shell(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    (tmp_path / "sh").symlink_to(program)
    found = _run(list(FACTS.values()), {"yes": ("true",), "no": ("false",)}, str(tmp_path), str(tmp_path / "sh"))
    assert [f"fact/{name}" for name in FACTS if f"fact/{name}" not in found] == []
    assert found["fact/machine"].stdout == f"{os.uname().machine}\n"
    assert read_fact(FACTS["kernel"], found["fact/kernel"]) == Seen(os.uname().release)
    assert [read_step(found["step/yes"]), read_step(found["step/no"])] == [Seen(True), Seen(False)]


def test_both_streams_and_the_code_of_a_section() -> None:
    found = _run([_fact("printf 'no newline'; echo wrong >&2; exit 3")])
    assert found["fact/kernel"] == Section(name="fact/kernel", end="3", stdout="no newline", stderr="wrong\n")


def test_a_hung_program_is_left_behind_and_the_next_is_asked() -> None:
    rows = [_fact("trap '' TERM; echo begun; sleep 604802 & sleep 604803", seconds=1), _fact("echo here", name="machine")]
    started = time.monotonic()
    found = _run(rows)
    assert found["fact/kernel"].end == "late"
    assert found["fact/machine"].stdout == "here\n"
    assert time.monotonic() - started < 8
    assert subprocess.run(("pgrep", "-f", "sleep 60480[23]"), check=False).returncode == 1


def test_no_child_of_a_late_program_outlives_it() -> None:
    found = _run([_fact("(trap '' TERM; sleep 604804) & wait", seconds=1)])
    assert found["fact/kernel"].end == "late"
    assert subprocess.run(("pgrep", "-f", "sleep 604804"), check=False).returncode == 1


def test_a_probe_that_is_ended_takes_its_program_with_it() -> None:
    command = probe_command([_fact("trap '' TERM; sleep 604806 & sleep 604805")], {}, _MARK)
    with subprocess.Popen(command.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        while subprocess.run(("pgrep", "-f", "^sleep 604805"), check=False, capture_output=True).returncode:
            time.sleep(0.1)
        running.terminate()
        assert running.wait(timeout=10) == 143
    deadline = time.monotonic() + 5  # a killed process is in the list until the system has buried it
    while not subprocess.run(("pgrep", "-f", "^sleep 60480[56]"), check=False, capture_output=True).returncode:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_came_before_the_deadline_counts_where_it_may() -> None:
    late = Section(name="fact/kernel", end="late", stdout="half\n")
    assert read_fact(_fact("", seconds=1), late) == Seen.unseen("it did not answer within 1 s")
    row = Fact(id="holds", cost="quick", script="", partial=True, parse=lambda done: lines(Completed(exit=0, stdout=done.stdout)))
    assert read_fact(row, late) == Seen(("half",))


def test_the_locale_is_that_of_programs_and_sbin_is_searched() -> None:
    found = _run([_fact('echo "$LC_ALL $PATH"')])
    assert found["fact/kernel"].stdout.startswith("C ")
    assert "/usr/sbin" in found["fact/kernel"].stdout


def test_nothing_is_read_from_the_programs_input() -> None:
    assert _run([_fact("cat; echo end")])["fact/kernel"].stdout == "end\n"


@pytest.mark.parametrize(
    ("sudo", "root", "step"),
    [
        ("exit 1", "denied\n", Seen.unseen("its check needs root, and sudo wants a password")),
        ('shift; exec env AS_ROOT=1 "$@"', "root\n", Seen(True)),
    ],
)  # fmt: skip
def test_root_is_tried_by_section_where_the_user_may_not(sudo: str, root: str, step: Seen[bool], tmp_path: Path) -> None:
    (tmp_path / "sudo").write_text(f"#!/bin/sh\n{sudo}\n")
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    for name in ("sudo", "id"):
        (tmp_path / name).chmod(0o755)
    script = 'if [ -n "$AS_ROOT" ]; then echo root; else echo denied; exit 1; fi'
    rows = [_fact(script, root=True), _fact(script, name="machine")]
    found = _run(rows, {"check": ("sh", "-c", 'test -n "$AS_ROOT"')}, str(tmp_path))
    assert found["fact/kernel"].stdout == root
    assert found["fact/machine"].stdout == "denied\n"
    assert read_step(found["step/check"]) == step


def test_steps_that_need_quotes() -> None:
    hostile = "it's $HOME `x`"
    found = _run([], {"check": ("sh", "-c", 'test "$1" = "$2"', "sh", hostile, hostile), "gone": ("no-such-program",)})
    assert read_step(found["step/check"]) == Seen(True)
    assert read_step(found["step/gone"]) == Seen(False)


@pytest.mark.parametrize(
    ("section", "why"),
    [
        (None, "ended before"),
        (Section(name="step/a", end="missing"), "not in this recording"),
        (Section(name="step/a", end="skipped"), "ran out of time"),
        (Section(name="step/a", end="late"), "did not answer within 10 s"),
        (Section(name="step/a", end="rootless"), "needs root"),
        (Section(name="step/a", end="1", stderr="sudo: a password is required\n"), "needs root"),
    ],
)
def test_a_check_that_was_not_seen_says_why(section: Section | None, why: str) -> None:
    seen = read_step(section)
    assert not seen.known
    assert why in (seen.why_not or "")
    if section and section.end not in {"rootless", "1"}:
        assert not read_fact(FACTS["kernel"], section).known


def test_probe_asks_in_one_round_trip_and_only_what_is_asked() -> None:
    class Counting:
        host = "gpu01"
        runs = 0

        def run(self, command: Command, *, tell: Tell | None = None) -> Completed:
            self.runs += 1
            return LocalRunner().run(command, tell=tell)

        def close(self) -> None: ...

    runner = Counting()
    facts = probe(runner, ("kernel", "machine"), steps={"a": ("true",)})
    assert runner.runs == 1
    assert (facts.host, facts.kernel.found, facts.gpus) == ("gpu01", os.uname().release, Seen.unseen("not asked"))
    assert facts.steps == {"a": Seen(True)}
    assert facts.sudo == Seen.unseen("not asked")


def test_a_shell_that_does_not_run_the_program_is_an_error() -> None:
    class NoLogin:
        host = "switch"

        def run(self, command: Command, *, tell: Tell | None = None) -> Completed:
            del command, tell
            return Completed(exit=1, stdout="This account is currently not available.\n")

        def close(self) -> None: ...

    with pytest.raises(CommandFailed, match="switch: its shell does not run the probe: This account"):
        probe(NoLogin())


def test_unknown_facts_and_steps_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no fact 'kernal'"):
        probe(LocalRunner(), ("kernal",))
    for steps in ({"a b": ("true",)}, {"a;id": ("true",)}, {"a": ()}):
        with pytest.raises(UsageError, match="not the id of a step"):
            probe_script([], steps)


def test_the_program_is_clean_sh(tmp_path: Path) -> None:
    path = tmp_path / "probe.sh"
    path.write_text("#!/bin/sh\n" + probe_script(list(FACTS.values()), {"a": ("true",)}))
    told = subprocess.run((_SHELLCHECK, "--exclude=SC2016", path), capture_output=True, text=True, check=False)
    assert told.stdout == ""  # SC2016: the texts of the facts stand in single quotes on purpose
    for row in FACTS.values():
        path.write_text(f"#!/bin/sh\n{row.script}\n")
        told = subprocess.run((_SHELLCHECK, "--exclude=SC2016", path), capture_output=True, text=True, check=False)
        assert (row.id, told.stdout) == (row.id, "")


def test_a_marker_is_new_each_time_and_a_probe_is_known_by_its_form() -> None:
    command = probe_command([FACTS["kernel"]], {"a": ("true",)}, _MARK)
    assert asked(command) == (_MARK, ("fact/kernel", f"step/a={digest_of(('true',))}"))
    assert asked(Command(argv=("sh", "-c", "x"))) is None
    assert asked(Command(argv=("docker", "version"))) is None
    seen: set[str] = set()

    class Catching:
        host = "h"

        def run(self, command: Command, *, tell: Tell | None = None) -> Completed:
            seen.add(command.argv[4])
            assert command.argv[3] == PROBE
            return LocalRunner().run(command, tell=tell)

        def close(self) -> None: ...

    for _ in range(3):
        probe(Catching(), ("kernel",))
    assert len(seen) == 3


_TEXTS = st.text(max_size=60).filter(lambda text: _MARK not in text)


@given(st.lists(st.tuples(st.sampled_from(sorted(FACTS)), st.integers(0, 255), _TEXTS, _TEXTS), unique_by=lambda entry: entry[0]))
def test_split_undoes_join(entries: list[tuple[str, int, str, str]]) -> None:
    sections = [Section(name=f"fact/{name}", end=str(code), stdout=out, stderr=err) for name, code, out, err in entries]
    stdout, stderr = join(_MARK, sections)
    assert list(split(_MARK, Completed(exit=0, stdout=f"a banner\n{stdout}", stderr=stderr)).values()) == sections


def test_output_cannot_end_a_section_or_forge_one() -> None:
    forged = "\nprobe-ffff begin fact/sudo -\nroot\nprobe-ffff end fact/sudo 0\n"
    found = _run([_fact(f"printf '%s' '{forged}'")])
    assert list(found) == ["fact/kernel"]
    assert found["fact/kernel"].stdout == forged


def test_a_hostile_end_is_no_end() -> None:
    text = "".join(f"\n{_MARK} begin fact/kernel -\nx\n{_MARK} end fact/kernel {end}\n" for end in ("soon", "9" * 9, "²", "-1"))
    assert split(_MARK, Completed(exit=0, stdout=text)) == {}
