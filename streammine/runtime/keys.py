"""The keys of a cluster: who may connect, and whose code may run (DESIGN §7).

One secret of 32 bytes stands in a file that only its owner can read; everything else is derived
from it with HMAC-SHA256, each purpose under a label of its own:

- the CURVE pair of every socket that a node binds (peers know by it that they talk to the cluster),
- the CURVE pair of each node, by its name (a bound socket knows by it which node connects),
- the CURVE pair of clients (they may ask, but never pass for a node),
- the key that signs user code, and the secret of the ZooKeeper paths.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.utils import z85

from streammine.model.cluster_secret import FIRST_LINE, SECRET_BYTES, derived, secret_of
from streammine.model.errors import ClusterError


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A CURVE key pair, both keys as 40 bytes of Z85 text."""

    public: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """All keys of a cluster, derived from its one secret."""

    root: bytes = field(repr=False)

    def __post_init__(self) -> None:
        assert len(self.root) == SECRET_BYTES

    @classmethod
    def create(cls) -> ClusterKeys:
        """Keys from a new random secret."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ClusterKeys:
        """Read a file that `save` wrote. Raises ClusterError when others could have read it."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ClusterError(f"cannot read the key file {path}: {error.strerror}") from None
        with open(descriptor, encoding="ascii", errors="replace") as file:
            status = os.fstat(descriptor)
            mode = stat.S_IMODE(status.st_mode)
            if mode & 0o077:
                raise ClusterError(
                    f"key file {path} has mode {mode:04o}, so others may have read it;"
                    f" make new keys, or set it to 0600 with: chmod 600 {path}"
                )
            if status.st_uid != os.geteuid():
                raise ClusterError(
                    f"key file {path} belongs to user {status.st_uid}, not to the user of this"
                    f" process, {os.geteuid()}"
                )
            text = file.read(4096)
        try:
            return cls(secret_of(text))
        except ValueError:
            raise ClusterError(
                f"{path} is no key file of streammine: its first line should be"
                f" {FIRST_LINE!r}, its second {2 * SECRET_BYTES} hexadecimal digits"
            ) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a new file with mode 0600. Raises ClusterError when it exists already."""
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(target, flags, 0o600), "w", encoding="ascii") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(f"{FIRST_LINE}\n{self.root.hex()}\n")
        except OSError as error:
            raise ClusterError(f"cannot write the key file {path}: {error.strerror}") from None

    @property
    def server(self) -> KeyPair:
        """The pair of every bound socket of the cluster."""
        return self._pair("server")

    @property
    def client(self) -> KeyPair:
        """The pair of clients, such as the command line."""
        return self._pair("client")

    def node(self, name: str) -> KeyPair:
        """The pair with which the node `name` connects to others."""
        return self._pair(f"node {name}")

    @property
    def zookeeper_secret(self) -> bytes:
        """The secret behind the ZooKeeper paths' access control."""
        return self._derived("zookeeper")

    def sign(self, data: bytes) -> bytes:
        """HMAC-SHA256 of `data` with the signing key, 32 bytes."""
        return hmac.digest(self._derived("signing"), data, hashlib.sha256)

    def verify(self, data: bytes, signature: bytes) -> bool:
        """Whether `signature` came from `sign(data)` of this cluster."""
        return hmac.compare_digest(self.sign(data), signature)

    def _derived(self, label: str) -> bytes:
        return derived(self.root, label)

    def _pair(self, label: str) -> KeyPair:
        secret = z85.encode(self._derived(f"curve {label}"))
        return KeyPair(public=zmq.curve_public(secret), secret=secret)
