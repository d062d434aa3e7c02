"""What a window keeps, and in which order, however its entries came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streammine.operators.sliding_window import LONGEST_STRETCH, SHORTEST_STRETCH, SlidingWindow

times = st.integers(0, 60)
steps = st.lists(
    st.one_of(times, st.tuples(times, st.integers(1, 3 * SHORTEST_STRETCH)), times.map(str)),
    max_size=30,
)
"""A time to append at, so many of them from there on, or (as text) one to drop before."""


@given(steps)
def test_a_window_is_a_list_from_which_old_entries_are_dropped(steps: list[object]) -> None:
    window = SlidingWindow()
    entries: list[tuple[int, int]] = []
    for step in steps:
        if isinstance(step, str):
            window.drop_before(int(step))
            entries = [each for each in entries if each[0] >= int(step)]
        else:
            first, count = step if isinstance(step, tuple) else (step, 1)
            for more in range(count):
                entry = (first + more % 7, len(entries))
                window.append(*entry)
                entries.append(entry)
        assert list(window) == entries
        assert len(window) == len(entries)
        assert window.values() == [value for _, value in entries]


def test_entries_go_one_by_one_out_of_a_long_stretch() -> None:
    window = SlidingWindow()
    count = 2 * LONGEST_STRETCH + 5
    for time in range(count):
        window.append(time, None)
    for time in range(1, count):
        window.drop_before(time)
        assert next(iter(window)) == (time, None)
        assert len(window) == count - time


def test_what_is_appended_after_everything_was_dropped_is_kept() -> None:
    window = SlidingWindow()
    window.append(5, "old")
    window.drop_before(9)
    window.append(7, "late, and after that")
    assert list(window) == [(7, "late, and after that")]


def test_equal_windows_have_the_same_entries_in_one_order() -> None:
    one, other = SlidingWindow(), SlidingWindow()
    for time in range(3 * SHORTEST_STRETCH):
        one.append(time, None)
        other.append(time, None)
        one.drop_before(0)
    assert one == other
    one.append(1, None)
    assert one != other
