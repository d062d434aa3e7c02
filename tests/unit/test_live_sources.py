"""Live sources: receivers in general, and lines over TCP, over real sockets on loopback."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streammine.model.errors import InputError
from streammine.model.ingest_chain import Place
from streammine.model.ingest_log import Entry
from streammine.runtime.sources.live import receiver as receiving
from streammine.runtime.sources.live.addresses import Address, Token
from streammine.runtime.sources.live.http_post import HttpPost
from streammine.runtime.sources.live.log_writer import LogWriter
from streammine.runtime.sources.live.receiver import Clock
from streammine.runtime.sources.live.tcp_lines import TcpLines
from streammine.runtime.sources.live.zeromq import ZeroMq
from tests.unit.live_endpoints import LARGEST, LOOPBACK, PATIENCE_SECONDS, SECRET, Client, Live
from tests.unit.live_logs import BY_COUNT, SECOND, replayed, rules


class DyingWriter(LogWriter):
    """A process that dies after a record is durable and before it is acknowledged."""

    dies = False

    def append(self, entry: Entry) -> Place:
        place = super().append(entry)
        if self.dies:
            raise InputError("killed between durable and acknowledged")
        return place


# --- TCP --------------------------------------------------------------------------------------------


def test_tcp_lines_are_durable_when_they_are_acknowledged(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    live = opened(tmp_path, TcpLines(LOOPBACK, LARGEST))
    sender = client(live)
    sender.send(b"1,a\n2,b\r\nx,bad\n3,")
    sender.wait_for(3)
    assert replayed(tmp_path, rules(BY_COUNT)).values() == ["a", "b"]
    sender.send(b"c\n")
    sender.wait_for(4)
    seen = live.read_rows(4)
    assert seen.values() == ["a", "b", "c"]
    assert [number for _, number, _ in seen.dead] == [2]


def test_lines_of_many_clients_are_all_logged_once(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    live = opened(tmp_path, TcpLines(LOOPBACK, LARGEST))
    clients = [client(live) for _ in range(8)]

    def send(number: int) -> None:
        for count in range(100):
            clients[number].send(f"{number},{number}-{count}\n".encode())
        clients[number].wait_for(100)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    seen = live.read_rows(800)
    for thread in threads:
        thread.join()
    values = seen.values()
    assert sorted(values) == sorted(f"{a}-{b}" for a in range(8) for b in range(100))
    for number in range(8):
        mine = [value for value in values if value.startswith(f"{number}-")]
        assert mine == [f"{number}-{count}" for count in range(100)], "a client's order is kept"


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_kill_between_durable_and_acknowledged_loses_nothing(
    tmp_path: Path,
    opened: Callable[..., Live],
    client: Callable[[Live], Client],
    with_ids: bool,
) -> None:
    """The client sends again what was not acknowledged: once with ids, at least once without."""
    endpoint = TcpLines(LOOPBACK, LARGEST, with_ids)
    first = opened(tmp_path, endpoint, writer=DyingWriter)
    lines = [f"id{n}\t{n},v{n}\n" if with_ids else f"{n},v{n}\n" for n in range(6)]
    sender = client(first)
    sender.send("".join(lines[:3]).encode())
    sender.wait_for(3)
    DyingWriter.dies = True
    try:
        sender.send("".join(lines[3:]).encode())
        assert sender.answer() == b"", "closed without an answer"
    finally:
        DyingWriter.dies = False
    assert first.read_rows(3).values() == ["v0", "v1", "v2"]
    with pytest.raises(InputError, match="killed between"):
        first.read_rows(4)
    second = opened(tmp_path, TcpLines(LOOPBACK, LARGEST, with_ids))
    again = client(second)
    again.send("".join(lines[3:]).encode())
    again.wait_for(3)
    expected = [f"v{n}" for n in range(6)]
    if not with_ids:
        expected += expected[3:]
    assert second.read_rows(len(expected)).values() == expected
    assert replayed(tmp_path, rules(BY_COUNT)).values() == expected


def test_a_line_that_is_too_long_or_unfinished_is_dead_and_the_next_is_read(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    live = opened(tmp_path, TcpLines(LOOPBACK, 1024))
    sender = client(live)
    sender.send(b"1,a\n" + b"9" * 200_000 + b"\n2,b\n3,unfin")
    sender.wait_for(3)
    sender.socket.shutdown(socket.SHUT_WR)
    sender.wait_for(4)
    assert sender.answer() == b""
    seen = live.read_rows(4)
    assert seen.values() == ["a", "b"]
    assert [(number, reason) for _, number, reason in seen.dead] == [
        (1, "line is longer than 1,024 bytes"),
        (3, "the connection ended inside this line"),
    ]


def test_a_client_that_dawdles_over_a_line_is_cut_off_and_others_are_served(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    live = opened(tmp_path, TcpLines(LOOPBACK, 1024, line_patience_seconds=0.3))
    slow, silent, quick = (client(live) for _ in range(3))
    stop = threading.Event()

    def dawdle() -> None:
        with contextlib.suppress(OSError):
            while not stop.wait(0.05):
                slow.send(b"1")

    thread = threading.Thread(target=dawdle)
    thread.start()
    quick.send(b"1,a\n")
    quick.wait_for(1)
    assert slow.answer() == b"", "a byte now and then does not help"
    stop.set()
    thread.join()
    silent.send(b"2,b\n")
    silent.wait_for(1)
    assert live.read_rows(2).values() == ["a", "b"]


def test_clients_without_the_token_are_sent_away(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    live = opened(tmp_path, TcpLines(LOOPBACK, 1024, token=Token(SECRET.encode())))
    for first in (b"1,a\n2,b\n", b"!token wrong\n1,a\n", SECRET.encode() + b"\n1,a\n"):
        stranger = client(live)
        stranger.send(first)
        assert stranger.answer() == b"error the first line must be: !token TOKEN\n"
        assert stranger.answer() == b""
    friend = client(live)
    friend.send(f"!token {SECRET}\n3,c\n".encode())
    friend.wait_for(1)
    assert live.read_rows(1).values() == ["c"]


@pytest.mark.parametrize("may_end", [True, False])
def test_a_control_line_ends_the_source_only_where_it_may(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client], may_end: bool
) -> None:
    live = opened(tmp_path, TcpLines(LOOPBACK, 1024, may_end=may_end))
    other, sender = client(live), client(live)
    sender.send(b"1,a\n!end\n2,b\n")
    sender.wait_for(1 if may_end else 3)
    if may_end:
        assert sender.answer() == b"ended\n"
        assert other.answer() == b""
        assert live.read_until(lambda seen: seen.exhausted).values() == ["a"]
        assert replayed(tmp_path, rules(BY_COUNT)).exhausted
    else:
        assert live.read_rows(3).values() == ["a", "b"]


def test_a_client_that_reads_no_answers_holds_nobody_up(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    live = opened(tmp_path, TcpLines(LOOPBACK, 1024))
    deaf = client(live)
    for number in range(300):
        deaf.send(f"{number},v\n".encode())
    live.read_rows(300)
    deaf.wait_for(300)


def test_a_receiver_reads_no_more_than_the_engine_takes(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    """Nobody reads: the client's sending stops; then everything comes through."""
    live = opened(tmp_path, TcpLines(LOOPBACK, LARGEST), handover_bytes=1 << 16)
    sender = client(live)
    sender.socket.settimeout(0.5)
    line = b"1," + b"x" * 1000 + b"\n"
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 256 << 20:
            sent += sender.socket.send(line * 64)
    assert sent < 256 << 20, "its sending was never stopped"
    bound = receiving.PENDING_BYTES + receiving.GROUP_BYTES + (1 << 16)
    assert live.receiver._offered_bytes <= bound + receiving.ENTRY_BYTES
    assert sum(len(path.read_bytes()) for path in (tmp_path / "segments").iterdir()) <= 2 * bound
    whole = sent // len(line)
    sender.socket.settimeout(PATIENCE_SECONDS)
    seen = live.read_rows(whole)
    assert set(seen.values()) == {"x" * 1000}
    assert not seen.dead


