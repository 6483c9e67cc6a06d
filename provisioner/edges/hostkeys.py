"""Which host keys are trusted. paramiko's own known_hosts has no patterns, no @revoked and one key a type; this one has them.

A key that is unknown is accepted in one explicit step only (`--accept-new-host-keys`, or a list of fingerprints); one that has
changed never is. OpenSSH's sshd(8), SSH_KNOWN_HOSTS FILE FORMAT, is the source of the format.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.decode import read_text
from provisioner.errors import HostKeyError, InventoryError
from provisioner.values import Problem, value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paramiko import PKey, Transport

    Tell = Callable[[str], None]

_MIN_FIELDS = 3  # hosts, type, key
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")


@value
class _Known:
    """One line of a known_hosts file that speaks of a host."""

    file: Path
    line: int
    type: str
    key: bytes
    revoked: bool

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def fingerprint(key: bytes) -> str:
    """The SHA256 fingerprint as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def read_fingerprints(path: Path) -> Mapping[str, frozenset[str]]:
    """A list of fingerprints: on each line a SHA256:… and the hosts that it is of.

    The hosts are named as the user calls them (`gpu01 SHA256:…`), or as `ssh-keygen -lf known_hosts` prints them.
    """
    found: dict[str, set[str]] = {}
    problems = []
    for number, line in enumerate(read_text(path, InventoryError).splitlines(), start=1):
        words = line.split("#")[0].split()
        prints = [word for word in words if _FINGERPRINT.fullmatch(word)]
        hosts = [
            name for word in words if word not in prints and not word.isdigit() and word[0] != "(" for name in word.split(",")
        ]
        if words and (len(prints) != 1 or not hosts):
            message = "not a line such as `gpu01 SHA256:…` or what `ssh-keygen -lf` prints for a known_hosts file"
            problems.append(Problem(file=str(path), line=number, column=1, message=message))
        for host in hosts:
            found.setdefault(host, set()).update(entry.rstrip("=") for entry in prints)
    if problems:
        raise InventoryError(problems)
    return {host: frozenset(prints) for host, prints in found.items()}


@value
class Prints:
    """A list of fingerprints, the file it stands in, and the names by which it may call the host that is judged."""

    file: Path
    lines: Mapping[str, frozenset[str]]
    names: tuple[str, ...]

    @property
    def wanted(self) -> frozenset[str]:
        """What the host's key may be; empty where no line speaks of the host."""
        return frozenset[str]().union(*(self.lines.get(name, frozenset()) for name in self.names))


