"""How checks and pictures of the applications read: like the engine, of which they use nothing for inputs."""

from __future__ import annotations

import bz2
import gzip
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streammine
from apps import drawing, reading
from streammine.model.formats import RawFormat, parse

TYPES: dict[str, tuple[pa.DataType, Callable[[reading.Value], Any]]] = {
    "int32": (pa.int32(), lambda value: reading.whole_number(value, 32)),
    "int64": (pa.int64(), reading.whole_number),
    "float64": (pa.float64(), reading.number),
    "seconds": (pa.timestamp("s"), reading.time),
    "milliseconds": (pa.timestamp("ms"), lambda value: reading.time(value, 3)),
    "text": (pa.string(), reading.text),
}
VALUES = st.one_of(
    st.sampled_from(["", '""', "5", " -7\t", "0x1F", "0x80000000", "-0x1", "007", "1_0", "2147483648"]),
    st.sampled_from(["+1.5", "-.5", "5.", "1e3", "1e", "nan", "-inf", "nan(1)", "1e400", "1/3", "."]),
    st.sampled_from(["2013-01-01", " 2013-01-01 00:00:05Z", "2013-01-01T07+01", "1913-01-01 00:00:00.5"]),
    st.sampled_from(["2013-01-01 24:00", "2013-02-30 00:00", "2013-01-01 00:00:00.1234"]),
    st.sampled_from(["20130101", "2013-01-01Z"]),
    st.text('a"é\u212a ', max_size=4),
    st.text('"\r\n, x', max_size=4),
)  # fmt: skip


def read_by_the_engine(data: bytes, kind: pa.DataType, delimiter: str) -> list[Any]:
    """The values of column a, None for a dead record and [None] for a null."""
    schema = pa.schema([("a", kind)])
    written = RawFormat("csv", delimiter, header=False, columns=("a", "b"))
    found: list[Any] = []
    for block in parse(io.BytesIO(data), written, schema, None, "file"):
        column = block.batch.column(0)
        values = (column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column).to_pylist()
        rows: list[Any] = [None] * block.raw_rows
        first = len(found)
        for row, value in zip(block.rows.tolist(), values, strict=True):
            rows[row - first] = [value]
        found += rows
    return found


def read_in_plain_python(
    path: Path, convert: Callable[[reading.Value], Any], delimiter: str
) -> list[Any]:
    found: list[Any] = []
    for record in reading.records(path, 2, delimiter):
        try:
            found.append(None if record is None else [convert(record[0])])
        except ValueError:
            found.append(None)
    return found


@pytest.mark.parametrize("delimiter", [",", " "])
@pytest.mark.parametrize("kind", sorted(TYPES))
@settings(max_examples=150, deadline=None)
@given(records=st.lists(st.lists(VALUES, min_size=1, max_size=3), max_size=6), end=st.booleans())
@example(records=[['"never closed', "1"], ["5", "2"]], end=False)
@example(records=[['"a""b"c', "1"], ["x\ry", "2"], ['"x\ry\n"', "3"]], end=True)
def test_records_are_those_of_the_engine(
    records: list[list[str]],
    end: bool,
    kind: str,
    delimiter: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    text = "\n".join(delimiter.join(values) for values in records) + "\n" * end
    if (
        delimiter == " "
    ):  # a carriage return between blanks is a value or a line's end, by what surrounds it
        text = text.replace("\r", "")
    path = tmp_path_factory.getbasetemp() / "records.csv"
    path.write_bytes(text.encode())
    of_engine, convert = TYPES[kind]
    expected = read_by_the_engine(text.encode(), of_engine, delimiter)
    found = read_in_plain_python(path, convert, delimiter)
    assert repr(found) == repr(expected)


def test_texts_that_are_not_utf_8_are_dead_where_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(b"caf\xe9,1\n")
    ((name, number),) = [record for record in reading.records(path, 2) if record is not None]
    assert reading.whole_number(number) == 1
    with pytest.raises(ValueError, match="surrogates not allowed"):
        reading.text(name)


def test_lines_keep_their_numbers_where_some_are_dead(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfthree\r\n\n")
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\ntwo")
    found = list(reading.texts(tmp_path / "*.txt"))
    assert found == ["one", None, "two", "three", ""]


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
        (".GZ", lambda data: gzip.compress(data[:2]) + gzip.compress(data[2:])),
    ],
)
def test_compressed_files_are_read(
    suffix: str, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / f"lines{suffix}"
    path.write_bytes(compress(b"a\nb\n"))
    assert list(reading.lines(path)) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none", None, "none: no such file"),
        ("*.none", None, ".none: no such file"),
        ("", None, " is a folder; name its files"),
        ("a.gz", b"no gzip", "a.gz: can't be read: Not a gzipped file"),
        (
            "b.gz",
            gzip.compress(b"lines", mtime=0)[:-9],
            "b.gz: can't be read: Compressed file ended",
        ),
    ],
)
def test_what_can_not_be_read_is_told_in_a_sentence(
    name: str, content: bytes | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert reading.exit_status(lambda: len(list(reading.texts(tmp_path / name)))) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text('\nb, a ,c\n1,2,3\n\n4,5\n"6",,8\n')
    assert list(reading.named_records(path, ["a", "b"])) == [["2", "1"], None, [None, "6"]]
    with pytest.raises(streammine.InputError, match="has no column d"):
        list(reading.named_records(path, ["a", "d"]))
    path.write_text("\n")
    assert list(reading.named_records(path, ["a"])) == []


def test_a_row_is_late_where_a_later_epoch_has_begun_in_its_file() -> None:
    #  epochs of 10:  0   1   1  0   2  1   2
    times = [3, 15, 11, 9, 20, 19, 20]
    assert list(reading.in_time(times, lambda time: time, 10)) == [3, 15, 11, 20, 20]


def test_output_of_something_else_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check() -> int:
        return len(reading.committed_sets(tmp_path, ["word"]))

    assert reading.exit_status(check) == 1
    assert "there is no committed output here; run the job first" in capsys.readouterr().err
    rows = pa.table({"word": ["a", "a"], "count": [1, 2]})
    monkeypatch.setattr(streammine, "read_output", lambda folder: iter([(3, rows)]))
    assert reading.exit_status(check) == 1
    assert "a row is twice in epoch 3" in capsys.readouterr().err
    assert reading.committed_sets(tmp_path, ["word", "count"]) == {3: {("a", 1), ("a", 2)}}
    monkeypatch.setattr(streammine, "read_output", lambda folder: iter([(3, rows.select([1]))]))
    assert reading.exit_status(check) == 1
    assert "has no column word; its columns are count" in capsys.readouterr().err


def test_pictures_that_can_not_be_made_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    figure = drawing.pyplot().figure()
    drawing.save(figure, tmp_path / "a.svg")
    assert "a.svg: " in capsys.readouterr().out
    for path in (tmp_path / "none" / "a.png", tmp_path / "a.no-format"):
        with pytest.raises(streammine.OutputError, match="the picture can't be written"):
            drawing.save(figure, path)
    with pytest.raises(streammine.OutputError, match="there are no rows to draw"):
        drawing.require_rows({}, tmp_path)


def test_numbers_that_are_none_stay_none() -> None:
    nothing = [
        convert(None)
        for convert in (reading.text, reading.number, reading.time, reading.whole_number)
    ]
    assert nothing == [None] * 4
    assert math.isnan(reading.number("nan") or 0)
