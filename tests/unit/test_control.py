"""Control messages: what is written is read, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest

from streammine.model.agreement import (
    Bag,
    BagSet,
    Ballot,
    Decision,
    Decisions,
    Entry,
    Pulse,
    Report,
)
from streammine.model.control import (
    MAXIMUM_MESSAGE_BYTES,
    Announcements,
    ControlMessage,
    Credits,
    DamagedSnapshot,
    DecisionsTold,
    Directive,
    DrainRequest,
    ErrorAnswer,
    Heartbeat,
    JobReport,
    MoveRequest,
    PulseTold,
    ResendRequest,
    SavepointRequest,
    SchemeRequest,
    SeatReport,
    SliceReport,
    StandingTold,
    StateOffer,
    StateOffers,
    StatusAnswer,
    StatusRequest,
    StopRequest,
    Subscribe,
    decode,
    encode,
)
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import ProtocolError
from streammine.model.ids import SliceId
from streammine.model.snapshots import Restore, SnapshotRecord
from streammine.model.vocabulary import MOST_ROWS

SNAPSHOT = SnapshotRecord(7, 3, "counts/1/7", "0a1b", 2**40, False, 2)
SLICE = SliceReport(
    "counts/1",
    3,
    "running",
    frontier=BEGINNING,
    finished=False,
    retained_after=-1,
    accepted=9,
    frozen=7,
    skipped=6,
    last_epoch=8,
    final_epoch=INFINITY,
    snapshots=(SNAPSHOT, SNAPSHOT),
    counters={"rows_in": 5.0, "busy": 0.25},
    rung="passive-standby-hot",
    received=9,
    spent_plan=2,
    outrun=True,
)
CHOSEN = BagSet(INFINITY, ((2, Bag("west", 2**40, 7)), (5, Bag("", 0, 0))))
REPORT_OF_STANDING = Report(
    3,
    9,
    2,
    1,
    BEGINNING,
    votes=False,
    asks=True,
    tells_after=-5,
    entries=(
        Entry(-3, Ballot(2, 0)),
        Entry(4, Ballot(2, 5), Ballot(2, 4), CHOSEN),
    ),
)
SEAT = SeatReport("counts/2", 3, 7, 2**40)
OFFER = StateOffer("counts/2", 3, Restore(9, SNAPSHOT))
DAMAGED = DamagedSnapshot("counts/0", 4, "counts/0/7", "checksum")
HEARTBEAT = Heartbeat(
    "node-1",
    7,
    {"cpu": 0.5},
    (
        JobReport(4, 2, True, None, (SLICE, SLICE), (DAMAGED,), (SEAT,)),
        JobReport(5, 1, False, "disk full", (), ()),
    ),
)


@pytest.mark.parametrize(
    "message",
    [
        Credits(1, ((2, 3, 4, INFINITY), (5, 6, 7, BEGINNING))),
        Credits(1, ()),
        Credits(1, ((2, 3, 4, 5),) * MOST_ROWS),
        Subscribe(1, 2, 3, 4, BEGINNING, -7),
        ResendRequest(1, 2, 3, 4, 5),
        Announcements(1, ((2, 3, 4, 2**40),)),
        StandingTold(1, SliceId("counts", 1), 2, REPORT_OF_STANDING),
        StandingTold(1, SliceId("counts", 1), 2, replace(REPORT_OF_STANDING, entries=())),
        PulseTold(1, SliceId("counts", 1), 2, Pulse(3, 9, 4, INFINITY)),
        DecisionsTold(1, SliceId("counts", 1), 2, Decisions(3, (Decision(BEGINNING, CHOSEN),))),
        Directive(1, 20, BEGINNING, 10, 3),
        StateOffers(1, 3, (OFFER, OFFER)),
        SchemeRequest(7, "counts/1", "active-standby"),
        SavepointRequest(7),
        MoveRequest(7, "counts/1", "b", "live"),
        DrainRequest("b"),
        HEARTBEAT,
        StatusRequest(None),
        StatusRequest(7),
        StatusAnswer({"jobs": [{"n": 1, "x": 0.5, "ok": True, "none": None, "raw": b"\xff"}]}),
        StopRequest(7, "asked by the user: ünïcode"),
        ErrorAnswer("no job 7"),
    ],
)
def test_what_is_written_is_read(message: ControlMessage) -> None:
    assert decode(encode(message)) == message


def test_ints_are_written_as_floats_where_floats_are_wanted() -> None:
    read = decode(encode(Heartbeat("a", 1, {"rows": 3}, ())))
    assert isinstance(read, Heartbeat)
    assert type(read.load["rows"]) is float


def test_tuples_in_a_payload_become_lists() -> None:
    assert decode(encode(StatusAnswer({"a": (1, (2,))}))) == StatusAnswer({"a": [1, [2]]})


RESEND = {"job": 1, "channel": 2, "sender": 3, "receiver": 4, "sequence": 5}
REPORT = {
    "job": 1,
    "plan_version": 1,
    "deployed": True,
    "failed": None,
    "slices": [],
    "damaged": [],
    "seats": [],
    "steps": [],
}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (["Credit", RESEND], "unknown kind 'Credit'"),
        (["Member", RESEND], "unknown kind"),
        (["SliceReport", {}], "unknown kind"),
        (["ResendRequest", {**RESEND, "extra": 1}], r"unknown: \['extra'\]"),
        (
            ["ResendRequest", {"job": 1}],
            r"missing: \['channel', 'receiver', 'sender', 'sequence'\]",
        ),
        (
            ["ResendRequest", {**RESEND, "job": True}],
            "ResendRequest.job: expected an int64, not True",
        ),
        (["ResendRequest", {**RESEND, "job": 1.0}], "ResendRequest.job: expected an int64"),
        (["ResendRequest", {**RESEND, "job": "1"}], "ResendRequest.job: expected an int64"),
        (["ResendRequest", {**RESEND, "job": None}], "ResendRequest.job: expected an int64"),
        (["ResendRequest", {**RESEND, "job": 2**63}], "ResendRequest.job: expected an int64"),
        (["ResendRequest", [1, 2, 3, 4]], "expected the fields of ResendRequest"),
        (["ResendRequest"], r"\[kind, fields\]"),
        (["ResendRequest", RESEND, 1], r"\[kind, fields\]"),
        ([1, RESEND], r"\[kind, fields\]"),
        ({"ResendRequest": RESEND}, r"\[kind, fields\]"),
        (None, r"\[kind, fields\]"),
        (
            ["Heartbeat", {"node": "a", "member": 1, "load": {"x": 1}, "jobs": []}],
            "expected a float",
        ),
        *(
            (["Credits", {"job": 1, "links": links}], "Credits.links: expected up to 4096 rows")
            for links in (
                {"job": 2},
                "1234",
                [1, 2, 3, 4],
                ["1234"],
                [[1, 2, 3]],
                [[1, 2, 3, 4], [1, 2, 3, 4, 5]],
                [[1, 2, 3, True]],
                [[1, 2, 3, 4.0]],
                [[1, 2, 3, None]],
                [[1, 2, 3, 2**63]],
                [[1, 2, 3, [4]]],
                [{"a": 1, "b": 2, "c": 3, "d": 4}],
                [[1, 2, 3, 4]] * (MOST_ROWS + 1),
            )
        ),
        (["Heartbeat", {"node": "a", "member": 1, "load": [], "jobs": []}], "expected a map"),
        (["Heartbeat", {"node": b"a", "member": 1, "load": {}, "jobs": []}], "expected text"),
        (["Heartbeat", {"node": "a", "member": 1, "load": {}, "jobs": {}}], "expected a list"),
        (
            [
                "Heartbeat",
                {"node": "a", "member": 1, "load": {}, "jobs": [{**REPORT, "deployed": 1}]},
            ],
            "expected a bool",
        ),
        (
            ["Heartbeat", {"node": "a", "member": 1, "load": {b"k": 1.0}, "jobs": []}],
            "expected text",
        ),
        (["StatusAnswer", {"payload": [1]}], "expected a map"),
        (["StatusAnswer", {"payload": {"when": msgpack.Timestamp(1)}}], "expected plain data"),
        (["StatusAnswer", {"payload": {"code": msgpack.ExtType(5, b"x")}}], "expected plain data"),
    ],
)
def test_anything_else_is_refused_with_what_was_wrong(tree: Any, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        decode(msgpack.packb(tree))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        encode(HEARTBEAT)[:-1],
        encode(HEARTBEAT) + b"\x00",
        msgpack.packb(["ResendRequest", {1: 2}]),
        b"\x92\xa7Credits" + b"\x91" * 5000,
        b"\x92\xa5\xff\xff\xff\xff\xff\x80",
        bytes(MAXIMUM_MESSAGE_BYTES + 1),
    ],
)
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


def test_every_cut_of_a_message_is_refused() -> None:
    data = encode(HEARTBEAT)
    for length in range(len(data)):
        with pytest.raises(ProtocolError):
            decode(data[:length])


def test_a_payload_nested_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(ProtocolError, match="nested"):
        decode(msgpack.packb(["StatusAnswer", {"payload": {"a": deep}}]))


def test_a_message_that_is_too_long_is_not_written() -> None:
    with pytest.raises(ProtocolError, match="16777216"):
        encode(ErrorAnswer("x" * MAXIMUM_MESSAGE_BYTES))


@pytest.mark.parametrize(
    "message",
    [
        ResendRequest(1, 2, 3, 4, np.int64(5)),  # type: ignore[arg-type]
        ResendRequest(1, 2, 3, 4, 2**63),
        ResendRequest(True, 2, 3, 4, 5),
        Credits(1, ((2, 3, 4, np.int64(5)),)),  # type: ignore[arg-type]
        Credits(1, ((2, 3, 4, 2**63),)),
        Credits(1, ((2, 3, 4, -(2**63) - 1),)),
        Credits(1, ((2, 3, 4, 5), (2, 3, 4, True))),
        Credits(1, ((2, 3, 4, 5), (2, 3, 4))),  # type: ignore[arg-type]
        Credits(1, ([2, 3, 4, 5],)),  # type: ignore[arg-type]
        Credits(1, None),  # type: ignore[arg-type]
        Credits(1, [(2, 3, 4, 5)]),  # type: ignore[arg-type]
        Credits(1, ((2, 3, 4, 5),) * (MOST_ROWS + 1)),
        StopRequest(1, None),  # type: ignore[arg-type]
        Heartbeat("a", 1, {}, []),  # type: ignore[arg-type]
        SLICE,
        StatusAnswer({"x": object()}),
    ],
)
def test_wrong_types_of_our_own_fail_before_they_leave(message: Any) -> None:
    with pytest.raises(AssertionError):
        encode(message)
