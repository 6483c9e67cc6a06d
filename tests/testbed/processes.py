"""Starting programs so that nothing of them is left, also when the test run is killed.

`setpriv --pdeathsig` ends the program with the test run. A contained program is the first process of its own process
and mount namespaces: the kernel ends all that it started and unmounts all that it mounted when it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.testbed.folders import ENVIRONMENT
from tests.testbed.require import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0


def program(name: str, package: str, path: str | None = None) -> str:
    """The path of a program, /usr/sbin included; missing, it says which Debian package brings it."""
    found = shutil.which(name, path=f"{path or ENVIRONMENT.get('PATH', '')}:{_SYSTEM_PATH}")
    if found is None:
        raise MissingPartError(f"no {name} here: apt-get install {package}")
    return found


def attempt(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 600, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, however it ends."""
    return subprocess.run(argv, env=env or ENVIRONMENT, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)


def run(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 600, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; a failure raises with what it printed."""
    done = attempt(argv, env=env, timeout=timeout, stdin=stdin)
    if done.returncode:
        printed = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}".rstrip()
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}\n{printed}")
    return done


def contained(argv: Sequence[str]) -> list[str]:
    """The argv that runs a program in process and mount namespaces of its own."""
    flags = ["--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [program("unshare", "util-linux"), *flags, "--", *argv]


def free_port(*addresses: str) -> int:
    """A TCP port that is free on all the addresses (127.0.0.1 when none is named)."""
    for _ in range(50):
        with contextlib.ExitStack() as sockets:
            port = 0
            try:
                for address in addresses or ("127.0.0.1",):
                    listener = sockets.enter_context(socket.socket())
                    listener.bind((address, port))
                    port = listener.getsockname()[1]
            except OSError:
                continue
            return int(port)
    raise RuntimeError(f"no TCP port is free on all of {', '.join(addresses)}")


def answers(address: str, port: int) -> bool:
    """Whether something accepts connections there."""
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """The processes below a pid, the deepest last."""
    try:
        text = " ".join(path.read_text() for path in Path("/proc", str(pid), "task").glob("*/children"))
    except OSError:
        return []
    return [pid_ for child in map(int, text.split()) for pid_ in (child, *descendants(child))]


class Daemon:
    """One program that runs until it is stopped, its output in a log file."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        contain: bool = False,
        grace: float = 10,
    ) -> None:
        """Start it; containing needs root. `grace` is the seconds it gets to end by itself."""
        self.name = Path(argv[0]).name
        self.log = log
        self._contained = contain
        self._grace = grace
        dying = [program("setpriv", "util-linux"), "--pdeathsig", "KILL", "--"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*dying, *(contained(argv) if contain else argv)],
                env=env or ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def until(self, ready: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until it is ready; when it ends before or takes too long, show the end of its log."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                ended = self._process.poll()
                how = f"is not ready after {seconds:.0f} s" if ended is None else f"ended with {ended}"
                self.stop()
                raise RuntimeError(f"{self.name} {how}:\n{self.log.read_text(errors='replace')[-4000:]}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End it and all that it started: first with SIGTERM, then with SIGKILL."""
        family = descendants(self.pid)
        # `unshare` does not pass signals on: the program itself is its one child.
        for pid in family[:1] if self._contained else [self.pid]:
            _signal(pid, signal.SIGTERM)
        try:
            self._process.wait(self._grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        kill(family)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def alive(pid: int) -> bool:
    """Whether the process is there and has not ended: one that nobody waited for yet has."""
    try:
        state = Path("/proc", str(pid), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def kill(pids: Sequence[int]) -> None:
    """End processes at once, and wait until they have ended."""
    for pid in pids:
        _signal(pid, signal.SIGKILL)
    deadline = time.monotonic() + _KILL_SECONDS
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def running(daemon: Daemon) -> Iterator[Daemon]:
    """Stop the daemon at the end of the block."""
    try:
        yield daemon
    finally:
        daemon.stop()
