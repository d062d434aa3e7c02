"""Seals and manifests: what readers follow, and what they refuse."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from streammine.model.errors import OutputError
from streammine.model.manifest import (
    Manifest,
    Seal,
    SinkDescription,
    WrittenFile,
    checksum,
    committed_chain,
    decode_manifest,
    decode_seal,
    encode_manifest,
    encode_seal,
    highest_seal,
    run_of,
)

DESCRIPTION = SinkDescription(
    "job", "result", "parquet", pa.schema([pa.field("x", pa.int64(), nullable=False)]), True, ("x",)
)
FILE = WrittenFile("part-r000002-e0000000004-s000-g000-000000.parquet", (4, 5), (7, 1), 99, "ab")


def chain_of(*documents: Seal | Manifest, without: str = "") -> list[str]:
    names = {document.name: document for document in documents if document.name != without}
    newest = highest_seal(names)
    assert newest is not None
    seal = names[newest]
    assert isinstance(seal, Seal)

    def read(name: str) -> Manifest:
        found = names[name]
        assert isinstance(found, Manifest)
        return found

    return [one.name for one in committed_chain(names, seal, read)]


def manifest(generation: int, sequence: int, previous: Manifest | None, run: int = 1) -> Manifest:
    before = None if previous is None else previous.name
    return Manifest(run, generation, sequence, sequence, sequence, 0, before)


def seal(generation: int, previous: Manifest | None, run: int = 1) -> Seal:
    return Seal(run, generation, None if previous is None else previous.name, DESCRIPTION)


def test_documents_read_back_as_they_were_written() -> None:
    one = Seal(2, 3, "manifests/000002-000002-0000000009.json", DESCRIPTION)
    assert decode_seal(one.name, encode_seal(one)) == one
    other = Manifest(2, 3, 10, -4, 5, 77, "manifests/x", (FILE,), True)
    assert decode_manifest(other.name, encode_manifest(other)) == other
    assert other.rows == 8


def test_names_sort_as_the_documents_follow_and_tell_their_run() -> None:
    assert seal(3, None, run=12).name == "seals/000012-000003.json"
    assert manifest(3, 4, None, run=12).name == "manifests/000012-000003-0000000004.json"
    names = [seal(0, None).name, seal(3, None).name, manifest(0, 0, None).name, FILE.name]
    assert [run_of(name) for name in names] == [1, 1, 1, 2]
    assert run_of("notes.txt") is None
    assert run_of("folder/part-r000002-x.parquet") is None


def test_a_chain_grows_with_its_committer() -> None:
    first = manifest(0, 0, None)
    second = manifest(0, 1, first)
    assert chain_of(seal(0, None)) == []
    assert chain_of(second, first, seal(0, None)) == [first.name, second.name]


def test_what_a_paused_committer_writes_late_is_on_no_chain() -> None:
    #   g0:  0 -- 1 -- 2(late)
    #              \
    #   g1:         2 -- 3
    first = manifest(0, 0, None)
    second = manifest(0, 1, first)
    late = manifest(0, 2, second)
    taken_over = seal(1, second)
    assert chain_of(seal(0, None), first, second, late, taken_over) == [first.name, second.name]
    third = manifest(1, 2, second)
    fourth = manifest(1, 3, third)
    expected = [first.name, second.name, third.name, fourth.name]
    assert chain_of(seal(0, None), first, second, late, taken_over, third, fourth) == expected


def test_a_new_run_replaces_everything_with_its_seal() -> None:
    first = manifest(5, 0, None)
    assert chain_of(seal(5, None), first, seal(0, None, run=2)) == []
    own = manifest(0, 0, None, run=2)
    assert chain_of(seal(5, None), first, seal(0, None, run=2), own) == [own.name]


def test_a_missing_link_is_named() -> None:
    first = manifest(0, 0, None)
    second = manifest(0, 1, first)
    with pytest.raises(OutputError, match=f"{first.name} is missing, though {second.name}"):
        chain_of(seal(0, None), first, second, without=first.name)


def test_a_link_out_of_sequence_is_refused() -> None:
    first = manifest(0, 0, None)
    with pytest.raises(OutputError, match="can't go on from"):
        chain_of(seal(0, None), first, manifest(0, 2, first))


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_a_cut_document_is_refused(cut: int) -> None:
    one = manifest(0, 0, None)
    with pytest.raises(OutputError, match="is damaged"):
        decode_manifest(one.name, encode_manifest(one)[:cut])


def test_a_changed_document_is_refused() -> None:
    one = Manifest(2, 0, 0, 4, 5, 0, None, (FILE,))
    data = encode_manifest(one).replace(b'"bytes":99', b'"bytes":98')
    with pytest.raises(OutputError, match="checksum does not fit"):
        decode_manifest(one.name, data)


@pytest.mark.parametrize(
    ("key", "value"),
    [("version", 2), ("kind", "seal"), ("files", [{"name": "../../etc/passwd"}]), ("run", "x")],
)
def test_a_foreign_document_is_refused_even_with_a_checksum(key: str, value: object) -> None:
    one = manifest(0, 0, None)
    document = json.loads(encode_manifest(one))
    document.pop("checksum")
    document[key] = value
    plain = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    document["checksum"] = checksum(plain)
    with pytest.raises(OutputError, match="is not a manifest of version 1"):
        decode_manifest(one.name, json.dumps(document).encode())


def test_a_renamed_document_is_refused() -> None:
    one = manifest(0, 3, None)
    with pytest.raises(OutputError, match="renamed"):
        decode_manifest("manifests/000001-000000-0000000004.json", encode_manifest(one))
