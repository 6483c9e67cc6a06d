"""Commands on a host over SSH: fabric, one Connection a host, opened when it is first needed.

fabric's own client accepts any host key; here `hostkeys.HostKeys` judges every connection, those to jump hosts too.
"""

from __future__ import annotations

import contextlib
import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provisioner.commands import TIMEOUTS, Address
from provisioner.edges.failures import is_transient, translate
from provisioner.edges.hostkeys import HostKeys, Prints, read_fingerprints
from provisioner.edges.ssh_config import read_config
from provisioner.edges.supervised import SupervisedRunner
from provisioner.errors import AuthError, ConnectError
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabric import Connection
    from paramiko import Channel

_TRIES = 3
_CHUNK = 65536
_KEEPALIVE = 15  # seconds; a router that forgets idle connections waits longer
_SSH_PORT = 22
_DEPTH = 8  # jump hosts behind each other


@value
class SshOptions:
    """What the command line says about SSH. None: as OpenSSH would find it. See `hostkeys` for what is trusted.

    `said` gets one sentence for each host key that is recorded.
    """

    config: Path | None = None
    known_hosts: Path | None = None
    accept_new_host_keys: bool = False
    fingerprints: Path | None = None
    said: Callable[[str], None] | None = None


class SshRunner(SupervisedRunner):
    """The Runner of one host over SSH. `accepted` tells of each host key that was new and is now trusted."""

    def __init__(self, host: str, address: Address, options: SshOptions | None = None) -> None:
        """Run on `address`, which the user calls `host`. Nothing is opened and no file is read before the first command."""
        super().__init__(host)
        self._address = address
        self._options = options or SshOptions()
        self._connection: Connection | None = None
        self._judges: list[HostKeys] = []
        self._lock = threading.Lock()

    @property
    def accepted(self) -> tuple[str, ...]:
        """One sentence for each host key that was accepted."""
        return tuple(judge.accepted for judge in self._judges if judge.accepted)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        while connection is not None and not isinstance(connection, str):
            gateway = connection.gateway
            with contextlib.suppress(Exception):  # it is given up anyway
                connection.client.close()
            connection = gateway or None

    def _open(self, text: str) -> _Session:
        channel = self._channel()
        try:
            channel.exec_command(text)
        except Exception as failure:
            self._disconnect()
            raise translate(self.host, failure) from failure
        return _Session(self.host, channel)

    def _channel(self) -> Channel:
        """A channel that nothing runs in yet. A kept connection may have died while nobody used it: then a new one is made."""
        kept = self._connection
        connection = self._connected()
        try:
            channel: Channel = connection.create_session()
        except Exception as failure:
            self._disconnect()
            if connection is not kept:
                raise translate(self.host, failure) from failure
            return self._channel()
        return channel

    def _connected(self) -> Connection:
        with self._lock:
            if self._connection is not None and self._connection.is_connected:
                return self._connection
            for attempt in range(1, _TRIES + 1):
                self._disconnect()
                try:
                    self._connection = self._build(self._address, depth=0)
                    self._connection.open()
                    self._connection.transport.set_keepalive(_KEEPALIVE)
                except Exception as failure:
                    error = self._explain(failure)
                    self._disconnect()
                    if attempt == _TRIES or not is_transient(failure):
                        raise error from failure
                    time.sleep(0.3 * attempt * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, so that a fleet does not knock in step
                else:
                    break
            return self._connection

    def _build(self, address: Address, *, depth: int, gateway: Connection | None = None) -> Connection:
        """The connection to `address`, not yet open, through `gateway` or what the configuration says."""
        import fabric

        logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its threads log tracebacks of what we report in one sentence
        config = read_config(self._options.config)
        said = config.lookup(address.host)
        if depth > _DEPTH:
            raise ConnectError(
                self.host, f"more than {_DEPTH} jump hosts behind each other", hint="look for a circle in ProxyJump"
            )
        way = gateway or self._gateway(address, said, depth)
        keys = [str(Path(address.key).expanduser())] if address.key else []
        if keys and not Path(keys[0]).is_file():
            raise AuthError(self.host, f"there is no key file {keys[0]}")
        connection = fabric.Connection(
            address.host,
            user=address.user,
            port=address.port,
            config=fabric.Config(ssh_config=config, lazy=True),
            gateway=way if way is not None else False,
            forward_agent=False,
            connect_timeout=int(TIMEOUTS["connect"]),
            connect_kwargs={
                "key_filename": keys,
                "look_for_keys": not keys,
                "allow_agent": said.get("identitiesonly", "no") != "yes",
            },
        )
        judge = self._judge(connection, said, _called(address, self.host if depth == 0 else None))
        arguments = connection.connect_kwargs
        # OpenSSH passes over IdentityFiles that are not there, paramiko falls over them
        arguments["key_filename"] = [name for name in arguments.get("key_filename", []) if Path(name).is_file()]
        arguments.update(transport_factory=judge.transport, banner_timeout=TIMEOUTS["connect"], auth_timeout=TIMEOUTS["connect"])
        connection.client.set_missing_host_key_policy(judge)
        return connection

    def _gateway(self, address: Address, said: Any, depth: int) -> Connection | str | None:  # noqa: ANN401 - paramiko's SSHConfigDict
        jump = address.jump or said.get("proxyjump", "none")
        if jump == "none":
            return said.get("proxycommand") if said.get("proxycommand") != "none" else None
        way: Connection | None = None
        for hop in jump.split(","):
            way = self._build(Address.parse(hop.strip()), depth=depth + 1, gateway=way)
        return way

    def _judge(self, connection: Connection, said: Any, called: Sequence[str]) -> HostKeys:  # noqa: ANN401 - see _gateway
        """The judge of a connection; `called` is how the user calls the host."""
        options = self._options
        name = said.get("hostkeyalias") or connection.host
        if connection.port != _SSH_PORT and not said.get("hostkeyalias"):
            name = f"[{name}]:{connection.port}"
        users = _paths(said.get("userknownhostsfile"), ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"])
        systems = _paths(said.get("globalknownhostsfile"), ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"])
        judge = HostKeys(
            self.host,
            name,
            files=[options.known_hosts] if options.known_hosts else [*users, *systems],
            accept=options.accept_new_host_keys,
            prints=self._prints([name, connection.host, *called]),
            said=options.said,
        )
        self._judges.append(judge)
        return judge

    def _prints(self, names: Sequence[str]) -> Prints | None:
        file = self._options.fingerprints
        return Prints(file=file, lines=read_fingerprints(file), names=tuple(dict.fromkeys(names))) if file else None

    def _explain(self, failure: Exception) -> Exception:
        """Our error for `failure`, with what the user can do about the key where that is the trouble."""
        error = translate(self.host, failure)
        if not isinstance(error, AuthError) or self._connection is None:
            return error
        names = self._connection.connect_kwargs.get("key_filename") or [
            str(path) for path in sorted(Path.home().glob(".ssh/id_*")) if path.suffix != ".pub"
        ]
        if not names and not (self._connection.connect_kwargs.get("allow_agent") and _agent_has_keys()):
            where = f"{self._connection.user}@{self._connection.host}"
            port = f"-p {self._connection.port} " if self._connection.port != _SSH_PORT else ""
            return AuthError(
                self.host,
                "no private key found here (looked in the agent, ~/.ssh/id_*, IdentityFile)",
                hint=f"make one: ssh-keygen -t ed25519, then ssh-copy-id {port}{where}",
            )
        locked = [name for name in names if _locked(name)]
        if locked:
            hint = f"the key {locked[0]} has a passphrase: unlock it once with `ssh-add {locked[0]}`"
        else:
            user = self._connection.user
            hint = f"is one of these keys in ~{user}/.ssh/authorized_keys there? {', '.join(names) or 'those of the agent'}"
        return AuthError(self.host, error.message.removeprefix(f"{self.host}: "), hint=hint)


def _called(address: Address, typed: str | None) -> tuple[str, ...]:
    """What a list of fingerprints may call an address; `typed` is the user's name for it, None for a jump host."""
    full = str(address)
    return (*([typed] if typed else []), full, full.rpartition("@")[2], address.host)


def _paths(said: str | None, otherwise: Sequence[str]) -> list[Path]:
    names = said.split() if said and said != "none" else otherwise
    return [Path(name).expanduser() for name in names]


def _agent_has_keys() -> bool:
    import paramiko

    agent = paramiko.Agent()
    try:
        return bool(agent.get_keys())
    except Exception:  # noqa: BLE001 - only asked for a hint; an agent that does not answer has none
        return False
    finally:
        agent.close()


def _locked(name: str) -> bool:
    import paramiko

    try:
        paramiko.PKey.from_path(name)
    except paramiko.PasswordRequiredException:
        return True
    except Exception as failure:  # noqa: BLE001 - only asked for a hint; paramiko has many ways to refuse a key file
        return any(word in str(failure).lower() for word in ("passphrase", "password", "encrypted"))
    return False


class _Session:
    """A Session in a channel."""

    def __init__(self, host: str, channel: Channel) -> None:
        self._host = host
        self._channel = channel
        channel.settimeout(0)
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)

    def send(self, data: memoryview) -> int:
        try:
            return self._channel.send(bytes(data[:_CHUNK]))
        except TimeoutError:  # no room in the window
            return 0

    def close_input(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._channel.shutdown_write()

    def receive(self, seconds: float, *, writing: bool) -> list[tuple[bool, bytes]] | None:
        # the window opens without a sign that could be waited for
        self._poll.poll(min(seconds, 0.005) * 1000 if writing else seconds * 1000)
        channel = self._channel
        pieces = []
        with contextlib.suppress(TimeoutError):
            if channel.recv_ready():
                pieces.append((False, channel.recv(_CHUNK)))
            if channel.recv_stderr_ready():
                pieces.append((True, channel.recv_stderr(_CHUNK)))
        if not pieces and (channel.eof_received or channel.closed):
            time.sleep(min(seconds, 0.005))  # its end stays readable; wait for the exit code without turning
            return None
        return pieces

    def exit(self) -> int | None:
        if not self._channel.exit_status_ready():
            return None
        code = self._channel.recv_exit_status()
        if code < 0:
            raise ConnectError(
                self._host,
                "the connection was cut while a command ran; the host ends the command by itself",
                hint="look at the host's network and its sshd, then run this again",
            )
        return code

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, socket.error):
            self._channel.close()
