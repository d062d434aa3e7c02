"""Quantiles of sliding windows against sorted lists, however the rows arrive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.canonical import encode_rows
from streammine.model.contracts import EpochClose
from streammine.operators.quantiles import sliding_order
from streammine.operators.quantiles.sliding_order import Slide, SlidingOrder
from streammine.operators.sliding_quantile import Slides, SlidingQuantile
from tests.property.operator_trials import assert_as_reference, dead_of, events_of, minutes

MINUTE = 60_000_000
FLOATS = st.one_of(
    st.floats(width=64),
    st.integers(-5, 5).map(float),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324]),
)
WHOLE = st.integers(-3, 3) | st.integers(-(2**60), 2**60)
KINDS = {
    pa.float64(): FLOATS,
    pa.int64(): WHOLE,
    pa.float32(): st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.5]),
    pa.int32(): st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3),
    pa.uint8(): st.integers(0, 255),
}


@dataclass(frozen=True)
class Wanted:
    """Settings, in epochs of a minute."""

    kind: pa.DataType
    keyed: bool
    lengths: tuple[int, ...]
    slide: int
    at: Fraction
    every_slide: bool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("a", pa.int32()), ("b", pa.string()), ("value", self.kind)])

    @property
    def keys(self) -> tuple[str, ...]:
        return ("b", "a") if self.keyed else ()

    def operator(self, combined: bool = False) -> SlidingQuantile:
        assert not combined
        slides = Slides(self.lengths, self.slide, MINUTE)
        return SlidingQuantile(
            "q",
            self.schema,
            self.keys,
            "value",
            slides,
            at=self.at,
            into="q",
            every_slide=self.every_slide,
        )


@st.composite
def some_settings(draw: st.DrawFn) -> Wanted:
    slide = draw(st.integers(1, 3))
    lengths = draw(st.sets(st.integers(1, 5), min_size=1, max_size=3))
    return Wanted(
        draw(st.sampled_from(list(KINDS))),
        draw(st.booleans()),
        tuple(sorted(slide * length for length in lengths)),
        slide,
        draw(st.sampled_from(["1/2", "1/2", "0", "1", "1/10", "3/4", "0.999"]).map(Fraction)),
        draw(st.booleans()),
    )


Row = tuple[int | None, str, Any]
Epochs = Mapping[int, Sequence[Row]]


@st.composite
def some_epochs(draw: st.DrawFn, kind: pa.DataType) -> Epochs:
    start = draw(st.integers(-5, 5))
    numbers = draw(st.sets(st.integers(0, 25), min_size=1, max_size=12))
    row = st.tuples(
        st.sampled_from([1, 2, None]),
        st.sampled_from(["x", "y"]),
        st.none() | KINDS[kind] | KINDS[kind] | KINDS[kind],
    )
    most = draw(st.sampled_from([3, 30]))
    return {
        start + number: draw(st.lists(row, min_size=1, max_size=most)) for number in sorted(numbers)
    }


def comparable(value: float) -> tuple[bool, float]:
    """NaN is greater than all numbers."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def quantile(values: Sequence[Any], at: Fraction) -> float:
    """As the operator's text says it, from a sorted list."""
    values = sorted(values, key=comparable)
    place = (len(values) - 1) * at
    low, part = values[math.floor(place)], place - math.floor(place)
    high = values[math.ceil(place)]
    if part == 0 or low == high or (math.isnan(low) and math.isnan(high)):
        return float(low) + 0.0
    if not (math.isfinite(low) and math.isfinite(high)):
        return float(low) * float(1 - part) + float(high) * float(part)
    return float(Fraction(low) + (Fraction(high) - Fraction(low)) * part) + 0.0


def reference(wanted: Wanted, epochs: Epochs) -> dict[int, list[tuple[Any, ...]]]:
    """All slides from the first row until every window is empty, each from all rows."""
    expected: dict[int, list[tuple[Any, ...]]] = {}
    told: dict[tuple[Any, ...], Any] = {}
    first, last = min(epochs), max(epochs)
    for epoch in range(first, last + wanted.lengths[-1] + wanted.slide + 1):
        if (epoch + 1) % wanted.slide:
            continue
        found: dict[tuple[Any, ...], float] = {}
        for length in wanted.lengths:
            groups: dict[tuple[Any, ...], list[Any]] = {}
            for each in range(epoch - length + 1, epoch + 1):
                for a, b, value in epochs.get(each, ()):
                    if value is not None:
                        groups.setdefault((b, a) if wanted.keyed else (), []).append(value)
            for key, values in groups.items():
                found[key, length] = quantile(values, wanted.at)
        for key, length in found.keys() | told.keys():
            value = found.get((key, length))
            if repr(value) == repr(told.get((key, length))) and not wanted.every_slide:
                continue
            if value is None and wanted.every_slide:
                continue
            end = (epoch + 1) * MINUTE
            expected.setdefault(epoch, []).append((epoch, end - length * MINUTE, end, *key, value))
        told = dict(found)
    return expected


@settings(max_examples=250, deadline=None)
@given(st.data(), some_settings(), st.integers(0, 2**32 - 1))
def test_quantiles_are_those_of_sorted_lists(
    data: st.DataObject, wanted: Wanted, seed: int
) -> None:
    epochs = data.draw(some_epochs(wanted.kind))
    events = events_of(
        minutes("a"), [wanted.schema], {number: [rows] for number, rows in epochs.items()}
    )
    random = np.random.default_rng(seed)
    assert_as_reference(wanted.operator, events, reference(wanted, epochs), random)
    nulls = sum(value is None for rows in epochs.values() for *_, value in rows)
    assert len(dead_of(wanted.operator, events)) == nulls


