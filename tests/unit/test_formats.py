"""Raw bytes become typed rows; what can't is dead, with its number, its text and a reason."""

from __future__ import annotations

import datetime
import gzip
import io
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streammine.model.errors import InputError
from streammine.model.formats import RawFormat, blocks, parse
from streammine.model.formats.records import index_records

LINES = pa.schema({"line": pa.string()})
TEXT = RawFormat("text")
CSV = RawFormat("csv")
JSON = RawFormat("json")


class Parsed:
    """All blocks of a parse together."""

    def __init__(self, data: bytes, written: RawFormat, schema: pa.Schema, **settings: Any) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.numbers: list[int] = []
        self.dead: dict[int, tuple[str, str]] = {}
        self.raw_rows = 0
        arguments = {"columns": None, "file": "the.file", **settings}
        for block in parse(io.BytesIO(data), written, schema, **arguments):
            assert block.batch.num_rows == len(block.rows)
            dead = block.dead
            assert block.raw_rows == len(block.rows) + (len(dead) if dead is not None else 0)
            self.raw_rows += block.raw_rows
            self.numbers += block.rows.tolist()
            self.rows += [tuple(row.values()) for row in block.batch.to_pylist()]
            if dead is not None:
                assert set(dead.files) == {"the.file"}
                for number, reason, text in zip(dead.numbers, dead.reasons, dead.rows, strict=True):
                    assert number is not None
                    self.dead[number] = (reason, text)


