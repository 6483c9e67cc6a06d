"""A Dockerfile: its base image, what pip and apt install in its last stage, its variables and its command."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from provisioner.errors import RequestError
from provisioner.files.importing import requirements
from provisioner.files.importing.found import Notes
from provisioner.values import Problem, value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.files.importing.found import Found

_PYTHON_IMAGE = re.compile(r"(?:.*/)?python:(\d+\.\d+)(?:[.\d]*)(?:-.*)?")
_PIP = (("pip", "install"), ("pip3", "install"), ("uv", "pip", "install"))
#: Options of pip that are followed by a word of their own.
_WITH_WORD = {"-i", "--index-url", "--extra-index-url", "-r", "--requirement", "-c", "--constraint", "-f", "--find-links", "-e"}
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(\S*)")
_QUIET = {"WORKDIR", "LABEL", "EXPOSE", "USER", "SHELL", "ARG", "VOLUME", "STOPSIGNAL", "MAINTAINER", "COPY", "ADD"}


@value
class Step:
    """One instruction with the number of its first line."""

    line: int
    name: str
    rest: str


def read(file: str, text: str) -> Found:
    """What the last stage asks for; RequestError where there is no stage."""
    notes = Notes(file, text)
    steps = list(_steps(text))
    starts = [at for at, step in enumerate(steps) if step.name == "FROM"]
    if not starts:
        raise RequestError([Problem(file=file, line=1, column=1, message="no FROM stands in it, so it is no Dockerfile")])
    if len(starts) > 1:
        notes.say(f"only its last stage of {len(starts)} is read", steps[starts[-1]].line)
    apt: list[str] = []
    for step in steps[starts[-1] :]:
        if step.name == "FROM":
            _base(step, notes)
        elif step.name == "RUN":
            apt += _run(step, notes)
        elif step.name == "ENV":
            _env(step, notes)
        elif step.name == "CMD":
            _command(step, notes)
        elif step.name not in _QUIET:
            notes.say(f"{step.name} is not taken over", step.line)
    if apt:
        notes.fields["apt"] = tuple(dict.fromkeys(apt))
    return notes.found()


def _steps(text: str) -> Iterator[Step]:
    """The instructions, continued lines as one, without comments."""
    whole, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        if raw.strip().startswith("#"):
            continue
        first = first or number
        if raw.rstrip().endswith("\\"):
            whole += raw.rstrip()[:-1] + " "
            continue
        whole = (whole + raw).strip()
        if whole:
            name, _, rest = whole.partition(" ")
            yield Step(line=first, name=name.upper(), rest=rest.strip())
        whole, first = "", 0


def _base(step: Step, notes: Notes) -> None:
    words = [word for word in step.rest.split() if not word.startswith("--")]
    reference = words[0] if words else ""
    if "$" in reference or not reference:
        notes.say(f"the base image {reference} depends on a build argument, and is left open", step.line)
        return
    if match := _PYTHON_IMAGE.fullmatch(reference):
        notes.fields["python"] = match[1]
    notes.fields["image"] = reference


def _run(step: Step, notes: Notes) -> list[str]:
    """What the commands of a RUN step install; the packages of apt are returned."""
    if step.rest.startswith("[") or "<<" in step.rest:
        notes.say("a RUN step of this form is not read", step.line)
        return []
    apt: list[str] = []
    for command in re.split(r"&&|\|\||;|\n", re.sub(r"^(?:--\S+\s+)+", "", step.rest)):
        try:
            words = shlex.split(command)
        except ValueError:
            notes.say(f"{command.strip()[:80]!r} is not read: its quotes do not close", step.line)
            continue
        words = _without_python(words)
        pip = next((form for form in _PIP if tuple(words[: len(form)]) == form), None)
        if pip is not None:
            _pip(words[len(pip) :], step, notes)
        elif words[:1] in (["apt-get"], ["apt"]) and "install" in words:
            apt += [word for word in words[words.index("install") + 1 :] if not word.startswith("-") and "$" not in word]
        elif words and words[0] not in {"apt-get", "apt", "rm", "mkdir", "cd", "set", "echo"}:
            notes.say(f"{' '.join(words)[:80]!r} is not taken over", step.line)
    return apt


def _without_python(words: list[str]) -> list[str]:
    """`python3 -m pip install` and `/venv/bin/pip install` as `pip install`."""
    if words[1:2] == ["-m"] and re.fullmatch(r"(?:.*/)?python[\d.]*", words[0]):
        return words[2:]
    return [words[0].rpartition("/")[2], *words[1:]] if words else words


def _pip(words: list[str], step: Step, notes: Notes) -> None:
    """The words after `pip install`, each as the line of a requirements file that it is."""
    rest = iter(words)
    for word in rest:
        line = f"{word} {next(rest, '')}" if word in _WITH_WORD else word
        if "$" in line:
            notes.say(f"{line[:80]!r} depends on a variable, and is left out", step.line)
        elif line.startswith("-") and word not in _WITH_WORD and not re.match(r"--(?:extra-)?index-url=", line):
            continue  # how pip works
        elif line in {".", "./"} or line.startswith(("./", "/")):
            notes.say(f"{line} is a project of its own: set project: to its folder", step.line)
        else:
            inner = requirements.read(notes.file, line)
            notes.packages += inner.packages
            notes.variants += [variant for variant in inner.variants if variant not in notes.variants]
            for one in inner.said:
                notes.say(one.message, step.line)


def _env(step: Step, notes: Notes) -> None:
    """Variables; one whose name sounds like a secret is said, and its value stays where it is."""
    pairs = _ASSIGNED.findall(step.rest)
    if not pairs:
        name, _, rest = step.rest.partition(" ")
        pairs = [(name, rest.strip())]
    for name, entry in pairs:
        if re.search(r"TOKEN|SECRET|PASSWORD|KEY", name, re.IGNORECASE):
            notes.say(f"{name} is left out: what is secret belongs under secrets:", step.line)
        elif "$" in entry or name == "PATH":
            notes.say(f"{name} depends on other variables, and is left out", step.line)
        else:
            notes.fields.setdefault("env", {})[name] = entry.strip("\"'")


def _command(step: Step, notes: Notes) -> None:
    try:
        words = json.loads(step.rest)
    except (ValueError, RecursionError):
        words = None
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        notes.fields["command"] = tuple(words)
    else:
        notes.say("a CMD of this form is not taken over: write it as a list of words", step.line)
