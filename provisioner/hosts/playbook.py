"""Playbooks: host set-up as data. Decoding only; `plan` says what of it is to be done, `export` writes it as a script.

A step is data: `unless` and `then` are one argv each, read-only, exit 0 = it holds; `do` is a list of variants, the first whose
`for` matches wins. `{goal.KEY}` and `{host.KEY}` stand within one argv element and are filled by one word of plain characters
(WORD), so that an element stays one element and never becomes an option; a text that a shell reads takes none of them.
"""

from __future__ import annotations

import hashlib
import itertools
import posixpath
import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal

import yaml

from provisioner.decode import read_text
from provisioner.errors import PlaybookError, UsageError
from provisioner.hosts.conditions import HOST_WORDS, Condition, check_keys
from provisioner.hosts.reading import Reading, pairs, scalars
from provisioner.resources import resource
from provisioner.values import replace, value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: What may fill a placeholder: a word that no shell, no apt and no option parser reads as anything else.
WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:~/@-]{0,199}")
#: `{goal.toolkit}`. A brace that is followed by anything else is text: awk programs, Go templates, sh expansions.
PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]+)\.([A-Za-z0-9_-]+)\}")
_ID: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9.+-]*(=([A-Za-z0-9.+:~-]|\{(goal|host)\.[a-z_]+\})+)?")
_UNIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._-]*")
_SHELLS: Final = {"sh", "bash", "dash"}
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

Argv = tuple[str, ...]


@value
class Write:
    """A whole file. `mode` in octal digits; `content` ends with a line break."""

    path: str
    mode: str = "0644"
    content: str

    def __post_init__(self) -> None:
        """ValueError with what is wrong."""
        _absolute(self.path)
        if not re.fullmatch(r"0?[0-7]{3}", self.mode):
            raise ValueError(f"mode: {self.mode!r} is not a mode such as 0644")
        if not self.content.endswith("\n"):
            raise ValueError(f"the content of {self.path} must end with a line break")
        if "{host." in self.content:
            raise ValueError("a file's content takes {goal.KEY} only")


@value
class Packages:
    """Packages by name, or `name=version`. `refresh`: the package lists are fetched first."""

    install: Argv = ()
    remove: Argv = ()
    hold: Argv = ()
    unhold: Argv = ()
    refresh: bool = False

    def __post_init__(self) -> None:
        """ValueError with what is wrong."""
        names = (*self.install, *self.remove, *self.hold, *self.unhold)
        if not names:
            raise ValueError("packages: name some to install, remove, hold or unhold")
        wrong = [name for name in names if not _PACKAGE.fullmatch(name)]
        wrong += [name for name in names if "=" in name and name not in self.install]
        if wrong:
            raise ValueError(f"packages: {wrong[0]!r} is not the name of a package (name, or in install name=version)")


@value
class Service:
    """A unit of systemd, and what it shall be."""

    unit: str
    state: Literal["started", "restarted", "reloaded", "stopped"] | None = None
    enabled: bool | None = None

    def __post_init__(self) -> None:
        """ValueError with what is wrong."""
        if not _UNIT.fullmatch(self.unit):
            raise ValueError(f"service: {self.unit!r} is not the name of a unit")
        if self.state is None and self.enabled is None:
            raise ValueError("service: say its state, or whether it is enabled")


@value
class Variant:
    """One way to do a step, for the hosts on which `for` holds. Exactly one action.

    `restore` is for `undo`: files are put back as they were; a `service` beside it then learns of that.
    """

    for_: Mapping[str, Condition] = field(default_factory=dict)
    run: Argv = ()
    write: Write | None = None
    packages: Packages | None = None
    service: Service | None = None
    reboot: bool = False
    restore: Argv = ()

    def __post_init__(self) -> None:
        """ValueError with what is wrong."""
        check_keys(self.for_)
        actions = [self.run, self.write, self.packages, self.restore or self.service, self.reboot]
        if sum(map(bool, actions)) != 1:
            raise ValueError("one action, and only one: run, write, packages, service or reboot")
        _check_argv(self.run, "run")
        for path in self.restore:
            _absolute(path)


@value
class Step:
    """One step. `saves` are files that are kept before `do`, so that `undo` can restore them; a file that `write` writes is too.

    `repeat` says what to do when a step was cut in the middle: `safe` again, `once` never without a person.
    """

    id: str
    why: str
    needs: Mapping[str, Condition] = field(default_factory=dict)
    unless: Argv = ()
    do: tuple[Variant, ...]
    then: Argv = ()
    undo: tuple[Variant, ...] = ()
    repeat: Literal["safe", "once"]
    restarts: tuple[str, ...] = ()
    reboot: bool = False
    saves: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """ValueError with what is wrong."""
        if not _ID.fullmatch(self.id):
            raise ValueError(f"id: {self.id!r} is not an id such as signing-key")
        check_keys(self.needs)
        _check_argv(self.unless, "unless")
        _check_argv(self.then, "then")
        if not self.do:
            raise ValueError(f"{self.id}: do is empty")
        if any(variant.restore for variant in self.do):
            raise ValueError(f"{self.id}: restore is for undo")
        if any(variant.reboot for variant in self.do) and not self.reboot:
            raise ValueError(f"{self.id}: a step that reboots says so: reboot: true")
        for path in self.saves:
            _absolute(path)
        lost = {path for variant in self.undo for path in variant.restore} - set(self.kept)
        if lost:
            raise ValueError(f"{self.id}: undo restores {min(lost)}, which nothing saves")
        if not self.unless and (len(self.do) > 1 or self.do[0].write is None):
            raise ValueError(f"{self.id}: unless is missing; only a single write can be checked without it")

    @property
    def kept(self) -> tuple[str, ...]:
        """The files that are kept before the step changes anything."""
        return (*self.saves, *(variant.write.path for variant in self.do if variant.write))


