"""Output files hold what was written, whatever the format, and other programs can read them."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json
import math
from typing import Any

import pyarrow as pa
import pytest

from streammine.model.canonical import encode_rows
from streammine.model.errors import OutputError
from streammine.operators.file_formats import SUFFIXES, decode_file, encode_file

FLAT: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False, None]),
    (pa.int8(), [-128, 127, None]),
    (pa.int64(), [-(2**63), 2**63 - 1, None]),
    (pa.uint64(), [2**64 - 1, 0, None]),
    (pa.float16(), [1.5, math.nan, None]),
    (pa.float32(), [0.1, -0.0, 3.4e38, None]),
    (pa.float64(), [0.1, 1.0, 1e22, 5e-324, -0.0, 0.1 + 0.2, 1e-7, None]),
    (pa.float64(), [math.nan, math.inf, -math.inf, 2.0, None]),
    (pa.string(), ["", "a", 'say "hi", x', "two\nlines\r\n", "\t\\n\x00\x01\x1f", None]),
    (pa.string(), ["é😀", " x ", "\x7f", None]),
    (pa.string(), ["null", "NaN", "NULL", "1", "true", "None", None]),
    (pa.large_string(), ["a", "", None]),
    (pa.binary(), [b"", b"\x00\xff", b"abc", None]),
    (pa.binary(2), [b"\x00\xff", b"ab", None]),
    (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2020, 2, 29), None]),
    (pa.timestamp("s"), [-1, 0, 10**9, None]),
    (pa.timestamp("us"), [-1, 0, 10**15 + 1, None]),
    (pa.timestamp("ns", "UTC"), [-1, 0, 10**18 + 1, None]),
    (pa.time64("us"), [0, 86_399_999_999, None]),
    (pa.duration("ms"), [-5, 5, None]),
    (pa.decimal128(10, 2), [decimal.Decimal("-9.01"), decimal.Decimal("0.10"), None]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a", None]),
]
NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.float64()), [[], [1.0, None, math.nan], None]),
    (pa.list_(pa.string()), [["a,b", '"'], [], None]),
    (pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}, None]),
    (pa.struct([("t", pa.timestamp("us")), ("d", pa.binary())]), [{"t": 5, "d": b"\xff"}, None]),
]


def round_trip(file_format: str, table: pa.Table) -> pa.Table:
    return decode_file(file_format, encode_file(file_format, table), table.schema)


UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}
YEAR_1, YEAR_10_000 = -719_162, 2_932_897
"""In days since 1970."""


def times_of(kind: pa.DataType, day: int, units_more: int) -> pa.Array:
    per_day = 1 if kind == pa.date32() else 86_400 * UNITS[getattr(kind, "unit", "ms")]
    if kind == pa.date64():
        units_more *= per_day
    numbers = pa.array([None, day * per_day + units_more])
    return numbers.cast(pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)


@pytest.mark.parametrize("file_format", ["csv", "json"])
@pytest.mark.parametrize(
    "kind",
    [
        *(pa.timestamp(unit) for unit in UNITS),
        pa.timestamp("ms", "UTC"),
        pa.date32(),
        pa.date64(),
    ],
    ids=str,
)
def test_a_time_without_a_text_is_refused(file_format: str, kind: pa.DataType) -> None:
    for day, units_more in ((YEAR_1, 0), (YEAR_10_000, -1)):
        table = pa.table({"at": times_of(kind, day, units_more)})
        assert round_trip(file_format, table).equals(table)
    for day, units_more, year in ((YEAR_1, -1, 0), (YEAR_10_000, 0, 10_000)):
        table = pa.table({"x": [1, 2], "at": times_of(kind, day, units_more)})
        with pytest.raises(OutputError, match=rf"column 'at' has a time in the year {year} \("):
            encode_file(file_format, table)
        for other in ("parquet", "arrow"):
            assert round_trip(other, table).equals(table)


def test_times_within_others_are_looked_at() -> None:
    late = times_of(pa.timestamp("s"), 20 * YEAR_10_000, 0)
    dictionary = late.dictionary_encode()
    lists = pa.ListArray.from_arrays([0, 1, 2], late)
    structs = pa.StructArray.from_arrays([late], ["t"])
    for column in (dictionary, lists, structs, pa.ListArray.from_arrays([0, 2, 2], structs)):
        with pytest.raises(OutputError, match=r"in the year 16\d{4} \(\d+ seconds since 1970\)"):
            encode_file("json", pa.table({"at": column}))
    unused = pa.table({"at": dictionary.take(pa.array([0]))})
    assert bytes(encode_file("json", unused)) == b'{"at":null}\n'


@pytest.mark.parametrize("file_format", list(SUFFIXES))
@pytest.mark.parametrize(("kind", "values"), FLAT, ids=[str(kind) for kind, _ in FLAT])
@pytest.mark.parametrize("neighbour", [False, True], ids=["alone", "beside"])
def test_values_come_back(
    file_format: str, kind: pa.DataType, values: list[Any], neighbour: bool
) -> None:
    # Sliced, because offsets must count; alone, because a null is then an empty line of CSV.
    column = pa.array([*values, *values], kind)
    columns = {"x": column, "n": pa.array(range(len(column)))} if neighbour else {"x": column}
    table = pa.table(columns).slice(1, len(values))
    back = round_trip(file_format, table)
    assert back.schema.equals(table.schema)
    assert encode_rows(back)[0].tobytes() == encode_rows(table)[0].tobytes()


@pytest.mark.parametrize("file_format", ["parquet", "json", "arrow"])
@pytest.mark.parametrize(("kind", "values"), NESTED, ids=[str(kind) for kind, _ in NESTED])
def test_nested_values_come_back(file_format: str, kind: pa.DataType, values: list[Any]) -> None:
    table = pa.table({"x": pa.array([*values, *values], kind)}).slice(1)
    back = round_trip(file_format, table)
    assert encode_rows(back)[0].tobytes() == encode_rows(table)[0].tobytes()


@pytest.mark.parametrize("file_format", list(SUFFIXES))
def test_no_rows_come_back_as_none(file_format: str) -> None:
    table = pa.table({"x": pa.array([], pa.string()), "y": pa.array([], pa.float64())})
    assert round_trip(file_format, table).equals(table)


def test_json_lines_are_json_for_everybody() -> None:
    table = pa.table(
        {
            'we"ird': ['a"b\\c\n\x00é', None],
            "whole": [1.0, math.inf],
            "when": pa.array([0, None], pa.timestamp("us")),
            "list": [[1, 2], []],
        }
    )
    text = bytes(encode_file("json", table)).decode()
    first, second = map(json.loads, text.splitlines())
    assert first == {
        'we"ird': 'a"b\\c\n\x00é',
        "whole": 1.0,
        "when": "1970-01-01T00:00:00.000000",
        "list": [1, 2],
    }
    assert second == {'we"ird': None, "whole": "Infinity", "when": None, "list": []}
    assert '"whole":1.0,' in text


def test_csv_is_csv_for_everybody() -> None:
    table = pa.table({"word": ['a"b', "x,y\nz"], "ratio": [0.1, 1e22], "at": [1, None]})
    text = bytes(encode_file("csv", table)).decode()
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["word"] for row in found] == ['a"b', "x,y\nz"]
    assert [float(row["ratio"]) for row in found] == [0.1, 1e22]
    assert [row["at"] for row in found] == ["1", ""]


@pytest.mark.parametrize("file_format", list(SUFFIXES))
def test_the_same_rows_give_the_same_bytes(file_format: str) -> None:
    table = pa.table({"s": ["b", "a", "b"], "f": [0.1, 2.0, math.nan]})
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)]).combine_chunks()
    assert bytes(encode_file(file_format, table)) == bytes(encode_file(file_format, chunked))


@pytest.mark.parametrize("file_format", list(SUFFIXES))
def test_other_bytes_are_refused(file_format: str) -> None:
    with pytest.raises(OutputError, match=f"not a {file_format} file with columns"):
        decode_file(file_format, pa.py_buffer(b"garbage\n1,2\n"), pa.schema([("x", pa.int64())]))
