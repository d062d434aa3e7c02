"""What a snapshot holds of a sliding window, and how that is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from streammine.operators.plain_data import SCALARS

Entry = tuple[int, Any]
"""(time, value)"""


class WindowChange(NamedTuple):
    """`entries` are added. `whole`: they are all that there is. Otherwise, of what the snapshot before held,
    entries with a time below `dropped` go first (None: none do), and `kept` are left."""

    whole: bool
    dropped: int | None
    kept: int
    entries: list[Entry]

    def plain(self) -> list[Any]:
        """As plain data: times and values each in a list, and tuples of one length in one for each place, for
        a short list of long ones takes less time to write and to read than the other way round."""
        times = [time for time, _ in self.entries]
        columns = [[value for _, value in self.entries]]
        width = _common_width(columns[0])
        if width is not None:
            # quicker than zip, which makes an iterator for each value
            columns = [list(map(itemgetter(place), columns[0])) for place in range(width)]
        return [self.whole, self.dropped, self.kept, times, width, columns]

    @classmethod
    def of_plain(cls, plain: list[Any]) -> WindowChange:
        """The inverse of `plain`."""
        whole, dropped, kept, times, width, columns = plain
        values: Iterable[Any] = repeat((), len(times))
        if width is None:
            (values,) = columns
        elif width:
            values = zip(*columns, strict=True)
        return cls(whole, dropped, kept, list(zip(times, values, strict=True)))


def are_fixed(values: Sequence[Any]) -> bool:
    """Whether no value can be changed in its place: all are None, numbers, texts, bytes, tuples of these."""
    kinds = set(map(type, values))
    while tuple in kinds:
        tuples = values if len(kinds) == 1 else [each for each in values if type(each) is tuple]
        values = list(chain.from_iterable(tuples))
        kinds = kinds - {tuple} | set(map(type, values))
    return kinds <= SCALARS


def _common_width(values: Sequence[Any]) -> int | None:
    """The length of them all, if they are tuples of one length."""
    if set(map(type, values)) != {tuple}:
        return None
    widths = set(map(len, values))
    return widths.pop() if len(widths) == 1 else None
