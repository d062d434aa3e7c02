"""`on_error: dead_letter` of expressions: the rows that fail are told with the reason, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from polars.exceptions import PanicException

from streammine import Topology
from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.enrich import EnrichOperator
from streammine.operators.expressions import Expression, salvage
from streammine.operators.expressions import expression as expressions
from streammine.operators.filter import FilterOperator
from streammine.operators.map import MapOperator
from streammine.operators.split import NO_MATCH, SplitOperator
from streammine.testing import assert_deterministic

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.string()), ("d", pa.string())])
ROWS: list[tuple[int, str | None, str | None]] = [
    (0, "12", "2024-02-29"),
    (1, "abc", "2024-02-30"),
    (2, None, "2024-03-01"),
    (3, "7", "today"),
    (4, "3000000000", None),
]


def rows(*numbers: int) -> pa.RecordBatch:
    chosen = [ROWS[number] for number in numbers or range(len(ROWS))]
    columns = zip(*chosen, strict=True)
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=SCHEMA)


def letters(derived: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for reason, text in zip(derived.dead.reasons, derived.dead.rows, strict=True):
        found.setdefault(reason, []).append(text)
    return found


def test_each_row_is_told_with_the_first_expression_that_fails_on_it() -> None:
    columns = {"n": "n", "number": "cast(t as int)", "day": "cast(d as date)"}
    derived = MapOperator("m", columns, SCHEMA, dead_letter=True).apply(rows())
    assert derived.batch["n"].to_pylist() == [0, 2]
    assert derived.batch["number"].to_pylist() == [12, None]
    assert derived.parents is not None
    assert derived.parents.tolist() == [0, 2]
    assert letters(derived) == {
        """expression 'cast(t as int)' failed: int32 can't hold "abc" of type text""": [
            "n=1, t='abc', d='2024-02-30'"
        ],
        """expression 'cast(t as int)' failed: int32 can't hold "3000000000" of type text""": [
            "n=4, t='3000000000', d=None"
        ],
        """expression 'cast(d as date)' failed: date can't hold "today" of type text""": [
            "n=3, t='7', d='today'"
        ],
    }


def test_a_map_tells_the_columns_that_it_reads() -> None:
    derived = MapOperator("m", {"number": "cast(t as int)"}, SCHEMA, dead_letter=True).apply(
        rows(0, 1)
    )
    (texts,) = letters(derived).values()
    assert texts == ["t='abc'"]


def test_where_every_row_fails_or_none_is_there_an_empty_batch_leaves() -> None:
    operator = EnrichOperator("e", {"number": "cast(t as int)"}, SCHEMA, dead_letter=True)
    derived = operator.apply(rows(1, 4))
    assert derived.batch.num_rows == 0
    assert derived.batch.schema == operator.output
    assert derived.parents is not None
    assert derived.parents.tolist() == []
    assert derived.dead is not None
    assert len(derived.dead.rows) == 2
    empty = operator.apply(rows(1).slice(0, 0))
    assert (empty.batch.num_rows, empty.dead) == (0, None)


def test_batches_without_bad_rows_keep_their_columns() -> None:
    batch = rows(0, 2)
    derived = EnrichOperator("e", {"number": "cast(t as int)"}, SCHEMA, dead_letter=True).apply(
        batch
    )
    assert derived.parents is None
    assert derived.dead is None
    assert derived.batch["t"].buffers()[2].address == batch["t"].buffers()[2].address


def test_a_filter_drops_rows_that_are_false_and_tells_those_that_fail() -> None:
    derived = FilterOperator("f", "cast(t as int) > 10", SCHEMA, dead_letter=True).apply(rows())
    assert derived.batch["n"].to_pylist() == [0]
    assert sorted(text[:3] for texts in letters(derived).values() for text in texts) == [
        "n=1",
        "n=4",
    ]


def test_a_row_that_a_condition_of_a_split_fails_on_goes_nowhere() -> None:
    outputs = {"large": "cast(t as int) > 10", "dated": "cast(d as date) < date '2025-01-01'"}
    derived = SplitOperator("s", outputs, SCHEMA, dead_letter=True).apply(rows())
    assert derived.batch["n"].to_pylist() == [0, 2]
    assert derived.batch[".output"].to_pylist() == [0, 1]
    reasons = letters(derived)
    assert NO_MATCH not in reasons
    assert sorted(text[:3] for texts in reasons.values() for text in texts) == ["n=1", "n=3", "n=4"]
    others = SplitOperator("s", {**outputs, "rest": "else"}, SCHEMA, dead_letter=True).apply(rows())
    assert others.batch["n"].to_pylist() == [0, 2]


def test_without_it_the_first_row_stops_the_job() -> None:
    with pytest.raises(UserCodeError, match="can't hold \"abc\" of type text, where t is 'abc'"):
        MapOperator("m", {"number": "cast(t as int)"}, SCHEMA).apply(rows())


def test_what_is_no_fault_of_a_row_is_no_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = MapOperator("m", {"number": "n + 1", "n": "n * 2"}, SCHEMA, dead_letter=True)

    def panic(*_: object) -> None:
        raise PanicException("out of memory")

    monkeypatch.setattr(expressions, "rows_of", panic)
    with pytest.raises(UserCodeError, match="out of memory"):
        operator.apply(rows())


