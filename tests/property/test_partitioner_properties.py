"""Equal keys go to equal slices, however they are stored or cut."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from partitioners import Hash
from partitioners.hashing import key_hashes

WORDS = st.lists(st.one_of(st.none(), st.text(max_size=30)), min_size=1, max_size=30)
NUMBERS = st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=30)


@given(WORDS, st.integers(0, 29), st.integers(1, 100))
def test_a_text_hashes_alike_in_any_column_and_cut(
    words: list[str | None], start: int, slices: int
) -> None:
    column = pa.array(words, pa.string())
    whole = Hash().targets([column], slices)
    assert Hash().targets([column.cast(pa.large_string())], slices).tolist() == whole.tolist()
    assert Hash().targets([column.slice(start)], slices).tolist() == whole[start:].tolist()
    assert all(0 <= target < slices for target in whole)


@given(NUMBERS)
def test_a_number_hashes_alike_at_any_width(numbers: list[int | None]) -> None:
    narrow, wide = pa.array(numbers, pa.int32()), pa.array(numbers, pa.int64())
    assert key_hashes([narrow]).tolist() == key_hashes([wide]).tolist()


@given(NUMBERS, WORDS)
def test_rows_hash_alike_alone_and_together(
    numbers: list[int | None], words: list[str | None]
) -> None:
    rows = min(len(numbers), len(words))
    columns = [pa.array(numbers[:rows], pa.int64()), pa.array(words[:rows], pa.string())]
    together = key_hashes(columns).tolist()
    alone = [int(key_hashes([c.slice(row, 1) for c in columns])[0]) for row in range(rows)]
    assert together == alone
