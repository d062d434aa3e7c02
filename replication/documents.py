"""Reading the documents of a recovery store: what is damaged, and what another version wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from streammine.model.contracts import Store
from streammine.model.documents import checksum, open_document, seal_document
from streammine.model.errors import OutputError, SnapshotDamagedError, StateVersionError

_Built = TypeVar("_Built")

FORMAT = 1
"""Version of everything that `replication` writes into a store."""


def seal(kind: str, content: dict[str, Any]) -> bytes:
    """A document's bytes."""
    return seal_document({"kind": kind, "format": FORMAT, **content})


def unseal(
    name: str, data: pa.Buffer | bytes, kind: str, build: Callable[[dict[str, Any]], _Built]
) -> _Built:
    """What `build` makes of the document's content.

    Raises SnapshotDamagedError where it is damaged or no `kind`, and StateVersionError where a version
    of streammine wrote it whose format this one does not know.
    """
    try:
        document = open_document(data)
        if document["kind"] != kind:
            raise ValueError(f"it is a {document['kind']}")
        if document["format"] == FORMAT:
            return build(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotDamagedError(f"{name} is damaged or no {kind}: {error}") from error
    raise StateVersionError(
        f"{name} is a {kind} of format {document['format']}; this version of streammine reads format "
        f"{FORMAT}: go on with the version that wrote it, or run the job again from its input"
    )


def fetch(store: Store, name: str, expected: str | None = None) -> pa.Buffer:
    """A blob whose bytes have the `expected` checksum. Raises SnapshotDamagedError."""
    try:
        data = store.get(name)
    except OutputError as error:
        raise SnapshotDamagedError(f"{name} can't be read: {error}") from error
    if expected is not None and checksum(data) != expected:
        raise SnapshotDamagedError(
            f"{name} is damaged: its {data.size} bytes don't have the checksum {expected}"
        )
    return data
