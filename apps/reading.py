"""Inputs and committed outputs, as the checks and the pictures of the applications read them.

Inputs are read again in plain Python, by the rules of the README: files are named by a path or a glob, may be
compressed (.gz .bz2 .zst), and are read in path order. What can't be used is a dead letter:

Lines
    that are not UTF-8, or longer than 16 MiB. A carriage return before the line feed belongs to the line's
    end.
Records of CSV
    with another number of values than there are columns, with a carriage return that is neither quoted nor
    before a line feed, or with a quotation mark that is never closed: then the line that opens it is dead,
    and records go on with the next. A mark opens a quoted value only where the value starts; two of them
    inside stand for one, and behind the closing one the value goes on unquoted. Blank lines are no records.
    With a blank as delimiter a run of blanks is one, and those at both ends are none.
Values
    that are not of their column's type. One that is empty and not quoted is null. Numbers may have blanks and
    tabs around them; whole ones are decimal, perhaps with a minus sign, or hexadecimal (0x) without one.
    Times are ISO 8601, a date alone or with hours, minutes and seconds; those without an offset are UTC.
Rows that come late
    in files that are read directly: a row before them in their file is of a later epoch.

Nothing here is the engine's but the reading of its committed output. What can't be read raises InputError or
OutputError with one sentence, which `exit_status` tells.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import pyarrow as pa

import streammine

Value = str | None
Row = TypeVar("Row")

LONGEST_BYTES = 16 * 2**20
_UNREADABLE = (OSError, EOFError, zlib.error)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_INTEGER = re.compile(r"-?[0-9]+")
_HEXADECIMAL = re.compile(r"0[xX]([0-9a-fA-F]+)")
_FLOAT = re.compile(
    r"([+-]?)(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf(inity)?|(?P<nan>nan(\(\w*\))?))",
    re.ASCII | re.IGNORECASE,
)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d([ T]([01]\d|2[0-3])(:\d\d(:\d\d(\.(?P<parts>\d{1,6}))?)?)?"
    r"(?P<zone>Z|[+-]\d\d(:?[0-5]\d)?)?)?",
    re.ASCII,
)


def paths(pattern: str | Path) -> list[Path]:
    """The files that a path or glob names, in path order. Raises InputError where there is none."""
    if Path(pattern).is_file():
        return [Path(pattern)]
    if Path(pattern).is_dir():
        raise streammine.InputError(f"{pattern} is a folder; name its files, as in '{pattern}/*'")
    found = [path for path in map(Path, glob.glob(str(pattern), recursive=True)) if path.is_file()]
    if not found:
        raise streammine.InputError(f"{pattern}: no such file")
    return sorted(found, key=str)


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, without their line feeds. Raises InputError."""
    try:
        with _opened(path) as file:
            for number, line in enumerate(file):
                line = line.removeprefix(_BYTE_ORDER_MARK) if number == 0 else line
                yield line.removesuffix(b"\n")
    except _UNREADABLE as error:
        raise streammine.InputError(f"{path}: can't be read: {error}") from None


def _opened(path: Path) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    if suffix == ".bz2":
        return bz2.open(path)
    if suffix == ".zst":
        return io.BufferedReader(pa.input_stream(str(path), compression="zstd"))
    return open(path, "rb")


def texts(pattern: str | Path) -> Iterator[str | None]:
    """The lines of all files of text, one file after the other; None for a dead letter."""
    for path in paths(pattern):
        for line in lines(path):
            try:
                line = line.removesuffix(b"\r")
                yield line.decode() if len(line) <= LONGEST_BYTES else None
            except UnicodeDecodeError:
                yield None


class _Lines:
    """The lines of a file as texts, some of which may be put back."""

    def __init__(self, path: Path) -> None:
        self._behind = lines(path)
        self._ahead: deque[str] = deque()

    def __iter__(self) -> Iterator[str]:
        while (line := self.take()) is not None:
            yield line

    def take(self) -> str | None:
        if self._ahead:
            return self._ahead.popleft()
        line = next(self._behind, None)
        return None if line is None else line.decode(errors="surrogateescape")

    def put_back(self, some: list[str]) -> None:
        self._ahead.extendleft(reversed(some))


def records(path: Path, width: int, delimiter: str = ",") -> Iterator[list[Value] | None]:
    """The records of a CSV file without a header; None for a dead letter."""
    return _records(_Lines(path), width, delimiter)


def named_records(path: Path, names: Sequence[str]) -> Iterator[list[Value] | None]:
    """The same of one with a header: the values of the columns that are named; nothing of an empty one.
    Raises InputError."""
    taken = _Lines(path)
    header = next((line for line in taken if line.strip("\r")), None)
    if header is None:
        return
    columns = [(name or "").strip() for name in _values(header, ",")[0]]
    if missing := [name for name in names if name not in columns]:
        raise streammine.InputError(f"{path}: has no column {', '.join(missing)}")
    places = [columns.index(name) for name in names]
    for record in _records(taken, len(columns), ","):
        yield record if record is None else [record[place] for place in places]


