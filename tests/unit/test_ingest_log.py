"""The ingest log on disk: durable, chained, fenced, cut where torn, refused where damaged."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest

from streammine.model.errors import InputError, OutputError
from streammine.model.ingest_chain import find_end
from streammine.model.ingest_log import (
    Events,
    Idle,
    LogState,
    Opening,
    SegmentReader,
    encode,
)
from streammine.runtime.sources.live.log_folder import LocalLog, StoredLog
from streammine.runtime.sources.live.log_writer import LogReplacedError
from streammine.runtime.stores import ArrowStore
from tests.unit.live_logs import (
    BY_COUNT,
    SCHEMA,
    Session,
    lines,
    named,
    newest_segment,
    only_segment,
    replayed,
    rules,
)


def filled(folder: Path, groups: int = 3, segment_bytes: int = 1 << 20) -> Session:
    """A log of groups of one row each: times 1, 2, … and values v1, v2, …"""
    session = Session(folder, segment_bytes=segment_bytes)
    for number in range(1, groups + 1):
        session.send(lines((number, f"v{number}")))
    return session


def test_a_log_that_was_closed_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    session = filled(tmp_path)
    session.end()
    assert session.read().values() == ["v1", "v2", "v3"]
    assert replayed(tmp_path).rows == session.seen.rows
    assert replayed(tmp_path).exhausted


def test_a_long_log_goes_on_in_further_segments(tmp_path: Path) -> None:
    session = filled(tmp_path, 20, segment_bytes=1)
    assert len(list((tmp_path / "segments").iterdir())) == 21
    assert replayed(tmp_path).values() == session.read().values()


def test_a_reader_goes_on_from_the_position_of_another(tmp_path: Path) -> None:
    session = filled(tmp_path, 3, segment_bytes=1)
    session.read()
    position = session.reader.position()
    session.send(lines((4, "v4")))
    again = Session(tmp_path, position=position)
    again.send(lines((5, "v5")))
    assert again.read().values() == ["v4", "v5"]
    whole = Session(tmp_path)
    assert whole.read().values() == ["v1", "v2", "v3", "v4", "v5"]
    assert Session(tmp_path, position=whole.reader.position()).read().values() == []


def test_a_position_of_another_log_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(InputError, match="has no segment segments/nowhere in its chain"):
        Session(tmp_path, position={"segment": "segments/nowhere", "offset": 0})


# --- torn and damaged ---------------------------------------------------------------------------


@pytest.mark.parametrize("lost_bytes", [1, 8, 100, 200])
def test_a_torn_end_is_cut_and_said(tmp_path: Path, lost_bytes: int) -> None:
    filled(tmp_path)
    segment = only_segment(tmp_path)
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-lost_bytes])
    again = Session(tmp_path)
    assert again.read().values() == ["v1", "v2"]
    assert again.writer.torn_bytes > 0
    again.send(lines((4, "v4")))
    assert replayed(tmp_path).values() == ["v1", "v2", "v4"]
    assert Session(tmp_path).writer.torn_bytes == 0, "it is cut once"


def test_an_end_full_of_zeros_or_chance_is_torn(tmp_path: Path) -> None:
    filled(tmp_path)
    segment = only_segment(tmp_path)
    segment.write_bytes(segment.read_bytes() + bytes(999) + b"SMIL" * 50)
    again = Session(tmp_path)
    assert again.read().values() == ["v1", "v2", "v3"]
    assert again.writer.torn_bytes == 1199


def test_a_segment_whose_opening_is_torn_is_passed_over(tmp_path: Path) -> None:
    filled(tmp_path)
    Session(tmp_path)
    newest = newest_segment(tmp_path)
    newest.write_bytes(newest.read_bytes()[:-1])
    assert Session(tmp_path).read().values() == ["v1", "v2", "v3"]


def record_offsets(segment: Path) -> list[int]:
    reader = SegmentReader(pa.py_buffer(segment.read_bytes()), f"segments/{segment.name}")
    return [offset for offset, _, _ in reader.entries()]


def test_damage_in_the_middle_is_an_error_that_names_file_and_offset(tmp_path: Path) -> None:
    filled(tmp_path)
    segment = only_segment(tmp_path)
    whole = segment.read_bytes()
    _, second, third = record_offsets(segment)
    for at in range(second, third):
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(InputError) as caught:
            replayed(tmp_path)
        assert re.search(rf"{segment.name} is damaged: the record at byte {second:,}", str(caught))


def test_any_damage_to_a_segment_that_was_continued_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path)
    segment = only_segment(tmp_path)
    Session(tmp_path)
    whole = segment.read_bytes()
    *_, third = record_offsets(segment)
    segment.write_bytes(whole[:-1])
    with pytest.raises(InputError, match="cut short"):
        replayed(tmp_path)
    segment.write_bytes(whole[:-9] + b"?" + whole[-8:])
    with pytest.raises(InputError, match=f"the record at byte {third:,}: its checksum"):
        replayed(tmp_path)


def test_what_a_client_sends_never_passes_for_a_record(tmp_path: Path) -> None:
    """A torn record with the bytes of a true record of another segment in it is still torn."""
    other = "segments/0000000009-00000000-0000000000"
    forged = encode(Idle(1, 1), other)
    filled(tmp_path)
    segment = only_segment(tmp_path)
    segment.write_bytes(segment.read_bytes() + bytes(32) + forged + bytes(8))
    assert Session(tmp_path).read().values() == ["v1", "v2", "v3"]


def test_another_layout_version_is_refused() -> None:
    name = "segments/0000000001-00000000-0000000000"
    opening = Opening(b"", BY_COUNT, 0, LogState(), version=99)
    with pytest.raises(InputError, match="layout version 99, and this release reads 1"):
        SegmentReader(pa.py_buffer(encode(opening, name)), name).opening()


def test_a_log_of_other_columns_or_epochs_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(InputError, match="was written with columns ts: int64, v: string"):
        Session(tmp_path, rules(schema=pa.schema([SCHEMA.field("ts")])))
    with pytest.raises(InputError, match="name another folder"):
        Session(tmp_path, rules(BY_COUNT))


def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    session = filled(tmp_path)
    session.folder.close()
    session.writer._folder = full = LocalLog(tmp_path)
    full._descriptor = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OutputError, match=f"can't write in {tmp_path}: No space left"):
        session.send(lines((4, "v4")))


# --- generations --------------------------------------------------------------------------------


def test_a_writer_that_was_replaced_may_not_acknowledge(tmp_path: Path) -> None:
    old = filled(tmp_path)
    new = Session(tmp_path)
    with pytest.raises(LogReplacedError, match="taken over by writer 2"):
        old.send(lines((4, "unacknowledged")))
    with pytest.raises(LogReplacedError):
        old.writer.refuse_if_replaced()
    new.send(lines((4, "v4")))
    assert new.read().values() == ["v1", "v2", "v3", "v4"]


def test_what_a_replaced_writer_still_wrote_is_never_read(tmp_path: Path) -> None:
    old = filled(tmp_path)
    new = Session(tmp_path)
    for number in range(3):
        with pytest.raises(LogReplacedError):
            old.send(lines((4, f"zombie{number}")))
    new.send(lines((5, "v5")))
    assert Session(tmp_path).read().values() == ["v1", "v2", "v3", "v5"]
    assert replayed(tmp_path).values() == ["v1", "v2", "v3", "v5"]


def test_a_segment_begun_by_a_replaced_writer_is_never_read(tmp_path: Path) -> None:
    old = filled(tmp_path, segment_bytes=1)
    new = Session(tmp_path)
    with pytest.raises(LogReplacedError):
        old.send(lines((4, "zombie")))
    new.send(lines((5, "v5")))
    assert replayed(tmp_path).values() == ["v1", "v2", "v3", "v5"]


def test_what_was_acknowledged_before_the_seal_is_found_behind_it(tmp_path: Path) -> None:
    """The old writer acknowledges between the new one's seal being looked for and written."""
    old = filled(tmp_path)

    class Racing(LocalLog):
        """A new writer whose seal is written just after the old one looked for it."""

        def create(self, name: str, data: bytes) -> None:
            if name.startswith("seals/"):
                old.send(lines((4, "v4")))
            super().create(name, data)

    new = Session(Racing(tmp_path))
    assert new.read().values() == ["v1", "v2", "v3", "v4"]


