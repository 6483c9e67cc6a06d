"""The packages of a request: which framework is asked for, which of its companions, and what merely goes along.

Requirements are read as pip writes them (PEP 508), without environment markers and addresses where they decide the build.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provisioner.errors import UsageError
from provisioner.stack.rows import Framework
from provisioner.values import value
from provisioner.versions import Range, Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.stack.matrix import Matrix

_FORM = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<extras>\[[A-Za-z0-9._, -]*\])?\s*(?P<bounds>.*)")
# A user with a password, or anything before @ in an http address; git+ssh://git@host is no secret.
_PASSWORD = re.compile(r"//[^/@\s]*:[^/@\s]*@|https?://[^/@\s]+@")
_LONGEST = 500  # characters of a requirement
_LOCAL = re.compile(r"(?P<public>[^+]+)\+(?P<local>[A-Za-z0-9.]+)")
_ANY_PATCH = re.compile(r"(?P<sign>==|!=)\s*(?P<prefix>\d+(?:\.\d+)*)\.\*")


@value
class Requirement:
    """One requirement. `bounds` None: it has none, or a marker or an address stands there. `local` is a pinned build."""

    name: str  # normalised as PEP 503 does
    text: str
    extras: str = ""
    bounds: Range | None = None
    local: str | None = None


@value
class Wants:
    """What the packages of a request ask for. `framework` None: no framework of the matrix is asked for."""

    framework: Framework | None = None
    asked: Requirement | None = None  # the requirement on the framework itself; None when only a companion is named
    companions: tuple[Requirement, ...] = ()
    others: tuple[Requirement, ...] = ()
    second: Framework | None = None  # a second framework, which no rule covers yet

    @property
    def tag(self) -> str | None:
        """The build that the framework's local version pins: `cu124` of `2.4.0+cu124`."""
        return self.asked.local if self.asked else None

    def takes(self, version: Version) -> bool:
        """Whether the requirement on the framework takes `version`."""
        return self.asked is None or self.asked.bounds is None or version in self.asked.bounds


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_requirement(text: str) -> Requirement:
    """Read one requirement; UsageError when it does not begin with a distribution's name or has more than one line."""
    text = text.strip()
    _refuse_password(text)
    match = _FORM.fullmatch(text) if text.isprintable() and len(text) <= _LONGEST else None
    if match is None:
        raise UsageError(f"{text[:80]!r} is not a requirement", hint="write it as pip does: NAME, NAME==1.2.3 or NAME>=1.2,<2")
    name, extras, rest = normal(match["name"]), match["extras"] or "", match["bounds"].strip()
    if not rest:
        return Requirement(name=name, text=text, extras=extras)
    if rest[0] not in "=<>!~":
        if rest[0] in "@;":
            return Requirement(name=name, text=text, extras=extras)
        raise UsageError(f"{text!r} is not a requirement", hint=f"after {match['name']} comes a bound such as ==1.2.3 or >=1.2")
    if ";" in rest:
        return Requirement(name=name, text=text, extras=extras)
    parts: list[str] = []
    local = None
    for part in filter(None, (piece.strip().replace("===", "==") for piece in rest.split(","))):
        if wild := _ANY_PATCH.fullmatch(part):
            parts.append(_within(wild["sign"], wild["prefix"], text))
            continue
        if part.startswith("==") and (pinned := _LOCAL.fullmatch(part)):
            local = pinned["local"].lower()
            part = pinned["public"]  # noqa: PLW2901 - the bound without the build, which is kept apart
        parts.append(part)
    try:
        bounds = Range(",".join(parts))
    except ValueError as failure:
        raise UsageError(f"{text!r}: {failure}", hint="write it as pip does: NAME==1.2.3 or NAME>=1.2,<2") from failure
    return Requirement(name=name, text=text, extras=extras, bounds=bounds, local=local)


def _refuse_password(text: str) -> None:
    """UsageError where a requirement holds a secret: a lock, and every file made of it, would carry it. It is not repeated."""
    if _PASSWORD.search(text):
        name = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]
        hint = "leave it out of the address: pip and uv find it in netrc"
        raise UsageError(f"{name[:80]}: a user or password must not stand in a requirement", hint=hint)


def _within(sign: str, prefix: str, text: str) -> str:
    if sign == "!=":
        raise UsageError(f"{text!r}: a bound != with .* is not read", hint="name the versions one by one")
    head, _, last = prefix.rpartition(".")
    above = f"{head}.{int(last) + 1}" if head else str(int(last) + 1)
    return f">={prefix},<{above}"


def wants_of(packages: Sequence[str], matrix: Matrix) -> Wants:
    """Sort the packages of a request by what the matrix knows of them; UsageError for one that cannot be read."""
    requirements = [parse_requirement(text) for text in packages]
    known = {row.id: row for row in matrix.frameworks}
    companion_of = {companion: row for row in matrix.frameworks for companion in row.companions}
    asked = [item for item in requirements if item.name in known]
    frameworks = [known[item.name] for item in asked] or [companion_of[i.name] for i in requirements if i.name in companion_of]
    frameworks = frameworks or [known[name] for item in requirements for name in _needs(item, matrix) if name in known][:1]
    if not frameworks:
        return Wants(others=tuple(requirements))
    framework = frameworks[0]
    mine = [item for item in requirements if item.name == framework.id]
    companions = tuple(item for item in requirements if item.name in framework.companions)
    if len(mine) > 1:
        raise UsageError(
            f"{framework.id} is asked for twice: {' and '.join(item.text for item in mine)}", hint="keep one of them"
        )
    for item in (*mine, *companions):
        if item.bounds is None and item.text not in {item.name, f"{item.name}{item.extras}"} and not _bare(item):
            raise UsageError(
                f"{item.text!r}: a marker or an address cannot decide which build is taken",
                hint=f"write {item.name} with bounds on its version only",
            )
    others = tuple(item for item in requirements if item not in mine and item not in companions)
    return Wants(
        framework=framework,
        asked=mine[0] if mine else None,
        companions=companions,
        others=others,
        second=next((row for row in frameworks if row != framework), None),
    )


def _needs(item: Requirement, matrix: Matrix) -> tuple[str, ...]:
    """What the releases of a package that `item` takes require; of all of them where the data have none that it takes."""
    rows = matrix.package(item.name)
    taken = [row for row in rows if item.bounds is not None and row.version in item.bounds] or rows
    return tuple(dict.fromkeys(name for row in reversed(taken) for name in row.requires))


def _bare(item: Requirement) -> bool:
    return not set(item.text) & set("@;")


def contradict(bounds: Sequence[tuple[str, Version]]) -> bool:
    """Whether no version at all meets all of `bounds` (>=2,<1). Of bounds with letters in them (2.0rc1) nothing is said."""
    plain = [(sign, bound) for sign, bound in bounds if not bound.suffix]
    low = max(((bound, sign == ">") for sign, bound in plain if sign in {">=", ">", "==", "~="}), default=None)
    high = min(((bound, sign != "<") for sign, bound in plain if sign in {"<=", "<", "=="}), default=None)
    if low is None:
        return False
    if high is not None and (low[0] > high[0] or (low[0] == high[0] and (low[1] or not high[1]))):
        return True
    lines = [Version(bound.text.rpartition(".")[0]) for sign, bound in plain if sign == "~="]
    exact = any(sign == "==" and bound == low[0] for sign, bound in plain)
    return any(not low[0].within(line) for line in lines) or (exact and any(entry == ("!=", low[0]) for entry in plain))
