"""Who may be listened to: loopback, or with the user's leave and a secret, the network (DESIGN §7)."""

from __future__ import annotations

import errno
import hmac
import ipaddress
import os
import stat
from dataclasses import dataclass

from streammine.model.errors import InputError
from streammine.runtime.sources.live.receiver import AddressTakenError

_LONGEST_TOKEN_BYTES = 4096
_SHORTEST_TOKEN_BYTES = 16


@dataclass(frozen=True)
class Address:
    """Host and port to listen at; port 0 takes any free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bind_error(address: Address, error: OSError) -> InputError:
    """What to raise when an address can't be bound."""
    text = f"can't listen at {address}: {error.strerror or error}"
    if error.errno == errno.EADDRINUSE:
        return AddressTakenError(f"{text}; end what listens there, or choose another port")
    return InputError(f"{text}; `bind` names an address of the node that hosts the source")


@dataclass(frozen=True)
class Token:
    """A secret that clients must show."""

    secret: bytes

    @classmethod
    def load(cls, path: str) -> Token:
        """The first line of a file that only its owner can read. Raises InputError otherwise."""
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                data = file.read(_LONGEST_TOKEN_BYTES + 1)
        except OSError as error:
            raise InputError(f"token file {path} can't be read: {error.strerror}") from None
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise InputError(
                f"token file {path} may be read by others; make a new token and: chmod 600 {path}"
            )
        secret = data.split(b"\n")[0].strip()
        if not _SHORTEST_TOKEN_BYTES <= len(secret) <= _LONGEST_TOKEN_BYTES:
            raise InputError(
                f"token file {path}: its first line must be a token of {_SHORTEST_TOKEN_BYTES} to "
                f"{_LONGEST_TOKEN_BYTES} bytes, such as `openssl rand -hex 32` makes"
            )
        return cls(secret)

    def fits(self, shown: bytes) -> bool:
        """Whether a client showed the token; takes as long whether it did or not."""
        return hmac.compare_digest(self.secret, shown)
