"""What a sink's folder says of itself: seals, manifests, and which files count.

::

    seals/000002-000000.json                 run 2, committer generation 0: continues from nothing
    manifests/000002-000000-0000000000.json  epochs 0-9, files f0 f1
    manifests/000002-000000-0000000001.json  epochs 10-19, file f2
    seals/000002-000001.json                 generation 1: continues from ...0000000001
    manifests/000002-000000-0000000002.json  a paused generation 0 woke up: nobody follows this
    manifests/000002-000001-0000000002.json  epochs 20-29, file f3
    part-r000002-....parquet                 the files; those that no manifest names don't count

A store has neither rename nor compare-and-set, and a paused process can't know that it was
replaced. So nothing is ever changed: a committer of a new generation first writes a seal that
names the manifest it goes on from, and readers follow only the chain of the highest seal,
backwards. Whatever an older committer writes after that is on no chain. A new *run* into the same
folder is a higher seal that goes on from nothing, so it replaces the output of the run before in
one step.

Replicas of a committer stand *beside* each other, and each seal names those that its generation found. They
write the same groups of epochs under the same sequence numbers, and name the files of whichever replica of
a sink slice each of them heard first, which hold the same rows. So what any of them wrote under the highest
seal counts, whoever is furthest; one that was replaced is beside nobody. Under gap recovery one may have
heard that a group of epochs is lost which another has whole, and so have a manifest more or fewer:
therefore who is furthest is told by epochs, not by sequence numbers.

All documents are JSON objects with a checksum over the rest of them, and never change once written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from streammine.model.canonical import type_name
from streammine.model.documents import DOCUMENT_BYTES, open_document, seal_document
from streammine.model.documents import checksum as checksum
from streammine.model.epoch_ranges import EpochRange, EpochRanges
from streammine.model.errors import OutputError

_Document = TypeVar("_Document")

VERSION = 1

_SEAL = re.compile(r"seals/(\d{6,})-(\d{6,})\.json")
_MANIFEST = re.compile(r"manifests/(\d{6,})-(\d{6,})-(\d{10,})\.json")
_PART = re.compile(r"part-r(\d{6,})-[^/]*")


@dataclass(frozen=True)
class SinkDescription:
    """What a reader must know of a sink: its job and name, format, columns, and what counts of
    them.

    `format` is "parquet", "csv", "json" or "arrow". `schema` holds the visible columns.
    """

    job: str
    sink: str
    format: str
    schema: pa.Schema
    ordered: bool = False
    volatile: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seal:
    """The claim of a committer's generation, and the manifest it goes on from (None: nothing). What the
    generations `beside` write counts as much as its own."""

    run: int
    generation: int
    continues_from: str | None
    description: SinkDescription
    beside: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"seals/{self.run:06}-{self.generation:06}.json"


@dataclass(frozen=True)
class WrittenFile:
    """An output file: its rows belong to `epochs` (ascending), `rows[i]` of them to ``epochs[i]``.

    `bytes` is its size; `checksum` the xxh3-128 of its bytes in hexadecimal.
    """

    name: str
    epochs: tuple[int, ...]
    rows: tuple[int, ...]
    bytes: int
    checksum: str

    @property
    def total_rows(self) -> int:
        return sum(self.rows)


@dataclass(frozen=True)
class Manifest:
    """A group of epochs that became output together.

    `first_epoch` to `last_epoch` are the group's bounds, rows or not; `watermark` is event time in
    microseconds when it was committed. The rows of an epoch are those of `files` in their order. `sequence`
    counts along the chain, over all generations of a run. `finished`: nothing follows. `lost`: ranges
    (first, last) of the group's epochs that may lack rows, because gap recovery has lost some of what they
    were to be made of; ascending. Every other epoch is whole. `lost_before` counts the lost epochs of
    the chain before this one: a committer that goes on from here need not read all of it.
    """

    run: int
    generation: int
    sequence: int
    first_epoch: int
    last_epoch: int
    watermark: int
    previous: str | None
    files: tuple[WrittenFile, ...] = ()
    finished: bool = False
    lost: tuple[EpochRange, ...] = ()
    lost_before: int = 0

    @property
    def name(self) -> str:
        return f"manifests/{self.run:06}-{self.generation:06}-{self.sequence:010}.json"

    @property
    def rows(self) -> int:
        return sum(file.total_rows for file in self.files)

    @property
    def lost_count(self) -> int:
        return EpochRanges(self.lost).count


def run_of(name: str) -> int | None:
    """The run that a file, manifest or seal belongs to; None if the name is none of ours."""
    for pattern in (_PART, _MANIFEST, _SEAL):
        match = pattern.fullmatch(name)
        if match:
            return int(match[1])
    return None


def highest_seal(names: Iterable[str]) -> str | None:
    """The name of the seal that counts, out of all names in a folder."""
    found = [
        (int(match[1]), int(match[2]), name) for name in names if (match := _SEAL.fullmatch(name))
    ]
    return max(found)[2] if found else None


def committed_chain(
    names: Iterable[str], seal: Seal, manifest: Callable[[str], Manifest]
) -> list[Manifest]:
    """The manifests that count under `seal`, oldest first.

    `names` are all names in the folder, listed after the seal was seen, and `manifest` reads one. Raises
    OutputError if one that the chain needs is missing.
    """
    known = set(names)
    chain: list[Manifest] = []
    one = last_committed(known, seal, manifest)
    while one is not None:
        if chain and (one.sequence != chain[-1].sequence - 1 or one.run != seal.run):
            raise OutputError(
                f"{chain[-1].name} can't go on from {one.name}: the folder is damaged"
            )
        chain.append(one)
        previous = one.previous
        one = None if previous is None else _present(previous, known, one.name, manifest)
    return chain[::-1]


def last_committed(
    names: Iterable[str], seal: Seal, manifest: Callable[[str], Manifest]
) -> Manifest | None:
    """The end of the committed chain (see `committed_chain`), None where it is empty.

    Of the last manifests of the seal's committer and of those beside it that is the one that has come
    furthest. As long as its own committer has written none, what it goes on from stands for it. No other is
    looked at: that some are missing shows only to who reads the output.
    """
    known = set(names)
    last: dict[int, tuple[int, str]] = {}
    for name in known:
        match = _MANIFEST.fullmatch(name)
        if match and int(match[1]) == seal.run:
            generation, numbered = int(match[2]), (int(match[3]), name)
            if generation in (seal.generation, *seal.beside):
                last[generation] = max(numbered, last.get(generation, numbered))
    ends = {name for _, name in last.values()}
    if seal.generation not in last and seal.continues_from is not None:
        ends.add(seal.continues_from)
    found = [_present(name, known, seal.name, manifest) for name in ends]
    return max(
        found, key=lambda one: (one.last_epoch, one.finished, one.sequence, one.name), default=None
    )


def _present(
    name: str, known: set[str], follower: str, manifest: Callable[[str], Manifest]
) -> Manifest:
    """A manifest that `follower` goes on from. Raises OutputError where it is missing."""
    if name not in known:
        raise OutputError(
            f"{name} is missing, though {follower} goes on from it; the committed output is damaged: run the "
            "job again"
        )
    return manifest(name)


def encode_seal(seal: Seal) -> bytes:
    described = seal.description
    schema = described.schema.remove_metadata()
    return _sealed(
        {
            "kind": "seal",
            "run": seal.run,
            "generation": seal.generation,
            "continues_from": seal.continues_from,
            "beside": list(seal.beside),
            "job": described.job,
            "sink": described.sink,
            "format": described.format,
            "ordered": described.ordered,
            "volatile": list(described.volatile),
            # For people; the next line is what is read.
            "columns": {field.name: type_name(field.type) for field in schema},
            "schema": base64.b64encode(schema.serialize().to_pybytes()).decode(),
        }
    )


def decode_seal(name: str, data: Any) -> Seal:
    """Raises OutputError if the document is damaged."""

    def build(document: dict[str, Any]) -> Seal:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(document["schema"])))
        description = SinkDescription(
            job=str(document["job"]),
            sink=str(document["sink"]),
            format=str(document["format"]),
            schema=schema,
            ordered=bool(document["ordered"]),
            volatile=tuple(map(str, document["volatile"])),
        )
        return Seal(
            run=int(document["run"]),
            generation=int(document["generation"]),
            continues_from=document["continues_from"],
            description=description,
            beside=tuple(map(int, document["beside"])),
        )

    seal = _opened(name, data, "seal", build)
    return _named(name, seal, seal.name)


def encode_manifest(manifest: Manifest) -> bytes:
    return _sealed(
        {
            "kind": "manifest",
            "run": manifest.run,
            "generation": manifest.generation,
            "sequence": manifest.sequence,
            "first_epoch": manifest.first_epoch,
            "last_epoch": manifest.last_epoch,
            "watermark": manifest.watermark,
            "previous": manifest.previous,
            "finished": manifest.finished,
            "lost_before": manifest.lost_before,
            **({"lost": [list(each) for each in manifest.lost]} if manifest.lost else {}),
            "files": [
                {
                    "name": file.name,
                    "epochs": list(file.epochs),
                    "rows": list(file.rows),
                    "bytes": file.bytes,
                    "checksum": file.checksum,
                }
                for file in manifest.files
            ],
        }
    )


def decode_manifest(name: str, data: Any) -> Manifest:
    """Raises OutputError if the document is damaged."""

    def build(document: dict[str, Any]) -> Manifest:
        return Manifest(
            run=int(document["run"]),
            generation=int(document["generation"]),
            sequence=int(document["sequence"]),
            first_epoch=int(document["first_epoch"]),
            last_epoch=int(document["last_epoch"]),
            watermark=int(document["watermark"]),
            previous=document["previous"],
            files=tuple(_file(one) for one in document["files"]),
            finished=bool(document["finished"]),
            lost=tuple((int(first), int(last)) for first, last in document.get("lost", ())),
            # a version that read the whole chain to go on wrote none
            lost_before=int(document.get("lost_before", 0)),
        )

    manifest = _opened(name, data, "manifest", build)
    return _named(name, manifest, manifest.name)


def _file(document: dict[str, Any]) -> WrittenFile:
    epochs = tuple(map(int, document["epochs"]))
    rows = tuple(map(int, document["rows"]))
    if len(epochs) != len(rows):
        raise ValueError(f"{len(epochs)} epochs but {len(rows)} row counts")
    name = str(document["name"])
    if _PART.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no output file's name")
    return WrittenFile(name, epochs, rows, int(document["bytes"]), str(document["checksum"]))


def _sealed(document: dict[str, Any]) -> bytes:
    data = seal_document({"version": VERSION, **document})
    if len(data) > DOCUMENT_BYTES:
        raise OutputError(
            f"a {document['kind']} would have {len(data)} bytes, above the {DOCUMENT_BYTES} that "
            "readers accept; commit fewer epochs at a time (`commit: {every: ...}`)"
        )
    return data


def _opened(
    name: str, data: Any, kind: str, build: Callable[[dict[str, Any]], _Document]
) -> _Document:
    try:
        document = open_document(data)
        if document["kind"] != kind or document["version"] != VERSION:
            raise ValueError(f"it is a {document['kind']} of version {document['version']}")
        return build(document)
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise OutputError(
            f"{name} is not a {kind} of version {VERSION} or is damaged: {error!r}; "
            "run the job again, or remove the folder's contents"
        ) from error


def _named(name: str, document: _Document, own_name: str) -> _Document:
    if name != own_name:
        raise OutputError(f"{name} says that it is {own_name}; somebody renamed it")
    return document
