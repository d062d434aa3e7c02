"""The parcels of a replay hold the log, whole and once, wherever a task begins again."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.epochs import BEGINNING
from streammine.model.errors import InputError
from streammine.model.replay import LETTERS_PARTITION, HeldLog, Mark, going_on
from streammine.pipeline.epoch_log_parcels import EpochLog
from streammine.pipeline.ingest_log_parcels import IngestLog
from streammine.pipeline.parcels import Content, cut, slice_contents, with_open_epochs
from tests.unit.epoch_logs import write_log
from tests.unit.live_logs import BY_COUNT, BY_TIME, SECOND, Session, lines, replayed, rules
from tests.unit.source_reading import COUNT

LATE = rules(BY_TIME, lateness_microseconds=15 * SECOND)
ROWS = st.lists(
    st.tuples(st.integers(0, 120) | st.just("soon"), st.sampled_from("abc")), max_size=6
)
GROUPS = st.lists(ROWS, max_size=12)


def rows_of(contents: list[Content]) -> list[tuple[int, int, int, tuple[object, ...]]]:
    """(epoch, file, row, values) of all rows."""
    found = []
    for content in contents:
        if content.batch is not None:
            for row in content.batch.to_pylist():
                *values, file, number = row.values()
                found.append((content.mark.epoch, file, number, tuple(values)))
    return found


def write_slices(folder: Path, groups: list[list[list[tuple[object, str]]]], ended: bool) -> None:
    """A live source's log: for each slice, groups of rows; every third group by a new writer."""
    for index, of_slice in enumerate(groups):
        place = folder / f"slice-{index:05d}"
        session = Session(place, LATE, segment_bytes=700)
        for at, rows in enumerate(of_slice):
            if at % 3 == 2:
                session = Session(place, LATE, segment_bytes=700)
            session.send(lines(*rows))
        if ended:
            session.end()