def test_of_two_writers_with_one_number_one_stays(tmp_path: Path) -> None:
    """Both look at the seals before either has written its own."""
    filled(tmp_path)
    sessions: list[Session] = []

    class Twin(LocalLog):
        def create(self, name: str, data: bytes) -> None:
            if name.startswith("seals/") and not sessions:
                sessions.append(Session(tmp_path))
            super().create(name, data)

    sessions.append(Session(Twin(tmp_path)))
    first, second = (each.writer.generation for each in sessions)
    assert first.number == second.number == 2
    acknowledged = []
    for number, session in enumerate(sessions):
        try:
            session.send(lines((4, f"from{number}")))
        except LogReplacedError:
            continue
        acknowledged.append(f"from{number}")
    assert len(acknowledged) == 1
    values = Session(tmp_path).read().values()
    assert [value for value in values if value in acknowledged] == acknowledged
    assert values == replayed(tmp_path).values()


def test_a_log_in_a_store_of_whole_objects_works_the_same(tmp_path: Path) -> None:
    store = ArrowStore(str(tmp_path), pa.fs.LocalFileSystem(), str(tmp_path))
    old = Session(StoredLog("store", store))
    old.send(lines((1, "v1")))
    old.send(named("a", (2, "v2")))
    new = Session(StoredLog("store", store))
    with pytest.raises(LogReplacedError):
        old.send(lines((3, "zombie")))
    assert new.send(named("a", (2, "v2")))[0].first_position == 1
    new.send(lines((4, "v4")))
    assert new.read().values() == ["v1", "v2", "v4"]
    assert Session(StoredLog("store", store)).read().values() == ["v1", "v2", "v4"]


