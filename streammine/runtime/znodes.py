"""ZooKeeper as we use it: kazoo's client with deadlines, our errors, and blobs of any size.

A znode holds less than a megabyte. A larger blob is cut into parts under one znode; its header,
which is written last, says how many there are and what their digest is, so that no one reads half
of it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_digest_acl

from streammine.model.errors import ClusterError, ProtocolError
from streammine.runtime.serving import ServingHandler

PART_BYTES = 512 * 1024
"""Longest part of a blob."""

MAXIMUM_BLOB_BYTES = 64 << 20
"""Longest blob."""

_USER = "streammine"
_RECONNECTION = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
"""Tries for ever (the caller's deadlines decide), soon at first: seconds between two tries."""

_ANSWERS = (NoNodeError, NodeExistsError, BadVersionError)
"""What the server may answer in normal running; each caller knows what it means there."""


class UncertainError(ClusterError):
    """The connection broke before the answer came: the server may have done it or not."""


class Znode(NamedTuple):
    """Content, its version for compare-and-set, and the session that an ephemeral one is of."""

    data: bytes
    version: int
    session: int | None


class Znodes:
    """A session with ZooKeeper. Calls may come from any thread.

    `state_changed` is called with "connected", "suspended" or "lost" from kazoo's thread.
    """

    def __init__(
        self,
        hosts: str,
        secret: bytes | None,
        state_changed: Callable[[str], None],
        session_timeout_seconds: float,
        operation_timeout_seconds: float,
    ) -> None:
        self.hosts = hosts
        self._operation_timeout_seconds = operation_timeout_seconds
        self._state_changed = state_changed
        self._connected = threading.Event()
        self._started = False
        self._closed = False
        self._waiting_lock = threading.Lock()
        self._waiting: set[Any] = set()
        self.acl: list[ACL] = OPEN_ACL_UNSAFE
        credentials = None
        if secret is not None:
            # ZooKeeper's clients send the credential as it is: never the secret itself.
            credential = hashlib.sha256(b"streammine zookeeper " + secret).hexdigest()
            credentials = [("digest", f"{_USER}:{credential}")]
            self.acl = [make_digest_acl(_USER, credential, all=True)]
        try:
            self._client = KazooClient(
                hosts,
                timeout=session_timeout_seconds,
                handler=ServingHandler(),
                default_acl=self.acl,
                auth_data=credentials,
                connection_retry=dict(_RECONNECTION),
            )
        except (ValueError, KazooException) as error:
            raise ClusterError(
                f"{hosts!r} is no list of ZooKeeper servers (HOST:PORT,…): {error}"
            ) from None
        self._client.add_listener(self._listen)

    @property
    def session(self) -> int:
        """Number of the session, 0 when there is none."""
        identity = self._client.client_id
        return 0 if identity is None else int(identity[0])

    def start(self, timeout_seconds: float) -> None:
        """Connect. Raises ClusterError when no server answers in time."""
        self._started = True
        try:
            self._client.start(timeout_seconds)
        except KazooTimeoutError:
            self._started = False
            raise ClusterError(
                f"ZooKeeper at {self.hosts} cannot be reached; tried for {timeout_seconds:g} s."
                f" Check that it runs and that the addresses are right"
            ) from None

    def close(self) -> None:
        """Cut all calls that wait, and end the session, and with it all its ephemeral znodes."""
        with self._waiting_lock:
            self._closed = True
        if self._started:
            self._started = False
            try:
                self._client.stop()
            except AttributeError as error:
                # Ctrl-C before its connection has begun: kazoo stops all the same, with no socket to wake
                if (error.obj, error.name) != (None, "send"):
                    raise
            self._client.close()
        # A request that crossed the end of the session is never answered.
        with self._waiting_lock:
            for answer in self._waiting:
                if not answer.ready():
                    answer.set_exception(ConnectionClosedError())
        self._connected.set()

    def get(self, path: str, watch: Callable[[Any], None] | None = None) -> Znode:
        data, status = self._read(lambda: self._client.get_async(path, watch))
        return Znode(data, status.version, status.owner_session_id)

    def children(self, path: str, watch: Callable[[Any], None] | None = None) -> list[str]:
        """Names of the children, sorted. (ZooKeeper gives them in no order.)"""
        names: list[str] = self._read(lambda: self._client.get_children_async(path, watch))
        return sorted(names)

    def access(self, path: str) -> list[ACL]:
        acls, _ = self._read(lambda: self._client.get_acls_async(path))
        return list(acls)

    def create(
        self,
        path: str,
        data: bytes = b"",
        ephemeral: bool = False,
        sequence: bool = False,
        acl: list[ACL] | None = None,
    ) -> str:
        """Create a znode; gives its path. Raises NodeExistsError, NoNodeError (no parent)."""
        created: str = self._write(
            self._client.create_async(path, data, acl or self.acl, ephemeral, sequence)
        )
        return created

    def ensure(self, path: str, acl: list[ACL] | None = None) -> None:
        """Create a znode where there is none."""
        deadline = time.monotonic() + self._operation_timeout_seconds
        while True:
            try:
                self.create(path, acl=acl)
                return
            except NodeExistsError:
                return
            except UncertainError:
                self._wait_connected(deadline)

    def replace(self, path: str, data: bytes, version: int, witness: str | None) -> None:
        """Set a znode's data if its version is still `version`, and the znode `witness` exists.

        Raises BadVersionError or NoNodeError.
        """
        transaction = self._client.transaction()
        if witness is not None:
            transaction.check(witness, 0)
        transaction.set_data(path, data, version)
        for result in self._write(transaction.commit_async()):
            if isinstance(result, _ANSWERS):
                raise result
            # The other results of a refused transaction say only that it was rolled back.

    def delete(self, path: str) -> None:
        """Delete a znode with all under it, where it exists."""
        try:
            for name in self.children(path):
                self.delete(f"{path}/{name}")
            self._write(self._client.delete_async(path))
        except NoNodeError:
            return

    def _read(self, ask: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + self._operation_timeout_seconds
        while True:
            try:
                return self._write(ask())
            except UncertainError:
                self._wait_connected(deadline)

    def _write(self, answer: Any) -> Any:
        try:
            with self._waiting_lock:
                if self._closed:
                    raise ConnectionClosedError
                self._waiting.add(answer)
            return answer.get(timeout=self._operation_timeout_seconds)
        except _ANSWERS:
            raise
        except NoAuthError:
            raise ClusterError(
                f"ZooKeeper at {self.hosts} denies access: the cluster's paths belong to another"
                f" secret; use the key file that the cluster was started with"
            ) from None
        except ConnectionClosedError:
            raise ClusterError(f"the connection to ZooKeeper at {self.hosts} is closed") from None
        except (ConnectionLoss, SessionExpiredError) as error:
            raise UncertainError(
                f"the connection to ZooKeeper at {self.hosts} broke: {type(error).__name__}"
            ) from None
        except KazooTimeoutError:
            raise ClusterError(
                f"ZooKeeper at {self.hosts} does not answer; waited"
                f" {self._operation_timeout_seconds:g} s"
            ) from None
        except KazooException as error:
            raise ClusterError(f"ZooKeeper at {self.hosts}: {error!r}") from None
        finally:
            with self._waiting_lock:
                self._waiting.discard(answer)

    def _wait_connected(self, deadline: float) -> None:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0 or not self._connected.wait(remaining_seconds):
            raise ClusterError(
                f"ZooKeeper at {self.hosts} cannot be reached; tried for"
                f" {self._operation_timeout_seconds:g} s"
            )

    def _listen(self, state: str) -> None:
        if state == "CONNECTED":
            self._connected.set()
        else:
            self._connected.clear()
        self._state_changed(state.lower())


@dataclass(frozen=True, slots=True)
class BlobHeader:
    """What completes a blob: the number of its parts, their whole length and SHA-256."""

    parts: int
    size: int
    digest: bytes

    def tree(self) -> list[Any]:
        return [self.parts, self.size, self.digest]

    @classmethod
    def of(cls, tree: Any) -> BlobHeader:
        """Raises ProtocolError when `tree` is no header."""
        match tree:
            case [int(parts), int(size), bytes(digest)]:
                return cls(parts, size, digest)
        raise ProtocolError(f"no header of a blob: {tree!r:.80}")


def write_blob(znodes: Znodes, folder: str, blob: bytes) -> BlobHeader:
    """Write the parts of a blob under an existing znode. The header is the caller's to write."""
    parts = range(0, len(blob), PART_BYTES)
    for number, start in enumerate(parts):
        znodes.create(f"{folder}/part-{number:05}", blob[start : start + PART_BYTES])
    return BlobHeader(len(parts), len(blob), hashlib.sha256(blob).digest())


def read_blob(znodes: Znodes, folder: str, header: BlobHeader) -> bytes:
    """Raises ProtocolError when the parts are not what the header says; NoNodeError."""
    if not (0 <= header.size <= MAXIMUM_BLOB_BYTES and header.parts <= MAXIMUM_BLOB_BYTES):
        raise ProtocolError(f"{folder} claims a blob of {header.size} bytes")
    names: Iterable[str] = (f"{folder}/part-{number:05}" for number in range(header.parts))
    blob = b"".join(znodes.get(name).data for name in names)
    if len(blob) != header.size or hashlib.sha256(blob).digest() != header.digest:
        raise ProtocolError(f"the parts of the blob under {folder} do not have its digest")
    return blob


def check_blob(blob: bytes, what: str) -> None:
    """Raises ClusterError for a blob that is too long."""
    if len(blob) > MAXIMUM_BLOB_BYTES:
        raise ClusterError(
            f"{what} has {len(blob)} bytes; at most {MAXIMUM_BLOB_BYTES} (64 MiB) can be kept in"
            f" ZooKeeper. Put large objects into files and name them"
        )


def unpacked(data: bytes, path: str) -> Any:
    """The msgpack tree in a znode. Raises ProtocolError."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ProtocolError(f"znode {path} does not hold msgpack: {error}") from None
