"""What a reader found in one file, and how single requirements and addresses of indexes are read in all formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from provisioner.errors import RequestError, UsageError
from provisioner.stack.wants import parse_requirement
from provisioner.values import Problem, value

#: The indexes of build variants, as vendors lay them out: the last part of the path is the variant.
_VARIANT = re.compile(r"https?://download\.pytorch\.org/whl/(?:nightly/|test/)?([a-z]+[0-9.]*)(?:/.*)?")
_WHEEL = re.compile(r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[0-9][^-]*)-(?:[^-]+-)?[^-]+-[^-]+-[^-]+\.whl")
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<extras>\[[^\]]*\])?\s*(?P<rest>[^;]*?)\s*(?:;\s*(?P<marker>.*))?"
)
_ONE = r"(?:===|==|>=|<=|~=|!=|>|<)\s*[A-Za-z0-9][A-Za-z0-9.*+!_-]*"
_BOUND = re.compile(rf"\(?\s*{_ONE}(?:\s*,\s*{_ONE})*\s*,?\s*\)?")
#: What the markers that speak of the system say on Linux.
_LINUX: Mapping[str, str] = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
_MARKER = re.compile(r"\(?\s*(\w+)\s*(==|!=)\s*['\"]([^'\"]*)['\"]\s*\)?")


@value
class Said:
    """Something in a file that is not taken over, or not as it stands. `line` 0: the file as a whole."""

    file: str
    line: int = 0
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


@value
class Found:
    """What one file asks for. `fields` are further fields of a request by their names."""

    file: str
    packages: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    fields: Mapping[str, Any]
    said: tuple[Said, ...] = ()


class Notes:
    """Collects what a reader finds in one file."""

    def __init__(self, file: str, text: str) -> None:
        """For a file called `file` with `text`."""
        self.file, self.lines = file, text.splitlines()
        self.packages: list[str] = []
        self.variants: list[str] = []
        self.fields: dict[str, Any] = {}
        self.said: list[Said] = []

    def say(self, message: str, line: int | str = 0) -> None:
        """Something to be said; `line` is a number, or a text that stands in the line."""
        self.said.append(Said(file=self.file, line=self.line_of(line) if isinstance(line, str) else line, message=message))

    def line_of(self, needle: str) -> int:
        """The first line with this text in it, 0 when it stands in none."""
        return next((number for number, line in enumerate(self.lines, 1) if needle in line), 0)

    def index(self, address: str, line: int | str = 0, *, quiet: bool = False) -> None:
        """The address of an index: a variant's own, else something that belongs in the site file (`quiet`: not worth saying)."""
        match = _VARIANT.fullmatch(address.rstrip("/"))
        if match is None and quiet:
            return
        if match is None:
            shown = _without_password(address)
            self.say(f"the index {shown} is not taken over: a request holds no address, so name it in site.yaml (indexes:)", line)
        elif match[1] not in self.variants:
            self.variants.append(match[1])

    def requirement(self, text: str, line: int | str = 0) -> None:
        """A requirement as pip writes it."""
        text = " ".join(text.split())
        if "://" in text or " @ " in text:
            self._address(text, line)
            return
        match = _REQUIREMENT.fullmatch(text) if text.isprintable() else None
        if match is None or (match["rest"] and not _BOUND.fullmatch(match["rest"])):
            self.say(f"{text[:120]!r} is no requirement that is understood here, and is left out", line)
            return
        marker = match["marker"]
        holds = _holds(marker) if marker else True
        if holds is False:
            self.say(f"{match['name']} is left out: it is not for Linux ({marker})", line)
            return
        bounds = match["rest"].strip("() ").replace(" ", "")
        public, plus, local = bounds.partition("+")
        if plus and bounds.startswith("==") and re.fullmatch(r"[A-Za-z0-9.]+", local):
            self._local(local)
            bounds = public
        plain = f"{match['name']}{match['extras'] or ''}{bounds}"
        try:
            parse_requirement(plain)
        except UsageError as refusal:
            self.say(f"left out: {refusal.message[:200]}", line)
            return
        if holds is None:
            self.say(
                f"{match['name']} keeps its marker ({marker}), which nothing here decides: take it away where it must not", line
            )
            plain = f"{plain} ; {marker}"
        self.packages.append(plain)

    def _address(self, text: str, line: int | str) -> None:
        """A requirement by address: a wheel's name says which release and build it is."""
        address = re.search(r"https?://\S+", text)
        base = _last_part(address[0]) if address else ""
        wheel = _WHEEL.fullmatch(base)
        if address is None or wheel is None:
            self.say(f"{_without_password(text)[:160]!r} names a place, not a release, and is left out", line)
            return
        public, _, local = wheel["version"].partition("+")
        if local:
            self._local(local)
        elif variant := _VARIANT.fullmatch(address[0]):
            self._local(variant[1])
        self.say(f"{wheel['name']} stood there by address, and is asked for by its version", line)
        self.requirement(f"{wheel['name'].replace('_', '-')}=={public}", line)

    def _local(self, local: str) -> None:
        if local not in self.variants:
            self.variants.append(local)

    def python(self, bounds: str, line: int | str = 0) -> None:
        """`3.12`, `3.12.4`, `==3.12.*`: a Python. Bounds leave it open, and that is said."""
        match = re.fullmatch(r"(?:={0,3})\s*(\d+\.\d+)(?:\.(?:\d+|\*))?", bounds.strip())
        if match is None:
            self.say(f"Python {bounds} leaves it open which one: add python: to the request to hold one", line)
        else:
            self.fields["python"] = match[1]

    def found(self) -> Found:
        """Everything that was found."""
        return Found(
            file=self.file,
            packages=tuple(dict.fromkeys(self.packages)),
            variants=tuple(self.variants),
            fields=self.fields,
            said=tuple(self.said),
        )


def _holds(marker: str) -> bool | None:
    """Whether a marker holds on Linux; None where it speaks of something else."""
    results: list[bool] = []
    for part in re.split(r"\s+and\s+", marker.strip()):
        match = _MARKER.fullmatch(part)
        if match is None or match[1] not in _LINUX:
            return None
        results.append((match[3] == _LINUX[match[1]]) == (match[2] == "=="))
    return all(results)


def _last_part(address: str) -> str:
    """The file's name in an address, with its escapes read."""
    name = re.split(r"[?#]", address)[0].rpartition("/")[2]
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda escape: chr(int(escape[1], 16)), name)


def _without_password(address: str) -> str:
    return re.sub(r"//[^/@\s]+@", "//", address)


def toml(text: str, file: str) -> dict[str, Any]:
    """TOML as plain data; RequestError with the place where it is none."""
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError as failure:
        raise RequestError([Problem(file=file, message="nested too deeply")]) from failure
    except tomllib.TOMLDecodeError as failure:
        message = str(failure)
        place = re.search(r"\s*\(at line (\d+), column (\d+)\)", message)
        line, column = (int(place[1]), int(place[2])) if place else (len(text.splitlines()), 1)
        said = message[: place.start()] if place else message.replace(" (at end of document)", ": the file ends too early")
        raise RequestError([Problem(file=file, line=line, column=column, message=f"not TOML: {said.lower()}")]) from failure


def table(whole: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A table within a table; an empty one where there is none."""
    for name in names:
        entry = whole.get(name)
        if not isinstance(entry, Mapping):
            return {}
        whole = entry
    return whole


def texts(entry: object) -> list[str]:
    """The texts in a list; what is none stays out."""
    return [text for text in entry if isinstance(text, str)] if isinstance(entry, list) else []