class TestText:
    def test_lines_end_in_a_line_feed_and_lose_a_carriage_return(self) -> None:
        parsed = Parsed("a\r\n\n b\t\näé\nlast".encode(), TEXT, LINES)
        assert [row[0] for row in parsed.rows] == ["a", "", " b\t", "äé", "last"]
        assert parsed.numbers == [0, 1, 2, 3, 4]

    def test_a_line_that_is_not_utf8_is_dead(self) -> None:
        # The two halves of an é on two lines are wrong, though together they would be right.
        parsed = Parsed(b"good\nbad \xff\nx\xc3\n\xa9\nend\n", TEXT, LINES)
        assert [row[0] for row in parsed.rows] == ["good", "end"]
        assert parsed.numbers == [0, 4]
        assert sorted(parsed.dead) == [1, 2, 3]
        assert parsed.dead[1] == (
            "line is not UTF-8: invalid start byte at byte 4 (0xff)",
            "bad \\xff",
        )

    def test_an_empty_file_has_no_rows(self) -> None:
        for written, schema in ((TEXT, LINES), (JSON, LINES)):
            assert Parsed(b"", written, schema).raw_rows == 0

    def test_a_byte_order_mark_belongs_to_no_row(self) -> None:
        parsed = Parsed(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", TEXT, LINES)
        assert [row[0] for row in parsed.rows] == ["a", "\ufeffb"]

    @pytest.mark.parametrize("block_bytes", [1, 5, 16, 1000])
    def test_an_over_long_line_is_dead(
        self, block_bytes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blocks, "RECORD_LIMIT_BYTES", 10)
        data = b"0123456789\r\n0123456789a\n" + b"y" * 50 + b"\n0123456789\rx\nshort\n" + b"z" * 11
        parsed = Parsed(data, TEXT, LINES, block_bytes=block_bytes)
        assert [row[0] for row in parsed.rows] == ["0123456789", "short"]
        assert parsed.numbers == [0, 4]
        assert sorted(parsed.dead) == [1, 2, 3, 5]
        assert parsed.dead[2][0] == "line is longer than 10 bytes"


class TestCsv:
    SCHEMA = pa.schema({"a": pa.int64(), "s": pa.string()})

    def test_quotes_hold_delimiters_line_ends_and_quotes(self) -> None:
        parsed = Parsed(b'a,s\n1,"x,\r\ny\n""z"""\n2,pl"ain\n3,"q"uote\n', CSV, self.SCHEMA)
        assert parsed.rows == [(1, 'x,\r\ny\n"z"'), (2, 'pl"ain'), (3, "quote")]

    def test_columns_are_found_by_name(self) -> None:
        schema = pa.schema({"s": pa.string(), "a": pa.int64()})
        parsed = Parsed(b'"a",b,,b,s\n1,2,3,4,x\n', CSV, schema)
        assert parsed.rows == [("x", 1)]
        assert Parsed(b"a,s\n1,x\n", CSV, schema, columns=["a"]).rows == [(1,)]

    def test_a_header_without_a_column_is_an_input_error(self) -> None:
        with pytest.raises(InputError, match=r"the\.file: no column s; its columns are a, b"):
            Parsed(b"a,b\n1,2\n", CSV, self.SCHEMA)
        with pytest.raises(InputError, match="more than one column is named a"):
            Parsed(b"a,a,s\n", CSV, self.SCHEMA)

    @pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\n", b"\xef\xbb\xbf"])
    def test_a_file_of_nothing_has_no_rows(self, data: bytes) -> None:
        assert Parsed(data, CSV, self.SCHEMA).raw_rows == 0

    def test_names_can_be_given_instead_of_a_header(self) -> None:
        written = RawFormat("csv", delimiter=" ", header=False, columns=("s", "x", "a"))
        assert Parsed(b"n 5 1\nm 5 2", written, self.SCHEMA).rows == [(1, "n"), (2, "m")]

    def test_runs_of_blanks_are_one_delimiter(self) -> None:
        written = RawFormat("csv", delimiter=" ")
        data = b' a   s \n 1  x\n\n  \n2   "y  z" \r\n3 "u\n  v"\n'
        parsed = Parsed(data, written, self.SCHEMA)
        assert parsed.rows == [(1, "x"), (2, "y  z"), (3, "u\n  v")]

    def test_null_values_are_null_unless_quoted(self) -> None:
        written = RawFormat("csv", null_values=("", "NA"))
        parsed = Parsed(b'a,s\n,\nNA,NA\n1,""\n2,"NA"\n', written, self.SCHEMA)
        assert parsed.rows == [(None, None), (None, None), (1, ""), (2, "NA")]

    def test_rows_that_do_not_fit_are_dead_with_column_value_and_type(self) -> None:
        data = b"a,s\n1,x\n\nq,y\n5\n6,z,z\n7,\xff\n99999999999999999999,w\n8,u\n"
        parsed = Parsed(data, CSV, self.SCHEMA)
        assert parsed.rows == [(1, "x"), (8, "u")]
        assert parsed.numbers == [0, 6], "blank lines are no rows"
        assert parsed.dead == {
            1: ('column "a": "q" is not a value of type int64', "q,y"),
            2: ("record has 1 values, expected 2 (a, s)", "5"),
            3: ("record has 3 values, expected 2 (a, s)", "6,z,z"),
            4: ('column "s": "\\xff" is not a value of type string', "7,\\xff"),
            5: (
                'column "a": "99999999999999999999" is not a value of type int64',
                "99999999999999999999,w",
            ),
        }

    def test_a_stray_quotation_mark_costs_a_line_not_the_file(self) -> None:
        parsed = Parsed(b'a,s\n1,x\n2,"open\n3,y\n4,z\n', CSV, self.SCHEMA)
        assert parsed.rows == [(1, "x"), (3, "y"), (4, "z")]
        assert parsed.dead == {1: ("a quotation mark is never closed", '2,"open')}

    @pytest.mark.parametrize("block_bytes", [1, 3, 7, 40, 1000])
    def test_an_over_long_record_costs_its_first_line(
        self, block_bytes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blocks, "RECORD_LIMIT_BYTES", 20)
        data = b'a,s\n1,"open\n' + b"2,y\n" * 6 + b"3," + b"z" * 30 + b'\n4,"w"\n'
        parsed = Parsed(data, CSV, self.SCHEMA, block_bytes=block_bytes)
        assert parsed.rows == [(2, "y")] * 6 + [(4, "w")]
        assert {number: text[:6] for number, (_, text) in parsed.dead.items()} == {
            0: '1,"ope',
            7: "3,zzzz",
        }
        assert all("longer than 20 bytes" in reason for reason, _ in parsed.dead.values())

    def test_a_lone_carriage_return_outside_quotes_makes_a_row_dead(self) -> None:
        parsed = Parsed(b'a,s\r\n1,x\r\n2,a\rb\r\n3,"a\rb"\r\n', CSV, self.SCHEMA)
        assert parsed.rows == [(1, "x"), (3, "a\rb")]
        assert list(parsed.dead) == [1]

    def test_types(self) -> None:
        schema = pa.schema(
            {
                "f": pa.float64(),
                "b": pa.bool_(),
                "d": pa.date32(),
                "c": pa.decimal128(6, 2),
                "t": pa.timestamp("us"),
                "z": pa.timestamp("ms", "UTC"),
            }
        )
        data = (
            b"f,b,d,c,t,z\n"
            b"0.1,true,2020-02-29,12.5,2020-01-01T10:00:00.5,2020-01-01\n"
            b"-1e-400,0,2020-03-01,-3,2020-01-01 10:00:00+02:00, 2020-01-01T00:00:00Z\n"
            b"nan,maybe,2020-02-30,1.234,2020-01-01 25:00,soon\n"
        )
        parsed = Parsed(data, CSV, schema)
        utc = datetime.UTC
        assert parsed.rows == [
            (
                0.1,
                True,
                datetime.date(2020, 2, 29),
                Decimal("12.50"),
                datetime.datetime(2020, 1, 1, 10, 0, 0, 500_000),
                datetime.datetime(2020, 1, 1, tzinfo=utc),
            ),
            (
                -0.0,
                False,
                datetime.date(2020, 3, 1),
                Decimal("-3.00"),
                datetime.datetime(2020, 1, 1, 8),
                datetime.datetime(2020, 1, 1, tzinfo=utc),
            ),
        ]
        assert parsed.dead[2][0] == 'column "b": "maybe" is not a value of type bool'

    @pytest.mark.parametrize(
        ("kind", "refused"),
        [
            (pa.int8(), [1, 2, 3, 4, 6]),
            (pa.int32(), [2, 3, 4, 6]),
            (pa.int64(), [3, 4, 6]),
            (pa.uint8(), [2, 3, 4, 5, 6]),
            (pa.uint64(), [4, 5, 6]),
        ],
    )
    def test_hexadecimal_numbers_do_not_become_negative(
        self, kind: pa.DataType, refused: list[int]
    ) -> None:
        cells = [
            "0x7F",
            "0X80",
            '"0x80000000"',
            " 0xFFFFFFFFFFFFFFFF",
            "0x1FFFFFFFFFFFFFFFF",
            "-128",
            "-0x1",
            "",
        ]
        values = [127, 128, 2**31, 2**64 - 1, None, -128, None, None]
        data = "a,s\n" + "".join(f"{cell},0x80\n" for cell in cells)
        parsed = Parsed(data.encode(), CSV, pa.schema({"a": kind, "s": pa.string()}))
        assert sorted(parsed.dead) == refused
        assert parsed.rows == [
            (value, "0x80") for place, value in enumerate(values) if place not in refused
        ]

    def test_floats_are_rounded_correctly(self) -> None:
        texts = ["9007199254740993", "2.2250738585072011e-308", "1.7976931348623157e308", "5e-324"]
        texts += ["0.1000000000000000055511151231257827021181583404541015625", "1e23", "8.41e21"]
        schema = pa.schema({"f": pa.float64()})
        csv = Parsed("\n".join(["f", *texts]).encode(), CSV, schema)
        json = Parsed("\n".join(f'{{"f": {text}}}' for text in texts).encode(), JSON, schema)
        assert [row[0] for row in csv.rows] == [float(text) for text in texts]
        assert json.rows == csv.rows

    def test_many_bad_rows_do_not_take_long(self) -> None:
        data = b"a,s\n" + b"".join(b"%dx,y\n" % number for number in range(200_000))
        parsed = Parsed(data, CSV, self.SCHEMA)
        assert len(parsed.dead) == 200_000


class TestJson:
    SCHEMA = pa.schema({"a": pa.int64(), "s": pa.string(), "t": pa.timestamp("us")})

    def test_objects_lend_their_keys(self) -> None:
        data = b'{"s":"x","z":{"a":[{}]},"a":1}\r\n\n  {"t":"2020-01-01T00:00:00.25Z"} \n{}\n'
        data += b'{"a":null,"s":"n}\\n{"}'
        parsed = Parsed(data, JSON, self.SCHEMA)
        time = datetime.datetime(2020, 1, 1, 0, 0, 0, 250_000)
        assert parsed.rows == [
            (1, "x", None),
            (None, None, time),
            (None, None, None),
            (None, "n}\n{", None),
        ]
        assert parsed.numbers == [0, 1, 2, 3], "blank lines are no rows"

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b"null", "line is no JSON object but null"),
            (b"[1]", "line is no JSON object but an array"),
            (b'{"a":1}null{"a":2}', "line is not JSON"),
            (b'{"a":1}{"a":2}', "line is not JSON"),
            (b'{"a":', "line is not JSON"),
            (b'{"a":1.5}', 'column "a": 1.5 is not a value of type int64'),
            (b'{"a":"1"}', 'column "a": "1" is not a value of type int64'),
            (b'{"a":true}', 'column "a": true is not a value of type int64'),
            (b'{"s":1}', 'column "s": 1 is not a value of type string'),
            (b'{"a":9223372036854775808}', "couldn't parse:9223372036854775808"),
            (b'{"t":"noon"}', "Failed to parse string: 'noon'"),
            (b'{"t":5}', 'column "t": 5 is not a value of type timestamp[us]'),
            (b'{"a":1,"a":2}', "specified twice"),
            (b'{"s":"\\ud800"}', "surrogate"),
            (b'{"s":"\xff"}', "line is not UTF-8"),
            (b"\xef\xbb\xbf{}", "line is not JSON"),
        ],
    )
    def test_a_line_that_does_not_fit_is_dead(self, line: bytes, reason: str) -> None:
        parsed = Parsed(b'{"a":1}\n' + line + b'\n{"a":3}\n', JSON, self.SCHEMA)
        assert parsed.numbers == [0, 2]
        assert reason in parsed.dead[1][0]

    def test_a_null_where_none_may_be_is_dead(self) -> None:
        schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
        parsed = Parsed(b'{"a":1}\n{}\n{"a":2}\n', JSON, schema)
        assert (parsed.numbers, list(parsed.dead)) == ([0, 2], [1])
        parsed = Parsed(b"a,b\n1,1\n,1\n", CSV, schema)
        assert parsed.dead == {1: ('column "a" is empty', ",1")}

    @pytest.mark.parametrize("block_bytes", [1, 8, 100])
    def test_an_over_long_line_is_dead(
        self, block_bytes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blocks, "RECORD_LIMIT_BYTES", 10)
        data = b'{"a":1}\n{"s":"%s"}\n{"a":2}\n' % (b"x" * 30)
        parsed = Parsed(data, JSON, self.SCHEMA, block_bytes=block_bytes)
        assert parsed.numbers == [0, 2]
        assert parsed.dead[1][0] == "line is longer than 10 bytes"


