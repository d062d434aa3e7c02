"""The dead letters of a log: those that the tasks staged, with their epochs and in that order.

Tasks stage them by position. Where epochs count rows, a dead row's epoch follows from its place in the
order of all rows, which the second step tells. Where they go by time, it is the epoch that the row's
file had reached: the task tells the latest usable time up to it in its own unit, and only here are all
units of the file known. (Rows are dead for the same reasons, and in the same epochs, where files are
read without a log; but no row is late in a log.)
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.source_order import NO_TIME
from streammine.pipeline.raw_files import Unit
from streammine.pipeline.row_numbers import RowNumbers
from streammine.pipeline.storage import Folder

IntArray = npt.NDArray[np.int64]
_OPEN_FILES = 256


@dataclass(frozen=True)
class UnitTimes:
    """First and latest usable time of a unit (microseconds, BEGINNING where there is none), and what
    it had reached at each of its dead rows (int64, BEGINNING where nothing)."""

    first: int
    latest: int
    reached: IntArray


def epochs_by_time(
    units: Sequence[Unit], times: Sequence[UnitTimes], definition: EpochDefinition
) -> IntArray:
    """The epochs of all dead rows in the order of units and rows."""
    firsts: dict[int, int] = {}
    for unit, each in zip(units, times, strict=True):
        if each.first != BEGINNING:
            firsts.setdefault(unit.file, each.first)
    latest: dict[int, int] = {}
    found = [np.zeros(0, np.int64)]
    for unit, each in zip(units, times, strict=True):
        before = latest.get(unit.file, BEGINNING)
        reached = np.maximum(each.reached, before)
        reached[reached == BEGINNING] = firsts.get(unit.file, NO_TIME)
        found.append(definition.of_time(reached))
        latest[unit.file] = max(before, each.latest)
    return np.concatenate(found)


def epochs_by_count(places: Sequence[IntArray], length: int) -> IntArray:
    """The same out of the ranges' matrices (int64) of (file, row, place in the order) of dead rows."""
    matrix = np.concatenate([np.zeros((0, 3), np.int64), *places])
    numbers: IntArray = matrix[np.lexsort((matrix[:, 1], matrix[:, 0])), 2] // length
    return numbers


def dead_letters(
    staging: Folder,
    names: Sequence[str],
    units: Sequence[Unit],
    numbers: RowNumbers,
    epochs: IntArray,
) -> Iterator[bytes]:
    """The lines of the log's file, by epoch and position, with the numbers that rows have in their
    files. `epochs` are those of the letters in the staged files `names`, one after the other."""
    corrected = {unit.path: unit.file for unit in units if unit.file in numbers.corrections}
    if bool(np.all(epochs[1:] >= epochs[:-1])):
        order = np.arange(len(epochs))
        lines = _all_lines(staging, names)
    else:
        order = np.argsort(epochs, kind="stable")
        lines = _picked_lines(staging, names, order)
    for line, epoch in zip(lines, epochs[order].tolist(), strict=True):
        letter = json.loads(line)
        file = corrected.get(letter["file"])
        if file is not None:
            row = numbers.corrected(np.array([file], np.int32), np.array([letter["row"]], np.int64))
            letter["row"] = int(row[0])
        letter["epoch"] = epoch
        yield (json.dumps(letter, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _all_lines(staging: Folder, names: Sequence[str]) -> Iterator[bytes]:
    for name in names:
        with staging.open_stream(name) as file:
            yield from io.BufferedReader(file)


def _picked_lines(staging: Folder, names: Sequence[str], order: IntArray) -> Iterator[bytes]:
    """The lines of all files in another order; only where each stands is held in memory."""
    lengths = [np.zeros(0, np.int64)]
    for name in names:
        lengths.append(np.array([len(line) for line in _all_lines(staging, [name])], np.int64))
    sources = np.repeat(np.arange(len(names)), [len(each) for each in lengths[1:]])
    starts = np.concatenate([np.cumsum(each) - each for each in lengths])
    sizes = np.concatenate(lengths)

    @lru_cache(_OPEN_FILES)
    def opened(source: int) -> pa.NativeFile:
        return staging.open_input(names[source])

    for index in order.tolist():
        file = opened(int(sources[index]))
        file.seek(int(starts[index]))
        yield file.read(int(sizes[index]))
