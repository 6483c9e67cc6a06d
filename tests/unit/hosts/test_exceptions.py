"""Everything that paramiko, invoke and the sockets may raise has a place in our tree of errors."""

from __future__ import annotations

import inspect
import socket
from typing import Any

import invoke.exceptions
import invoke.runners
import paramiko
import pytest
from paramiko import ssh_exception

from provisioner import errors
from provisioner.edges.failures import is_transient, translate

_SAMPLES: dict[type[BaseException], BaseException] = {
    paramiko.BadAuthenticationType: paramiko.BadAuthenticationType("Bad authentication type", ["publickey"]),
    ssh_exception.PartialAuthentication: ssh_exception.PartialAuthentication(["password"]),
    paramiko.ChannelException: paramiko.ChannelException(2, "Connect failed"),
    paramiko.ProxyCommandFailure: paramiko.ProxyCommandFailure("nc gpu01 22", "nc: not found"),
    paramiko.BadHostKeyException: paramiko.BadHostKeyException(
        "gpu01", paramiko.RSAKey.generate(2048), paramiko.RSAKey.generate(2048)
    ),
    ssh_exception.NoValidConnectionsError: ssh_exception.NoValidConnectionsError(
        {("10.0.0.1", 22): ConnectionRefusedError(111, "no")}
    ),
}
_EXPECTED: dict[type[BaseException], type[errors.ProvisionerError]] = {
    paramiko.SSHException: errors.ConnectError,
    paramiko.AuthenticationException: errors.AuthError,
    paramiko.PasswordRequiredException: errors.AuthError,
    paramiko.BadAuthenticationType: errors.AuthError,
    ssh_exception.PartialAuthentication: errors.AuthError,
    ssh_exception.UnableToAuthenticate: errors.AuthError,
    paramiko.ChannelException: errors.ConnectError,
    paramiko.BadHostKeyException: errors.HostKeyError,
    ssh_exception.IncompatiblePeer: errors.ConnectError,
    paramiko.ProxyCommandFailure: errors.ConnectError,
    ssh_exception.NoValidConnectionsError: errors.ConnectError,
    ssh_exception.CouldNotCanonicalize: errors.ConnectError,
    ssh_exception.ConfigParseError: errors.InventoryError,
    ssh_exception.MessageOrderError: errors.ConnectError,
}
_RESULT: Any = invoke.runners.Result(stderr="no space left on device", exited=1)
_INVOKE: dict[type[BaseException], tuple[BaseException, type[errors.ProvisionerError]]] = {
    invoke.exceptions.Failure: (invoke.exceptions.Failure(_RESULT), errors.CommandFailed),
    invoke.exceptions.UnexpectedExit: (invoke.exceptions.UnexpectedExit(_RESULT), errors.CommandFailed),
    invoke.exceptions.CommandTimedOut: (invoke.exceptions.CommandTimedOut(_RESULT, timeout=3), errors.CommandTimedOut),
    invoke.exceptions.AuthFailure: (invoke.exceptions.AuthFailure(_RESULT, "password:"), errors.AuthError),
    invoke.exceptions.ResponseNotAccepted: (invoke.exceptions.ResponseNotAccepted(), errors.AuthError),
    invoke.exceptions.WatcherError: (invoke.exceptions.WatcherError(), errors.CommandFailed),
    invoke.exceptions.ThreadException: (invoke.exceptions.ThreadException([]), errors.ConnectError),
    invoke.exceptions.SubprocessPipeError: (invoke.exceptions.SubprocessPipeError(), errors.HostError),
}
#: About tasks and settings of invoke's own command line, which the tool does not use.
_NOT_OURS = {"CollectionNotFound", "ParseError", "Exit", "PlatformError", "AmbiguousEnvVar", "UncastableEnvVar"} | {
    "UnknownFileType",
    "UnpicklableConfigMember",
}


def _raised_by(module: object) -> list[type[BaseException]]:
    return [
        entry
        for _, entry in inspect.getmembers(module, inspect.isclass)
        if issubclass(entry, BaseException) and entry.__module__ == getattr(module, "__name__", "")
    ]


@pytest.mark.parametrize("kind", _raised_by(ssh_exception), ids=lambda kind: kind.__name__)
def test_paramiko(kind: type[BaseException]) -> None:
    error = translate("gpu01", _SAMPLES.get(kind) or kind("something happened"))
    assert type(error) is _EXPECTED[kind]
    assert "gpu01" in error.message or isinstance(error, errors.InventoryError)


@pytest.mark.parametrize("kind", _raised_by(invoke.exceptions), ids=lambda kind: kind.__name__)
def test_invoke(kind: type[BaseException]) -> None:
    if kind.__name__ in _NOT_OURS:
        return
    sample, expected = _INVOKE[kind]
    assert type(translate("gpu01", sample)) is expected


def _mute() -> BaseException:
    """What paramiko raises for a port that is open and says nothing (transport.py, _check_banner)."""
    failure = paramiko.SSHException("Error reading SSH protocol banner")
    failure.__context__ = TimeoutError()
    return failure


@pytest.mark.parametrize(
    ("failure", "expected", "words", "again"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), errors.ConnectError, "name is unknown", False),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), errors.ConnectError, "name is unknown", True),
        (TimeoutError("timed out"), errors.ConnectError, "no answer in 15 s", False),
        (ConnectionRefusedError(111, "Connection refused"), errors.ConnectError, "refused", True),
        (ConnectionResetError(104, "Connection reset by peer"), errors.ConnectError, "reset", True),
        (OSError(113, "No route to host"), errors.ConnectError, "No route", False),
        (EOFError(), errors.ConnectError, "closed the connection", True),
        (paramiko.SSHException("No authentication methods available"), errors.AuthError, "no key", False),
        (paramiko.SSHException("not a valid OPENSSH private key file"), errors.AuthError, "private key", False),
        (paramiko.SSHException("Error reading SSH protocol banner"), errors.ConnectError, "banner", True),
        (paramiko.SSHException("No existing session"), errors.ConnectError, "no SSH handshake (no answer in 15 s)", False),
        (_mute(), errors.ConnectError, "no SSH handshake (no answer in 15 s)", False),
        (paramiko.AuthenticationException("Authentication failed."), errors.AuthError, "refuses us", False),
        (RuntimeError("a surprise"), errors.HostError, "RuntimeError: a surprise", False),
    ],
)
def test_sockets_and_sentences(failure: BaseException, expected: type[errors.HostError], words: str, again: bool) -> None:
    error = translate("gpu01", failure)
    assert type(error) is expected
    assert words in error.message
    assert error.message.startswith("gpu01: ")
    assert is_transient(failure) is again


def test_our_own_errors_pass_through() -> None:
    error = errors.HostKeyError("gpu01", "unknown")
    assert translate("gpu01", error) is error
    assert not is_transient(error)