# --- silence, replacement, trouble ------------------------------------------------------------------


def test_a_silent_slice_promises_that_its_clock_has_moved(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    day = 1_700_000_000 * SECOND
    began = time.monotonic()

    def time_of_day() -> int:
        return day + int((time.monotonic() - began) * 1e6)

    by_time = rules(idle_microseconds=SECOND // 10)
    live = opened(tmp_path, TcpLines(LOOPBACK, 1024), by_time, clock=Clock(time_of_day=time_of_day))
    seen = live.read_until(lambda seen: seen.open_epoch == day // SECOND // 10)
    sender = client(live)
    sender.send(b"1700000009,a\n")
    live.read_rows(1)
    live.read_until(lambda seen: seen.open_epoch == day // SECOND // 10 + 1)
    sender.send(b"1700000009,late\n")
    live.read_rows(2)
    assert seen.values() == ["a"]
    assert len(seen.dead) == 1
    again = replayed(tmp_path, by_time)
    assert (again.rows, again.dead) == (seen.rows, seen.dead)


def test_a_silence_begins_anew_with_every_message(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    """4 s without a message, again and again, are no silence of 5 s."""
    now_seconds = [0.0]
    by_time = rules(idle_microseconds=5 * SECOND)
    clock = Clock(lambda: now_seconds[0], lambda: 1_000 * SECOND)
    live = opened(tmp_path, TcpLines(LOOPBACK, 1024), by_time, clock=clock)
    sender = client(live)
    for count in range(1, 7):
        sender.send(b"47,a\n")
        sender.wait_for(count)
        now_seconds[0] += 4.0
    assert live.read_rows(6).open_epoch == 4
    assert not live.seen.dead


def test_a_receiver_that_was_replaced_falls_silent_and_lets_its_address_go(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    old = opened(tmp_path, TcpLines(LOOPBACK, 1024))
    sender = client(old)
    sender.send(b"1,a\n")
    sender.wait_for(1)
    new = opened(tmp_path, TcpLines(Address("127.0.0.1", old.port), 1024))
    assert sender.answer() == b"", "within a second it sees that it was replaced"
    assert old.read_rows(1).values() == ["a"]
    delivery = old.reader.read(10, 0.0)
    assert (delivery.pieces, delivery.wake_after_seconds is not None) == ((), True)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            again = client(new)
            break
        assert time.monotonic() < deadline
    again.send(b"2,b\n")
    again.wait_for(1)
    assert new.read_rows(2).values() == ["a", "b"]


def test_an_address_that_can_not_be_had_is_refused(tmp_path: Path) -> None:
    for endpoint in (
        TcpLines(Address("203.0.113.1", 0), 1024),
        HttpPost(Address("203.0.113.1", 0), 1024),
        ZeroMq(Address("203.0.113.1", 0), 1024),
    ):
        with pytest.raises(InputError, match=r"can't listen at 203\.0\.113\.1:0"):
            Live(tmp_path / type(endpoint).__name__, endpoint)


def test_a_disk_that_fails_ends_the_source_with_its_error(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    live = opened(tmp_path, TcpLines(LOOPBACK, 1024))
    live.writer._folder.close()
    sender = client(live)
    sender.send(b"1,a\n")
    assert sender.answer() == b""
    with pytest.raises(AssertionError, match="a file was created"):
        live.read_rows(1)
