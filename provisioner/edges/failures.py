"""What paramiko, invoke and the sockets raise, in the words of our own tree of errors."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from provisioner.commands import TIMEOUTS
from provisioner.errors import (
    AuthError,
    CommandFailed,
    CommandTimedOut,
    ConnectError,
    HostError,
    HostKeyError,
    InventoryError,
    ProvisionerError,
)
from provisioner.values import Problem

if TYPE_CHECKING:
    from paramiko import SSHException

_NO_SERVER = "does an SSH server answer on this port, or something else?"
#: Words in paramiko's plain SSHException that mean a key file or the lack of one, not the network.
_ABOUT_KEYS = ("no authentication methods", "private key", "key file", "passphrase", "not a valid", "unable to authenticate")


def translate(host: str, failure: BaseException) -> ProvisionerError:
    """The error of ours that says what `failure` means for `host`."""
    import invoke.exceptions
    import paramiko

    if isinstance(failure, ProvisionerError):
        return failure
    if isinstance(failure, invoke.exceptions.Failure | invoke.exceptions.WatcherError | invoke.exceptions.ThreadException):
        return _of_invoke(host, failure)
    if isinstance(failure, paramiko.SSHException):
        return _of_paramiko(host, failure)
    if isinstance(failure, OSError | EOFError):
        return _of_socket(host, failure)
    return HostError(host, f"{type(failure).__name__}: {_sentence(failure)}")


def is_transient(failure: BaseException) -> bool:
    """Whether a second try may go better: refused, reset, cut in the handshake; not silence, an unknown name or a refused key."""
    import paramiko

    if isinstance(failure, ProvisionerError | paramiko.AuthenticationException | paramiko.BadHostKeyException | TimeoutError):
        return False
    if isinstance(failure, socket.gaierror):
        return failure.errno == socket.EAI_AGAIN
    if isinstance(failure, paramiko.ssh_exception.NoValidConnectionsError):
        return True
    if isinstance(failure, paramiko.SSHException):
        return not _is_mute(failure) and any(word in str(failure).lower() for word in ("banner", "eof"))
    return isinstance(failure, ConnectionError | EOFError)


def _of_paramiko(host: str, failure: SSHException) -> ProvisionerError:
    import paramiko

    text = _sentence(failure)
    error: ProvisionerError
    if isinstance(failure, paramiko.ConfigParseError):
        error = InventoryError([Problem(file="ssh_config", message=text)], hint="name another file with --ssh-config FILE")
    elif isinstance(failure, paramiko.BadHostKeyException):
        error = HostKeyError(
            host, f"its host key has CHANGED: {text}", hint="compare it on the host's console before anything else"
        )
    elif isinstance(failure, paramiko.PasswordRequiredException):
        error = AuthError(host, "the private key has a passphrase", hint="unlock it once with ssh-add")
    elif isinstance(failure, paramiko.AuthenticationException):
        error = AuthError(host, f"it refuses us: {text}")
    elif any(word in text.lower() for word in _ABOUT_KEYS):
        error = AuthError(host, f"no key that it could accept: {text}")
    else:
        silent = "banner" in text or text == "No existing session"
        why = f"no answer in {TIMEOUTS['connect']:g} s" if _is_mute(failure) else text
        error = ConnectError(host, f"no SSH handshake ({why})" if silent else text, hint=_NO_SERVER if silent else None)
    return error


def _is_mute(failure: BaseException) -> bool:
    """Whether the port is open and nothing is said on it.

    paramiko tells it as a banner that it cannot read, or, where its own wait for the handshake ends first, as no session.
    """
    return str(failure) == "No existing session" or ("banner" in str(failure) and isinstance(failure.__context__, TimeoutError))


def _of_invoke(host: str, failure: BaseException) -> HostError:
    import invoke.exceptions

    if isinstance(failure, invoke.exceptions.AuthFailure | invoke.exceptions.ResponseNotAccepted):
        return AuthError(host, "sudo does not accept the password")
    if isinstance(failure, invoke.exceptions.CommandTimedOut):
        return CommandTimedOut(host, f"a command did not end within {failure.timeout} s")
    if isinstance(failure, invoke.exceptions.ThreadException):
        return ConnectError(host, "the connection was cut while a command ran")
    if isinstance(failure, invoke.exceptions.Failure) and failure.result is not None:
        return CommandFailed(host, f"a command ended with {failure.result.exited}", tail=failure.result.stderr)
    return CommandFailed(host, "a command failed")


def _of_socket(host: str, failure: BaseException) -> HostError:
    import paramiko

    if isinstance(failure, socket.gaierror):
        return ConnectError(
            host,
            f"its name is unknown ({failure.strerror})",
            hint="is it spelled right? hosts.yaml or ~/.ssh/config may give its address",
        )
    if isinstance(failure, TimeoutError):
        return ConnectError(host, f"no answer in {TIMEOUTS['connect']:g} s", hint="is it up, and is its SSH port open from here?")
    if isinstance(failure, paramiko.ssh_exception.NoValidConnectionsError):
        reasons = sorted({_sentence(reason) for reason in failure.errors.values()})
        return ConnectError(host, f"{_sentence(failure)}: {', '.join(reasons)}", hint="is it up, and is this its SSH port?")
    if isinstance(failure, EOFError):
        return ConnectError(host, "it closed the connection")
    return ConnectError(host, _sentence(failure))


def _sentence(failure: BaseException) -> str:
    text = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
    return " ".join(str(text).split()).rstrip(".")
