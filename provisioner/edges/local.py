"""Commands on this machine, in the same harness as over SSH: also when the tool is killed, nothing of them goes on."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from typing import TYPE_CHECKING

from provisioner.edges.supervised import SupervisedRunner
from provisioner.errors import ConnectError

if TYPE_CHECKING:
    from typing import IO

_CHUNK = 65536


class LocalRunner(SupervisedRunner):
    """The Runner of this machine; as root by `sudo -n` where it is not root."""

    def __init__(self, host: str = "local") -> None:
        """Run here."""
        super().__init__(host)

    def _disconnect(self) -> None:
        """Nothing is kept open."""

    def _open(self, text: str) -> _Process:
        try:
            return _Process(text)
        except OSError as failure:
            raise ConnectError(self.host, f"cannot start sh: {failure.strerror}") from failure


class _Process:
    """A Session in a process and group of its own."""

    def __init__(self, text: str) -> None:
        self._process = subprocess.Popen(
            ("/bin/sh", "-c", text),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # an interrupt at the terminal reaches us, and we end it in order
        )
        self._input = _there(self._process.stdin)
        self._streams = {_there(self._process.stdout).fileno(): False, _there(self._process.stderr).fileno(): True}
        os.set_blocking(self._input.fileno(), False)

    def send(self, data: memoryview) -> int:
        if self._input.closed:
            raise BrokenPipeError
        try:
            return os.write(self._input.fileno(), data[:_CHUNK])
        except BlockingIOError:
            return 0

    def close_input(self) -> None:
        with contextlib.suppress(OSError):
            self._input.close()

    def receive(self, seconds: float, *, writing: bool) -> list[tuple[bool, bytes]] | None:
        writers = [self._input.fileno()] if writing and not self._input.closed else []
        if not self._streams:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return None
        readable, _, _ = select.select(list(self._streams), writers, [], seconds)
        pieces = []
        for number in readable:
            piece = os.read(number, _CHUNK)
            if piece:
                pieces.append((self._streams[number], piece))
            else:
                del self._streams[number]
        return pieces if self._streams or pieces else None

    def exit(self) -> int | None:
        return self._process.poll()

    def close(self) -> None:
        self.close_input()
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # under sudo it is root's, and ends by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        for stream in (self._process.stdout, self._process.stderr):
            _there(stream).close()


def _there(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:  # only without PIPE
        raise RuntimeError("a stream of the process was not opened")
    return stream