class FailingStream:
    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)

    def read(self, size: int, /) -> bytes:
        for part in self._parts:
            return part
        raise EOFError("it ends too early")


def test_a_stream_that_breaks_off_is_an_input_error_with_the_rows_before() -> None:
    blocks_read = parse(FailingStream([b"a\nb", b"c\nd"]), TEXT, LINES, None, "the.gz")
    assert next(blocks_read).raw_rows == 1
    assert next(blocks_read).raw_rows == 1
    with pytest.raises(InputError, match=r"the\.gz: can't be read on after 2 whole rows: it ends"):
        next(blocks_read)


def test_the_record_index_leaves_an_open_record_to_the_next_block() -> None:
    index = index_records(b'a,b\n\n"c\n",d\r\n"e', ",", '"')
    assert index.starts.tolist() == [0, 5]
    assert index.ends.tolist() == [4, 13]
    assert index.fields.tolist() == [2, 2]
    assert (index.rest, index.too_long) == (13, False)


REAL = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not REAL.is_dir(), reason="the real input does not lie beside this checkout")
def test_real_files_parse_without_a_dead_row() -> None:
    edits = gzip.decompress((REAL / "wikiticker/wikiticker-2015-09-12.json.gz").read_bytes())
    schema = pa.schema({"time": pa.timestamp("us"), "page": pa.string(), "added": pa.int64()})
    parsed = Parsed(edits, JSON, schema)
    assert (parsed.raw_rows, parsed.dead) == (39_244, {})
    plugs = gzip.decompress((REAL / "smartgrid/houses0-9-84s.txt.gz").read_bytes())
    names = ("ts", "value", "property", "plug", "household", "house")
    written = RawFormat("csv", delimiter=" ", header=False, columns=names)
    kinds = [pa.int64(), pa.float64(), *[pa.int32()] * 4]
    parsed = Parsed(plugs, written, pa.schema(dict(zip(names, kinds, strict=True))))
    assert (parsed.raw_rows, parsed.dead) == (33_628, {})
