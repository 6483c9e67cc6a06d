"""Whether a real part must be there: a missing one is a skip that says why, or a failure where CI says that it must."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NoReturn

import pytest

from tests.testbed.folders import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE: Final = "PROVISIONER_REQUIRE"

# What `python -m tests.testbed` fetches, required or not.
_asked_for: Final[set[str]] = set()


class MissingPartError(Exception):
    """A real part cannot be had on this machine; the message says what is missing and what would bring it."""


def required() -> frozenset[str]:
    """The parts that PROVISIONER_REQUIRE names, as `docker,sshd`."""
    return frozenset(name.strip() for name in ENVIRONMENT.get(VARIABLE, "").split(",") if name.strip())


def may_fetch(part: str) -> bool:
    """Whether the part's files may be downloaded: only where it was asked for, never on a user's machine unasked."""
    return part in required() or part in _asked_for


def allow_fetch(part: str) -> None:
    """Let the part's files be downloaded in this process."""
    _asked_for.add(part)


def missing(part: str, why: str) -> NoReturn:
    """Skip the test, or fail it where the part is required."""
    if part in required():
        pytest.fail(f"{part} is named in {VARIABLE}, and is missing: {why}", pytrace=False)
    pytest.skip(f"{part}: {why}")


@contextlib.contextmanager
def need(part: str) -> Iterator[None]:
    """Around what starts a part: a MissingPartError becomes the skip or the failure."""
    try:
        yield
    except MissingPartError as error:
        missing(part, str(error))
