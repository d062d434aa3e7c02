"""Whatever the timing, a log replays what was live; records survive being written and read."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.epochs import EpochDefinition
from streammine.model.ingest_log import (
    DeadRow,
    End,
    Entry,
    Events,
    Idle,
    LogState,
    Opening,
    Parcel,
    Receipt,
    Replayed,
    SegmentReader,
    after,
    encode,
    row_schema,
)
from streammine.model.replay import DeadLetter, HeldLog, Mark
from streammine.runtime.sources.live.intake import IntakeRules
from streammine.runtime.sources.live.messages import Message
from tests.unit.live_logs import (
    BY_COUNT,
    BY_TIME,
    SCHEMA,
    SECOND,
    MemoryLog,
    Session,
    replayed,
    rules,
)

SEGMENT = "segments/0000000001-00000000-0000000000"
INT64 = st.integers(-(2**63), 2**63 - 1)
ROW = st.integers(0, 2**62)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
DEAD = st.builds(DeadRow, ROW, st.none() | INT64, TEXT, TEXT)
RECEIPT = st.builds(Receipt, ROW, ROW, st.none() | ROW)


@st.composite
def batches(draw: st.DrawFn) -> pa.Buffer:
    count = draw(st.integers(0, 20))
    if not count:
        return pa.py_buffer(b"")
    columns = [
        draw(st.lists(INT64 | st.none(), min_size=count, max_size=count)),
        draw(st.lists(TEXT | st.none(), min_size=count, max_size=count)),
        draw(st.lists(ROW, min_size=count, max_size=count)),
    ]
    schema = row_schema(SCHEMA)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema).serialize()


EVENTS = st.builds(
    Events,
    ROW,
    ROW,
    batches(),
    st.lists(DEAD, max_size=3).map(tuple),
    st.lists(st.tuples(TEXT, RECEIPT), max_size=3).map(tuple),
    INT64,
    INT64,
)
MARKS = st.builds(Mark, INT64, INT64, ROW)
HELD = st.builds(HeldLog, TEXT, INT64, MARKS)
LETTERS = st.lists(st.builds(DeadLetter, TEXT, ROW, TEXT, TEXT), max_size=3).map(tuple)
PARCELS = st.builds(Parcel, MARKS, INT64, ROW, st.binary(max_size=40).map(pa.py_buffer), LETTERS)
REPLAYED = st.builds(Replayed, HELD, st.lists(PARCELS, min_size=1, max_size=3).map(tuple))
OTHERS = st.builds(Idle, INT64, INT64) | st.just(End())
ENTRIES = st.lists(EVENTS | REPLAYED | OTHERS, max_size=8)
OPENING = st.builds(
    Opening,
    st.just(SCHEMA.serialize().to_pybytes()),
    st.sampled_from([BY_TIME, BY_COUNT, EpochDefinition("time", 1, "v", "ms")]),
    ROW,
    st.builds(LogState, ROW, INT64, INT64, ROW, st.booleans(), st.none() | HELD),
    st.none() | TEXT,
    ROW,
    st.sampled_from(["clients", "replay"]),
)


def written(opening: Opening, entries: list[Entry]) -> tuple[bytes, list[int]]:
    """A segment's bytes, and where each of its records ends."""
    records = [encode(each, SEGMENT) for each in (opening, *entries)]
    ends = [sum(map(len, records[: count + 1])) for count in range(len(records))]
    return b"".join(records), ends


@given(OPENING, ENTRIES)
def test_a_segment_is_read_as_it_was_written(opening: Opening, entries: list[Entry]) -> None:
    data, ends = written(opening, entries)
    reader = SegmentReader(pa.py_buffer(data), SEGMENT, len(data))
    assert reader.opening() == opening
    assert opening.columns == SCHEMA
    found = list(reader.entries())
    assert [entry for _, entry, _ in found] == entries
    assert [end for _, _, end in found] == ends[1:]
    for _, entry, _ in found:
        if isinstance(entry, Events):
            entry.rows(SCHEMA).validate(full=True)
    middle = len(entries) // 2
    assert [entry for _, entry, _ in reader.entries(ends[middle])] == entries[middle:]


