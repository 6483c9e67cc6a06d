"""How every record of the tool is written: `@value`, a frozen dataclass with slots and keyword-only fields."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def value(cls: type[T]) -> type[T]:
    """Make `cls` a value: frozen, slotted, keyword-only, compared by its fields."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)


def replace(record: T, **changes: Any) -> T:  # noqa: ANN401 - the fields of any value
    """A copy of `record` with some fields changed."""
    change: Callable[..., T] = dataclasses.replace
    return change(record, **changes)


@value
class Problem:
    """One mistake in a file. `line` and `column` count from 1; 0 where the file as a whole is meant."""

    file: str
    line: int = 0
    column: int = 0
    message: str

    def __str__(self) -> str:
        """`file:line:column: message`, the form that editors and terminals turn into a link."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}"
