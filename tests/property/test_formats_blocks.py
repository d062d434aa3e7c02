"""What becomes of a row depends on nothing but its own bytes: not on blocks, not on its
neighbours."""

from __future__ import annotations

import io
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streammine.model.formats import RawFormat, blocks, parse
from streammine.model.formats.records import index_records

SCHEMA = pa.schema({"a": pa.int64(), "f": pa.float64(), "s": pa.string(), "t": pa.timestamp("us")})
BLOCK_SIZES = (1, 2, 3, 5, 8, 13, 64, 4096)

CELLS = st.sampled_from(
    [b"1", b"-2", b" 3 ", b"0x1f", b"+4", b"1.5", b"1e3", b"nan", b"inf", b"", b"NA", b"x", b'""',
     b'"1"', b'"a,b"', b'"a\nb"', b'"q""q"', b'a"b', b'"open', b'"c"d', b"\xff", b"\xc3", b"\xa9",
     b"2020-01-01", b"2020-01-01T01:00:00Z", b"2020-01-01 01:00+01:00", b" 2020-01-01", b"\r",
     b"2020-13-01", b"99999999999999999999", b"\xef\xbb\xbf1", b"1e", b".5", b"5.", b"-inf", b"1_0",
     b"12345678901234567890.5", b"true"]
)  # fmt: skip
RECORDS = st.lists(CELLS, min_size=3, max_size=5).map(b",".join) | st.just(b"")
ENDS = st.sampled_from([b"\n", b"\n", b"\r\n"])
GOOD_CSV = b"7,0.5,good,2021-05-05"

VALUES = st.sampled_from(
    [b"1", b"-2", b"1.5", b"1e3", b"NaN", b"Inf", b"-Infinity", b"true", b"null", b'"x"', b'""',
     b'"2020-01-01"', b'"2020-01-01T01:00:00Z"', b"{}", b"[null]", b'"\\ud800"', b'"\\u00e9"',
     b"01", b'"\xff"', b'"}n"', b'"} n {"', b"99999999999999999999", b"{", b"}", b'"\t"', b"-0",
     b"1.", b"nul"]
)  # fmt: skip
KEYS = st.sampled_from([b'"a"', b'"f"', b'"s"', b'"t"', b'"other"', b'"a'])
PAIRS = st.tuples(KEYS, VALUES).map(b":".join)
OBJECTS = st.lists(PAIRS, max_size=3).map(lambda pairs: b"{" + b",".join(pairs) + b"}")
JSON_LINES = st.one_of(
    OBJECTS,
    OBJECTS,
    st.tuples(OBJECTS, st.sampled_from([b"", b" ", b"null", b",", b"\xef\xbb\xbf"]), OBJECTS).map(
        b"".join
    ),
    st.sampled_from([b"", b" ", b"null", b"3", b"[]", b"\xef\xbb\xbf{}", b' {"a":1} ', b"{", b"}"]),
)


def parsed(data: bytes, written: RawFormat, schema: pa.Schema, block_bytes: int) -> Any:
    rows: list[Any] = []
    dead: list[Any] = []
    for block in parse(io.BytesIO(data), written, schema, None, "f", block_bytes):
        values = [repr(row) for row in block.batch.to_pylist()]
        rows += zip(block.rows.tolist(), values, strict=True)
        if block.dead is not None:
            dead += zip(block.dead.numbers, block.dead.reasons, block.dead.rows, strict=True)
    numbers = sorted([row[0] for row in rows] + [row[0] for row in dead])
    assert numbers == list(range(len(numbers))), "read = used + dead, in one numbering"
    return rows, dead


def assert_independent_of_blocks(data: bytes, written: RawFormat, schema: pa.Schema) -> Any:
    expected = parsed(data, written, schema, 2**20)
    for block_bytes in BLOCK_SIZES:
        assert parsed(data, written, schema, block_bytes) == expected, block_bytes
    return expected


@settings(max_examples=150, deadline=None)
@example([(b'1,1,""', b"\n"), (b"1,\r,", b"\n")], True, True, True)
@given(st.lists(st.tuples(RECORDS, ENDS), max_size=8), st.booleans(), st.booleans(), st.booleans())
def test_csv_rows_do_not_depend_on_blocks(
    records: list[tuple[bytes, bytes]], ended: bool, quoting: bool, blank: bool
) -> None:
    data = b"".join(record + end for record, end in records)
    data = data if ended else data.removesuffix(b"\n")
    data = data.replace(b",", b"  ") if blank else data
    written = RawFormat(
        "csv",
        delimiter=" " if blank else ",",
        header=False,
        columns=tuple(SCHEMA.names),
        quote='"' if quoting else None,
        null_values=("", "NA"),
    )
    assert_independent_of_blocks(data, written, SCHEMA)
    with mock.patch.object(blocks, "RECORD_LIMIT_BYTES", 24):
        assert_independent_of_blocks(data, written, SCHEMA)


@settings(max_examples=150, deadline=None)
@given(st.lists(CELLS, min_size=4, max_size=4).map(b",".join))
def test_a_csv_row_does_not_depend_on_its_neighbours(record: bytes) -> None:
    written = RawFormat("csv", header=False, columns=tuple(SCHEMA.names))
    alone = parsed(record + b"\n", written, SCHEMA, 4096)
    if index_records(record + b"\n", ",", '"').rest != len(record) + 1:
        return  # An open quotation mark reaches into what follows.
    for neighbour in (GOOD_CSV, b"bad", b"x,x,x,x"):
        rows, dead = parsed(record + b"\n" + neighbour + b"\n", written, SCHEMA, 4096)
        assert [row for row in rows if row[0] < len(alone[0] + alone[1])] == alone[0]
        assert [row for row in dead if row[0] < len(alone[0] + alone[1])] == alone[1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(JSON_LINES, ENDS), max_size=8), st.booleans())
def test_json_rows_do_not_depend_on_blocks(lines: list[tuple[bytes, bytes]], ended: bool) -> None:
    data = b"".join(line + end for line, end in lines)
    data = data if ended else data.removesuffix(b"\n")
    assert_independent_of_blocks(data, RawFormat("json"), SCHEMA)
    with mock.patch.object(blocks, "RECORD_LIMIT_BYTES", 12):
        assert_independent_of_blocks(data, RawFormat("json"), SCHEMA)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"\n", b"\r", b"a", "é".encode(), b"\xc3", b"\xff", b"long enough", b""]),
        max_size=30,
    ).map(b"".join)
)
def test_text_rows_do_not_depend_on_blocks(data: bytes) -> None:
    schema = pa.schema({"line": pa.string()})
    rows, dead = assert_independent_of_blocks(data, RawFormat("text"), schema)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert len(rows) + len(dead) == len(lines) - (not lines[-1])
    with mock.patch.object(blocks, "RECORD_LIMIT_BYTES", 6):
        assert_independent_of_blocks(data, RawFormat("text"), schema)
