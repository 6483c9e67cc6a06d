"""Every error that the tool raises, and the exit code of each.

    ProvisionerError                        1   the tool could not do its work
    ├ UsageError                            2   the command line asks for something that is not there
    ├ DataError                             3   a file cannot be read or decoded; carries every mistake with its place
    │ ├ MatrixError
    │ ├ RequestError
    │ ├ SiteError
    │ ├ LockError
    │ ├ PlaybookError
    │ ├ InventoryError
    │ └ RecordingError
    ├ NoStackError                          4   no stack satisfies the request; carries the refusals
    ├ HostError                             5   a host could not be used; carries its name
    │ ├ ConnectError
    │ ├ HostKeyError
    │ ├ AuthError
    │ ├ CommandFailed
    │ └ CommandTimedOut
    └ EngineError                           6   the container engine could not do its work
      ├ EngineMissing
      └ BuildFailed

An exception means that the tool could not do its work; a bad answer is a value. The exit codes 7 (a fault was found) and 8 (the
question could not be answered) therefore belong to values, see `findings.EXIT`. Anything else that escapes is a bug, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.values import Problem


class ProvisionerError(Exception):
    """The root of the tree: `message` says what is wrong and where, `hint` what to do."""

    exit: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ProvisionerError):
    """The command line, or a call, asks for something that does not exist."""

    exit = 2


class DataError(ProvisionerError):
    """A file cannot be read or decoded. `problems` holds every mistake, each with file, line and column."""

    exit = 3

    def __init__(self, problems: Sequence[Problem], *, hint: str | None = None) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems), hint=hint)


class MatrixError(DataError):
    """compat_matrix.yaml, or an overlay on it, is wrong."""


class RequestError(DataError):
    """request.yaml is wrong."""


class SiteError(DataError):
    """site.yaml is wrong."""


class LockError(DataError):
    """stack.lock.yaml is wrong."""


class PlaybookError(DataError):
    """A playbook is wrong."""


class InventoryError(DataError):
    """hosts.yaml is wrong."""


class RecordingError(DataError):
    """A recording folder is wrong."""


class NoStackError(ProvisionerError):
    """No stack satisfies the request. `refusals` are `stack.lock.Refusal` values, the closest miss first."""

    exit = 4

    def __init__(self, message: str, refusals: Sequence[object], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refusals = tuple(refusals)


class HostError(ProvisionerError):
    """A host could not be used; `host` is the name by which the user called it."""

    exit = 5

    def __init__(self, host: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{host}: {message}", hint=hint)
        self.host = host


class ConnectError(HostError):
    """No connection: unknown name, refused, unreachable, cut."""


class HostKeyError(HostError):
    """The host key is unknown or has changed."""


class AuthError(HostError):
    """The host answers and refuses the key, the password or the user."""


class CommandFailed(HostError):  # noqa: N818 - the name of the design; it reads better at the raise
    """A command on the host ended with an exit code that is not zero. `tail` is the end of what it printed."""

    def __init__(self, host: str, message: str, *, tail: str = "", hint: str | None = None) -> None:
        super().__init__(host, message, hint=hint)
        self.tail = tail


class CommandTimedOut(HostError):  # noqa: N818 - see CommandFailed
    """A command on the host did not end in its time and was killed."""


class EngineError(ProvisionerError):
    """The container engine could not do its work."""

    exit = 6


class EngineMissing(EngineError):  # noqa: N818 - see CommandFailed
    """No container engine, or one without what is needed (BuildKit)."""


class BuildFailed(EngineError):  # noqa: N818 - see CommandFailed
    """A build ended in the middle. `tail` is the end of the build's output."""

    def __init__(self, message: str, *, tail: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.tail = tail
