"""The pattern: what matches, what leaves when, what is kept, and what is said of mistakes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from streammine.model.contracts import (
    EpochClose,
    Flushes,
    HoldsWindows,
    KeepsState,
    SetsAside,
    StatefulOperator,
)
from streammine.model.document import parse_topology
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StateVersionError, TopologyError, UserCodeError
from streammine.model.topology import FilesSource, PatternOperator
from streammine.operators.catalog import build_operator
from streammine.operators.pattern import PatternMatch
from streammine.operators.patterns.references import conjuncts
from streammine.operators.site import Site

MINUTE = EpochDefinition("time", 60_000_000, "ts")
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("k", pa.string()), ("kind", pa.string()), ("v", pa.float64())]
)
A, B, C = ({name: f"kind = '{name}'"} for name in "abc")
NOT_X = {"not": {"x": "kind = 'x'"}}

Rows = Sequence[tuple[Any, ...]]


def pattern_of(**pattern: Any) -> PatternMatch:
    settings = {"within": "1m", "output": {"ok": "true"}, **pattern}
    operator = PatternOperator.model_validate({"input": "rows", "key": "k", "pattern": settings})
    built = build_operator(operator, Site("p", [SCHEMA], MINUTE))
    assert isinstance(built, PatternMatch)
    return built


def events(text: str) -> list[tuple[int, str, str, float]]:
    """``a0 b5``: events of kinds a and b at seconds 0 and 5; the value is the second."""
    return [(int(word[1:]), "k", word[0], float(word[1:])) for word in text.split()]


def closing(epoch: int, round_: int = 0, last: bool = True) -> EpochClose:
    return EpochClose(epoch, MINUTE.watermark(epoch), MINUTE, round_, last)


def close(operator: PatternMatch, epoch: int, rows: Rows = ()) -> list[tuple[Any, ...]]:
    """The rows that leave in an epoch, without its number and the key."""
    accumulator = operator.accumulator(0)
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, SCHEMA, strict=True)]
    accumulator.add(pa.record_batch(arrays, schema=SCHEMA))
    left = []
    for batch in operator.close(closing(epoch), [accumulator]):
        assert batch.schema == operator.output
        left += [tuple(row.values()) for row in batch.to_pylist()]
    assert all(row[0] == epoch for row in left)
    return [row[2:] for row in left]


def matched(text: str, *output: str, **pattern: Any) -> list[tuple[Any, ...]]:
    """What leaves in all epochs for the events of a text."""
    columns = {f"o{number}": each for number, each in enumerate(output)}
    operator = pattern_of(**pattern, **({"output": columns} if columns else {}))
    epochs: dict[int, list[Any]] = {}
    for row in events(text):
        epochs.setdefault(row[0] // 60, []).append(row)
    left = []
    for epoch, rows in sorted(epochs.items()):
        left += close(operator, epoch, rows)
    while (due := operator.due_epoch) is not None:
        left += close(operator, due)
    return left


def test_it_is_what_its_contracts_say() -> None:
    operator = pattern_of(sequence=[A, B], output={"begin": "a.ts", "rise": "b.v - a.v"})
    for contract in (StatefulOperator, HoldsWindows, KeepsState, SetsAside):
        assert isinstance(operator, contract)
    assert not isinstance(operator, Flushes)
    assert operator.output.names == ["epoch", "k", "begin", "rise"]
    assert operator.output.types == [pa.int64(), pa.string(), pa.int64(), pa.float64()]
    assert operator.needs == (frozenset({"ts", "k", "kind", "v"}),)


# --- which combinations match --------------------------------------------------------------------


def test_a_sequence_matches_every_combination_in_order() -> None:
    found = matched("a0 a1 b2 b3 a4", "a.ts", "b.ts", sequence=[A, B])
    assert found == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_next_takes_the_next_event_that_fits() -> None:
    found = matched("a0 a1 b2 b3 a4", "a.ts", "b.ts", sequence=[A, B], matching="next")
    assert found == [(0, 2), (1, 2)]


def test_next_skips_what_does_not_fulfil_the_conditions() -> None:
    pattern = {"sequence": [A, {"b": "kind = 'b' and v > 2 * a.v"}], "matching": "next"}
    assert matched("a2 b3 b5 b6", "b.ts", **pattern) == [(5,)]


def test_strict_wants_neighbours() -> None:
    pattern = {"sequence": [A, B], "matching": "strict"}
    assert matched("a0 a1 b2 b3 a4 x5 b6", "a.ts", "b.ts", **pattern) == [(1, 2)]


@pytest.mark.parametrize(("text", "count"), [("a0 b60", 1), ("a0 b61", 0), ("a0 b0", 1)])
def test_within_is_inclusive(text: str, count: int) -> None:
    for group in ("sequence", "all"):
        assert len(matched(text, **{group: [A, B]})) == count
    for matching in ("next", "strict"):
        assert len(matched(text, sequence=[A, B], matching=matching)) == count


def test_events_of_one_time_match_in_either_order() -> None:
    assert len(matched("b5 a5", sequence=[A, B])) == 1
    assert len(matched("b5 a5 c5", sequence=[C, B, A])) == 1
    assert len(matched("b5 a5 c5", sequence=[C, B, A, NOT_X])) == 1


def test_where_order_counts_equal_times_stand_in_canonical_order() -> None:
    for matching in ("next", "strict"):
        assert len(matched("b5 a5", sequence=[A, B], matching=matching)) == 1
        assert len(matched("b5 a5", sequence=[B, A], matching=matching)) == 0


def test_elements_of_one_time_stand_in_canonical_order_of_what_is_read() -> None:
    operator = pattern_of(
        sequence=[{"b{2}": "kind <> 'x'"}], output={"first": "first(b.v)", "last": "last(b.v)"}
    )
    assert close(operator, 0, [(5, "k", "d", 1.0), (5, "k", "b", 9.0)]) == [(9.0, 1.0)]


def test_an_event_takes_one_place_in_a_match() -> None:
    assert matched("a1", sequence=["one", "two"]) == []
    assert matched("a1 a1", "one.ts", sequence=["one", "two"]) == [(1,), (1,)]


def test_equal_rows_are_several_matches() -> None:
    assert matched("a0 a0 b1", "b.ts", sequence=[A, B]) == [(1,), (1,)]


def test_all_takes_events_in_any_order() -> None:
    expected = [(0, 1), (2, 1)]
    assert matched("a0 b1 a2", "a.ts", "b.ts", all=[A, B]) == expected
    for matching in ("next", "strict"):
        assert matched("a0 b1 a2", "a.ts", "b.ts", all=[A, B], matching=matching) == expected


def test_parts_of_all_may_be_sequences_that_interleave() -> None:
    pattern = {"all": [{"sequence": [A, B]}, {"sequence": [C, {"d": "kind = 'd'"}]}]}
    assert len(matched("a0 c1 b2 d3", **pattern)) == 1
    assert len(matched("b0 c1 a2 d3", **pattern)) == 0


def test_all_inside_of_a_sequence_stands_between_its_neighbours() -> None:
    pattern = {"sequence": [{"s": "kind = 's'"}, {"all": [A, B]}, {"e": "kind = 'e'"}]}
    assert len(matched("s0 b1 a2 e3", **pattern)) == 1
    assert len(matched("b0 s1 a2 e3", **pattern)) == 0
    assert len(matched("s0 b1 e2 a3", **pattern)) == 0


def test_one_of_gives_a_match_for_each_part_that_is_there() -> None:
    pattern = {"sequence": [A, {"one_of": [B, C]}]}
    found = matched("a0 b1 c2", "a.ts", "b.ts", "c.ts", **pattern)
    assert found == [(0, 1, None), (0, None, 2)]


def test_one_event_that_fits_two_parts_is_two_matches() -> None:
    assert matched("a0", "x.ts", one_of=[{"x": "v < 1"}, {"y": "v < 2"}]) == [(0,), (None,)]


def test_an_optional_event_may_be_missing() -> None:
    found = matched("a0 b1 c2", "b.ts", sequence=[A, {"b?": "kind = 'b'"}, C])
    assert found == [(1,), (None,)]


# --- closures ------------------------------------------------------------------------------------


def test_a_closure_takes_every_subset() -> None:
    found = matched("a0 b1 b2 b3", "count(b)", "last(b.ts)", sequence=[A, {"b+": "kind = 'b'"}])
    assert found == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (2, 3), (3, 3)]


def test_a_closure_grows_over_epochs() -> None:
    pattern = {"sequence": [A, {"b+": "kind = 'b'"}], "within": "2m"}
    assert matched("a0 b10 b70", "count(b)", **pattern) == [(1,), (1,), (2,)]


@pytest.mark.parametrize(
    ("bounds", "counts"),
    [
        ("+", [1, 1, 1, 2, 2, 2, 3]),
        ("*", [0, 1, 1, 1, 2, 2, 2, 3]),
        ("?", [0, 1, 1, 1]),
        ("{2}", [2, 2, 2]),
        ("{2,}", [2, 2, 2, 3]),
        ("{1,2}", [1, 1, 1, 2, 2, 2]),
        ("{4,}", []),
    ],
)
def test_bounds_of_closures_are_inclusive(bounds: str, counts: list[int]) -> None:
    count = "case when b.ts is null then 0 else 1 end" if bounds == "?" else "count(b)"
    pattern = {"sequence": [A, {f"b{bounds}": "kind = 'b'"}, C]}
    assert [n for (n,) in matched("a0 b1 b2 b3 c4", count, **pattern)] == counts


def test_next_lets_a_closure_take_every_event_that_fits() -> None:
    pattern = {"sequence": [A, {"b+": "kind = 'b'"}, C], "matching": "next"}
    assert matched("a0 b1 x2 b3 c4 c5", "count(b)", "c.ts", **pattern) == [(2, 4)]


def test_next_follows_both_uses_of_an_event() -> None:
    pattern = {"sequence": [{"b+": "v < 3"}, {"c": "v > 1"}], "matching": "next"}
    found = matched("k1 k2 k3", "first(b.ts)", "count(b)", "c.ts", **pattern)
    assert found == [(1, 1, 2), (1, 2, 3), (2, 1, 3)]


def test_a_closure_at_the_end_gives_a_match_for_each_length() -> None:
    pattern = {"sequence": [A, {"b{2,}": "kind = 'b'"}], "matching": "next"}
    assert matched("a0 b1 b2 b63 b64", "count(b)", within="2m", **pattern) == [(2,), (3,), (4,)]


def test_conditions_on_elements_hold_for_each() -> None:
    pattern = {"sequence": [{"b+": "kind = 'b'"}, C], "where": "b.v > c.v - 3"}
    assert matched("b1 b2 b3 c5", "count(b)", **pattern) == [(1,)]
    behind = {"sequence": [C, {"b+": "kind = 'b'"}], "where": "b.v <> c.v + 1"}
    assert matched("c2 b3 b4 b5", "count(b)", **behind) == [(1,), (1,), (2,)]


def test_a_condition_on_neighbouring_elements() -> None:
    pattern = {
        "sequence": [{"r{2,}": "kind = 'r' and v > previous(v) + 1"}],
        "where": "first(r.v) <= 2",
    }
    operator = {"sequence": [{"r{2,}": "kind = 'r'"}], "where": "r.v > previous(r.v) + 1"}
    assert matched("r1 r2 r4", "first(r.v)", "last(r.v)", **operator) == [(1.0, 4.0), (2.0, 4.0)]
    with pytest.raises(TopologyError, match="there is no event 'v'"):
        matched("r1", **pattern)


def test_aggregates_of_closures_are_exact_and_skip_nulls() -> None:
    operator = pattern_of(
        sequence=[{"b{3}": "kind = 'b'"}],
        output={
            "sum": "sum(b.v)",
            "mean": "avg(b.v)",
            "count": "count(b.v)",
            "least": "min(b.v)",
            "most": "max(b.v)",
            "span": "last(b.ts) - first(b.ts)",
        },
    )
    rows = [(1, "k", "b", 1e17), (2, "k", "b", None), (3, "k", "b", 1.0)]
    assert close(operator, 0, rows) == [(1e17 + 1.0, (1e17 + 1.0) / 2, 2, 1.0, 1e17, 2)]


def test_further_aggregates_of_closures() -> None:
    output = {
        "distinct": "count_distinct(b.kind)",
        "median": "median(b.v)",
        "deviation": "round(stddev_population(b.ts), 3)",
        "times": "collect(b.ts)",
    }
    operator = pattern_of(sequence=[{"b{3}": "kind = 'b'"}], output=output)
    assert operator.output.field("times").type == pa.list_(pa.int64())
    assert close(operator, 0, events("b3 b1 b2")) == [(1, 2.0, 0.816, [1, 2, 3])]


def test_a_sum_that_int64_can_not_hold_says_so() -> None:
    schema = SCHEMA.append(pa.field("n", pa.int64()))
    pattern = {"sequence": [{"b{2}": "true"}], "within": "1m", "output": {"s": "sum(b.n)"}}
    model = PatternOperator.model_validate({"input": "rows", "pattern": pattern})
    operator = build_operator(model, Site("p", [schema], MINUTE))
    assert isinstance(operator, PatternMatch)
    accumulator = operator.accumulator(0)
    columns = [[1, 2], ["k"] * 2, ["b"] * 2, [0.0] * 2, [2**62] * 2]
    accumulator.add(pa.record_batch([pa.array(c) for c in columns], schema=schema))
    with pytest.raises(UserCodeError, match=r"operator 'p': sum\(b\.n\) of a match: .*int64"):
        list(operator.close(closing(0), [accumulator]))


# --- absences ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a1 b3", 1),
        ("a1 x2 b3", 0),
        ("x0 a1 b3", 1),
        ("a1 b3 x4", 1),
        ("x1 a1 b3", 0),
        ("a1 x3 b3", 0),
    ],
)
def test_an_absence_in_the_middle_reaches_from_event_to_event_inclusive(
    text: str, count: int
) -> None:
    assert len(matched(text, sequence=[A, NOT_X, B])) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [("x0 a5 b60", 0), ("x0 a5 b61", 1), ("a5 x6 b60", 1), ("a5 x5 b60", 0), ("a5 b60", 1)],
)
def test_an_absence_at_the_start_reaches_back_as_far_as_a_match_may(text: str, count: int) -> None:
    assert len(matched(text, sequence=[NOT_X, A, B])) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [("a5 b6 x65", 0), ("a5 b6 x66", 1), ("a5 x5 b6 ", 1), ("a5 b6 x6", 0), ("a5 b6", 1)],
)
def test_an_absence_at_the_end_reaches_as_far_as_a_match_may(text: str, count: int) -> None:
    assert len(matched(text, sequence=[A, B, NOT_X])) == count


def test_a_match_with_an_absence_at_the_end_leaves_when_that_is_certain() -> None:
    operator = pattern_of(sequence=[A, B, NOT_X], output={"b": "b.ts"})
    assert close(operator, 0, events("a10 b20")) == []
    assert operator.due_epoch == 1
    assert close(operator, 1, events("b65")) == [(20,), (65,)]
    assert operator.due_epoch is None
    assert close(operator, 2) == []
    assert operator.state_nbytes == 0


def test_what_ends_with_its_epoch_is_certain_one_epoch_later() -> None:
    operator = pattern_of(sequence=[A, NOT_X])
    assert close(operator, 0, events("a0 a59")) == []
    assert operator.due_epoch == 1
    assert close(operator, 1, events("x120")[:0]) == [(True,), (True,)]
    edge = pattern_of(sequence=[A, NOT_X], within="60s")
    close(edge, 0, events("a0"))
    assert edge.due_epoch == 1
    assert close(edge, 1, events("x60")) == []


def test_certain_matches_of_several_first_events_are_found_once() -> None:
    pattern = {"sequence": [{"all": [A, B]}, C, NOT_X], "within": "3m"}
    assert len(matched("a10 b20 c30", **pattern)) == 1
    assert len(matched("a10 b70 c80", **pattern)) == 1
    assert len(matched("b10 a70 a75 c80", **pattern)) == 2
    assert len(matched("b10 a70 c80 x190", **pattern)) == 0
    assert len(matched("b10 a70 c80 x191", **pattern)) == 1


def test_next_with_an_absence_at_the_end_leaves_once() -> None:
    pattern = {"sequence": [A, B, NOT_X], "matching": "next"}
    assert matched("a0 b1 a70 b71", "a.ts", **pattern) == [(0,), (70,)]


def test_absences_at_both_ends() -> None:
    pattern = {"sequence": [NOT_X, A, B, {"not": {"y": "kind = 'y'"}}]}
    assert len(matched("x0 a70 b71", **pattern)) == 1
    assert len(matched("x40 a70 b71", **pattern)) == 0
    assert len(matched("x11 a70 b71", **pattern)) == 0
    assert len(matched("x10 a70 b71", **pattern)) == 1
    assert len(matched("a70 b71 y130", **pattern)) == 0
    assert len(matched("a70 b71 y131", **pattern)) == 1


def test_an_absence_may_be_compared_with_the_match() -> None:
    pattern = {"sequence": [A, {"not": {"x": "kind = 'x' and v < a.v + 3"}}, B]}
    assert len(matched("a1 x3 b9", **pattern)) == 0
    assert len(matched("a1 x4 b9", **pattern)) == 1


def test_an_absence_before_a_closure_ends_with_its_first_element() -> None:
    pattern = {"sequence": [A, NOT_X, {"b{2}": "kind = 'b'"}]}
    assert len(matched("a0 b1 x2 b3", **pattern)) == 1
    assert len(matched("a0 x1 b2 b3", **pattern)) == 0


def test_events_of_the_match_break_nothing() -> None:
    assert len(matched("a1 a2", sequence=["one", {"not": "other"}, "two"])) == 1
    assert len(matched("a1 a2 a3", sequence=["one", {"not": "other"}, "two"])) == 2
    found = matched(
        "a1 a2 a3 a4",
        *("one.ts", "two.ts", "three.ts"),
        sequence=["one", {"not": "other"}, "two", "three"],
    )
    assert found == [(1, 2, 3), (1, 2, 4), (2, 3, 4)]
    compared = ["one", {"not": {"other": "v >= one.v"}}, "two"]
    assert matched("a1 a2 a3", "one.ts", "two.ts", sequence=compared) == [(1, 2), (2, 3)]


# --- epochs, keys and late rows ------------------------------------------------------------------


def test_a_match_leaves_once_in_the_epoch_of_its_last_event() -> None:
    operator = pattern_of(sequence=[A, B], within="3m", output={"a": "a.ts", "b": "b.ts"})
    assert close(operator, 0, events("a10 b20")) == [(10, 20)]
    assert close(operator, 1, events("b70")) == [(10, 70)]
    assert close(operator, 2) == []
    assert close(operator, 3, events("b190 b191")) == [(10, 190)]


def test_new_matches_of_several_last_events_are_found_once() -> None:
    operator = pattern_of(all=[A, B, C], within="3m", output={"a": "a.ts", "b": "b.ts"})
    assert close(operator, 0, events("a10 b20")) == []
    assert close(operator, 1, events("c70 a75")) == [(10, 20), (75, 20)]
    assert close(operator, 2, events("b130")) == [(10, 130), (75, 130)]


def test_keys_do_not_meet_and_null_is_one() -> None:
    operator = pattern_of(sequence=[A, B], output={"a": "a.ts"})
    rows = [(0, "k", "a", 0.0), (1, "l", "b", 0.0), (2, None, "a", 0.0), (3, None, "b", 0.0)]
    assert close(operator, 0, rows) == [(2,)]


def test_zeros_of_both_signs_are_one_key() -> None:
    settings = {"sequence": ["a", "b"], "within": "1m", "output": {"n": "a.ts"}}
    model = PatternOperator.model_validate({"input": "rows", "key": "v", "pattern": settings})
    operator = build_operator(model, Site("p", [SCHEMA], MINUTE))
    assert isinstance(operator, PatternMatch)
    accumulator = operator.accumulator(0)
    columns = [[0, 1, 2, 3], ["k"] * 4, ["a"] * 4, [-0.0, 0.0, math.nan, math.nan]]
    accumulator.add(pa.record_batch([pa.array(c) for c in columns], schema=SCHEMA))
    (batch,) = operator.close(closing(0), [accumulator])
    assert [str(value) for value in batch.column("v").to_pylist()] == ["0.0", "nan"]


def test_without_a_key_all_rows_are_one() -> None:
    settings = {"sequence": [A, B], "within": "1m", "output": {"n": "a.ts"}}
    model = PatternOperator.model_validate({"input": "rows", "pattern": settings})
    operator = build_operator(model, Site("p", [SCHEMA], MINUTE))
    assert isinstance(operator, PatternMatch)
    accumulator = operator.accumulator(0)
    rows = [[0, 1], ["k", "l"], ["a", "b"], [0.0, 0.0]]
    accumulator.add(pa.record_batch([pa.array(c) for c in rows], schema=SCHEMA))
    (batch,) = operator.close(closing(0), [accumulator])
    assert batch.to_pylist() == [{"epoch": 0, "n": 0}]


def test_late_rows_and_rows_without_time_are_set_aside_with_a_reason() -> None:
    operator = pattern_of(sequence=[A, B], output={"a": "a.ts"})
    assert close(operator, 0, events("a50")) == []
    late = [(55, "k", "b", 0.0), (None, "k", "b", 0.0), (61, "k", "b", 0.0)]
    assert close(operator, 1, late) == [(50,)]
    dead = operator.take_dead()
    assert dead is not None
    assert dead.reasons == (
        "late for the pattern: its event time lies 5 s before the epoch in which it came",
        "column 'ts' holds no event time that can be used",
    )
    assert dead.rows[0] == "ts=55, k='k', kind='b', v=0.0"
    assert operator.take_dead() is None


def test_rows_of_times_to_come_wait_for_their_epoch() -> None:
    operator = pattern_of(sequence=[A, B], output={"a": "a.ts"}, within="5m")
    assert close(operator, 0, events("a0 b130")) == []
    assert operator.due_epoch == 2
    assert close(operator, 1) == []
    assert close(operator, 2) == [(0,)]
    assert operator.due_epoch is None
    edge = pattern_of(sequence=[A, B], output={"a": "a.ts"})
    assert close(edge, 0, events("a0 b60")) == []
    assert edge.due_epoch == 1
    assert close(edge, 1) == [(0,)]


def test_the_rounds_of_an_epoch_are_taken_together() -> None:
    operator = pattern_of(sequence=[A, B], output={"a": "a.ts"})
    for round_, text in enumerate(("b9", "a3")):
        accumulator = operator.accumulator(0)
        columns = [pa.array([value]) for value in events(text)[0]]
        accumulator.add(pa.record_batch(columns, schema=SCHEMA))
        left = list(operator.close(closing(0, round_, last=round_ == 1), [accumulator]))
        assert sum(batch.num_rows for batch in left) == round_


def test_nulls_and_nan_in_conditions() -> None:
    operator = pattern_of(sequence=[A, B], where="b.v > a.v", output={"a": "a.ts", "b": "b.ts"})
    values = [(0, 1.0), (1, None), (2, math.nan), (3, math.nan)]
    rows = [(at, "k", "a" if at < 3 else "b", value) for at, value in values]
    assert close(operator, 0, rows) == [(0, 3)]


def test_no_rows_at_all() -> None:
    operator = pattern_of(sequence=[A, B])
    assert close(operator, 0) == []
    assert operator.due_epoch is None


# --- what is kept --------------------------------------------------------------------------------


def test_rows_that_no_match_can_need_are_dropped() -> None:
    operator = pattern_of(sequence=[A, B], within="2m")
    close(operator, 0, events("a0 b10 x20"))
    one_row = operator.state_nbytes
    assert one_row > 0
    close(operator, 1)
    assert operator.state_nbytes == one_row
    close(operator, 2)
    assert operator.state_nbytes == 0


def test_a_row_is_kept_as_long_as_within_reaches() -> None:
    operator = pattern_of(sequence=[A, B], within="1m")
    close(operator, 0, events("a0"))
    assert close(operator, 1, events("b60")) == [(True,)]


def snapshot(operator: PatternMatch, full: bool) -> tuple[bool, list[pa.Buffer]]:
    frozen = operator.freeze(full)
    return frozen.full, list(frozen.pieces())


def restored(chain: Sequence[tuple[bool, list[pa.Buffer]]], **pattern: Any) -> PatternMatch:
    operator = pattern_of(**pattern)
    for full, pieces in chain:
        operator.restore(1, full, iter(pieces))
    return operator


def test_snapshots_hold_what_was_added_and_who_has_expired() -> None:
    pattern: Mapping[str, Any] = {
        "sequence": [A, B, NOT_X],
        "within": "2m",
        "output": {"a": "a.ts"},
    }
    operator = pattern_of(**pattern)
    close(operator, 0, events("a1 a50"))
    chain = [snapshot(operator, False)]
    assert chain[0][0]
    close(operator, 1, events("b70"))
    chain.append(snapshot(operator, False))
    assert not chain[1][0]
    assert sum(map(len, chain[1][1])) < sum(map(len, chain[0][1]))
    again = restored(chain, **pattern)
    assert again.due_epoch == operator.due_epoch == 2
    assert again.state_nbytes == operator.state_nbytes
    assert close(again, 2, events("b150")) == close(operator, 2, events("b150"))
    close(operator, 4)
    chain.append(snapshot(operator, False))
    assert restored(chain, **pattern).state_nbytes == operator.state_nbytes == 0


def test_a_full_snapshot_replaces_what_was_there() -> None:
    operator = pattern_of(sequence=[A, B])
    close(operator, 0, events("a59"))
    chain = [snapshot(operator, True)] * 2
    assert restored(chain, sequence=[A, B]).state_nbytes == operator.state_nbytes


def test_a_snapshot_shows_nothing_that_comes_after_it() -> None:
    operator = pattern_of(sequence=[A, B])
    close(operator, 0, events("a59"))
    frozen = operator.freeze(True)
    close(operator, 1, events("a61"))
    again = restored([(True, list(frozen.pieces()))], sequence=[A, B])
    assert len(close(again, 1, events("b62"))) == 1


def test_another_version_of_the_state_is_refused() -> None:
    with pytest.raises(StateVersionError, match="version 2"):
        pattern_of(sequence=[A, B]).restore(2, True, iter([]))


def test_too_many_combinations_stop_the_job_and_say_what_to_do() -> None:
    text = " ".join(f"a{second}" for second in range(30))
    pattern = {"sequence": [{"a+": "kind = 'a'"}], "limit": 1_000}
    with pytest.raises(UserCodeError, match=r"epoch 0: more than 1,000 .*key 'k'.* raise limit"):
        matched(text, **pattern)
    assert len(matched(text, **{**pattern, "limit": 100_000}, matching="strict")) == 465
    pairs = {"sequence": [A, B]}
    assert len(matched("a1 a2 b3 b4", **pairs, limit=4)) == 4
    with pytest.raises(UserCodeError, match="more than 3 "):
        matched("a1 a2 b3 b4", **pairs, limit=3)


def test_what_leaves_is_cut_into_bounded_batches() -> None:
    operator = pattern_of(sequence=[A, B], output={"a": "a.v"})
    accumulator = operator.accumulator(0)
    count = 300
    columns = [[1] * 2 * count, ["k"] * 2 * count, ["a", "b"] * count, [0.0] * 2 * count]
    accumulator.add(pa.record_batch([pa.array(c) for c in columns], schema=SCHEMA))
    batches = list(operator.close(closing(0), [accumulator]))
    assert sum(batch.num_rows for batch in batches) == count * count
    assert max(batch.num_rows for batch in batches) <= 65_536


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.v > 1 and b.v > 2", ["a.v > 1", "b.v > 2"]),
        ("a.v > 1 or b.v > 2 and c.v > 3", ["a.v > 1 or b.v > 2 and c.v > 3"]),
        ("a.v between 1 and 2 AND b.v > 2", ["a.v between 1 and 2", "b.v > 2"]),
        ("(a.v > 1 and b.v > 2) and c.v > 3", ["a.v > 1", "b.v > 2", "c.v > 3"]),
        ("((a.v > 1) and (b.v > 2))", ["a.v > 1", "b.v > 2"]),
        ("(a.v > 1) or (b.v > 2)", ["(a.v > 1) or (b.v > 2)"]),
        ("not (a.v > 1 and b.v > 2)", ["not (a.v > 1 and b.v > 2)"]),
        ("a.v > 1 and (b.v > 2 or c.v > 3)", ["a.v > 1", "b.v > 2 or c.v > 3"]),
        ("a.v > 1 and (b.ok)", ["a.v > 1", "b.ok"]),
        ("a.v between (lo) and hi", ["a.v between (lo) and hi"]),
        ("case (a.v) when 1 then b.ok and c.ok end", ["case (a.v) when 1 then b.ok and c.ok end"]),
        ("abs(a.v) > 1 and (max(b.v)) > 2", ["abs(a.v) > 1", "(max(b.v)) > 2"]),
        ("()", ["()"]),
        ("(a.v > 1", ["(a.v > 1"]),
        ("a.v > 1) and b.ok", ["a.v > 1)", "b.ok"]),
        ("", [""]),
        ("(" * 2000 + "a.ok and b.ok" + ")" * 2000, ["a.ok", "b.ok"]),
        ("a.ok and (" * 400 + "b.ok" + ")" * 400, ["a.ok"] * 400 + ["b.ok"]),
        (
            "case when a.v > 1 and b.v > 2 then true end and c.v > 3",
            ["case when a.v > 1 and b.v > 2 then true end", "c.v > 3"],
        ),
        ("a.t = 'x and y' and b.t = 'z'", ["a.t = 'x and y'", "b.t = 'z'"]),
        ("a.v > 1 and", ["a.v > 1 and"]),
    ],
)
def test_conditions_are_cut_at_the_ands_of_their_top(text: str, parts: list[str]) -> None:
    assert conjuncts(text) == parts


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ({}, "exactly one of sequence, all, one_of, and this has none"),
        ({"sequence": [A], "all": [A, B]}, "this has sequence and all"),
        ({"all": [A]}, "all has 2 to 32 parts, not 1"),
        ({"sequence": []}, "sequence has 1 to 32 parts, not 0"),
        ({"sequence": [A, {"one_of": [B]}]}, "one_of has 2 to 32 parts, not 1"),
        ({"sequence": [A, A]}, "two events are called 'a'"),
        ({"sequence": [{"a": "x", "b": "y"}]}, "a part of a pattern is one entry.*2 entries"),
        ({"sequence": [{"a-b": "x"}]}, "can't name an event"),
        ({"sequence": [{"a{3,2}": "x"}]}, "the bounds are a least number"),
        ({"sequence": [{"a": 7}]}, "the condition of 'a' is an expression"),
        ({"sequence": [{"not": {"x+": "true"}}, A]}, "can't have bounds"),
        ({"sequence": [NOT_X]}, "nothing but 'not'"),
        ({"sequence": [{"a*": "true"}]}, "could match without any event"),
        ({"all": [A, NOT_X]}, "not stands in a sequence"),
        ({"all": [A, {"sequence": [NOT_X, B]}]}, "begins and ends with an event"),
        ({"sequence": [A, {"seq": [B, C]}]}, "the condition of 'seq' is an expression"),
        ({"sequence": [{"a?": "true"}] * 1 + [{f"b{n}?": "true"} for n in range(8)]}, "choices"),
        ({"sequence": [A], "matching": "skip"}, "Allowed: any, next, strict"),
        ({"sequence": [A], "output": {}}, "must not be empty"),
        ({"sequence": [A], "output": {"epoch": "a.ts"}}, "a column 'epoch' already"),
        ({"sequence": [A], "output": {"k": "a.ts"}}, "is a key column, too"),
        ({"sequence": [A], "limit": 0}, "must be at least 1"),
        ({"seq": [A]}, "events one after the other are sequence"),
    ],
)
def test_mistakes_in_a_pattern_are_answered_with_what_would_be_right(
    pattern: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        pattern_of(**pattern)


def test_within_must_be_there_and_the_message_says_why() -> None:
    settings = {"sequence": [A], "output": {"a": "a.ts"}}
    with pytest.raises(ValidationError, match="needs 'within': The most time between the first"):
        PatternOperator.model_validate({"input": "rows", "pattern": settings})


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ({"where": "a.w > 1"}, r"a\.w: unknown column 'w'.*Its input has: ts, k, kind, v"),
        ({"where": "z.v > 1"}, r"there is no event 'z'\. Events: a, x, many"),
        ({"where": "mane.v > 1"}, "did you mean 'many'"),
        ({"where": "v > 1"}, r"v does not say of which event; write a\.v"),
        ({"where": "length(kind) > 1"}, r"kind does not say of which event; write a\.kind"),
        ({"where": "a > 1"}, r"'a' is an event; write a\.COLUMN"),
        ({"where": "abs(a) > 1"}, r"'a' is an event; write abs\(a\.COLUMN\)"),
        ({"where": "max(a.v) > 1"}, r"'a' is one event, not a closure; write a\.v"),
        ({"where": "sum(many) > 1"}, r"sum needs a column, like sum\(many\.x\)"),
        (
            {"where": "avg(many.v * 2) > 1"},
            r"avg takes one column of a closure, like avg\(NAME\.x\)",
        ),
        ({"where": "count(*) > 1"}, "count takes one column of a closure"),
        ({"where": "count(a) > 1"}, "'a' is one event, not a closure; it is there once$"),
        (
            {"sequence": [A, {"b?": "true"}], "where": "count(b) > 0"},
            r"'b' is one event, .*it is there once at most; where it is missing b\.COLUMN is null",
        ),
        ({"where": "sum(many.kind) > 1"}, "sum takes numbers; column 'kind' has type string"),
        ({"where": "a.v + 1"}, "gives double; a condition gives a boolean"),
        ({"where": "1 = 1"}, "names no event"),
        ({"where": "a.v >"}, "is no expression"),
        ({"where": "a.v > a.kind"}, "expression"),
        ({"where": "x.v > many.v"}, r"write first\(many\.x\), last, min or max"),
        ({"output": {"o": "x.v"}}, "'x' stands behind 'not' and is never there"),
        ({"output": {"o": "many.v"}}, r"'many' is several events; write first\(many\.x\)"),
        ({"output": {"__o": "a.v"}}, "__o"),
    ],
)
def test_expressions_are_checked_against_the_columns(pattern: dict[str, Any], message: str) -> None:
    sequence = [A, NOT_X, {"many+": "kind = 'm'"}]
    with pytest.raises((TopologyError, ValidationError), match=message):
        pattern_of(**{"sequence": sequence, **pattern})


def test_two_closures_can_not_be_compared_element_by_element() -> None:
    with pytest.raises(TopologyError, match="about the elements of a and b"):
        pattern_of(sequence=[{"a+": "true"}, {"b+": "true"}], where="a.v > b.v")


def test_epochs_of_rows_know_no_time() -> None:
    settings = {"sequence": [A], "within": "1m", "output": {"a": "a.ts"}}
    model = PatternOperator.model_validate({"input": "r", "time": "ts", "pattern": settings})
    with pytest.raises(TopologyError, match="a pattern needs time epochs"):
        build_operator(model, Site("p", [SCHEMA], EpochDefinition("count", 10)))


def test_a_column_without_an_order_is_refused() -> None:
    schema = SCHEMA.append(pa.field("m", pa.map_(pa.string(), pa.int64())))
    settings = {"sequence": [A], "within": "1m", "output": {"m": "a.m"}}
    model = PatternOperator.model_validate({"input": "r", "pattern": settings})
    with pytest.raises(TopologyError, match=r"column 'm' has type map<.*no order"):
        build_operator(model, Site("p", [schema], MINUTE))


def test_a_key_that_is_no_column_is_refused() -> None:
    settings = {"sequence": [A], "within": "1m", "output": {"a": "a.ts"}}
    model = PatternOperator.model_validate({"input": "r", "key": "kk", "pattern": settings})
    with pytest.raises(TopologyError, match="unknown column 'kk'; did you mean 'k'"):
        build_operator(model, Site("p", [SCHEMA], MINUTE))


def test_the_topology_of_its_documentation_is_right() -> None:
    text = (Path(__file__).parents[2] / "docs" / "operators" / "pattern.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    topology = parse_topology(block, "spikes.yaml")
    source = topology.sources["readings"]
    assert isinstance(source, FilesSource)
    schema = source.arrow_schema
    assert schema is not None
    settings = topology.operators["spikes"]
    built = build_operator(settings, Site("spikes", [schema], topology.epoch.definition))
    assert isinstance(built, PatternMatch)
    assert built.output.names == ["epoch", "plug_id", "begin", "end", "rises", "most"]


def test_settings_come_back_as_they_were_written() -> None:
    pattern = {
        "sequence": [A, {"not": {"x": "v > 1"}}, {"b{2,5}": "v > a.v"}, {"all": [C, "d"]}],
        "where": "count(b) > 2",
        "within": "90s",
        "output": {"n": "count(b)"},
    }
    model = PatternOperator.model_validate({"input": "r", "key": "k", "pattern": pattern})
    again = PatternOperator.model_validate_json(model.model_dump_json())
    assert again == model
    dumped = model.model_dump(mode="json")["pattern"]
    assert dumped["sequence"] == [
        *pattern["sequence"][:3],  # type: ignore[index]
        {"all": [C, {"d": "true"}]},
    ]
    assert dumped["within"] == "90s"