class HostKeys:
    """The judge of one host's key: paramiko asks it for each connection, as its policy for missing keys."""

    def __init__(
        self, host: str, name: str, *, files: Sequence[Path], accept: bool, prints: Prints | None, said: Tell | None = None
    ) -> None:
        """Judge the host that the user calls `host` and known_hosts files call `name`. New keys are written to the first file.

        `said` gets one sentence for each key that was written.
        """
        self.host = host
        self.accepted: str | None = None
        self._name = name
        self._files = tuple(files)
        self._accept = accept
        self._prints = prints
        self._said = said
        self._known = [entry for file in self._files for entry in _lookup(file, name)]

    def transport(self, sock: object, **options: object) -> Transport:
        """A transport that asks the server first for the types of key that are known of it."""
        import paramiko

        transport = paramiko.Transport(sock, **options)  # type: ignore[arg-type]  # what SSHClient.connect passes
        security = transport.get_security_options()
        wanted = [kind for entry in self._known if not entry.revoked for kind in _offered_as(entry.type)]
        known = [kind for kind in dict.fromkeys(wanted) if kind in security.key_types]
        security.key_types = (*known, *(kind for kind in security.key_types if kind not in known))
        return transport

    def missing_host_key(self, _client: object, _name: str, key: PKey) -> None:
        """Return when the key is trusted; HostKeyError otherwise."""
        shown = key.asbytes()
        what = f"{key.get_name()} {fingerprint(shown)}"
        same = [entry for entry in self._known if entry.key == shown]
        for entry in same:
            if entry.revoked:
                raise HostKeyError(
                    self.host, f"its host key ({what}) is marked @revoked in {entry.place}", hint="do not use this host"
                )
        others = [entry for entry in self._known if not entry.revoked]
        if same:
            return
        if others:
            raise self._changed(what, others)
        listed = self._prints.wanted if self._prints else None
        if listed and fingerprint(shown) not in listed:
            raise HostKeyError(
                self.host,
                f"its host key ({what}) is not the one in the list of fingerprints ({', '.join(sorted(listed))})",
                hint="somebody may be listening in, or the list is of another host; compare on the host's console",
            )
        if not listed and (self._prints or not self._accept):
            raise self._unknown(key, what)
        if not self._accept:
            self.accepted = f"{self.host}: host key accepted, it is in the list of fingerprints: {what}"
            return
        self._record(key.get_name(), shown)
        self.accepted = f"{self.host}: host key of {self._name} recorded in {self._files[0]}: {what}"
        if self._said:
            self._said(self.accepted)

    def _changed(self, what: str, others: Sequence[_Known]) -> HostKeyError:
        first = others[0]
        return HostKeyError(
            self.host,
            f"its host key has CHANGED: it shows {what}, but {first.place} has {first.type} {fingerprint(first.key)}. "
            "Nothing was sent",
            hint="somebody may be listening in, or the host was installed anew. Compare on its console; only if it is right: "
            f"`ssh-keygen -R '{self._name}' -f {first.file}`, then accept the new key",
        )

    def _unknown(self, key: PKey, what: str) -> HostKeyError:
        if self._prints:
            line = f"{self._prints.names[0]} {fingerprint(key.asbytes())}"
            return HostKeyError(
                self.host,
                f"its host key is unknown: {what}, and {self._prints.file} has no line for {' or '.join(self._prints.names)}",
                hint=f"compare it on the host's console; if it is the same, add the line `{line}`",
            )
        kind = key.get_name().removeprefix("ssh-").partition("-")[0]
        return HostKeyError(
            self.host,
            f"its host key is unknown: {what}",
            hint=f"compare it on the host's console (`ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub`); if it is the same, say "
            f"--accept-new-host-keys once, which writes it to {self._files[0]}, or list the right ones with --fingerprints FILE",
        )

    def _record(self, kind: str, key: bytes) -> None:
        path = self._files[0]
        line = f"{self._name} {kind} {base64.b64encode(key).decode()}\n"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            before = path.read_bytes()[-1:] if path.exists() else b""
            number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(number, (b"\n" if before not in {b"", b"\n"} else b"") + line.encode())
            finally:
                os.close(number)
        except OSError as failure:
            raise HostKeyError(
                self.host,
                f"its host key cannot be written to {path}: {(failure.strerror or str(failure)).lower()}",
                hint="name a file that can be written with --known-hosts FILE",
            ) from failure


def _lookup(file: Path, name: str) -> list[_Known]:
    """The lines of `file` about `name`; what cannot be read or understood trusts nothing."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for number, line in enumerate(lines, start=1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        # a certificate authority vouches for certificates, which paramiko does not check
        if len(words) < _MIN_FIELDS or words[0].startswith("#") or marker not in {"", "@revoked"} or not _matches(words[0], name):
            continue
        try:
            key = base64.b64decode(words[2], validate=True)
        except binascii.Error:
            continue
        found.append(_Known(file=file, line=number, type=words[1], key=key, revoked=marker == "@revoked"))
    return found


def _matches(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        _, _, salt, digest = (patterns + "||").split("|")[:4]
        try:
            wanted = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
            return hmac.compare_digest(wanted, base64.b64decode(digest))
        except binascii.Error:
            return False
    hits = [pattern for pattern in patterns.split(",") if _glob(pattern.removeprefix("!")).fullmatch(name)]
    return bool(hits) and not any(pattern.startswith("!") for pattern in hits)


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.IGNORECASE)


def _offered_as(kind: str) -> tuple[str, ...]:
    return ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa") if kind == "ssh-rsa" else (kind,)
