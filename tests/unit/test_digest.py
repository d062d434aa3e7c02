"""The output digest changes with what was written, and with nothing else."""

from __future__ import annotations

import hashlib
import struct

import pyarrow as pa
import pytest

from streammine.model.digest import SinkDigest, output_digest
from streammine.model.errors import TopologyError
from tests.unit.canonical_reference import encode_row, stored

SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64()), ("delay", pa.float64())])
Epochs = dict[int, list[tuple[str | None, int, float]]]
EPOCHS: Epochs = {
    -3: [("b", 1, 0.5), ("a", 2, 0.0)],
    0: [("a", 2, -0.0), ("a", 2, -0.0), (None, 7, 1.0)],
    9: [("c", 1, 2.0)],
}


def digest_of(
    epochs: Epochs, *, ordered: bool = False, volatile: tuple[str, ...] = (), name: str = "result"
) -> str:
    one = SinkDigest(name, SCHEMA, ordered=ordered, volatile=volatile)
    for epoch in sorted(epochs):
        one.add(epoch, table(epochs[epoch]))
    return output_digest([one])


def table(rows: list[tuple[str | None, int, float]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table(
        [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def text(value: str) -> bytes:
    return struct.pack(">I", len(value.encode())) + value.encode()


@pytest.mark.parametrize("ordered", [False, True])
def test_digest_is_the_described_one(ordered: bool) -> None:
    sink = hashlib.sha256(b"streammine sink 1\n" + text("result") + struct.pack(">I", 2))
    sink.update(text("word") + text("string") + text("count") + text("int64"))
    schema = pa.schema(list(SCHEMA)[:2])
    for epoch, rows in sorted(EPOCHS.items()):
        encoded = [encode_row(row, schema) for row in stored(table(rows).select(["word", "count"]))]
        sink.update(struct.pack(">qQ", epoch, len(rows)))
        sink.update(b"".join(encoded if ordered else sorted(encoded)))
    expected = hashlib.sha256(b"streammine output 1\n" + struct.pack(">I", 1))
    expected.update(text("result") + sink.digest())
    assert digest_of(EPOCHS, ordered=ordered, volatile=("delay",)) == expected.hexdigest()


@pytest.mark.parametrize("ordered", [False, True])
def test_dropping_doubling_or_changing_one_row_changes_it(ordered: bool) -> None:
    seen = {digest_of(EPOCHS, ordered=ordered)}
    changed: list[Epochs] = []
    for epoch, rows in EPOCHS.items():
        for index, row in enumerate(rows[:1] + rows[2:]):
            changed.append({**EPOCHS, epoch: rows[:index] + rows[index + 1 :]})
            changed.append({**EPOCHS, epoch: [*rows[:index], row, *rows[index:]]})
            changed.append({**EPOCHS, epoch: [*rows[:index], ("x", *row[1:]), *rows[index + 1 :]]})
            changed.append(
                {**EPOCHS, epoch: [*rows[:index], (row[0], 99, row[2]), *rows[index + 1 :]]}
            )
    for epochs in changed:
        assert digest_of(epochs, ordered=ordered) not in seen


@pytest.mark.parametrize("ordered", [False, True])
def test_swapping_two_rows_across_epochs_changes_it(ordered: bool) -> None:
    first, second = EPOCHS[-3], EPOCHS[9]
    swapped = {**EPOCHS, -3: [second[0], *first[1:]], 9: [first[0]]}
    assert digest_of(swapped, ordered=ordered) != digest_of(EPOCHS, ordered=ordered)


def test_swapping_two_rows_within_an_epoch_changes_only_an_ordered_sink() -> None:
    swapped = {**EPOCHS, -3: EPOCHS[-3][::-1]}
    assert digest_of(swapped) == digest_of(EPOCHS)
    assert digest_of(swapped, ordered=True) != digest_of(EPOCHS, ordered=True)


def test_moving_a_row_into_another_epoch_changes_it() -> None:
    moved = {**EPOCHS, 0: EPOCHS[0][1:], 1: EPOCHS[0][:1]}
    assert digest_of(moved) != digest_of(EPOCHS)


def test_a_volatile_column_does_not_count() -> None:
    later = {epoch: [(*row[:2], row[2] + 5) for row in rows] for epoch, rows in EPOCHS.items()}
    assert digest_of(later) != digest_of(EPOCHS)
    assert digest_of(later, volatile=("delay",)) == digest_of(EPOCHS, volatile=("delay",))


def test_an_epoch_without_rows_leaves_no_trace() -> None:
    assert digest_of({**EPOCHS, 5: []}) == digest_of(EPOCHS)


def test_names_and_types_of_columns_count_and_nullability_does_not() -> None:
    def empty(*fields: pa.Field) -> str:
        return output_digest([SinkDigest("s", pa.schema(fields))])

    plain = empty(pa.field("x", pa.int64()))
    assert empty(pa.field("y", pa.int64())) != plain
    assert empty(pa.field("x", pa.int32())) != plain
    assert empty(pa.field("x", pa.int64(), nullable=False, metadata={"a": "b"})) == plain


def test_sinks_count_by_name_in_any_order() -> None:
    one, two = SinkDigest("one", SCHEMA), SinkDigest("two", SCHEMA)
    one.add(0, table(EPOCHS[0]))
    assert output_digest([one, two]) == output_digest([two, one])
    other, empty = SinkDigest("two", SCHEMA), SinkDigest("one", SCHEMA)
    other.add(0, table(EPOCHS[0]))
    assert output_digest([other, empty]) != output_digest([one, two])


def test_an_unknown_volatile_column_is_refused() -> None:
    with pytest.raises(TopologyError, match="volatile names latency, but its columns are word"):
        SinkDigest("result", SCHEMA, volatile=("latency",))
