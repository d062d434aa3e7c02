"""The bytes of a batch, about."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.batch_size import SMALL_BYTES, batch_nbytes

ROWS = 10_000


def batch(*columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(list(columns), names=[str(place) for place in range(len(columns))])


NUMBERS = pa.array(np.arange(ROWS))
TEXTS = pa.array([f"text {row}" for row in range(ROWS)])
FLAGS = pa.array([row % 3 == 0 for row in range(ROWS)])
NOTHING = pa.nulls(ROWS)


@pytest.mark.parametrize(
    "whole",
    [
        batch(NUMBERS),
        batch(NUMBERS, TEXTS, FLAGS),
        batch(TEXTS, NUMBERS),
        batch(FLAGS, NUMBERS, TEXTS.dictionary_encode()),
        batch(NOTHING, NUMBERS),
        batch(pa.array([[1, 2]] * ROWS), NUMBERS),
    ],
    ids=lambda whole: ", ".join(map(str, whole.schema.types)),
)
def test_a_batch_and_its_parts_are_told_about_as_they_are(whole: pa.RecordBatch) -> None:
    for start, rows in ((0, ROWS), (0, 3_000), (1_000, 3_000), (7_000, 3_000)):
        part = whole.slice(start, rows)
        assert batch_nbytes(part) == pytest.approx(part.nbytes, rel=0.02, abs=256)


def test_columns_that_are_parts_are_seen_at_either_end() -> None:
    part = NUMBERS.slice(100, 2_000)
    fresh = pa.array(np.arange(2_000))
    for columns in ((part, fresh), (fresh, part), (NUMBERS.slice(0, 2_000), fresh)):
        assert batch_nbytes(batch(*columns)) == 2 * 8 * 2_000


def test_columns_that_share_an_array_count_it_once() -> None:
    parts = [NUMBERS.slice(start, ROWS // 5) for start in range(0, ROWS, ROWS // 5)]
    assert batch_nbytes(batch(*parts)) == NUMBERS.nbytes


def test_a_part_of_a_small_batch_counts_as_the_whole() -> None:
    small = batch(pa.array(np.arange(SMALL_BYTES // 8)))
    assert batch_nbytes(small.slice(0, 1)) == SMALL_BYTES


def test_a_batch_without_rows_or_columns_holds_nothing() -> None:
    assert batch_nbytes(batch(NUMBERS).slice(0, 0)) == 0
    assert batch_nbytes(pa.RecordBatch.from_arrays([], names=[])) == 0
