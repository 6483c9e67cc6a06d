"""Whether a text is a bundle of certificates in PEM form, without a library for it."""

from __future__ import annotations

import base64
import binascii
import re

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s*([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----")
_DER_SEQUENCE = 0x30


def pem_mistake(text: str) -> str | None:
    """Why `text` is not a bundle of certificates, as the end of a sentence; None when it is one."""
    if "PRIVATE KEY" in text:
        return "a private key is in it; keep the certificates only"
    certificates = _PEM.findall(text)
    if not certificates or text.count("-----BEGIN CERTIFICATE-----") != len(certificates):
        return "not certificates in PEM form (-----BEGIN CERTIFICATE-----)"
    damaged = [number for number, body in enumerate(certificates, 1) if not _is_der(body)]
    return f"certificate {damaged[0]} of {len(certificates)} is damaged" if damaged else None


def _is_der(body: str) -> bool:
    """Whether base64 text holds one whole DER sequence: its length says so, X.690 8.1.3."""
    try:
        raw = base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error:
        return False
    if len(raw) < 4 or raw[0] != _DER_SEQUENCE:  # noqa: PLR2004 - tag, length of the length, two bytes of it
        return False
    octets = raw[1] & 0x7F
    return raw[1] > 0x80 and len(raw) == 2 + octets + int.from_bytes(raw[2 : 2 + octets], "big")  # noqa: PLR2004 - X.690 8.1.3.5