@settings(max_examples=200, deadline=None)
@given(st.data(), some_settings(), st.integers(0, 2**32 - 1))
def test_told_together_are_the_same_rows(data: st.DataObject, wanted: Wanted, seed: int) -> None:
    """However many epochs are closed before their results are told."""
    epochs = data.draw(some_epochs(wanted.kind))
    definition = minutes("a")
    events = events_of(
        definition, [wanted.schema], {number: [rows] for number, rows in epochs.items()}
    )
    random = np.random.default_rng(seed)
    apart, together = wanted.operator(), wanted.operator()
    batches: list[pa.RecordBatch] = []
    told: list[pa.RecordBatch] = []
    untold: list[pa.RecordBatch] = []

    def close(epoch: int, rows: Sequence[pa.RecordBatch]) -> None:
        collected = []
        for operator in (apart, together):
            collected.append(operator.accumulator(0))
            for batch in rows:
                collected[-1].add(batch)
        at = EpochClose(epoch, definition.watermark(epoch), definition)
        made = list(apart.close(at, collected[:1]))
        batches.extend(made)
        together.close_untold(at, collected[1:])
        untold.extend(made)
        # how many there will be is not known yet
        assert together.untold_nbytes > 0 or not untold
        assert together.due_epoch == apart.due_epoch
        if random.random() < 0.3:
            tell()

    def tell() -> None:
        for batch, of_rows in together.tell():
            assert batch.column("epoch").to_pylist() == of_rows.tolist()
            told.append(batch)
        untold.clear()
        assert together.untold_nbytes == 0

    for operator in (apart, together):
        operator.prepare()
    for epoch, ports in events.epochs.items():
        while apart.due_epoch is not None and apart.due_epoch < epoch:
            close(apart.due_epoch, [])
        close(epoch, ports)
    while apart.due_epoch is not None:
        close(apart.due_epoch, [])
    tell()
    expected, found = (
        encode_rows(pa.Table.from_batches(each, apart.output)) for each in (batches, told)
    )
    for part, other in zip(expected, found, strict=True):
        assert np.array_equal(part, other)


@pytest.mark.parametrize("broad", [False, True])
@pytest.mark.parametrize(
    "shape", ["few values", "all differ", "rising", "falling", "two heaps", "bursts", "extremes"]
)
@pytest.mark.parametrize(("numerator", "denominator"), [(1, 2), (9, 10)])
def test_ranks_in_large_windows(
    shape: str, broad: bool, numerator: int, denominator: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of thousands of values, whose brackets are extended, trimmed and located anew; buffers, too,
    must grow."""
    monkeypatch.setattr(sliding_order, "_FIRST_ENTRIES", 8)
    random = np.random.default_rng(7)
    most = 2**63 - 1 if broad else 2**31 - 1
    lengths = (3, 40)
    order = SlidingOrder(2, broad, numerator, denominator)
    order.grow(2)
    slides: list[tuple[Any, Any]] = []
    known = dict.fromkeys(range(4), (0, 0, -1))
    for slide in range(100):
        rows = int(random.choice([0, 5, 60, 300 if shape != "bursts" else 3000]))
        keys = random.integers(0, 2, rows)
        some = random.integers(0, 40, rows)
        values = {
            "few values": some % 5,
            "all differ": random.integers(-most - 1, most, rows, endpoint=True),
            "rising": slide * 50 + some,
            "falling": -slide * 50 - some,
            "two heaps": np.where(random.integers(0, 2, rows), most - some, some - most),
            "bursts": some * (slide % 7 - 3) * 1000,
            "extremes": np.where(some % 2, most, -most - 1),
        }[shape].astype(np.int64)
        slides.append((keys, values))
        leaving = [
            (window, slides[slide - length][0])
            for window, length in enumerate(lengths)
            if slide >= length
        ]
        _, numbers, found = order.slide([Slide([(keys, values)], leaving)])
        assert len(set(numbers.tolist())) == len(numbers)
        changed = dict(zip(numbers.tolist(), map(tuple, found.tolist()), strict=True))
        assert all(known[each] != changed[each] or changed[each][2] < 0 for each in changed)
        known |= changed
        for number, (low, high, rest) in known.items():
            key, window = divmod(number, 2)
            lately = slides[-lengths[window] :]
            held = np.sort(np.concatenate([some[keys == key] for keys, some in lately]))
            if not len(held):
                assert rest == -1
                continue
            place, remainder = divmod((len(held) - 1) * numerator, denominator)
            assert (low, rest) == (held[place], remainder)
            assert high == held[place + (remainder > 0)]


def test_what_is_not_used_any_more_is_used_again() -> None:
    """Values of ever new keys come and go; what the windows hold is bounded."""
    order = SlidingOrder(1, False, 1, 2)
    sizes = []
    for slide in count():
        keys = np.repeat(np.arange(slide % 100, slide % 100 + 5), 200)
        order.grow(200)
        values = np.arange(len(keys)) * 7 % 1000
        order.slide([Slide([(keys, values)], []), Slide([], [(0, keys)])])
        order.forget(np.unique(keys))
        sizes.append(order.nbytes)
        if slide == 300:
            break
    assert max(sizes) == sizes[1]
