"""What is run, where it is run, and how long it may take: the only thing that the core knows about hosts.

A runner runs one command and returns what it did. `edges/local.py` and `edges/ssh.py` are the real ones, `ReplayRunner`
(`hosts/recording.py`) answers from a recording. Nothing else in the core touches a machine.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Protocol

from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Every time-out of the tool in seconds, named and explained, in one place.
TIMEOUTS: Mapping[str, float] = {
    "connect": 15,  # TCP and SSH handshake; three tries with jitter on top
    "probe": 60,  # the whole probe script; each section has its own, shorter deadline inside it
    "section": 10,  # one command of the probe; a hung nvidia-smi never answers
    "quick": 30,  # docker version, inspect, rm
    "build": 7200,  # an image; a devel build compiles for an hour
    "push": 3600,  # an image of several GB over a slow line
    "smoke": 600,  # a container that imports a framework from a cold disk and multiplies matrices
    "index": 60,  # one request to a package index or a registry
    "lock": 900,  # uv resolving; the first time it reads the metadata of every candidate
    "download": 3600,  # one wheel or image layer
}


@value
class Command:
    """One program with its arguments. Never a shell string: what needs a shell is `("sh", "-c", SCRIPT, "sh", ARG...)`.

    `stdin` is fed whole. `timeout` in seconds, see TIMEOUTS. `as_root`: the runner prefixes sudo where it is not root. `secrets`
    are texts that the runner replaces by `***` in everything it returns, logs or raises.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    timeout: float = 30.0
    as_root: bool = False
    secrets: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The command as a user would type it, its secrets replaced."""
        return hide(shlex.join(self.argv), self.secrets)


@value
class Completed:
    """What a command did. `exit` is its code, as a shell says it: 128+N when signal N ended it, 127: no such program.

    The texts are UTF-8 with replacement characters. `seconds` includes the way to the host and back.
    """

    exit: int
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it ended with 0."""
        return self.exit == 0


_ADDRESS = re.compile(
    r"(?:(?P<user>[^@\s:]+)@)?(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<bare>[0-9A-Fa-f]*(?::[0-9A-Fa-f.]*){2,}(?:%[\w.-]+)?)|(?P<name>[\w.-]+))"
    r"(?::(?P<port>\d{1,5}))?"
)


@value
class Address:
    """Where SSH goes. What is None is for ~/.ssh/config or its defaults to say; `key` is a file, `jump` another address text."""

    host: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `[user@]host[:port]`; an IPv6 address with a port stands in brackets. ValueError with a sentence otherwise."""
        match = _ADDRESS.fullmatch(text)
        port = int(match["port"]) if match and match["port"] else None
        host = match and (match["v6"] or match["bare"] or match["name"])
        if not match or not host or host.startswith("-") or (match["user"] or "").startswith("-") or port not in _PORTS:
            message = f"{text!r} is not an address such as root@gpu01, root@10.0.0.7:2222 or root@[fd00::7]:2222"
            raise ValueError(message)
        return cls(host=host, user=match["user"], port=port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port else self.host
        return f"{self.user}@" * (self.user is not None) + host + f":{self.port}" * (self.port is not None)


_PORTS = frozenset({None, *range(1, 65536)})


class Runner(Protocol):
    """Where commands run. `host` is the name by which the user called it (`local`, `root@127.0.0.2:2222`, `gpu01`)."""

    @property
    def host(self) -> str:
        """The name of the host, for messages."""
        ...

    def run(self, command: Command, *, tell: Callable[[str], None] | None = None) -> Completed:
        """Run `command` to its end; `tell` gets each line of its output as it appears.

        A code that is not zero is a value. ConnectError, HostKeyError, AuthError and CommandTimedOut are raised; after a
        time-out, a cut or an interrupt the command and all its children are gone from the host.
        """
        ...

    def close(self) -> None:
        """End the connection, and what runs over it in another thread, on the host too; its `run` raises HostError then.

        Running again after that connects again.
        """
        ...


def hide(text: str, secrets: tuple[str, ...]) -> str:
    """`text` with each of `secrets` replaced by ***; the longest first, so that no rest of one remains."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
