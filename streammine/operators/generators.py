"""Seeded generators of rows: the same rows for the same seed, wherever and in whatever portions.

Each value is a hash of (seed, column, row number), so any stretch of rows can be made apart from
the rest. Only integer arithmetic and correctly rounded float operations are used: the bytes do not
depend on the machine or on a library's release.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]


@runtime_checkable
class Generator(Protocol):
    """What a generator source needs; a class of the user's own has the same.

    It is called with the source's settings (`with`) as keyword arguments.
    """

    @property
    def schema(self) -> pa.Schema: ...

    def rows(self, first: int, count: int, seed: int) -> pa.RecordBatch:
        """Rows [first, first + count) in the schema. The same arguments give the same rows, and so
        does every other cut of them into calls."""
        ...


def random_words(seed: int, column: int, first: int, count: int, per_row: int = 1) -> WordArray:
    """`count * per_row` evenly distributed uint64, those of row r depending on (seed, column, r)
    only.

    The output function of Steele, Lea and Flood's SplitMix64 (2014), counting by rows.
    """
    start = (seed * 0x9E3779B97F4A7C15 + column * 0xD1B54A32D192ED03) % 2**64
    state = np.arange(count * per_row, dtype=np.uint64) + np.uint64(first * per_row % 2**64)
    state *= np.uint64(0x9E3779B97F4A7C15)
    state += _mixed(np.array([start], np.uint64))[0]
    return _mixed(state)


def _mixed(state: WordArray) -> WordArray:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def random_below(words: WordArray, bound: int) -> IntArray:
    """Whole numbers in [0, bound) out of evenly distributed uint64; `bound` at most 2**31."""
    assert 0 < bound <= 2**31
    return (((words >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def row_numbers(first: int, count: int) -> IntArray:
    return np.arange(first, first + count, dtype=np.int64)


def _whole(name: str, value: Any, least: int, most: int = 2**31) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return value


def _zipf_exponent(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10:
        raise ValueError(f"exponent must be a number from 0 to 10, not {value!r}")
    return float(value)


class ZipfTable:
    """Draws ranks 0 … size - 1 with probabilities proportional to (rank + 1) ** -exponent.

    Vose's alias method: one table look-up and one comparison per draw.
    """

    def __init__(self, size: int, exponent: float) -> None:
        # Rounded well above the last place, in which powers and sums may differ between machines.
        weights = np.arange(1, size + 1, dtype=np.float64) ** -exponent
        shares = np.round(weights / weights.sum() * size, 9)
        self._size = size
        self._threshold, self._alias = _alias_table(shares)

    def ranks(self, words: WordArray) -> IntArray:
        """Ranks (int64) out of evenly distributed uint64."""
        slots = random_below(words, self._size)
        keep = (words & np.uint64(0xFFFFFFFF)) < self._threshold[slots]
        return np.where(keep, slots, self._alias[slots])


def _alias_table(shares: FloatArray) -> tuple[WordArray, IntArray]:
    """(threshold of 2**32 below which a slot keeps its rank, the rank it gives else)."""
    left = shares.tolist()
    alias = list(range(len(left)))
    small = [rank for rank, share in enumerate(left) if share < 1.0]
    large = [rank for rank, share in enumerate(left) if share >= 1.0]
    while small and large:
        poor, rich = small.pop(), large[-1]
        alias[poor] = rich
        left[rich] -= 1.0 - left[poor]
        if left[rich] < 1.0:
            small.append(large.pop())
    for rank in small + large:
        left[rank] = 1.0
    thresholds = np.round(np.array(left) * 2.0**32).astype(np.uint64)
    return thresholds, np.array(alias, dtype=np.int64)


@lru_cache(maxsize=8)
def _zipf_table(size: int, exponent: float) -> ZipfTable:
    return ZipfTable(size, exponent)


_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"


def word_of_rank(rank: int) -> str:
    """The word of a rank: letters only, distinct, shorter for frequent ranks."""
    syllables = len(_CONSONANTS) * len(_VOWELS)
    text = ""
    rank += 1
    while rank:
        rank, place = divmod(rank - 1, syllables)
        text += _CONSONANTS[place % len(_CONSONANTS)] + _VOWELS[place // len(_CONSONANTS)]
    return text


@lru_cache(maxsize=8)
def _vocabulary(size: int) -> pa.Array:
    """Words with a blank behind them, then the same words without."""
    words = [word_of_rank(rank) for rank in range(size)]
    return pa.array([word + " " for word in words] + words, pa.string())


class Words:
    """Lines of `words_per_line` words out of `vocabulary` words, as frequent as words of a
    language."""

    def __init__(
        self, words_per_line: int = 10, vocabulary: int = 10_000, exponent: float = 1.0
    ) -> None:
        self._per_line = _whole("words_per_line", words_per_line, 1, 1000)
        self._vocabulary = _whole("vocabulary", vocabulary, 1, 2_000_000)
        self._exponent = _zipf_exponent(exponent)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("line", pa.string())])

    def rows(self, first: int, count: int, seed: int) -> pa.RecordBatch:
        """See Generator."""
        drawn = random_words(seed, 0, first, count, self._per_line)
        ranks = _zipf_table(self._vocabulary, self._exponent).ranks(drawn)
        ranks[self._per_line - 1 :: self._per_line] += self._vocabulary
        words = _vocabulary(self._vocabulary).take(pa.array(ranks))
        assert isinstance(words, pa.StringArray), "a call's words fit into one string array"
        _, offsets, text = words.buffers()
        ends = np.frombuffer(offsets, np.int32, len(words) + 1)[:: self._per_line].copy()
        lines = pa.StringArray.from_buffers(count, pa.py_buffer(ends), text)
        return pa.record_batch([lines], schema=self.schema)


class Readings:
    """Readings of smart plugs in rounds: every plug tells each of its properties once per round.

    Property 1 is the load in watts, property 0 the work so far in kilowatt-hours, as in the DEBS
    2014 grand challenge. Time is in whole seconds, `per_second` rows each.
    """

    def __init__(
        self,
        plugs: int = 2000,
        properties: int = 2,
        plugs_per_household: int = 5,
        households_per_house: int = 10,
        per_second: int = 2000,
        start: int = 1_377_986_401,
    ) -> None:
        self._plugs = _whole("plugs", plugs, 1)
        self._properties = _whole("properties", properties, 1, 2)
        self._plugs_per_household = _whole("plugs_per_household", plugs_per_household, 1)
        self._households_per_house = _whole("households_per_house", households_per_house, 1)
        self._per_second = _whole("per_second", per_second, 1)
        self._start = _whole("start", start, 0, 2**40)

    @property
    def schema(self) -> pa.Schema:
        names = ("property", "plug_id", "household_id", "house_id")
        return pa.schema(
            [
                pa.field("ts", pa.int64()),
                pa.field("value", pa.float64()),
                *(pa.field(name, pa.int32()) for name in names),
            ]
        )

    def rows(self, first: int, count: int, seed: int) -> pa.RecordBatch:
        """See Generator."""
        numbers = row_numbers(first, count)
        turn, is_load = divmod(numbers, self._properties)
        if self._properties == 1:
            is_load = np.ones_like(numbers)
        rounds, plug = divmod(turn, self._plugs)
        noise = random_below(random_words(seed, 0, first, count), 1000)
        base = random_below(_mixed(plug.astype(np.uint64) + np.uint64(seed % 2**64)), 2_000_000)
        load = (base + noise * 100).astype(np.float64) / 1000.0
        work = (base // 1000 + rounds * (base // 1000) // 100).astype(np.float64) / 1000.0
        household = plug // self._plugs_per_household
        columns = [
            self._start + numbers // self._per_second,
            np.where(is_load == 1, load, work),
            is_load.astype(np.int32),
            (plug % self._plugs_per_household).astype(np.int32),
            (household % self._households_per_house).astype(np.int32),
            (household // self._households_per_house).astype(np.int32),
        ]
        return pa.record_batch([pa.array(column) for column in columns], schema=self.schema)


class Keys:
    """Events with a key and a value. Keys are drawn from `keys`, evenly or, with `exponent`, by
    Zipf's law. Time is in whole seconds, `per_second` rows each; values have two decimals."""

    def __init__(
        self,
        keys: int = 10_000,
        exponent: float = 0.0,
        per_second: int = 10_000,
        start: int = 0,
    ) -> None:
        self._keys = _whole("keys", keys, 1)
        self._exponent = _zipf_exponent(exponent)
        if self._exponent:
            _whole("keys (with an exponent)", keys, 1, 2_000_000)
        self._per_second = _whole("per_second", per_second, 1)
        self._start = _whole("start", start, 0, 2**40)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field("ts", pa.int64()),
                pa.field("key", pa.int64()),
                pa.field("value", pa.float64()),
            ]
        )

    def rows(self, first: int, count: int, seed: int) -> pa.RecordBatch:
        """See Generator."""
        drawn = random_words(seed, 0, first, count)
        if self._exponent:
            keys = _zipf_table(self._keys, self._exponent).ranks(drawn)
        else:
            keys = random_below(drawn, self._keys)
        cents = random_below(random_words(seed, 1, first, count), 100_000)
        columns = [
            self._start + row_numbers(first, count) // self._per_second,
            keys,
            cents.astype(np.float64) / 100.0,
        ]
        return pa.record_batch([pa.array(column) for column in columns], schema=self.schema)


BUILT_IN: dict[str, type[Words] | type[Readings] | type[Keys]] = {
    "words": Words,
    "readings": Readings,
    "keys": Keys,
}
"""Generators by the names that topologies use; their times never descend."""
