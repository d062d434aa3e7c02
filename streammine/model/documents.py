"""Documents: small JSON objects that carry a checksum over the rest of themselves.

Output manifests, snapshots' headers and checkpoints are documents. They never change once written.
The checksum covers what a document says, not how it is spaced, so it can be checked after reading.
"""

from __future__ import annotations

import json
from typing import Any

import xxhash

DOCUMENT_BYTES = 64 << 20
"""No document is longer; a longer one is damaged or not ours."""


def checksum(data: Any) -> str:
    """xxh3-128 of the bytes, in hexadecimal."""
    return xxhash.xxh3_128(data).hexdigest()


def seal_document(document: dict[str, Any]) -> bytes:
    """The document's bytes, its checksum added at the end. Keys are strings, values plain data."""
    assert document, "an empty document says nothing"
    data = _canonical(document)
    return b'%s,"checksum":"%s"}' % (data[:-1], checksum(data).encode())


def open_document(data: Any) -> dict[str, Any]:
    """What `seal_document` was given. Raises ValueError that says why it can't be had."""
    raw = bytes(data)
    if len(raw) > DOCUMENT_BYTES:
        raise ValueError(f"it has {len(raw)} bytes, more than any document")
    document = json.loads(raw)
    if not isinstance(document, dict) or "checksum" not in document:
        raise ValueError("it has no checksum")
    found = document.pop("checksum")
    if found != checksum(_canonical(document)):
        raise ValueError("its checksum does not fit")
    return document


def _canonical(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