@value
class Playbook:
    """A playbook. `goal` has every key that may be asked for, with its default; `hash` is the SHA-256 of the file's text."""

    format: Literal[1] = 1
    name: str
    why: str
    needs: Mapping[str, Condition] = field(default_factory=dict)
    goal: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...]
    hash: str = ""

    def __post_init__(self) -> None:
        """ValueError with what is wrong."""
        check_keys(self.needs)
        if not _ID.fullmatch(self.name):
            raise ValueError(f"name: {self.name!r} is not a name such as container-toolkit")
        if not self.steps:
            raise ValueError("steps is empty")


def read_playbook(text: str, source: str) -> Playbook:
    """The playbook that `text` holds; PlaybookError with every mistake and its place."""
    reading = Reading(text, source, PlaybookError)
    playbook = reading.read(Playbook)
    root = dict(pairs(reading.root))
    if "hash" in root:
        reading.note(root["hash"], "unknown key hash: it is computed")
    goal = dict(pairs(root.get("goal")))
    _check_goal(goal, reading)
    known = {f"{{goal.{key}}}" for key in goal} | {f"{{host.{key}}}" for key in HOST_WORDS}
    for scalar in scalars(root.get("steps")):
        if _CONTROL.search(scalar.value):
            reading.note(scalar, "a control character stands in this text")
        for match in PLACEHOLDER.finditer(scalar.value):
            if match[0] not in known:
                reading.note(scalar, f"{match[0]} is not known here (known: {', '.join(sorted(known))})")
    if playbook is not None:
        _check_whole(playbook, root, reading)
    reading.finish()
    assert playbook is not None  # noqa: S101 - finish has raised otherwise
    return replace(playbook, hash=hashlib.sha256(text.encode()).hexdigest())


def _check_goal(goal: Mapping[str, yaml.Node], reading: Reading) -> None:
    for key, node in goal.items():
        if not re.fullmatch(r"[a-z_]+", key):
            reading.note(node, f"goal: {key!r} is not a key such as toolkit")
        for scalar in scalars(node):
            if not WORD.fullmatch(scalar.value):
                reading.note(scalar, f"goal: {key}: {scalar.value[:80]!r} is not one plain word")


def _check_whole(playbook: Playbook, root: Mapping[str, yaml.Node], reading: Reading) -> None:
    """What only the whole shows: ids that stand twice, goal keys in conditions."""
    steps = root["steps"]
    nodes = steps.value if isinstance(steps, yaml.SequenceNode) else []
    seen: set[str] = set()
    for step, node in zip(playbook.steps, nodes, strict=True):
        if step.id in seen:
            reading.note(node, f"the step {step.id} stands here twice")
        seen.add(step.id)
        conditions = [step.needs, *(variant.for_ for variant in (*step.do, *step.undo))]
        for key in (key for entry in conditions for key in entry if key.startswith("goal.")):
            if key.removeprefix("goal.") not in playbook.goal:
                reading.note(node, f"{key} is no key of this playbook's goal")


def load_playbook(name: str | Path) -> Playbook:
    """A playbook that ships with the tool, by its name, or any other by its path; UsageError where there is none."""
    import difflib
    from pathlib import Path

    if isinstance(name, Path) or "/" in name or name.endswith((".yaml", ".yml")):
        return read_playbook(read_text(Path(name), PlaybookError), str(name))
    path = resource("playbooks", f"{name}.yaml")
    if not _ID.fullmatch(name) or not path.is_file():
        known = sorted(entry.stem for entry in resource("playbooks").glob("*.yaml"))
        close = difflib.get_close_matches(name, known, n=1) or known
        raise UsageError(f"there is no playbook {name!r}", hint=f"known: {', '.join(close)}; or the path of a file")
    return read_playbook(read_text(path, PlaybookError), path.name)


def fill(text: str, goal: Mapping[str, str], host: Callable[[str], str]) -> str:
    """`text` with its placeholders filled; UsageError for a value that is not one plain word (WORD)."""

    def word(match: re.Match[str]) -> str:
        found = goal[match[2]] if match[1] == "goal" else host(match[2])
        if not WORD.fullmatch(found):
            raise UsageError(
                f"{match[0]} would be {found[:80]!r}, which is not one plain word", hint="use letters, digits and ._+:~/@-"
            )
        return found

    return PLACEHOLDER.sub(word, text)


def _absolute(path: str) -> None:
    if not path.startswith("/") or posixpath.normpath(path) != path or "{" in path or not path.isprintable():
        raise ValueError(f"{path[:80]!r} is not the absolute path of a file, written out")


def _check_argv(argv: Argv, where: str) -> None:
    """ValueError where an argv names no program, or a text that a shell reads would be filled in."""
    if not argv:
        return
    if not argv[0] or PLACEHOLDER.search(argv[0]) or argv[0].startswith("-"):
        raise ValueError(f"{where}: the first element is the program, and stands there as it is")
    if posixpath.basename(argv[0]) in _SHELLS:
        scripts = [text for option, text in itertools.pairwise(argv) if re.fullmatch(r"-[a-z]*c[a-z]*", option)]
        if any(PLACEHOLDER.search(script) for script in scripts):
            raise ValueError(
                f'{where}: a shell\'s text takes no placeholder; hand it over as an argument: [sh, -c, TEXT, sh, "{{goal.x}}"]'
            )
