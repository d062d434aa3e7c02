"""The values of sliding windows per key, and those at a rank of each window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from streammine.model.contracts import IntArray
from streammine.operators.kernels import sliding_order as kernels
from streammine.operators.kernels import value_queues
from streammine.operators.kernels.order_layout import (
    CHUNK,
    CHUNK_READ,
    CLASS,
    COUNT,
    FIELDS,
    FOUND_REMAINDER,
    LAST,
    OFFSET_READ,
    TOUCHED,
    UNUSED,
    Brackets,
    Queues,
    empty_head,
    new_arena,
)

_FIRST_KEYS = 16
_FIRST_CHUNKS = 64
_FIRST_ENTRIES = 1 << 12

Number = TypeVar("Number", bound=np.generic)


def load_kernels() -> None:
    """Make all kernels ready, so that the first values do not wait for them."""
    kernels.load_kernels()
    value_queues.load_kernels()


@dataclass(frozen=True)
class Slide:
    """What happens between two ends of windows: values come to keys, `entering` pairs of both (int64[n]);
    then the oldest values of keys leave windows, `leaving` pairs of a window's number and the keys, each once
    for each value."""

    entering: Sequence[tuple[IntArray, IntArray]]
    leaving: Sequence[tuple[int, IntArray]]

    @property
    def rows(self) -> int:
        """How often a value comes or leaves a window."""
        return sum(len(keys) for keys, _ in self.entering) + sum(
            len(keys) for _, keys in self.leaving
        )

    def steps(self) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Window or COMES, keys, and values or zeros."""
        for keys, values in self.entering:
            yield kernels.COMES, keys, values
        for window, keys in self.leaving:
            yield window, keys, np.zeros(len(keys), np.int64)