@given(OPENING, ENTRIES, st.data())
def test_of_a_torn_segment_whole_records_stay(
    opening: Opening, entries: list[Entry], data: st.DataObject
) -> None:
    whole, ends = written(opening, entries)
    length = data.draw(st.integers(0, len(whole)))
    garbage = data.draw(st.binary(max_size=64))
    reader = SegmentReader(pa.py_buffer(whole[:length] + garbage), SEGMENT)
    kept = sum(end <= length for end in ends) if not garbage else None
    found = [entry for _, entry, _ in reader.entries()]
    least = max(0, sum(end <= length for end in ends) - 1)
    assert found[:least] == entries[:least]
    assert found == entries[: len(found)], "nothing else is ever read"
    if kept is not None:
        assert len(found) == least
        torn = length not in (0, *ends)
        assert (reader.torn_at is not None) == torn


# --- live and replayed ------------------------------------------------------------------------------


ROWS = st.lists(st.integers(0, 60) | st.just(-1), max_size=30)
"""Event times; -1 stands for a row that can't be read."""

ROUNDS = st.lists(st.tuples(ROWS, st.integers(1, 3), st.booleans(), st.integers(0, 40)), max_size=8)
"""Rows, how many messages they make, whether the reader reads then, and seconds of silence."""

RULES = st.builds(
    lambda epoch, lateness, idle: rules(
        epoch, lateness_microseconds=lateness * SECOND, idle_microseconds=idle
    ),
    st.sampled_from([BY_TIME, BY_COUNT]),
    st.integers(0, 15),
    st.sampled_from([None, 0, 10 * SECOND]),
)


def body(times: list[int], first: int) -> bytes:
    return b"".join(
        b"bad\n" if time < 0 else f"{time},{first + index}\n".encode()
        for index, time in enumerate(times)
    )


@settings(deadline=None, max_examples=50)
@given(RULES, ROUNDS, st.integers(1, 40), st.sampled_from([1, 400, 1 << 20]), st.booleans())
def test_a_replay_gives_what_was_live_whatever_the_timing(
    given_rules: IntakeRules,
    rounds: list[tuple[list[int], int, bool, int]],
    portion: int,
    segment_bytes: int,
    ends: bool,
) -> None:
    folder = MemoryLog()
    session = Session(folder, given_rules, segment_bytes=segment_bytes)
    places = [(session.reader.position(), 0)]
    first = 0
    for times, parts, reads, silence in rounds:
        size = max(1, -(-len(times) // parts))
        cuts = range(0, len(times), size)
        session.send(*[Message(body(times[at : at + size], first + at)) for at in cuts])
        first += len(times)
        state = session.writer.state
        entry, _ = session.intake.idle(state, session.intake.reference(state, 0), silence * SECOND)
        if entry is not None:
            session.log(entry)
        if reads:
            session.read(portion)
            places.append((session.reader.position(), len(session.seen.rows)))
    if ends:
        session.end()
    live = session.read(portion)
    assert live.rows_read == len(live.rows) + len(live.dead) + len(session.reader._homeless)
    again = replayed(folder, given_rules, rows=max(1, portion // 2))
    assert sorted(again.rows) == sorted(live.rows)
    assert sorted(again.dead) == sorted(live.dead)
    assert (again.open_epoch, again.exhausted) == (live.open_epoch, live.exhausted)
    for position, count in places:
        rest = replayed(folder, given_rules, position or None)
        missing = sorted(live.rows[count:])
        assert [row for row in sorted(rest.rows) if row in missing] == missing
        assert set(rest.rows) <= set(live.rows)
        assert set(rest.dead) <= set(live.dead)


@settings(deadline=None, max_examples=50)
@given(st.lists(ROWS, max_size=6), st.integers(0, 15))
def test_what_becomes_of_a_row_does_not_depend_on_how_rows_are_grouped(
    groups: list[list[int]], lateness: int
) -> None:
    given_rules = rules(lateness_microseconds=lateness * SECOND)
    times = [time for group in groups for time in group]
    found = []
    for sent in ([times], groups, [[time] for time in times]):
        session = Session(MemoryLog(), given_rules)
        first = 0
        for group in sent:
            session.send(Message(body(group, first)))
            first += len(group)
        session.end()
        seen = session.read()
        found.append((sorted(seen.rows), sorted(each[1:] for each in seen.dead)))
    assert found[0] == found[1] == found[2]


@given(st.builds(LogState, ROW, INT64, INT64, ROW), EVENTS)
def test_the_state_after_events_is_theirs(state: LogState, entry: Events) -> None:
    following = after(state, entry)
    assert following.next_row == entry.first_row + entry.raw_rows
    assert following.ids == state.ids + len(entry.ids)
    assert (following.clock, following.open_epoch) == (entry.clock, entry.open_epoch)
