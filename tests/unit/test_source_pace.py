"""Sources that keep a pace: rows come when they are due, and slices stay together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from streammine.model.durations import Rate
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.source_contracts import Delivery, SourceReader
from streammine.model.topology.sources import LogSource
from streammine.runtime.sources import open_reader, resolve_source
from streammine.runtime.sources.pace import LINGER_SECONDS, Pace
from tests.unit.epoch_logs import write_log
from tests.unit.source_reading import COUNT, files, generator, jittered, read_source, write_parquet


def together(readers: list[SourceReader]) -> Iterator[tuple[float, list[int], int]]:
    """Reads in the slices' own time. Gives, after each read, when it was, the open epochs of the slices that
    are not exhausted, and how many rows it gave."""
    wakes = dict.fromkeys(range(len(readers)), 0.0)
    open_epochs = dict.fromkeys(wakes, 0)
    while wakes:
        index = min(wakes, key=wakes.__getitem__)
        now = wakes[index]
        delivery = readers[index].read(65_536, now)
        if delivery.open_epoch > BEGINNING:
            open_epochs[index] = delivery.open_epoch
        if delivery.exhausted:
            del wakes[index], open_epochs[index]
        elif delivery.wake_after_seconds is not None:
            wakes[index] += delivery.wake_after_seconds + 1e-4
        yield now, list(open_epochs.values()), delivery.rows_read


def test_rows_come_when_they_are_due(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{row}\n" for row in range(100)))
    source = files("a.txt", rate="10/s")
    epoch = EpochDefinition("count", 5)
    resolved = resolve_source("s", source, epoch, str(tmp_path))
    reader = open_reader(resolved, source, epoch, 0, 1, None)

    def rows(delivery: Delivery) -> int:
        return sum(piece.batch.num_rows for piece in delivery.pieces)

    first = reader.read(1000, 0.0)
    assert (rows(first), first.open_epoch) == (1, 0)
    assert first.wake_after_seconds == pytest.approx(0.1)
    assert rows(reader.read(1000, 0.05)) == 0
    fourth = reader.read(1000, 0.4)
    assert (rows(fourth), fourth.open_epoch) == (4, 1), "the epoch end does not wait for row 5"
    assert rows(reader.read(3, 5.0)) == 3, "no more than was asked for"
    last = reader.read(1000, 60.0)
    assert rows(last) == 92
    assert reader.read(1000, 60.0).exhausted


@pytest.mark.parametrize("kind", ["count", "time", "log"])
def test_an_epoch_that_ends_soon_leaves_as_a_whole(
    kind: Literal["count", "time", "log"], tmp_path: Path
) -> None:
    """Three rows a millisecond apart are an epoch."""
    epoch = EpochDefinition("count", 3)
    if kind == "time":
        epoch = EpochDefinition("time", 3_000_000, "ts")
    source: Any = files("a.parquet", rate="1000/s")
    write_parquet(tmp_path / "a.parquet", [*range(30)], 30)
    if kind == "log":
        rows = dict.fromkeys(range(10), 3)
        write_log(tmp_path / "log", 1, rows, dead=False, definition=epoch)
        source = LogSource.model_validate({"log": "log", "rate": "1000/s"})
    resolved = resolve_source("s", source, epoch, str(tmp_path))
    reader = open_reader(resolved, source, epoch, 0, 1, None)

    def read(now: float) -> tuple[int, int, float]:
        rows, told = 0, BEGINNING
        while True:
            delivery = reader.read(1000, now)
            rows += delivery.rows_read
            told = max(told, delivery.open_epoch)
            if delivery.wake_after_seconds is not None:
                return rows, told, delivery.wake_after_seconds

    assert read(0.0041) == (3, 1, pytest.approx(LINGER_SECONDS)), "rows 3 and 4 wait for row 5"
    assert read(0.0045) == (0, 1, pytest.approx(LINGER_SECONDS))
    assert read(0.0055) == (3, 2, pytest.approx(0.0025))


def test_slices_keep_one_pace_together(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", jittered(0, 100), group=10)
    source = files("a.parquet", rate="600/min")
    resolved = resolve_source("s", source, COUNT, str(tmp_path))
    total = 0
    for index in range(2):
        reader = open_reader(resolved, source, COUNT, index, 2, None)
        while not (delivery := reader.read(1000, 4.45)).wake_after_seconds:
            total += delivery.rows_read
        total += delivery.rows_read
    assert total == 45


@pytest.mark.parametrize(
    ("rate", "rows"),
    [
        ((1, 1), 1),
        ((100, 1), 5),
        ((1, 60), 1),
        ((9600, 1), 480),
        ((600_000, 60), 500),
        ((10**9, 1), 50_000_000),
    ],
)
def test_a_turn_is_of_about_50_milliseconds(rate: tuple[int, int], rows: int) -> None:
    assert Pace.of_rows(Rate(*rate)).turn_rows == rows


def test_blocks_are_never_longer_than_without_a_pace(tmp_path: Path) -> None:
    for rate, rows in ((None, 65_536), ("9600/s", 480), ("1000000000/s", 65_536)):
        source = generator("keys", 200_000, rate)
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        reader = open_reader(resolved, source, COUNT, 0, 2, None)
        assert reader.read(200_000, 1e6).rows_read == rows
        second = open_reader(resolved, source, COUNT, 1, 2, None).read(1, 1e6)
        assert second.pieces[0].row == rows


@pytest.mark.parametrize("rate", [None, "1000/s", "300/s"])
@pytest.mark.parametrize("late_seconds", [0.0, 0.1, 100.0])
def test_no_slice_of_a_generator_tells_of_epochs_behind_the_last_row(
    rate: str | None, late_seconds: float, tmp_path: Path
) -> None:
    # or what leaves at the end of the input left in an epoch that depends on the pace and the clock
    source = generator("keys", 100, rate)
    epoch = EpochDefinition("count", 10)
    resolved = resolve_source("s", source, epoch, str(tmp_path))
    for index in range(2):
        reader = open_reader(resolved, source, epoch, index, 2, None)
        told, now = BEGINNING, 0.0
        while not (delivery := reader.read(65_536, now)).exhausted:
            told = max(told, delivery.open_epoch)
            now += late_seconds + (delivery.wake_after_seconds or 0.0)
        assert told <= 9


@pytest.mark.parametrize("slices", [2, 3])
@pytest.mark.parametrize("per_second", [3, 100, 9600])
@pytest.mark.parametrize("kind", ["count", "time"])
def test_slices_of_a_generator_stay_together(
    kind: Literal["count", "time"], per_second: int, slices: int, tmp_path: Path
) -> None:
    epoch = EpochDefinition("count", 1)  # each row is one
    if kind == "time":
        epoch = EpochDefinition("time", 1_000_000, "ts")
    source = generator("keys", 10 * per_second, f"{per_second}/s", per_second=1)
    resolved = resolve_source("s", source, epoch, str(tmp_path))
    readers = [open_reader(resolved, source, epoch, each, slices, None) for each in range(slices)]
    block = Pace.of_rows(Rate(per_second)).turn_rows
    apart = 0 if kind == "count" else (slices + 1) * block
    rows = calls = 0
    for now, open_epochs, rows_read in together(readers):
        calls += 1
        rows += rows_read
        due = int(now * per_second)
        assert all(due - block - 1 <= each <= due + 1 + apart for each in open_epochs)
    assert rows == 10 * per_second
    # a wake for each row, or each linger, and a look at each block when the one before is over
    wakes = min(rows, 10 / LINGER_SECONDS) * (slices if kind == "count" else 1)
    assert calls <= wakes + 2 * (rows // block + slices)


@pytest.mark.parametrize("slices", [2, 3])
@pytest.mark.parametrize("kind", ["count", "time"])
@pytest.mark.parametrize("stored", ["one file", "files", "log"])
def test_slices_of_files_stay_together(
    stored: str, kind: Literal["count", "time"], slices: int, tmp_path: Path
) -> None:
    count, per_second = 600, 100
    # epochs of time are shorter and shorter
    times = [row * row // 200 for row in range(count)]
    epochs = [row // 10 for row in range(count)]
    epoch = EpochDefinition("count", 10)
    if kind == "time":
        epoch = EpochDefinition("time", 50_000_000, "ts")
        epochs = [time // 50 for time in times]
    if stored == "log":
        # of most epochs the second partition has nothing
        rows = {each: 40 if each % 20 == 0 else 1 for each in range(200)}
        write_log(tmp_path / "log", 2, rows, dead=False, definition=epoch)
        epochs = [each for each, number in rows.items() for _ in range(number)]
        source: Any = LogSource.model_validate({"log": "log", "rate": f"{per_second}/s"})
    else:
        cut = count if stored == "one file" else 250
        write_parquet(tmp_path / "a.parquet", times[:cut], 60)
        if times[cut:]:
            write_parquet(tmp_path / "b.parquet", times[cut:], 60)
        source = files("*.parquet", rate=f"{per_second}/s")
    resolved = resolve_source("s", source, epoch, str(tmp_path))
    readers = [open_reader(resolved, source, epoch, each, slices, None) for each in range(slices)]
    total = 0
    for now, open_epochs, rows_read in together(readers):
        total += rows_read
        for each in open_epochs:
            late, early = now - LINGER_SECONDS - 1e-3, now + 1e-3
            first, last = (int(when * per_second) + 1 for when in (late, early))
            assert each >= epochs[max(0, min(first, len(epochs) - 1))]
            assert each <= epochs[min(last, len(epochs) - 1)]
    assert total == len(epochs)


@pytest.mark.parametrize("per_second", [1, 100, 9600, 200_000])
def test_a_slice_that_is_behind_reads_few_times_a_block(per_second: int, tmp_path: Path) -> None:
    source = generator("keys", 4 * per_second, f"{per_second}/s")
    resolved = resolve_source("s", source, COUNT, str(tmp_path))
    reader = open_reader(resolved, source, COUNT, 1, 2, None)
    blocks = -(-2 * per_second // Pace.of_rows(Rate(per_second)).turn_rows)
    calls = 1
    while not reader.read(65_536, 0.0, INFINITY).exhausted:
        calls += 1
    assert calls <= blocks + 1


@pytest.mark.parametrize("kind", ["count", "time"])
def test_rows_of_epochs_that_were_given_already_do_not_wait(
    kind: Literal["count", "time"], tmp_path: Path
) -> None:
    epoch = COUNT if kind == "count" else EpochDefinition("time", 2_000_000, "ts")
    write_parquet(tmp_path / "a.parquet", jittered(0, 600, 0 if kind == "count" else 1), 10)
    source = files("a.parquet", rate="10/s", lateness="5s")
    expected = read_source(source, epoch, tmp_path, 2, now=1e9)
    given: dict[int, Counter[int]] = {0: Counter(), 1: Counter()}
    resolved = resolve_source("s", source, epoch, str(tmp_path))
    for index, of_slice in given.items():
        reader = open_reader(resolved, source, epoch, index, 2, None)
        while not (delivery := reader.read(7, 0.01, 3)).wake_after_seconds:
            assert delivery.open_epoch <= 3
            for piece in delivery.pieces:
                of_slice[piece.epoch] += piece.batch.num_rows
        assert delivery.open_epoch <= 3
        assert delivery.wake_after_seconds > 0.3, "what was not given waits for its time"
    epochs = Counter(row[0] for row in expected.rows)
    for each in range(3):
        assert sum(of_slice[each] for of_slice in given.values()) == epochs[each]
