"""How every record of the tool is written: `@value`, a frozen dataclass with slots and keyword-only fields."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def value(cls: type[T]) -> type[T]:
    """Make `cls` a value: frozen, slotted, keyword-only, compared by its fields.

    It is a dataclass in every respect (`fields`, `replace`, `is_dataclass`), but its methods are not compiled when the class is
    made: `dataclass` compiles six for each class, which was half of the time that `resolve` takes. Here five are shared by all
    values, and `__init__` is compiled when the first one of its class is made.
    """
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(cls)
    methods = {"__init__": _first_init, "__repr__": _repr, "__eq__": _eq, "__hash__": _hash}
    for name, method in {**methods, "__setattr__": _refuse, "__delattr__": _refuse}.items():
        if name not in cls.__dict__ or name in {"__setattr__", "__delattr__"} or cls.__dict__[name] is None:
            setattr(made, name, method)
    return made


def replace(record: T, **changes: Any) -> T:  # noqa: ANN401 - the fields of any value
    """A copy of `record` with some fields changed."""
    change: Callable[..., T] = dataclasses.replace
    return change(record, **changes)


def _first_init(self: Any, /, **given: Any) -> None:  # noqa: ANN401 - any value
    """Compile the `__init__` of this class, and go on with it."""
    cls = next(base for base in type(self).__mro__ if base.__dict__.get("__init__") is _first_init)
    compiled = _compiled_init(cls)
    cls.__init__ = compiled  # type: ignore[misc]  # that is what it is for
    compiled(self, **given)


def _compiled_init(cls: type[Any]) -> Callable[..., None]:
    """`__init__(self, *, name, name=default, …)` of the fields of `cls`, as `dataclass` would write it."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_unset": object()}
    arguments, lines = [], []
    for entry in dataclasses.fields(cls):
        name = entry.name
        if entry.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = entry.default_factory
            arguments.append(f"{name}=_unset")
            lines.append(f"_set(self, {name!r}, _make_{name}() if {name} is _unset else {name})")
            continue
        if entry.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = entry.default
            arguments.append(f"{name}=_default_{name}")
        else:
            arguments.append(name)
        lines.append(f"_set(self, {name!r}, {name})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    head = f"def __init__(self{', *, ' if arguments else ''}{', '.join(arguments)}):\n"
    exec(head + "".join(f"    {line}\n" for line in lines or ["pass"]), names)  # noqa: S102 - field names of our own classes
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _entries(record: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any value
    return tuple(getattr(record, name) for name in record.__dataclass_fields__)


def _repr(self: Any) -> str:  # noqa: ANN401 - any value
    inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({inner})"


def _eq(self: Any, other: object) -> bool:  # noqa: ANN401 - any value
    if self is other:
        return True
    names: Iterable[str] = self.__dataclass_fields__
    return all(getattr(self, name) == getattr(other, name) for name in names) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:  # noqa: ANN401 - any value
    return hash(_entries(self))


def _refuse(self: Any, name: str, *_: object) -> None:  # noqa: ANN401 - any value
    raise dataclasses.FrozenInstanceError(f"a {type(self).__name__} does not change: {name}")


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
