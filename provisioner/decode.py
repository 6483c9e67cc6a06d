"""YAML (and JSON, which is a part of it) into values: every mistake at once, each as file:line:column.

Plain YAML turns 12.10 into 12.1 and 9_0 into 90, and keeps the last of two equal keys. Here a text field gets the text that
stands in the file, and the form of a value class is the schema: unknown, repeated and missing keys and wrong types are
problems with their place. Anchors and aliases are refused, so no file can explode.

A field of a value class may be: str, int, float, bool, a Literal, a class with `parse(text)` (Version, Capability …), another
value class, `tuple[X, ...]`, `Mapping[str, X]`, any of these or None. A class with `decode_node(node, decoder)` decodes itself.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import stat
import types
import typing
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin

import yaml

from provisioner.errors import DataError
from provisioner.values import Problem

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

#: The largest file that is read whole, in bytes (`contracts.md`, Bad input).
MAX_BYTES = 10_000_000
#: How many mistakes of one file are told; a file with more is not one of ours, and nobody reads a thousand lines.
MOST_PROBLEMS = 50
#: The longest sentence about one mistake, in characters: it may quote the file, and the file may be hostile.
_LONGEST = 600
_NO_ALIAS = "anchors and aliases are not used here; write it out"
_MISSING = object()
_NULL = "tag:yaml.org,2002:null"
_STR = "tag:yaml.org,2002:str"
_NUMERIC = {"tag:yaml.org,2002:float", "tag:yaml.org,2002:int"}
#: What may be an alias; only a text with one is looked through for them.
_MAY_BE_ALIAS = re.compile(r"(?:^|[\s\[{,])\*[^\s\[\]{},]", re.MULTILINE)


def read_text(path: Path, error: type[DataError] = DataError, *, limit: int = MAX_BYTES) -> str:
    """The text of a file; `error` with one problem when it is missing, unreadable, too large or not UTF-8."""
    try:
        # not to wait for a writer: opening a pipe that nobody writes to would hang
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            found = os.fstat(stream.fileno()).st_mode
            # below /dev stands what a user means to read as a stream: /dev/stdin, and /dev/fd/63 of a shell's <(…)
            if not stat.S_ISREG(found) and not stat.S_ISDIR(found) and not str(path).startswith("/dev/"):
                raise error([Problem(file=str(path), message="not a file, but a pipe, a socket or a device")])
            os.set_blocking(stream.fileno(), True)
            raw = stream.read(limit + 1)
    except OSError as failure:
        raise error([Problem(file=str(path), message=(failure.strerror or str(failure)).lower())]) from failure
    except ValueError as failure:
        raise error([Problem(file=str(path), message="not the name of a file: it has a NUL")]) from failure
    if len(raw) > limit:
        raise error([Problem(file=str(path), message=f"larger than {limit // 1_000_000} MB, which no such file is")])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = raw.count(b"\n", 0, failure.start) + 1
        raise error([Problem(file=str(path), line=line, column=1, message="not UTF-8 text")]) from failure


def load(
    path: Path,
    wanted: type[T],
    error: type[DataError] = DataError,
    *,
    strict: bool = False,
) -> T:
    """Read and decode the file at `path`."""
    return decode(read_text(path, error), str(path), wanted, error, strict=strict)


def decode(
    text: str,
    source: str,
    wanted: type[T],
    error: type[DataError] = DataError,
    *,
    strict: bool = False,
) -> T:
    """Decode `text`, which `source` names in messages. `strict` refuses an unquoted 12.10 where a text is wanted (the matrix)."""
    decoder = Decoder(source, strict=strict)
    node = decoder.compose(text)
    if node is not None:
        decoder.refuse_aliases(text)
    result = decoder.read(node, wanted, "the file") if node is not None else _MISSING
    if decoder.problems:
        raise error(sorted(decoder.problems, key=lambda problem: (problem.line, problem.column)))
    return cast("T", result)


class Decoder:
    """One decoding: the problems that were found so far, and the nodes that were visited."""

    def __init__(self, source: str, *, strict: bool = False) -> None:
        """Decode a text that messages call `source`."""
        self.source = source
        self.strict = strict
        self.problems: list[Problem] = []
        self._count = 0
        self._refused = 0  # what was not read: the mistakes, and what an alias stands for
        self._visited: set[int] = set()
        self._aliases = False  # whether there are some, and their places were told

    def compose(self, text: str) -> yaml.Node | None:
        """The node tree of `text`, or None after noting why there is none."""
        try:
            node = yaml.compose(text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as failure:
            mark = failure.problem_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            what = " ".join(filter(None, (failure.context, failure.problem)))
            self.problems.append(Problem(file=self.source, line=line, column=column, message=f"not valid YAML: {what}"))
            return None
        except (yaml.YAMLError, ValueError) as failure:
            self.problems.append(Problem(file=self.source, message=f"not valid YAML: {str(failure).splitlines()[0]}"))
            return None
        except RecursionError:
            self.problems.append(Problem(file=self.source, message="nested too deeply"))
            return None
        if node is None:
            self.problems.append(Problem(file=self.source, message="empty"))
        return node

    def refuse_aliases(self, text: str) -> None:
        """Note each alias of `text`, which was composed, where it stands: a node of the tree has only the place of its anchor."""
        if not _MAY_BE_ALIAS.search(text):
            return
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.AliasEvent):
                self._aliases = True
                self._note_at(event.start_mark, _NO_ALIAS)
                if self._count > MOST_PROBLEMS:
                    return

    def note(self, node: yaml.Node, message: str) -> object:
        """Note a problem at `node`; the result marks that there is no value. Of very many the first are kept."""
        return self._note_at(node.start_mark, message)

    def _note_at(self, mark: Any, message: str) -> Any:  # noqa: ANN401 - PyYAML has no types
        self._count += 1
        self._refused += 1
        if self._count == MOST_PROBLEMS + 1:
            message = f"there are more mistakes: these are the first {MOST_PROBLEMS}"
        if self._count <= MOST_PROBLEMS + 1:
            message = message if len(message) <= _LONGEST else f"{message[:_LONGEST]} …"
            self.problems.append(Problem(file=self.source, line=mark.line + 1, column=mark.column + 1, message=message))
        return _MISSING

    def read(self, node: yaml.Node, wanted: Any, where: str) -> Any:  # noqa: ANN401, PLR0911 - the type is a value; one exit a kind
        """The value of type `wanted` at `node`; a problem is noted, and a marker returned, when it is not one."""
        if not isinstance(node, yaml.ScalarNode):
            if id(node) in self._visited:
                if not self._aliases:
                    return self.note(node, _NO_ALIAS)
                self._refused += 1  # `refuse_aliases` has told the place of the alias
                return _MISSING
            self._visited.add(id(node))
        origin = get_origin(wanted)
        if origin in {typing.Union, types.UnionType}:
            return self._union(node, get_args(wanted), where)
        if origin is tuple:
            return self._sequence(node, get_args(wanted)[0], where)
        if origin is Mapping:
            return self._mapping(node, get_args(wanted)[1], where)
        if origin is Literal:
            return self._choice(node, get_args(wanted), where)
        if hasattr(wanted, "decode_node"):
            return wanted.decode_node(node, self)
        if dataclasses.is_dataclass(wanted):
            return self._record(node, cast("type[Any]", wanted), where)
        return self._scalar(node, wanted, where)

    def _union(self, node: yaml.Node, choices: tuple[Any, ...], where: str) -> Any:  # noqa: ANN401 - see read
        if type(None) in choices and isinstance(node, yaml.ScalarNode) and node.tag == _NULL:
            return None
        rest = [choice for choice in choices if choice is not type(None)]
        self._visited.discard(id(node))  # the same node is read once more, as what it is
        if len(rest) == 1:
            return self.read(node, rest[0], where)
        for choice in rest:  # the first that takes the node without a problem; order in the annotation is order of trial
            trial = Decoder(self.source, strict=self.strict)
            trial._visited |= self._visited
            trial._aliases = self._aliases
            result = trial.read(node, choice, where)
            if not trial._refused:
                self._visited = trial._visited
                return result
        return self.note(node, f"{where} must be {' or '.join(_name(choice) for choice in rest)}")

    def _sequence(self, node: yaml.Node, item: Any, where: str) -> Any:  # noqa: ANN401 - see read
        if not isinstance(node, yaml.SequenceNode):
            return self.note(node, f"{where} must be a list, such as {_as_list(node, where)}")
        values = [self.read(child, item, f"an item of {where}") for child in node.value]
        return tuple(entry for entry in values if entry is not _MISSING)

    def _mapping(self, node: yaml.Node, item: Any, where: str) -> Any:  # noqa: ANN401 - see read
        if not isinstance(node, yaml.MappingNode):
            return self.note(node, f"{where} must be a mapping")
        return {key: self.read(child, item, f"{where}: {key}") for key, child in self._pairs(node).items()}

    def _pairs(self, node: yaml.MappingNode) -> dict[str, yaml.Node]:
        pairs: dict[str, yaml.Node] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.note(key, "a key must be a plain text")
            elif key.value in pairs:
                self.note(key, f"{key.value} stands here twice")
            else:
                pairs[key.value] = child
        return pairs

    def _choice(self, node: yaml.Node, choices: tuple[Any, ...], where: str) -> Any:  # noqa: ANN401 - see read
        if isinstance(node, yaml.ScalarNode):
            for choice in choices:
                if node.value == str(choice):
                    return choice
            if where == "format" and is_newer(node.value):
                newer = f"made by a newer provisioner (format {node.value}, this one reads {choices[-1]}): update it"
                return self.note(node, newer)
        return self.note(node, f"{where} must be one of {', '.join(map(str, choices))}")

    def _record(self, node: yaml.Node, wanted: type[Any], where: str) -> Any:  # noqa: ANN401 - see read
        if not isinstance(node, yaml.MappingNode):
            return self.note(node, f"{where} must be a mapping")
        before = self._refused
        pairs = self._pairs(node)
        keys = {key.value: key for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
        known = _fields(cast("Hashable", wanted))
        found: dict[str, Any] = {}
        for key, child in pairs.items():
            if key not in known:
                hint = _did_you_mean(key, known) if self._count < MOST_PROBLEMS else ""
                self.note(keys[key], f"unknown key {key[:80]}{hint}")
                continue
            name, annotation, _ = known[key]
            entry = self.read(child, annotation, key)
            if entry is not _MISSING:
                found[name] = entry
        for key, (name, _, required) in known.items():
            if required and key not in pairs and name not in found:
                self.note(node, f"{key} is missing")
        if self._refused > before:
            return _MISSING
        try:
            return wanted(**found)
        except ValueError as failure:  # what a value refuses in __post_init__
            return self.note(node, str(failure))

    def _scalar(self, node: yaml.Node, wanted: Any, where: str) -> Any:  # noqa: ANN401, PLR0911 - see read; one exit a type
        if not isinstance(node, yaml.ScalarNode):
            return self.note(node, f"{where} must be {_name(wanted)}")
        if node.tag == _NULL and node.value in {"", "~", "null", "Null", "NULL"} and wanted is not object:
            return self.note(node, f"{where} must not be empty")
        if wanted is bool:
            if node.tag == "tag:yaml.org,2002:bool" and node.value.lower() in {"true", "false"}:
                return node.value.lower() == "true"
            return self.note(node, f"{where} must be true or false")
        if wanted in {int, float}:
            try:
                return wanted(node.value)
            except ValueError:
                return self.note(node, f"{where} must be {_name(wanted)}")
        if self.strict and node.tag in _NUMERIC:  # of a quoted text the tag is str
            return self.note(node, f'write "{node.value}" in quotes: YAML reads it as a number, and 12.10 would become 12.1')
        if wanted is str:
            return node.value
        try:
            return wanted.parse(node.value)
        except ValueError as failure:
            return self.note(node, f"{where}: {failure}")


@functools.cache
def _fields(wanted: Hashable) -> Mapping[str, tuple[str, Any, bool]]:
    """Key in the file → (field, annotation, required). A field `for_` is written `for`."""
    record = cast("type[Any]", wanted)
    hints = typing.get_type_hints(record)
    return {
        field.name.rstrip("_"): (
            field.name,
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(record)
    }


def is_newer(form: str) -> bool:
    """Whether `form`, the text of `format`, is that of a newer provisioner than this one, which reads format 1."""
    return re.fullmatch("[0-9]+", form) is not None and form.lstrip("0") not in {"", "1"}


def _as_list(node: yaml.Node, where: str) -> str:
    """A list as an example: of what stands there, where that is plain words."""
    text = node.value if isinstance(node, yaml.ScalarNode) else ""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=+/ -]{0,60}", text):
        return "[python, train.py]" if where == "command" else "[a, b]"
    return f"[{', '.join(text.split())}]" if where == "command" else f"[{text}]"


def _did_you_mean(key: str, known: Mapping[str, object]) -> str:
    import difflib

    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]}?" if close else f" (known: {', '.join(known)})"


def _name(wanted: Any) -> str:  # noqa: ANN401 - a type
    names: Mapping[object, str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    if get_origin(wanted) is tuple:
        return "a list"
    if get_origin(wanted) is Mapping or dataclasses.is_dataclass(wanted):
        return "a mapping"
    return names.get(wanted, getattr(wanted, "__name__", str(wanted)).lower())


def encode(record: object) -> Any:  # noqa: ANN401 - plain data of any shape
    """`record` as plain data (dict, list, str, int, float, bool, None), the inverse of `decode`; defaults stay out."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        plain: dict[str, Any] = {}
        for field in dataclasses.fields(record):
            entry = getattr(record, field.name)
            if field.default is not dataclasses.MISSING and entry == field.default and field.name != "format":
                continue
            if field.default_factory is not dataclasses.MISSING and entry == field.default_factory():
                continue
            plain[field.name.rstrip("_")] = encode(entry)
        return plain
    if isinstance(record, Mapping):
        return {str(key): encode(entry) for key, entry in record.items()}
    if isinstance(record, list | tuple | set | frozenset):
        return [encode(entry) for entry in record]
    if record is None or isinstance(record, bool | int | float | str):
        return record
    return str(record)


def dump_yaml(record: object) -> str:
    """`record` as YAML text, in the order of its fields; the same value gives the same bytes."""
    return yaml.dump(
        encode(record),
        Dumper=yaml.CSafeDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=120,
    )
