"""Contents of bags: the same for every order and cut of the rows, another one for other rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammine.operators.sinks import FILE_RECORD
from streammine.simulation.contents import BagContents, content_of, sequence_of

ROWS = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from("ab")), max_size=12)
MASK = (1 << 64) - 1


def batch(rows: list[tuple[int, str]]) -> pa.RecordBatch:
    numbers, texts = [row[0] for row in rows], [row[1] for row in rows]
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(texts)], names=["n", "t"])


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 12))
def test_order_and_cuts_do_not_matter(
    rows: list[tuple[int, str]], random: object, cut: int
) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    parts = content_of(batch(shuffled[:cut])) + content_of(batch(shuffled[cut:]))
    assert parts & MASK == content_of(batch(rows))


@given(ROWS, ROWS)
def test_other_rows_give_another_content(
    left: list[tuple[int, str]], right: list[tuple[int, str]]
) -> None:
    assert (content_of(batch(left)) == content_of(batch(right))) == (sorted(left) == sorted(right))


@given(ROWS, ROWS, st.integers(0, 12))
def test_a_sequence_is_the_same_for_every_cut_but_no_other_order(
    left: list[tuple[int, str]], right: list[tuple[int, str]], cut: int
) -> None:
    parts = sequence_of(batch(left[cut:]), sequence_of(batch(left[:cut])))
    assert (parts == sequence_of(batch(right))) == (left == right)


def test_a_bag_is_a_sequence_where_the_consumer_depends_on_it() -> None:
    contents = BagContents(sequenced={4})
    parts = [batch([(1, "a")]), batch([(2, "b")])]
    for channel in (3, 4):
        one, other = (
            contents.more(channel, contents.more(channel, 0, first), then)
            for first, then in (parts, reversed(parts))
        )
        assert (one == other) == (channel == 3)


def test_word_of_a_file_counts_by_what_is_in_it() -> None:
    record = {
        "slice": 1,
        "number": 0,
        "epochs": [1, 2],
        "rows": [3, 4],
        "bytes": 9,
        "checksum": "x",
    }
    names = [{**record, "name": name} for name in ("g1", "g2")]
    other = {**record, "name": "g1", "rows": [3, 5]}
    first, second, third = (
        content_of(pa.RecordBatch.from_pylist([each], schema=FILE_RECORD))
        for each in (*names, other)
    )
    assert first == second != third


def test_a_bag_that_two_replicas_made_differently_is_found_out() -> None:
    contents = BagContents()
    contents.made(3, 7, 11, "first")
    contents.made(3, 7, 11, "second")
    with pytest.raises(
        AssertionError, match="channel 3, epoch 7: third made another bag than first"
    ):
        contents.made(3, 7, 12, "third")


def test_a_bag_must_be_taken_whole_and_none_that_nobody_made() -> None:
    contents = BagContents()
    contents.made(3, 7, 11, "maker")
    contents.taken(3, 7, 11, "taker")
    contents.taken(3, 8, None, "taker")
    with pytest.raises(AssertionError, match="no rows of channel 3 than maker made"):
        contents.taken(3, 7, None, "taker")
    with pytest.raises(AssertionError, match="other rows of channel 3 that nobody made"):
        contents.taken(3, 8, 5, "taker")
    assert contents.between(3, 6, 9) == [7]
    assert contents.between(3, 7, 9) == []


def test_times_that_python_does_not_know_are_contents_too() -> None:
    far = [
        pa.record_batch({"at": pa.array([each], pa.timestamp("us"))}) for each in (2**62, 2**62 + 1)
    ]
    assert content_of(far[0]) != content_of(far[1])
    lists = [
        pa.record_batch({"at": pa.array([[each]], pa.list_(pa.timestamp("us")))})
        for each in (2**62, 7)
    ]
    assert content_of(lists[0]) != content_of(lists[1])
