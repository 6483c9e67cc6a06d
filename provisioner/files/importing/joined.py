"""What several files say → one request. Where two of them disagree nothing is chosen: that is said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from provisioner.errors import RequestError
from provisioner.files.importing.found import Said
from provisioner.stack.request import Request
from provisioner.values import Problem, value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.files.importing.found import Found


@value
class Imported:
    """The request, and what has to be said about what it was made of."""

    request: Request
    said: tuple[Said, ...] = ()


def joined(found: Sequence[Found]) -> Imported:
    """One request of all that was found; RequestError when there is nothing in it."""
    said = [one for each in found for one in each.said]
    fields: dict[str, Any] = {"packages": _packages(found, said)}
    variants = list(dict.fromkeys(variant for each in found for variant in each.variants))
    if len(variants) == 1:
        fields["variant"] = variants[0]
    elif variants:
        message = f"several builds are named ({', '.join(variants)}): add variant: to the request to hold one"
        said.append(Said(file=", ".join(each.file for each in found if each.variants), message=message))
    for name in dict.fromkeys(name for each in found for name in each.fields):
        given = {each.file: each.fields[name] for each in found if name in each.fields}
        if len({repr(entry) for entry in given.values()}) == 1:
            fields[name] = next(iter(given.values()))
            continue
        shown = ", ".join(f"{file} {entry}" for file, entry in given.items())
        said.append(Said(file=", ".join(given), message=f"{name} differs and is left open: {shown}"))
    if not any(fields.values()):
        problems = [Problem(file=each.file, message="nothing in it makes a request") for each in found]
        problems += [Problem(file=one.file, line=one.line, column=1, message=one.message) for one in said if one.line]
        raise RequestError(problems)
    try:
        request = Request(**fields)
    except ValueError as failure:
        raise RequestError([Problem(file=each.file, message=str(failure)) for each in found]) from failure
    return Imported(request=request, said=tuple(said))


def _packages(found: Sequence[Found], said: list[Said]) -> tuple[str, ...]:
    """Every package once: a pinned one replaces the same name with looser bounds; two pins that differ are both left out."""
    by_name: dict[str, list[tuple[str, str]]] = {}
    for each in found:
        for text in each.packages:
            entries = by_name.setdefault(_name(text), [])
            if text not in [known for known, _ in entries]:
                entries.append((text, each.file))
    chosen: list[str] = []
    for name, entries in by_name.items():
        pinned = [text for text, _ in entries if "==" in text and "*" not in text]
        if len(entries) == 1 or len(pinned) == 1:
            chosen.append(pinned[0] if pinned else entries[0][0])
            continue
        shown = ", ".join(f"{text} ({file})" for text, file in entries)
        said.append(Said(file=entries[0][1], message=f"{name} is asked for in several ways and stays open: {shown}"))
        chosen.append(name)
    return tuple(chosen)


def _name(text: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", text)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else text
