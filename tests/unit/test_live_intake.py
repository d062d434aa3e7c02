"""What becomes of messages: rows, dead rows, lateness, epochs, and the clock of a silent source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from streammine.model.epochs import BEGINNING
from streammine.model.formats import RawFormat
from streammine.model.ingest_log import Idle, LogState
from streammine.runtime.sources.live.intake import Intake
from streammine.runtime.sources.live.messages import Message
from tests.unit.live_logs import BY_COUNT, SECOND, Session, lines, replayed, rules

TEXT = {"format": RawFormat("text"), "schema": pa.schema([pa.field("line", pa.string())])}
JSON = {"format": RawFormat("json")}


# --- rows ---------------------------------------------------------------------------------------


def test_malformed_rows_are_dead_with_reason_and_number(tmp_path: Path) -> None:
    session = Session(tmp_path, rules(BY_COUNT))
    receipts = session.send(lines((1, "a"), ("x", "b")), Message(b"1,2,3\n"), lines((2, "c")))
    assert [(each.accepted, each.dead, each.first_position) for each in receipts] == [
        (1, 1, 0),
        (0, 1, 2),
        (1, 0, 3),
    ]
    seen = session.read()
    assert seen.values() == ["a", "c"]
    assert seen.rows_read == 4
    assert [(number, reason) for _, number, reason in seen.dead] == [
        (1, 'column "ts": "x" is not a value of type int64'),
        (2, "record has 3 values, expected 2 (ts, v)"),
    ]


@pytest.mark.parametrize(
    ("written", "body", "values"),
    [
        (JSON, b'{"ts": 1, "v": "a"}\n\n  \n{"ts": 2, "v": "b", "w": 1}', ["a", "b"]),
        (JSON, b'\xef\xbb\xbf{"ts": 1, "v": "a"}\n{"ts": 2, "v": "b"}\r\n', ["b"]),
        ({}, b'1,"one\ntwo"\n\n2,b\r\n', ["one\ntwo", "b"]),
    ],
)
def test_a_message_holds_many_rows(
    tmp_path: Path, written: dict[str, object], body: bytes, values: list[str]
) -> None:
    session = Session(tmp_path, rules(BY_COUNT, **written))
    session.send(Message(body))
    assert session.read().values() == values


def test_text_keeps_blank_lines_and_refuses_what_is_not_utf8(tmp_path: Path) -> None:
    session = Session(tmp_path, rules(BY_COUNT, **TEXT))
    session.send(Message(b"a\n\n\xff\nb"))
    seen = session.read()
    assert seen.values(0) == ["a", "", "b"]
    assert seen.dead == [(0, 2, "line is not UTF-8: invalid start byte at byte 0 (0xff)")]


def test_a_quotation_mark_left_open_harms_no_other_row(tmp_path: Path) -> None:
    session = Session(tmp_path, rules(BY_COUNT))
    session.send(
        Message(b'1,"open\n'),
        lines((2, "b"), (3, '"c'), (4, 'd"')),
        Message(b'5,"e, e"\n'),
    )
    seen = session.read()
    assert seen.values() == ["b", 'd"', "e, e"]
    assert [number for _, number, _ in seen.dead] == [0, 2]


def test_a_refused_message_is_one_dead_row_in_its_place(tmp_path: Path) -> None:
    session = Session(tmp_path, rules(BY_COUNT))
    session.send(lines((1, "a")), Message(b"99999", refused="too long"), lines((2, "b")))
    assert [(n, row[1]) for _, n, row in session.read().rows] == [(0, "a"), (2, "b")]
    assert session.seen.dead == [(0, 1, "too long")]


def test_an_empty_message_is_answered_and_not_logged(tmp_path: Path) -> None:
    session = Session(tmp_path)
    (receipt,) = session.send(Message(b""))
    assert (receipt.accepted, receipt.dead, receipt.first_position) == (0, 0, None)
    assert session.read().rows_read == 0


# --- epochs ---------------------------------------------------------------------------------------


def test_count_epochs_hold_so_many_raw_rows_of_the_log(tmp_path: Path) -> None:
    session = Session(tmp_path, rules(BY_COUNT))
    session.send(lines(*[(number, number) for number in range(3)]))
    session.send(lines(("x", "dead"), *[(number, number) for number in range(4, 12)]))
    seen = session.read()
    assert [(epoch, number) for epoch, number, _ in seen.rows] == [
        (number // 5, number) for number in range(12) if number != 3
    ]
    assert seen.dead[0][:2] == (0, 3)
    assert seen.open_epoch == 2


def test_rows_within_the_lateness_are_used_and_those_beyond_are_late(tmp_path: Path) -> None:
    """Epochs of 10 s, lateness 5 s: at time 21 epoch 1 is open still, at 25 it is not."""
    session = Session(tmp_path, rules(lateness_microseconds=5 * SECOND))
    session.send(lines((12, "a"), (21, "b"), (13, "in time"), (9, "late")))
    assert session.read().open_epoch == 1
    session.send(lines((25, "c"), (19, "too late"), (20, "d")))
    seen = session.read()
    assert seen.values() == ["a", "b", "in time", "c", "d"]
    assert seen.open_epoch == 2
    assert [(epoch, number) for epoch, number, _ in seen.dead] == [(1, 3), (1, 5)]
    assert seen.dead[0][2] == (
        "late: 12 s behind the clock of its ingest log; lateness allows 5 s, and its epoch is "
        "closed"
    )


def test_an_epoch_that_was_over_stays_over_when_more_lateness_is_allowed(tmp_path: Path) -> None:
    Session(tmp_path).send(lines((47, "a")))
    session = Session(tmp_path, rules(lateness_microseconds=60 * SECOND))
    session.send(lines((35, "late"), (45, "b")))
    assert session.read().values() == ["a", "b"]
    assert [(epoch, number) for epoch, number, _ in session.seen.dead] == [(4, 1)]


def test_a_row_far_ahead_of_the_time_of_day_does_not_make_the_others_late(tmp_path: Path) -> None:
    session = Session(tmp_path, rules(ahead_microseconds=60 * SECOND))
    session.send(lines((100, "a"), (9_999_999, "wrong clock"), (101, "b")), time_of_day=90 * SECOND)
    seen = session.read()
    assert seen.values() == ["a", "b"]
    assert "ahead of the time of day; 60 s are allowed" in seen.dead[0][2]


def test_rows_without_a_usable_time_are_dead(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.send(lines(("", "none"), (2**62, "beyond"), (5, "a")))
    seen = session.read()
    assert seen.values() == ["a"]
    assert [reason for *_, reason in seen.dead] == ["event time column 'ts' can't be used"] * 2


def test_dead_rows_before_any_time_is_known_wait_for_the_first_epoch(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.send(Message(b"bad\n"))
    seen = session.read()
    assert seen.dead == []
    assert seen.open_epoch == BEGINNING
    assert session.reader.position() == {}, "they are not passed yet"
    session.send(lines((47, "a"), ("also", "bad")))
    assert [(epoch, number) for epoch, number, _ in session.read().dead] == [(4, 0), (4, 2)]
    assert session.reader.position() != {}
    session.send(Message(b"third\n"))
    assert session.read().dead[2][:2] == (4, 3)
    assert replayed(tmp_path).dead == seen.dead


def test_dead_rows_of_a_source_that_never_had_a_time_are_of_epoch_0(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.send(Message(b"bad\n"))
    session.end()
    seen = session.read()
    assert [(epoch, number) for epoch, number, _ in seen.dead] == [(0, 0)]
    assert seen.exhausted


# --- silence ------------------------------------------------------------------------------------


IDLE = rules(idle_microseconds=5 * SECOND, lateness_microseconds=2 * SECOND)


def state(clock: int, open_epoch: int) -> LogState:
    return LogState(next_row=1, clock=clock, open_epoch=open_epoch)


def test_a_silent_source_promises_nothing_before_its_time() -> None:
    intake = Intake(IDLE)
    assert intake.idle(state(47 * SECOND, 4), 47 * SECOND, 4 * SECOND) == (None, 5 * SECOND)
    assert Intake(rules()).idle(state(47 * SECOND, 4), 47 * SECOND, 10**12) == (None, None)


def test_the_clock_of_a_silent_source_goes_on_that_far_behind() -> None:
    """At 47 s, 8 s of silence move the clock by 8 - 5 = 3 s; epoch 4 ends at 50 + 2 (lateness)."""
    intake = Intake(IDLE)
    due = 10 * SECOND
    assert intake.idle(state(47 * SECOND, 4), 47 * SECOND, 8 * SECOND) == (None, due)
    assert intake.idle(state(47 * SECOND, 4), 47 * SECOND, due - 1) == (None, due)
    entry, following = intake.idle(state(47 * SECOND, 4), 47 * SECOND, due)
    assert entry == Idle(52 * SECOND, 5)
    assert following == due + 10 * SECOND
    assert intake.idle(state(52 * SECOND, 5), 47 * SECOND, due) == (None, following)


def test_a_source_without_any_event_goes_by_the_time_of_day() -> None:
    intake = Intake(IDLE)
    fresh = LogState()
    reference = intake.reference(fresh, 1_000 * SECOND)
    entry, _ = intake.idle(fresh, reference, 5 * SECOND)
    assert entry == Idle(1_000 * SECOND, 99)


def test_what_comes_after_a_silence_is_judged_by_the_promise(tmp_path: Path) -> None:
    session = Session(tmp_path, replace(IDLE, lateness_microseconds=0))
    session.send(lines((47, "a")))
    entry, _ = session.intake.idle(session.writer.state, 47 * SECOND, 8 * SECOND)
    assert entry is not None
    session.log(entry)
    assert session.read().open_epoch == 5
    session.send(lines((49, "late"), (51, "b")))
    seen = session.read()
    assert seen.values() == ["a", "b"]
    assert [number for _, number, _ in seen.dead] == [1]
    again = replayed(tmp_path, IDLE)
    assert (again.rows, again.dead, again.open_epoch) == (seen.rows, seen.dead, 5)


def test_count_epochs_know_no_silence() -> None:
    intake = Intake(replace(IDLE, epoch=BY_COUNT))
    assert intake.idle(LogState(), 0, 10**12) == (None, None)
