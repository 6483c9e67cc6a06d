"""What reaches the terminal: data on standard output, everything else on standard error, never an escape that others wrote."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from provisioner.errors import ProvisionerError, UsageError

if TYPE_CHECKING:
    import click

    from provisioner.report.answer import Answer

#: Control characters but tab and line feed, escape sequences first: what a log or a host says may not steer the terminal, nor
#: by marks of writing direction show one text as another.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]"
)

_LONGEST = 1000


def clean(text: str) -> str:
    """`text` without terminal escapes and control characters."""
    return _CONTROL.sub("", text)


def out(text: str) -> None:
    """Data: to standard output."""
    sys.stdout.write(clean(text))


def err(text: str) -> None:
    """A message: to standard error, with a line feed."""
    sys.stderr.write(clean(text) + "\n")


def emit(answer: Answer, text: str, *, as_json: bool) -> int:
    """Print an answer as JSON or as `text`, and return its exit code."""
    if as_json:
        sys.stdout.write(answer.json())  # JSON escapes control characters itself
    else:
        out(text)
    return answer.code


def _cut(text: str) -> str:
    """`text`, its lines no longer than a person reads: a message may quote a hostile file."""
    return "\n".join(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …" for line in text.split("\n"))


def fail(error: ProvisionerError, *, as_json: bool) -> int:
    """Print an error and return its exit code."""
    if as_json:
        from provisioner.report.answer import of_error

        sys.stdout.write(of_error(error).json())
        return error.exit
    err(_cut(f"provisioner: {error.message}"))
    if tail := getattr(error, "tail", ""):
        err("\n".join(f"  | {line}" for line in tail.splitlines()))
    if error.hint:
        err(_cut(f"  what to do: {error.hint}"))
    return error.exit


def usage(mistake: click.UsageError, *, as_json: bool) -> int:
    """A wrong command line: one sentence, and where help is."""
    path = mistake.ctx.command_path if mistake.ctx else "provisioner"
    return fail(UsageError(mistake.format_message(), hint=f"{path} --help"), as_json=as_json)


def bug(failure: Exception, *, as_json: bool) -> int:
    """Anything that is not a ProvisionerError is a bug: say so, keep the traceback in a file, print none."""
    kept = _keep_traceback(failure)
    where = f"the traceback is in {kept}" if kept else "set PROVISIONER_TRACEBACK=1 to see the traceback"
    if os.environ.get("PROVISIONER_TRACEBACK"):
        import traceback

        traceback.print_exception(failure)
    message = f"a bug in provisioner: {type(failure).__name__}: {failure}"
    return fail(ProvisionerError(message, hint=f"please report it; {where}"), as_json=as_json)


def _keep_traceback(failure: Exception) -> str | None:
    import traceback

    from provisioner.resources import state_folder

    try:
        folder = state_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / "last-bug.txt"
        path.write_text("".join(traceback.format_exception(failure)), encoding="utf-8")
    except OSError:
        return None
    return str(path)


def drop_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's last flush does not complain about a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def progress() -> bool:
    """Whether progress is worth printing: standard error is a terminal."""
    return sys.stderr.isatty()
