"""The one secret of a key file, and what is derived from it (see `runtime.keys`)."""

from __future__ import annotations

import hashlib
import hmac

SECRET_BYTES = 32
FIRST_LINE = "streammine cluster secret 1"


def secret_of(text: str) -> bytes:
    """The secret in a key file's text. Raises ValueError when it is no key file's."""
    lines = text.split("\n")
    if lines[0] != FIRST_LINE or len(lines) < 2:
        raise ValueError(f"its first line is not {FIRST_LINE!r}")
    secret = bytes.fromhex(lines[1])
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"its second line has not {2 * SECRET_BYTES} hexadecimal digits")
    return secret


def derived(secret: bytes, label: str) -> bytes:
    """32 bytes for one purpose, by HMAC-SHA256."""
    return hmac.digest(secret, f"streammine {label}".encode(), hashlib.sha256)
