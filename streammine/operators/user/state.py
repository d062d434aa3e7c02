"""Snapshots of user code's state: what the user's class says of versions, and its own structures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from streammine.model.errors import StateVersionError, TopologyError, UserCodeError
from streammine.operators.api import Operator, Reducer, overrides
from streammine.operators.frozen import Handover, bytes_pieces, decode_piece
from streammine.operators.plain_data import NotPlainError
from streammine.operators.state_store import StateStore
from streammine.operators.user.errors import Failures


class UserState:
    """The user's side of freezing and restoring: `serialize`, `deserialize`, `migrate`."""

    def __init__(self, code: Operator | Reducer, failures: Failures, operator: str) -> None:
        """Raises TopologyError when the class is incomplete."""
        place = f"operator '{operator}' ({type(code).__name__})"
        if type(code.state_version) is not int:
            raise TopologyError(f"{place}: state_version is {code.state_version!r}; use an integer")
        if overrides(code, "serialize") != overrides(code, "deserialize"):
            raise TopologyError(f"{place}: serialize and deserialize belong together; write both")
        self.version = code.state_version
        self._code = code
        self._failures = failures
        self._place = place
        self._serializes = overrides(code, "serialize")

    def migration(self, version: int) -> Callable[[Any], Any] | None:
        """What turns state of that version into state of this one; None where it is of this one.

        Raises StateVersionError when the user's class has nothing that does.
        """
        if version == self.version:
            return None
        if not overrides(self._code, "migrate"):
            raise StateVersionError(
                f"{self._place}: the snapshot holds state of version {version}, the class has "
                f"state_version {self.version}; write migrate(state, version), resume with the "
                "class of that version, or start anew"
            )

        def migrated(state: Any) -> Any:
            try:
                return self._code.migrate(state, version)
            except StateVersionError:
                raise
            except Exception as error:
                content = f"state of version {version}: {state!r:.200}"
                raise self._failures.raised("migrate", error, content) from error

        return migrated

    def freeze(self, store: StateStore, full: bool) -> Handover:
        """The state of keys, and what the user's `serialize` gives. Raises UserCodeError."""
        own = self._serialized() if self._serializes else None
        keys = store.freeze(full)
        return Handover(keys.full, self._pieces(own, keys))

    def restore(
        self, store: StateStore, version: int, full: bool, pieces: Iterator[pa.Buffer]
    ) -> None:
        """The inverse of `freeze`. Raises StateVersionError, UserCodeError."""
        migrate = self.migration(version)
        own: list[bytes] = []

        def of_keys() -> Iterator[pa.Buffer]:
            for piece in pieces:
                header, _ = decode_piece(piece)
                if "bytes" in header:
                    own.append(header["bytes"])
                else:
                    yield piece

        try:
            store.restore(full, of_keys(), migrate)
        except (KeyError, TypeError) as error:
            if migrate is None:
                raise
            message = f"returned what the declared cells can't hold: {error!r}"
            content = f"state of version {version}"
            raise self._failures.wrong("migrate", message, content) from error
        if own:
            self._deserialize(b"".join(own), migrate)
        elif self._serializes and migrate is None:
            raise StateVersionError(
                f"{self._place}: has deserialize, but the snapshot was made without serialize; raise "
                "state_version and write migrate"
            )

    def _pieces(self, own: bytes | None, keys: Handover) -> Iterator[pa.Buffer]:
        if own is not None:
            yield from bytes_pieces({}, own)
        try:
            yield from keys.pieces()
        except NotPlainError as error:
            raise UserCodeError(f"{self._place}: {error}") from error

    def _serialized(self) -> bytes:
        assert isinstance(self._code, Operator)
        try:
            data: Any = self._code.serialize()
        except Exception as error:
            raise self._failures.raised("serialize", error, "the operator's state") from error
        if not isinstance(data, bytes):
            message = f"returned {type(data).__name__}; right is bytes"
            raise self._failures.wrong("serialize", message, "the operator's state")
        return data

    def _deserialize(self, data: bytes, migrate: Callable[[Any], Any] | None) -> None:
        if not self._serializes:
            raise StateVersionError(
                f"{self._place}: the snapshot holds what serialize wrote, but the class has no "
                "deserialize; resume with the class that wrote it"
            )
        assert isinstance(self._code, Operator)
        if migrate is not None:
            data = migrate(data)
        try:
            self._code.deserialize(data, self.version)
        except StateVersionError:
            raise
        except Exception as error:
            content = f"{len(data)} bytes: {data[:60]!r}"
            raise self._failures.raised("deserialize", error, content) from error
