"""How the wing reads its files: decoded whole, with the node tree for checks that need a place, and newer formats refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

import yaml

from provisioner.decode import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.errors import DataError

T = TypeVar("T")


class Reading:
    """One file that is being read: `root` is its node tree, `note` notes a mistake, `finish` raises all of them."""

    def __init__(self, text: str, source: str, error: type[DataError], *, hint: str | None = None) -> None:
        """Read `text`, which messages call `source`; `error` is raised for its mistakes, with `hint`."""
        self._decoder = Decoder(source)
        self._error = error
        self._hint = hint
        self.root = self._decoder.compose(text)
        for key, node in pairs(self.root):
            if (
                key == "format"
                and isinstance(node, yaml.ScalarNode)
                and re.fullmatch(r"[0-9]{1,9}", node.value)
                and int(node.value) > 1
            ):
                self.note(node, f"made by a newer provisioner (format {node.value}; this one reads format 1)")
                self.finish()

    def read(self, wanted: type[T]) -> T | None:
        """The file as a value; None, and problems noted, where it is not one."""
        if self.root is None:
            return None
        found = self._decoder.read(self.root, wanted, "the file")
        return found if isinstance(found, wanted) else None

    def note(self, node: yaml.Node, message: str) -> None:
        """Note a mistake at `node`."""
        self._decoder.note(node, message)

    def finish(self) -> None:
        """Raise every mistake that was noted."""
        problems = self._decoder.problems
        if problems:
            raise self._error(sorted(problems, key=lambda problem: (problem.line, problem.column)), hint=self._hint)


def pairs(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """The plain keys of a mapping node and their nodes; nothing where it is not a mapping."""
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key.value, child


def scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Every scalar below `node`, keys left out."""
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            yield from scalars(child)
    elif isinstance(node, yaml.MappingNode):
        for _, child in node.value:
            yield from scalars(child)
