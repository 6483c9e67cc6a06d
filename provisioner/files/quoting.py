"""Quoting: the only way by which a value reaches a generated file.

Each language has one filter. A filter returns `Quoted`, and the template environment refuses to print anything else, so a
forgotten filter is an error while rendering and never a hole in a script. A value that the language cannot carry at all (a line
break in a Dockerfile) is refused with a sentence, never altered.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from provisioner.errors import ProvisionerError
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from provisioner.stack.lock import Pin

# C0 and C1 controls, DEL, the two separators that some readers take for a line's end, and the marks of writing direction, by
# which an editor shows a line as another one.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Words that mean themselves in a Dockerfile, in sh and in a #SBATCH line: image references, package names, ids, mount options.
_TOKEN = re.compile(r"[A-Za-z0-9_./:@=,+][A-Za-z0-9_./:@=,+~-]*")
_DIRECTIVE = re.compile(r"[A-Za-z0-9_./:=,+@%-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BOUND = r" ?(===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9.*+!_-]*"
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*"  # name
    r"(\[[A-Za-z0-9._, -]*\])?"  # extras
    r"( ?@ ?[A-Za-z0-9+.-]+://[^\s;#\\\"']+|" + f"{_BOUND}(,{_BOUND})*)?"  # place, or bounds
    r"( ?; ?[A-Za-z0-9_.<>=!~'\" ()]+)?"  # marker
)


class Quoted(str):
    """A text that a filter made safe for the place where it stands."""

    __slots__ = ()


@value
class Variable:
    """A variable of the shell that runs the script; it is expanded there, in double quotes."""

    name: str


@value
class SecretFile:
    """The content of a BuildKit secret, read by the shell of the RUN step that mounts it."""

    id: str


@value
class Word:
    """One shell word made of literal texts and expansions: `Word(parts=(Variable(name="SLURM_SUBMIT_DIR"), ":/workspace"))`."""

    parts: tuple[str | Variable | SecretFile, ...]


def clean(text: str, where: str) -> str:
    """`text`, or a ProvisionerError when it has a character that no line of a generated file can carry."""
    found = CONTROL.search(text) or _SURROGATE.search(text)
    if found:
        raise ProvisionerError(
            f"{where} cannot carry {text[:80]!r}: it contains the control character {found[0]!r}",
            hint="write it on one line, in printable characters",
        )
    return text


def sh(entry: object) -> Quoted:
    """One word of a POSIX shell; a tuple becomes several, with a space between."""
    if isinstance(entry, tuple):
        return Quoted(" ".join(sh(item) for item in entry))
    if isinstance(entry, Word):
        if all(isinstance(part, str) for part in entry.parts):
            return sh("".join(str(part) for part in entry.parts))
        return Quoted('"' + "".join(_in_double_quotes(part) for part in entry.parts) + '"')
    text = clean(str(entry), "a shell word")
    # in single quotes a $ is right, and shellcheck asks whether it was meant
    return Quoted(f'"{_in_double_quotes(text)}"' if re.search(r"['$`\\]", text) else shlex.quote(text))


def _in_double_quotes(part: str | Variable | SecretFile) -> str:
    match part:
        case Variable(name=name):
            return f"${{{_checked(_NAME, name, 'the name of a variable')}}}"
        case SecretFile(id=secret):
            return f"$(cat {sh('/run/secrets/' + secret)})"
        case _:
            return re.sub(r'([\\"$`])', r"\\\1", clean(part, "a shell word"))


def df(entry: object) -> Quoted:
    """A double-quoted value of ENV or LABEL: nothing in it is expanded by the builder."""
    return Quoted('"' + re.sub(r'([\\"$])', r"\\\1", clean(str(entry), "a Dockerfile")) + '"')


def argv(entry: tuple[object, ...]) -> Quoted:
    """The exec form of CMD: a JSON list, in ASCII, on one line."""
    return Quoted(json.dumps([str(item) for item in entry]))


def sbatch(entry: object) -> Quoted:
    r"""A value in a #SBATCH line. sbatch's own reader expands nothing, ends at an unquoted #, and takes \ in any quotes."""
    text = clean(str(entry), "an #SBATCH line")
    if _DIRECTIVE.fullmatch(text):
        return Quoted(text)
    return Quoted('"' + re.sub(r'([\\"])', r"\\\1", text) + '"')


def comment(entry: object) -> Quoted:
    """A text in a comment: one line, and not a backslash at its end, which some readers join with the next line."""
    text = clean(str(entry), "a comment")
    return Quoted(text + "." if text.endswith("\\") else text)


def token(entry: object) -> Quoted:
    """A word that needs no quoting anywhere (an image reference, a package, a number); anything else is refused."""
    return Quoted(_checked(_TOKEN, str(entry), "a plain word"))


def requirement(entry: object) -> Quoted:
    """A line of a requirements file: a requirement, and never an option of pip."""
    return Quoted(_checked(_REQUIREMENT, str(entry), "a requirement (name==version)"))


def pin(entry: Pin) -> Quoted:
    """A line of a requirements file with its hashes below, as pip-compile writes it."""
    place = f"{_checked(_TOKEN, entry.name, 'a package')}=={_checked(_TOKEN, entry.version, 'a version')}"
    return Quoted(" \\\n    ".join((place, *(f"--hash={token(text)}" for text in entry.hashes))))


def toml(entry: object) -> Quoted:
    """A basic string of TOML; its escapes are those of JSON."""
    return Quoted(json.dumps(clean(str(entry), "a TOML file"), ensure_ascii=False))


def _checked(form: re.Pattern[str], text: str, what: str) -> str:
    if not form.fullmatch(text):
        raise ProvisionerError(f"{text[:80]!r} is not {what}", hint="correct it in the request or the site file it comes from")
    return text


#: Every filter of the templates. Adding a language means adding one function here.
FILTERS: Mapping[str, Callable[..., Quoted]] = {
    "argv": argv,
    "comment": comment,
    "df": df,
    "pin": pin,
    "requirement": requirement,
    "sbatch": sbatch,
    "sh": sh,
    "token": token,
    "toml": toml,
}


def refuse_unquoted(entry: object) -> object:
    """The `finalize` of the template environment: only `Quoted` is printed."""
    if not isinstance(entry, Quoted):
        raise TypeError(f"a template prints {entry!r} without one of the filters {', '.join(sorted(FILTERS))}")
    return entry