def _records(taken: _Lines, width: int, delimiter: str) -> Iterator[list[Value] | None]:
    for line in taken:
        if not _without_ends(line, delimiter):
            continue
        whole, size = [line], len(line)
        values, is_open, is_good = _values(line, delimiter)
        while is_open and size <= LONGEST_BYTES and (more := taken.take()) is not None:
            whole.append(more)
            size += len(more) + 1
            if '"' in more:
                values, is_open, is_good = _values("\n".join(whole), delimiter)
        if is_open or size > LONGEST_BYTES:
            taken.put_back(whole[1:])
            yield None
        else:
            yield values if is_good and len(values) == width else None


def _without_ends(record: str, delimiter: str) -> str:
    blanks = " " if delimiter == " " else ""
    return record.strip(blanks).removesuffix("\r").strip(blanks)


def _values(record: str, delimiter: str) -> tuple[list[Value], bool, bool]:
    """The values, whether a quotation mark is open, and whether carriage returns are where they may be."""
    record = _without_ends(record, delimiter)
    if '"' not in record:
        record = re.sub(" +", " ", record) if delimiter == " " else record
        return [value or None for value in record.split(delimiter)], False, "\r" not in record
    values: list[Value] = []
    position, is_open, is_good = 0, False, True
    mark = re.escape(delimiter)
    pattern = re.compile(rf'(?:"(?P<quoted>(?:[^"]|"")*)(?P<closed>"?))?(?P<rest>[^{mark}]*)')
    while position <= len(record):
        found = pattern.match(record, position)
        assert found is not None, "everything in the pattern may be empty"
        quoted, rest = found["quoted"], found["rest"]
        is_open = quoted is not None and not found["closed"]
        is_good = is_good and "\r" not in rest
        values.append((rest or None) if quoted is None else quoted.replace('""', '"') + rest)
        position = found.end() + 1
        while delimiter == " " and record.startswith(" ", position):
            position += 1
    return values, is_open, is_good


def text(value: Value) -> str | None:
    """Raises ValueError for what is not UTF-8, as all of the following for what is not of their type."""
    if value is not None:
        value.encode()
    return value


def whole_number(value: Value, bits: int = 64) -> int | None:
    """A signed integer of so many bits."""
    if value is None:
        return None
    value, half = value.strip(" \t"), 2 ** (bits - 1)
    hexadecimal = _HEXADECIMAL.fullmatch(value)
    if hexadecimal and len(hexadecimal[1]) <= bits // 4 and int(value, 16) < half:
        return int(value, 16)
    if _INTEGER.fullmatch(value) and -half <= int(value) < half:
        return int(value)
    raise ValueError(f"{value!r} is no whole number of {bits} bits")


def number(value: Value) -> float | None:
    """A float64."""
    if value is None:
        return None
    found = _FLOAT.fullmatch(value := value.strip(" \t"))
    if found is None:
        raise ValueError(f"{value!r} is no number")
    return float("nan") if found["nan"] else float(value)


def time(value: Value, digits: int = 0) -> int | None:
    """A time in seconds from the beginning of 1970 on, or in parts of a second that have so many digits."""
    if value is None:
        return None
    found = _TIME.fullmatch(value := value.strip())
    if found is None or len(parts := found["parts"] or "") > digits:
        raise ValueError(f"{value!r} is no time")
    moment = datetime.fromisoformat(value.replace(f".{parts}", "") if parts else value)
    if found["zone"] is None:
        moment = moment.replace(tzinfo=UTC)
    scale: int = 10**digits
    return int(moment.timestamp()) * scale + int(parts.ljust(digits, "0") or 0)


def in_time(rows: Iterable[Row], time_of: Callable[[Row], int], epoch: int) -> Iterator[Row]:
    """The rows of a file that is read directly, without those that come late. Epochs have a length in the
    unit of `time_of`."""
    reached: int | None = None
    for row in rows:
        if reached is None or time_of(row) // epoch >= reached:
            reached = time_of(row) // epoch
            yield row


def require_columns(folder: str | Path, table: pa.Table, names: Sequence[str]) -> None:
    """Raises OutputError where the output is not the one that was meant."""
    if missing := [name for name in names if name not in table.column_names]:
        raise streammine.OutputError(
            f"{folder}: this is the output of something else: it has no column "
            f"{', '.join(missing)}; its columns are {', '.join(table.column_names)}"
        )


def committed(
    folder: str | Path, columns: Sequence[str]
) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
    """Each epoch that the engine committed, and its rows' values in these columns. Raises OutputError."""
    for epoch, table in streammine.read_output(folder):
        require_columns(folder, table, columns)
        values = [table.column(name).to_pylist() for name in columns]
        yield epoch, list(zip(*values, strict=True))


def committed_sets(folder: str | Path, columns: Sequence[str]) -> dict[int, set[tuple[Any, ...]]]:
    """The rows of each epoch that has any. Raises OutputError where a row is there twice, too."""
    found = {}
    for epoch, rows in committed(folder, columns):
        if len(distinct := set(rows)) < len(rows):
            raise streammine.OutputError(f"{folder}: a row is twice in epoch {epoch}")
        if rows:
            found[epoch] = distinct
    return found


def exit_status(main: Callable[[], int]) -> int:
    """That of a command: what `main` returns, or, after a sentence on standard error, 2 where an input can't
    be read and 1 for every other trouble."""
    try:
        return main()
    except streammine.StreammineError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, streammine.InputError) else 1
