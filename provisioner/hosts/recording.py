"""Recordings: what a host answered, in a folder, and the two runners that read and write them.

    recording.yaml            format, kind (`recorded` on a host, `composed` by a person), why, sources
    facts/ID.out .err .exit   what a section of the probe printed, and how it ended
    steps/ID.exit .sha256     whether the check of a playbook step held, and the SHA-256 of the check (its argv, NUL between)
    commands/NNN.yaml         everything that is not the probe: argv, the SHA-256 of its input, exit, stdout, stderr

A file that is not there is unseen ("not in this recording"), so a new row of FACTS breaks no recording. What a check said counts
for that check alone: for another one, and where its SHA-256 is not there, the step is unseen ("recorded for another goal"). A
replay is read-only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from provisioner import decode
from provisioner.commands import Completed
from provisioner.decode import MAX_BYTES, dump_yaml, read_text
from provisioner.errors import HostError, RecordingError
from provisioner.facts import FACTS
from provisioner.hosts.sections import LATE, MISSING, OTHER, ROOTLESS, SKIPPED, Section, asked, join, split
from provisioner.values import Problem, value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from provisioner.commands import Command, Runner

    Tell = Callable[[str], None]

_FILE = "recording.yaml"
_FOLDERS = {
    "facts": re.compile(r"([a-z][a-z0-9_]*)\.(out|err|exit)"),
    "steps": re.compile(r"([a-z0-9][a-z0-9_-]*)\.(exit|sha256)"),
}
_COMMAND = re.compile(r"\d{3,6}\.yaml")
_END = re.compile(rf"\d{{1,3}}|{LATE}|{SKIPPED}|{ROOTLESS}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MOST_FILES = 10_000


@value
class Recording:
    """recording.yaml. `kind`: recorded on a host, or composed by a person from `sources`."""

    format: Literal[1] = 1
    kind: Literal["recorded", "composed"]
    why: str = ""
    sources: tuple[str, ...] = ()


@value
class RecordedCommand:
    """One command that is not the probe. `stdin` is the SHA-256 of what it was fed; empty for nothing."""

    argv: tuple[str, ...]
    stdin: str = ""
    exit: int
    stdout: str = ""
    stderr: str = ""


def shipped() -> Mapping[str, Path]:
    """The recordings that come with the tool, by name."""
    folder = Path(__file__).resolve().parents[1] / "data" / "recordings"
    return {path.name: path for path in sorted(folder.iterdir()) if (path / _FILE).is_file()} if folder.is_dir() else {}


def find_recording(text: str) -> Path:
    """The folder of `replay:TEXT`: a folder, or the name of a shipped one; RecordingError, which lists those, for neither."""
    folder, known = Path(text), shipped()
    if folder.is_dir() or text not in known:
        if not folder.is_dir():
            hint = f"write replay:FOLDER, or the name of a recording that comes with the tool: {', '.join(known) or 'none'}"
            raise RecordingError([Problem(file=text, message="there is no such folder")], hint=hint)
        return folder
    return known[text]


class ReplayRunner:
    """A Runner that answers from a recording, and changes nothing.

    RecordingError, with every mistake, when the folder is none; HostError for a command that was not recorded.
    """

    def __init__(self, folder: Path, *, host: str | None = None) -> None:
        """Replay `folder`, which the user calls `host`. The whole folder is read and checked here."""
        self.host = host or f"replay:{folder}"
        self.recording, self._sections, self._checks, self._commands = _read(folder)
        self._next: dict[tuple[tuple[str, ...], str], int] = {}

    def close(self) -> None:
        """Nothing is open."""

    def run(self, command: Command, *, tell: Tell | None = None) -> Completed:
        """What was recorded for `command`; of several answers to one command each in its turn, the last again and again."""
        probe = asked(command)
        if probe is not None:
            marker, names = probe
            stdout, stderr = join(marker, map(self._section, names))
            return Completed(exit=0, stdout=stdout, stderr=stderr)
        key = (command.argv, _digest(command.stdin))
        answers = [entry for entry in self._commands if (entry.argv, entry.stdin) == key]
        if not answers:
            raise HostError(
                self.host,
                f"this recording does not hold an answer to `{str(command)[:200]}`",
                hint="a recording answers only what was asked when it was made; name a real host",
            )
        turn = self._next.get(key, 0)
        self._next[key] = turn + 1
        answer = answers[min(turn, len(answers) - 1)]
        for line in (answer.stdout + answer.stderr).splitlines() if tell else ():
            tell(line)  # type: ignore[misc]  # the loop is empty without tell
        return Completed(exit=answer.exit, stdout=answer.stdout, stderr=answer.stderr)

    def _section(self, asked_for: str) -> Section:
        """What was recorded for a fact, or for exactly this check of a step."""
        name, _, check = asked_for.partition("=")
        section = self._sections.get(name)
        if section is None:
            return Section(name=name, end=MISSING)
        return section if not check or check == self._checks[name] else Section(name=name, end=OTHER)


class RecordingRunner:
    """A Runner that asks another one, and keeps the answers in a folder. Secrets of a command are replaced by then."""

    def __init__(self, runner: Runner, folder: Path) -> None:
        """Record what `runner` says in `folder`, a new one, or a recording that is continued."""
        self._runner = runner
        self._folder = folder
        self.host = runner.host
        _prepare(folder, runner.host)
        self._count = sum(1 for path in (folder / "commands").glob("*.yaml") if _COMMAND.fullmatch(path.name))

    def close(self) -> None:
        """End the other runner's connection."""
        self._runner.close()

    def run(self, command: Command, *, tell: Tell | None = None) -> Completed:
        """Run it there, and keep what it did."""
        done = self._runner.run(command, tell=tell)
        probe = asked(command)
        if probe is not None:
            checks = dict(name.partition("=")[::2] for name in probe[1])
            for section in split(probe[0], done).values():
                self._keep(section, checks.get(section.name, ""))
        else:
            self._count += 1
            kept = RecordedCommand(
                argv=command.argv, stdin=_digest(command.stdin), exit=done.exit, stdout=done.stdout, stderr=done.stderr
            )
            _write(self._folder / "commands" / f"{self._count:03d}.yaml", _hidden(dump_yaml(kept), command))
        return done

    def _keep(self, section: Section, check: str) -> None:
        path = self._folder / section.name.replace("fact/", "facts/", 1).replace("step/", "steps/", 1)
        _write(path.with_name(f"{path.name}.exit"), f"{section.end}\n")
        if section.name.startswith("fact/"):
            _write(path.with_name(f"{path.name}.out"), section.stdout)
            _write(path.with_name(f"{path.name}.err"), section.stderr)
        else:
            _write(path.with_name(f"{path.name}.sha256"), f"{check}\n")