@given(st.lists(GROUPS, min_size=1, max_size=3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_an_ingest_log_is_replayed_as_its_own_job_reads_it(
    groups: list[list[list[tuple[object, str]]]], ended: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_slices(Path(folder), groups, ended)
        log = IngestLog(folder, "s")
        for index in range(len(groups)):
            seen = replayed(Path(folder) / f"slice-{index:05d}", LATE)
            if log.first_epoch is None:
                assert not seen.rows
                assert not seen.dead or not ended
                continue
            assert log.last_epoch is not None
            every = range(log.first_epoch, log.last_epoch + 1)
            contents = list(slice_contents(log, [index], every))
            assert sorted(rows_of(contents)) == sorted(
                (epoch, index, number, values) for epoch, number, values in seen.rows
            )
            if ended:
                dead = [(each.mark.epoch, row) for each in contents for row in each.dead]
                assert sorted((epoch, row.row, row.reason) for epoch, row in dead) == sorted(
                    seen.dead
                )
                assert all(row.file == f"s/{index}" for _, row in dead)
            marks = [each.mark for each in contents]
            assert marks == sorted(set(marks))
            for after in marks:
                behind = list(slice_contents(log, [index], every, after))
                assert [each.mark for each in behind] == [each for each in marks if each > after]
                assert rows_of(behind) == rows_of(contents)[-len(rows_of(behind)) or 10**9 :]


@given(st.lists(GROUPS, min_size=1, max_size=3), GROUPS)
@settings(max_examples=15, deadline=None)
def test_whole_epochs_stay_as_they_are_when_an_ingest_log_grows(
    groups: list[list[list[tuple[object, str]]]], more: list[list[tuple[object, str]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_slices(Path(folder), groups, False)
        before = IngestLog(folder, "s")
        if before.whole_epoch is None or before.first_epoch is None:
            return
        every = range(before.first_epoch, before.whole_epoch + 1)
        parcels = [list(before.contents(at, every)) for at in range(before.partitions)]
        for index in range(len(groups)):
            session = Session(Path(folder) / f"slice-{index:05d}", LATE, segment_bytes=700)
            for rows in more:
                session.send(lines(*rows))
        grown = IngestLog(folder, "s")
        assert grown.identity == before.identity
        assert [list(grown.contents(at, every)) for at in range(grown.partitions)] == parcels


def test_the_first_rows_of_a_count_log_are_numbered_from_its_first_epoch(tmp_path: Path) -> None:
    session = Session(tmp_path / "slice-00000", rules(BY_COUNT))
    for at in range(4):
        session.send(lines(*((at, f"{n}") for n in range(3))))
    log = IngestLog(str(tmp_path), "s")
    assert (log.first_epoch, log.last_epoch, log.whole_epoch) == (0, 2, 1)
    found = rows_of(list(log.contents(0, range(3))))
    assert [(epoch, number) for epoch, _, number, _ in found] == [(n // 5, n) for n in range(12)]


@given(
    st.dictionaries(st.integers(-3, 30), st.integers(1, 40), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_an_epoch_log_is_whole_from_wherever_a_task_goes_on(
    epochs: dict[int, int], partitions: int, slices: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "log"
        write_log(place, partitions, dict(sorted(epochs.items())))
        log = EpochLog(str(place))
        assert (log.first_epoch, log.last_epoch) == (min(epochs), max(epochs))
        every = range(min(epochs), max(epochs) + 1)
        seen = []
        for index in range(slices):
            mine = [*([LETTERS_PARTITION] if not index else []), *range(index, partitions, slices)]
            contents = list(slice_contents(log, mine, every))
            seen += [(epoch, row) for epoch, _, row, _ in rows_of(contents)]
            after = data.draw(st.sampled_from([each.mark for each in contents]))
            behind = list(slice_contents(log, mine, every, after))
            assert behind == [each for each in contents if each.mark > after]
            opens = [open_epoch for _, open_epoch in with_open_epochs(contents)]
            assert opens == sorted(opens)
            assert opens[-1] == every.stop
            assert all(
                each.mark.epoch <= opened for each, opened in zip(contents, opens, strict=True)
            )
            lowest = data.draw(st.sampled_from(list(every)))
            some = list(slice_contents(log, mine, range(lowest, every.stop)))
            assert some == [each for each in contents if each.mark.epoch >= lowest]
        expected = [epoch for epoch, rows in sorted(epochs.items()) for _ in range(rows)]
        assert sorted(seen) == [(epoch, row) for row, epoch in enumerate(expected)]


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=60))
@settings(max_examples=30, deadline=None)
def test_batches_are_cut_small_and_lose_nothing(sizes: list[int]) -> None:
    batch = pa.record_batch({"text": ["x" * size for size in sizes]})
    pieces = list(cut(batch))
    assert pa.Table.from_batches(pieces).combine_chunks() == pa.Table.from_batches([batch])
    assert all(piece.num_rows == 1 or piece.nbytes <= 2 << 20 for piece in pieces)


MARKS = st.builds(Mark, st.integers(-5, 20), st.integers(0, 3), st.integers(0, 5))


@given(MARKS, st.integers(-5, 20), st.integers(-5, 20), st.integers(0, 3), st.booleans())
def test_nothing_is_left_out_and_nothing_comes_twice(
    mark: Mark, since: int, from_epoch: int, beyond: int, same: bool
) -> None:
    """What a slice has, and what it is to get, is all from where the replay begins."""
    held = HeldLog("log" if same else "other", min(since, mark.epoch), mark)
    open_epoch = mark.epoch + beyond
    try:
        now_since, after = going_on(held, open_epoch, "log", from_epoch)
    except InputError:
        assert from_epoch < open_epoch
        assert not same or from_epoch < held.since
        return
    if after is None:
        assert now_since == from_epoch >= open_epoch
    else:
        assert same
        assert after == mark
        assert held.since == now_since <= from_epoch <= open_epoch


def test_a_new_source_takes_any_epoch() -> None:
    assert going_on(None, BEGINNING, "log", -7) == (-7, None)


def test_a_changed_epoch_log_has_another_identity(tmp_path: Path) -> None:
    write_log(tmp_path / "one", 2, {0: 5})
    write_log(tmp_path / "two", 2, {0: 6})
    assert EpochLog(str(tmp_path / "one")).identity != EpochLog(str(tmp_path / "two")).identity
    assert EpochLog(str(tmp_path / "one")).epoch == COUNT


def test_slices_must_be_there_all(tmp_path: Path) -> None:
    write_slices(tmp_path, [[[(1, "a")]], [], [[(2, "b")]]], True)
    (tmp_path / "slice-00001").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="neither a manifest nor slices"):
        IngestLog(str(tmp_path), "s")


def test_a_log_with_other_rules_is_read_by_its_own(tmp_path: Path) -> None:
    """Lateness stands in the entries; the reader of a replay needs none."""
    session = Session(tmp_path / "slice-00000", replace(LATE, lateness_microseconds=0))
    session.send(lines((5, "a"), (25, "b"), (6, "late")))
    session.end()
    log = IngestLog(str(tmp_path), "s")
    assert log.first_epoch == 0
    contents = list(log.contents(0, range(3)))
    assert [row[0] for row in rows_of(contents)] == [0, 2]
    assert [row.row for each in contents for row in each.dead] == [2]