# --- ids ------------------------------------------------------------------------------------------


def test_a_message_that_is_sent_again_is_answered_as_before_and_counts_once(tmp_path: Path) -> None:
    session = Session(tmp_path, segment_bytes=1)
    first = session.send(named("a", (1, "v1"), ("x", "bad")), named("b", (2, "v2")))
    assert [(each.accepted, each.dead, each.first_position) for each in first] == [
        (1, 1, 0),
        (1, 0, 2),
    ]
    again = session.send(named("b", (2, "v2")), named("c", (3, "v3")), named("c", (3, "v3")))
    assert again[0] == first[1]
    assert again[1] == again[2]
    successor = Session(tmp_path, segment_bytes=1)
    assert successor.send(named("a", (1, "v1"))) == first[:1]
    assert successor.read().values() == ["v1", "v2", "v3"]


def test_only_so_many_ids_are_remembered(tmp_path: Path) -> None:
    few = rules(most_ids=2)
    session = Session(tmp_path, few)
    for name in "abc":
        session.send(named(name, (1, name)))
    session.send(named("a", (1, "again")))
    assert session.read().values() == ["a", "b", "c", "again"]
    session.send(named("c", (1, "not again")))
    successor = Session(tmp_path, few, most_ids=2)
    assert [name for name, _ in successor.writer.ids] == ["c", "a"]


def test_messages_without_ids_count_each_time(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.send(lines((1, "v")))
    session.send(lines((1, "v")))
    assert session.read().values() == ["v", "v"]


def test_the_state_of_a_log_goes_on(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    end = find_end(LocalLog(tmp_path))
    assert end is not None
    assert end.state.next_row == 3
    session = Session(tmp_path)
    entry, _ = session.intake.take([lines((4, "v4"))], session.writer.state, 0)
    assert isinstance(entry, Events)
    assert entry.first_row == 3