def _hidden(text: str, command: Command) -> str:
    from provisioner.commands import hide

    return hide(text, command.secrets)


def _digest(stdin: bytes) -> str:
    return hashlib.sha256(stdin).hexdigest() if stdin else ""


def _prepare(folder: Path, host: str) -> None:
    """Make the folder, or refuse one that holds something else."""
    try:
        if folder.exists() and not (folder / _FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
            raise RecordingError([Problem(file=str(folder), message="it is there and is no recording; name a new folder")])
        for name in ("facts", "steps", "commands"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not (folder / _FILE).is_file():
            _write(folder / _FILE, dump_yaml(Recording(kind="recorded", why=f"what {host} answered")))
    except OSError as failure:
        for path in (folder / "facts", folder / "steps", folder / "commands", folder):
            with contextlib.suppress(OSError):  # not empty: it is a recording that is continued
                path.rmdir()
        raise RecordingError([Problem(file=str(folder), message=(failure.strerror or str(failure)).lower())]) from failure


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _read(folder: Path) -> tuple[Recording, dict[str, Section], dict[str, str], tuple[RecordedCommand, ...]]:
    """The whole recording, with the SHA-256 of each step's check; RecordingError with every mistake and its place."""
    if not folder.is_dir():
        raise RecordingError([Problem(file=str(folder), message="there is no such folder")])
    problems: list[Problem] = []
    recording = Recording(kind="composed")
    try:
        recording = decode.load(folder / _FILE, Recording, RecordingError)
    except RecordingError as error:
        problems += error.problems
    texts: dict[tuple[str, str], dict[str, str]] = {}
    commands: list[RecordedCommand] = []
    for path in _files(folder, problems):
        kind = path.parent.name
        try:
            if kind == "commands":
                commands.append(decode.load(path, RecordedCommand, RecordingError))
            else:
                name, _, part = path.name.partition(".")
                texts.setdefault((kind[:-1], name), {})[part] = read_text(path, RecordingError)
        except RecordingError as error:
            problems += error.problems
    sections = {f"{kind}/{name}": _section(folder, kind, name, found, problems) for (kind, name), found in texts.items()}
    checks = {f"step/{name}": found.get("sha256", "").strip() or "unknown" for (kind, name), found in texts.items()}
    if problems:
        raise RecordingError(problems, hint="a recording is what `provisioner probe HOST --record DIR` writes")
    return recording, sections, checks, tuple(commands)


def _section(folder: Path, kind: str, name: str, found: Mapping[str, str], problems: list[Problem]) -> Section:
    """The section that the files of one fact or step are."""
    end = found.get("exit", "0" if kind == "fact" else MISSING).strip()
    check = found.get("sha256", "").strip()
    for suffix, wrong, what in (
        ("exit", end != MISSING and not _END.fullmatch(end), f"{end[:40]!r} is no exit code"),
        ("sha256", check and not _SHA256.fullmatch(check), f"{check[:40]!r} is no SHA-256"),
    ):
        if wrong:
            problems.append(Problem(file=str(folder / f"{kind}s" / f"{name}.{suffix}"), line=1, column=1, message=what))
    return Section(name=f"{kind}/{name}", end=end, stdout=found.get("out", ""), stderr=found.get("err", ""))


def _files(folder: Path, problems: list[Problem]) -> Iterator[Path]:
    """The plain files of a recording; anything else in its folders is a problem."""
    count = size = 0
    for kind in ("facts", "steps", "commands"):
        for path in sorted((folder / kind).iterdir()) if (folder / kind).is_dir() else ():
            count += 1
            size += path.lstat().st_size
            if count > _MOST_FILES or size > MAX_BYTES:
                message = f"more than {_MOST_FILES} files or {MAX_BYTES // 1_000_000} MB, which no recording has"
                problems.append(Problem(file=str(folder), message=message))
                return
            known = _COMMAND if kind == "commands" else _FOLDERS[kind]
            if path.is_symlink() or not path.is_file():
                problems.append(Problem(file=str(path), message="not a plain file"))
            elif not known.fullmatch(path.name):
                problems.append(Problem(file=str(path), message="not a file of a recording"))
            elif kind == "facts" and path.name.partition(".")[0] not in FACTS:
                continue  # a row of a newer version
            else:
                yield path