class SlidingOrder:
    """Windows of keys 0, 1, … that end at the same time and begin at different ones.

    What comes, comes into all windows of its key; window 0 is the shortest, and is let go of a value
    before the next one. Whoever uses it says when values go, oldest first.
    """

    def __init__(self, windows: int, broad: bool, numerator: int, denominator: int) -> None:
        """`broad`: values need 64 bits. Wanted is the value at (n - 1) * numerator / denominator."""
        self.windows = windows
        self._broad = broad
        self._quantile = (numerator, denominator)
        self._queues = Queues(
            np.empty(0 if broad else _FIRST_CHUNKS * CHUNK, np.int32),
            np.empty(_FIRST_CHUNKS * CHUNK if broad else 0, np.int64),
            np.empty(_FIRST_CHUNKS, np.int32),
            np.array([-1, 0], np.int64),
            np.empty((0, 2), np.int32),
        )
        self._brackets = Brackets(
            np.empty((0, FIELDS), np.int64),
            np.empty(_FIRST_ENTRIES, np.int64),
            np.empty(_FIRST_ENTRIES, np.int64),
            new_arena(),
        )
        self._buffer, self._buffer_counts = np.empty((2, _FIRST_ENTRIES), np.int64)
        self._histogram = np.empty(kernels.RANGES, np.int64)
        self._kept: list[IntArray] | None = None

    @property
    def keys(self) -> int:
        """How many keys there is place for."""
        return len(self._queues.tails)

    @property
    def nbytes(self) -> int:
        """Bytes of the values and what is known of them; room that was never used does not count."""
        values = int(self._queues.pool[UNUSED]) * (CHUNK * (8 if self._broad else 4) + 4)
        entries = 16 * int(self._brackets.arena[0])
        by_key = self._brackets.heads.nbytes + self._queues.tails.nbytes
        return values + entries + by_key + self._buffer.nbytes + self._buffer_counts.nbytes

    def grow(self, keys: int) -> None:
        """Make place for keys below this number."""
        if keys <= self.keys:
            return
        added = max(keys, 2 * self.keys, _FIRST_KEYS) - self.keys
        tails = np.full((added, 2), -1, np.int32)
        heads = np.tile(empty_head(), (added * self.windows, 1))
        self._queues = self._queues._replace(tails=np.concatenate((self._queues.tails, tails)))
        self._brackets = self._brackets._replace(
            heads=np.concatenate((self._brackets.heads, heads))
        )

    def slide(self, slides: Sequence[Slide]) -> tuple[IntArray, IntArray, IntArray]:
        """Slides after each other, and where the wanted values lie behind each.

        Returns, of the windows that something came to or left where that makes a difference, and of those
        without values among them: the place of the slide and the window's number, key * windows + window
        (both int64[n]); the two values that the wanted one lies between, and the remainder of its rank
        (int64[n, 3]). A remainder of -1 stands for a window without values; the two are 0 then.

        Each slide for itself gives the same. But where there are many keys, what is known of one has left
        the processor's cache when the next slide comes to it; here all that concerns a key is done at once.
        """
        steps = [
            (place, window, keys, images)
            for place, slide in enumerate(slides)
            for window, keys, images in slide.steps()
        ]
        lengths = [len(keys) for _, _, keys, _ in steps]
        keys = np.concatenate([np.empty(0, np.int64), *(keys for _, _, keys, _ in steps)])
        # numbers of two bytes are sorted by counting
        order = keys.astype(np.min_scalar_type(self.keys)).argsort(kind="stable")
        images = np.concatenate([np.empty(0, np.int64), *(images for *_, images in steps)])[order]
        places, windows = (
            np.repeat(np.array([step[which] for step in steps], np.int64), lengths)[order]
            for which in (0, 1)
        )
        keys = keys[order]
        self._have_chunks(int(np.count_nonzero(windows == kernels.COMES)))
        most = min(len(keys), self.keys * len(slides))
        found = self._slide(keys, places, windows, images, settling=most)
        return found[:, 0], found[:, 1], found[:, 2:]

    def _move(self, window: int, keys: IntArray, values: IntArray) -> None:
        """Values come, or leave a window, and nothing is settled yet."""
        slides, windows = np.zeros(len(keys), np.int64), np.full(len(keys), window)
        self._slide(keys, slides, windows, values, settling=0)

    def _slide(
        self,
        keys: IntArray,
        places: IntArray,
        windows: IntArray,
        images: IntArray,
        *,
        settling: int,
    ) -> IntArray:
        """See the kernel; what was found, in int64[n, 5]. `settling`: for how many keys at most, over all
        slides, windows are settled, or 0 if none shall be."""
        freed = np.zeros(len(keys) + 1, np.int64)
        state = np.zeros(kernels.STATE_FIELDS, np.int64)
        found = np.empty((settling * self.windows, 5), np.int64)
        while not kernels.slide(
            self._queues,
            self._brackets,
            self.windows,
            *self._quantile,
            settling > 0,
            keys,
            places,
            windows,
            images,
            self._buffer,
            self._buffer_counts,
            self._histogram,
            freed,
            state,
            found,
        ):
            self._make_room(int(state[kernels.LACKS_ROOM]))
        self._free(freed)
        return found[: state[kernels.FOUND_ROWS]]

    def take_in(self, keys: IntArray, values: IntArray) -> None:
        """Values come to keys that there is place for."""
        self._have_chunks(len(keys))
        self._move(kernels.COMES, keys, values)

    def let_go(self, window: int, keys: IntArray) -> None:
        """The oldest values of keys leave a window; a key may be named several times."""
        self._move(window, keys, np.zeros(len(keys), np.int64))

    def settle_all(self) -> tuple[IntArray, IntArray]:
        """All windows with values, whatever was found of them before: their numbers, key * windows + window
        (int64[n]), and what `slide` returns of each (int64[n, 3])."""
        heads = self._brackets.heads
        heads[:, TOUCHED] = heads[:, COUNT] > 0
        heads[:, FOUND_REMAINDER] = -1
        keys = np.flatnonzero(self.counts().any(axis=1))
        nothing = np.zeros(len(keys), np.int64)
        stay = np.full(len(keys), kernels.STAYS)
        found = self._slide(keys, nothing, stay, nothing, settling=len(keys))
        return found[:, 1], found[:, 2:]

    def counts(self) -> IntArray:
        """How many values each window of each key has (int64[keys, windows])."""
        return self._brackets.heads[:, COUNT].reshape(-1, self.windows)

    def forget(self, keys: IntArray) -> None:
        """Keys that have no values in any window need no place any more."""
        freed = np.zeros(len(keys) + 1, np.int64)
        value_queues.forget(self._queues, self._brackets, self.windows, keys, freed)
        self._free(freed)

    def forget_empty(self) -> None:
        """As `forget`, of all keys that have no values and may still have a place."""
        placed = self._queues.tails[:, LAST] >= 0
        self.forget(np.flatnonzero(placed & (self.counts()[:, -1] == 0)))

    def renumber(self, keys: IntArray) -> None:
        """Key keys[i] is i from now on. All others are forgotten, and everything is settled."""
        assert not self._brackets.heads[:, TOUCHED].any(), "everything is settled before"
        heads = self._brackets.heads.reshape(self.keys, self.windows, -1)[keys]
        self._queues = self._queues._replace(tails=self._queues.tails[keys])
        self._brackets = self._brackets._replace(heads=heads.reshape(-1, FIELDS))

    def skip(self, window: int, keys: IntArray, counts: IntArray) -> None:
        """As `let_go` of so many values of each key, before anything was settled."""
        value_queues.skip(self._queues, self._brackets, self.windows, window, keys, counts)

    def keep(self) -> FrozenQueues:
        """The values as they are now. Nothing of them is written over until `release`."""
        heads = self._brackets.heads[self.windows - 1 :: self.windows]
        ends = np.zeros_like(heads)
        for field in (COUNT, CHUNK_READ, OFFSET_READ):
            ends[:, field] = heads[:, field]
        assert self._kept is None, "what was kept before is released before"
        self._kept = []
        return FrozenQueues(self._queues, ends)

    def release(self) -> None:
        """What `keep` gave is not used any more."""
        kept, self._kept = self._kept, None
        for freed in kept or ():
            value_queues.free_chunks(self._queues, freed)

    def _have_chunks(self, values: int) -> None:
        """Make place for so many more values, be each of another key."""
        used = int(self._queues.pool[UNUSED])
        chunks = used + values
        have = len(self._queues.links)
        if chunks > have:
            chunks = max(chunks, have + (have >> 1))
            self._queues = self._queues._replace(
                narrow=_longer(
                    self._queues.narrow, 0 if self._broad else chunks * CHUNK, used * CHUNK
                ),
                broad=_longer(
                    self._queues.broad, chunks * CHUNK if self._broad else 0, used * CHUNK
                ),
                links=_longer(self._queues.links, chunks, used),
            )

    def _free(self, freed: IntArray) -> None:
        if self._kept is None:
            value_queues.free_chunks(self._queues, freed)
        elif freed[0]:
            self._kept.append(freed[: freed[0] + 1].copy())

    def _make_room(self, number: int) -> None:
        """For the bracket of a window: in the buffers if it has its place, else in the arena."""
        power = int(self._brackets.heads[number, CLASS])
        if 1 << max(power, 0) > len(self._buffer):
            self._buffer, self._buffer_counts = np.empty((2, 1 << power), np.int64)
            return
        size = 2 * len(self._brackets.values)
        used = int(self._brackets.arena[0])
        self._brackets = self._brackets._replace(
            values=_longer(self._brackets.values, size, used),
            counts=_longer(self._brackets.counts, size, used),
        )


class FrozenQueues:
    """The values of all keys at one time, those of the longest window."""

    def __init__(self, queues: Queues, ends: IntArray) -> None:
        """`ends`: the heads of the longest windows, of which only their place is used."""
        self._queues = queues
        self._ends = ends

    def pieces(self, values: int) -> Iterator[npt.NDArray[np.int32] | IntArray]:
        """The values, key after key and of each the oldest first, in pieces of so many at most; once."""
        narrow = self._queues.broad.size == 0
        left = int(self._ends[:, COUNT].sum())
        begin = 0
        while left:
            piece = np.empty(min(left, values), np.int64)
            begin = value_queues.copy_out(self._queues, self._ends, begin, piece)
            left -= len(piece)
            yield piece.astype(np.int32) if narrow else piece


def _longer(array: npt.NDArray[Number], size: int, used: int) -> npt.NDArray[Number]:
    """The array with room for `size` values, of which only those that are used are set: room that was never
    used takes no memory."""
    if size <= len(array):
        return array
    longer = np.empty(size, array.dtype)
    longer[:used] = array[:used]
    return longer
