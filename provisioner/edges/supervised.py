"""What running a command means, here and over SSH alike: feeding, following, giving up. The host's side is supervisor.py."""

from __future__ import annotations

import codecs
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from provisioner.commands import TIMEOUTS, Command, Completed, hide
from provisioner.edges.supervisor import GRACE, boot
from provisioner.errors import AuthError, CommandFailed, CommandTimedOut, HostError, ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds without output after which a command that has ended is not listened to any more: something it left holds its output.
_QUIET = 0.5
#: Seconds that the host has to end a command that was given up; a process that waits for a dead driver never ends.
_PATIENCE = GRACE + 4
_LONGEST = 160  # characters of a command in a message
_TAIL = 5  # lines
_WIDEST = 300  # characters of such a line
#: The most that one command may print, in bytes. The longest build prints a few MB; more is a program that has lost its mind,
#: and it is ended before it fills the memory here.
MOST_OUTPUT = 100_000_000


class Session(Protocol):
    """One shell text that runs somewhere. Nothing in it blocks for longer than it is told."""

    def send(self, data: memoryview) -> int:
        """Send what can be sent now; the number of bytes taken. OSError when nobody reads any more."""
        ...

    def close_input(self) -> None:
        """Let the other side see the end of its input."""
        ...

    def receive(self, seconds: float, *, writing: bool) -> list[tuple[bool, bytes]] | None:
        """Output that came within `seconds`, as (whether it is standard error, bytes); None when both streams are at their end.

        `writing`: come back as soon as more can be sent.
        """
        ...

    def exit(self) -> int | None:
        """The exit code, None while it runs. ConnectError when it will never be known."""
        ...

    def close(self) -> None:
        """Give it up, whatever its state."""
        ...


class SupervisedRunner(ABC):
    """A Runner (`provisioner.commands`) over sessions. `host` is the name by which the user called it."""

    def __init__(self, host: str) -> None:
        """Run on what the user calls `host`."""
        self.host = host
        self._root: bool | None = None  # whether it is root already, asked once
        self._cancelled = threading.Event()

    @abstractmethod
    def _open(self, text: str) -> Session:
        """Start a shell with `text`."""

    @abstractmethod
    def _disconnect(self) -> None:
        """End the connection; running again connects again."""

    def close(self) -> None:
        """End the connection and what runs over it, see `provisioner.commands.Runner`."""
        self._cancelled.set()
        self._disconnect()

    def run(self, command: Command, *, tell: Callable[[str], None] | None = None) -> Completed:
        """Run `command` to its end, see `provisioner.commands.Runner`. AuthError when it needs root and sudo wants a password."""
        sudo = command.as_root and not self._is_root()
        text, program = boot(command.argv, len(command.stdin), command.timeout, sudo=sudo)
        output = _Output(command, tell)
        started = time.monotonic()
        self._cancelled.clear()
        session = self._open(text)
        code = None
        try:
            code = _follow(session, output, command.timeout, memoryview(program + command.stdin), self._cancelled)
        finally:
            if code is None:  # too late, an interrupt, or what `tell` raises: nothing may go on running there
                with contextlib.suppress(ProvisionerError, OSError):
                    _give_up(session)
            session.close()
        output.flush()
        if code is None and self._cancelled.is_set():
            raise HostError(self.host, f"`{shorten(command)}` was cancelled and ended")
        if code is None and output.full:
            raise CommandFailed(
                self.host,
                f"`{shorten(command)}` printed more than {MOST_OUTPUT // 1_000_000} MB and was ended",
                hint=f"a program on the host does not stop printing; the last was: {output.tail()}",
            )
        if code is None:
            raise self._timed_out(command, output)
        return Completed(exit=code, stdout=output.text(0), stderr=output.text(1), seconds=time.monotonic() - started)

    def _is_root(self) -> bool:
        if self._root is None:
            asked = self.run(Command(argv=("sh", "-c", "id -u; sudo -n true"), timeout=TIMEOUTS["quick"]))
            self._root = asked.stdout.split()[:1] == ["0"]
            if not self._root and not asked.ok:
                why = asked.stderr.strip().splitlines()[-1:] or ["sudo refused"]
                self._root = None
                raise AuthError(
                    self.host, f"root is needed, and sudo says: {why[0]}", hint="log in as root, or allow sudo without a password"
                )
        return self._root

    def _timed_out(self, command: Command, output: _Output) -> CommandTimedOut:
        tail = output.tail()
        return CommandTimedOut(
            self.host,
            f"`{shorten(command)}` did not end within {command.timeout:g} s and was ended",
            hint=f"the last that it printed: {tail}" if tail else "it printed nothing",
        )


def shorten(command: Command) -> str:
    """The command for a message: its first line, not longer than a terminal or two."""
    first, _, rest = str(command).partition("\n")
    return first if len(first) <= _LONGEST and not rest else first[:_LONGEST] + " …"


def _give_up(session: Session) -> None:
    """Let the host end it, and wait until it has."""
    session.close_input()
    if session.exit() is None:
        _follow(session, None, _PATIENCE, memoryview(b""))


def _follow(
    session: Session, output: _Output | None, seconds: float, data: memoryview, cancelled: threading.Event | None = None
) -> int | None:
    """Feed and read until the end; the exit code, or None when the time is over or somebody has cancelled it."""
    now = time.monotonic()
    deadline, heard = now + seconds, now
    ended = False
    while now < deadline and not (cancelled and cancelled.is_set()):
        if data:
            try:
                data = data[session.send(data) :]
            except OSError:  # it has ended, or reads no more
                data = memoryview(b"")
        code = session.exit()
        if code is not None and (ended or now - heard > _QUIET):
            return code
        pieces = session.receive(min(0.1, deadline - now) if not ended else 0.01, writing=bool(data))
        ended = pieces is None
        now = time.monotonic()
        if pieces:
            heard = now
            for is_error, piece in pieces:
                if output:
                    output.feed(is_error, piece)
            if output and output.full:
                return None
        elif code is None:
            heard = now
    return None


class _Output:
    """The two streams as they come in: decoded, told line by line, kept."""

    def __init__(self, command: Command, tell: Callable[[str], None] | None) -> None:
        self._secrets = command.secrets
        self._tell = tell
        self._kept: tuple[list[str], list[str]] = ([], [])
        self._size = 0
        self._partial = ["", ""]
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]

    def feed(self, stream: int, piece: bytes, *, final: bool = False) -> None:
        """Take a piece of a stream (0 output, 1 errors)."""
        self._size += len(piece)
        text = self._decoders[stream].decode(piece, final)
        self._kept[stream].append(text)
        if self._tell is None:
            return
        *lines, self._partial[stream] = (self._partial[stream] + text).split("\n")
        if final and self._partial[stream]:
            lines.append(self._partial[stream])
        for line in lines:
            self._tell(hide(line.rstrip("\r"), self._secrets))

    @property
    def full(self) -> bool:
        """Whether it was more than any command prints."""
        return self._size > MOST_OUTPUT

    def flush(self) -> None:
        """Tell the rests without a newline."""
        for stream in range(2):
            self.feed(stream, b"", final=True)

    def text(self, stream: int) -> str:
        """All of a stream so far."""
        return hide("".join(self._kept[stream]), self._secrets)

    def tail(self) -> str:
        """The last lines of the errors, else of the output."""
        lines = (self.text(1).strip() or self.text(0).strip()).splitlines()[-_TAIL:]
        return " | ".join(line[:_WIDEST] for line in lines)