def test_a_time_beyond_all_calendars_is_the_fault_of_its_row() -> None:
    times = pa.record_batch({"n": [1, 2, 3], "us": [0, 2**63 - 1, 1_700_000_000_000_000]})
    columns = {"n": "n", "day": "strftime(cast(us as timestamp), '%Y-%m-%d')"}
    derived = MapOperator("m", columns, times.schema, dead_letter=True).apply(times)
    assert derived.batch["day"].to_pylist() == ["1970-01-01", "2023-11-14"]
    ((reason, texts),) = letters(derived).items()
    assert "out-of-range datetime" in reason
    assert texts == ["n=2, us=9223372036854775807"]
    with pytest.raises(UserCodeError, match="where us is 9223372036854775807"):
        MapOperator("m", columns, times.schema).apply(times)


def test_of_two_parts_that_fail_the_first_one_is_told() -> None:
    """Polars computes both sides at once, and tells of the one that fails sooner."""
    both = pa.record_batch({"t": ["1e400"], "d": ["29/02/2024"]})
    for text in ("cast(t as int) % cast(d as int)", "greatest(cast(t as int), cast(d as int))"):
        operator = MapOperator("m", {"rest": text}, both.schema, dead_letter=True)
        for _ in range(100):
            (reason,) = letters(operator.apply(both))
            assert reason == f'expression {text!r} failed: int32 can\'t hold "1e400" of type text'


def test_dead_letters_are_told_in_the_order_of_their_rows() -> None:
    mixed = pa.record_batch({"t": ["a", "b", "1", "a", "line\nbreak"]})
    derived = EnrichOperator("e", {"i": "cast(t as int)"}, mixed.schema, dead_letter=True).apply(
        mixed
    )
    assert derived.dead is not None
    assert derived.dead.rows == ("t='a'", "t='b'", "t='a'", "t='line\\nbreak'")
    assert derived.dead.reasons[-1].endswith('int32 can\'t hold "line\\nbreak" of type text')


HALVES = [512, 256, 128, 64, 32, 16, 8]


@pytest.mark.parametrize("bad", [0, 511, 1000, 1023])
def test_one_bad_row_is_found_by_halving(monkeypatch: pytest.MonkeyPatch, bad: int) -> None:
    texts = ["1"] * 1024
    texts[bad] = "x"
    many = pa.record_batch({"t": texts})
    attempts: list[int] = []
    together = expressions.values_together

    def counted(given: Sequence[Expression], part: pa.RecordBatch) -> list[pa.Array]:
        attempts.append(part.num_rows)
        return together(given, part)

    def attempted() -> list[int]:
        attempts.clear()
        operator = MapOperator("m", {"i": "cast(t as int)"}, many.schema, dead_letter=True)
        assert operator.apply(many).batch.num_rows == 1023
        return attempts

    monkeypatch.setattr(salvage, "values_together", counted)
    assert attempted() == [1024, 1023, 1]
    monkeypatch.setattr(Expression, "trying", None)
    assert attempted()[0] == 1024
    assert sorted(attempts[1:], reverse=True) == [rows for rows in HALVES for _ in range(2)]


RIGHT = """\
name: parsed
epoch: {count: 10}
sources:
  rows: {files: rows.parquet, prepare: none}
operators:
  numbers: {input: rows, enrich: {number: cast(t as int)}, on_error: dead_letter}
  words: {input: numbers, flat_map: {split: d, into: word}}
  counts: {input: words, key: word, aggregate: {n: count()}}
sinks:
  result: {input: counts, format: parquet, path: out}
"""


@pytest.mark.parametrize(
    ("old", "new", "right"),
    [
        ("on_error: dead_letter", "on_error: skip", "Allowed: fail, dead_letter"),
        ("into: word}}", "into: word}, on_error: dead_letter}", "map, filter, enrich, split"),
        ("count()}}", "count()}, on_error: dead_letter}", "map, filter, enrich, split"),
    ],
)
def test_mistakes_are_told(old: str, new: str, right: str) -> None:
    assert old in RIGHT
    parse_topology(RIGHT, "t.yaml")
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new, 1), "t.yaml")
    assert right in str(caught.value), str(caught.value)


def test_rows_read_are_rows_used_and_dead_ones_in_a_whole_job() -> None:
    texts = [str(number) if number % 7 else f"no {number}" for number in range(200)]
    table = pa.table({"n": range(200), "t": texts})
    topology = (
        Topology(name="parsed", epoch={"count": 20})
        .source("rows", files="rows.parquet", prepare="none", slices=3)
        .operator(
            "numbers",
            input="rows",
            map={"k": "n % 5", "v": "cast(t as int)"},
            on_error="dead_letter",
        )
        .operator(
            "small", input="numbers", filter="cast(v as tinyint) >= 0", on_error="dead_letter"
        )
        .operator("sums", input="small", key="k", aggregate={"n": "count()", "v": "sum(v)"})
        .sink("result", input="sums", format="console")
    )
    done = assert_deterministic(topology, {"rows": table}, seeds=range(8))
    used = sum(done.table("result")["n"].to_pylist())
    assert used == sum(number % 7 > 0 for number in range(128))
    dead = done.dead_letters
    assert dead is not None
    assert used + dead.num_rows == 200
    origins = dead["origin"].to_pylist()
    assert origins.count("numbers") == sum(number % 7 == 0 for number in range(200))
    assert origins.count("small") == 200 - used - origins.count("numbers")
