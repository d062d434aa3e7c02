"""The names that connections carry on the wire.

A connection's identity is its kind, its name and a number of its own, so that a node that was
started again never collides with what is left of its connections from before.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

NODE = "node"
CLIENT = "client"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_IDENTITY = re.compile(rb"(node|client):([A-Za-z0-9][A-Za-z0-9_.-]{0,63}):[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sent a message: a node by its name, or a client."""

    kind: str
    name: str

    @property
    def user(self) -> str:
        """The name that the admission gives to the key of such a sender."""
        return f"{NODE}:{self.name}" if self.kind == NODE else CLIENT


def new_identity(kind: str, name: str) -> bytes:
    """Identity of a new connection."""
    assert is_name(name), f"a node's name has letters, digits and _.- only: {name!r}"
    return f"{kind}:{name}:{secrets.token_hex(8)}".encode()


def read_identity(identity: bytes) -> Identity | None:
    """What an identity says, None when it is none of ours."""
    match = _IDENTITY.fullmatch(identity)
    return Identity(match[1].decode(), match[2].decode()) if match else None


def is_name(name: str) -> bool:
    """Whether a node may be called so."""
    return _NAME.fullmatch(name) is not None
