"""Live sources over real sockets on loopback."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from streammine.model.contracts import SourceReader
from streammine.model.errors import InputError
from streammine.model.ingest_chain import Place
from streammine.model.ingest_log import Entry
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live import receiver as receiving
from streammine.runtime.sources.live.addresses import Address, Token
from streammine.runtime.sources.live.handover import Handover
from streammine.runtime.sources.live.http_post import HttpPost
from streammine.runtime.sources.live.intake import Intake, IntakeRules
from streammine.runtime.sources.live.log_folder import LocalLog
from streammine.runtime.sources.live.log_writer import LogWriter
from streammine.runtime.sources.live.reader import LiveReader, SourceRows, logged_entries
from streammine.runtime.sources.live.receiver import Clock, Endpoint, Receiver
from streammine.runtime.sources.live.tcp_lines import TcpLines
from streammine.runtime.sources.live.zeromq import ZeroMq
from tests.unit.live_logs import BY_COUNT, SECOND, Seen, replayed, rules

PATIENCE_SECONDS = 20.0
LOOPBACK = Address("127.0.0.1", 0)
LARGEST = 64 << 10
SECRET = "0123456789abcdef0123456789abcdef"


class Live:
    """A receiver on a free port, and its reader."""

    def __init__(
        self,
        folder: Path,
        endpoint: Endpoint,
        live_rules: IntakeRules | None = None,
        writer: type[LogWriter] = LogWriter,
        handover_bytes: int = 1 << 20,
        clock: Clock | None = None,
    ) -> None:
        chosen = live_rules or rules(BY_COUNT)
        log = LocalLog(folder)
        self.writer = writer(log, chosen.schema, chosen.epoch, chosen.lateness_microseconds, 1000)
        self.handover = Handover(handover_bytes)
        self.receiver = Receiver(
            self.writer, Intake(chosen, self.writer.ids), endpoint, self.handover, clock
        )
        self.reader: SourceReader = LiveReader(
            "s/0",
            0,
            logged_entries(log, self.writer.newest, None),
            None,
            SourceRows(chosen.schema, chosen.epoch, None),
            self.handover,
            self.receiver,
        )
        self.receiver.start()
        host, _, port = self.receiver.address.rpartition(":")
        self.host, self.port = host, int(port)
        self.seen = Seen()

    def read_until(self, reached: Callable[[Seen], bool]) -> Seen:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached(self.seen):
            assert time.monotonic() < deadline, f"still only {self.seen}"
            delivery = self.reader.read(100, 0.0)
            self.seen.add(delivery)
            if delivery.wake_after_seconds is not None:
                time.sleep(delivery.wake_after_seconds)
        return self.seen

    def read_rows(self, count: int) -> Seen:
        return self.read_until(lambda seen: seen.rows_read >= count)


@pytest.fixture
def opened() -> Iterator[Callable[..., Live]]:
    with contextlib.ExitStack() as stack:

        def open_live(*given: Any, **more: Any) -> Live:
            live = Live(*given, **more)
            stack.callback(live.reader.close)
            return live

        yield open_live


class Client:
    """A TCP client that reads answers line by line."""

    def __init__(self, live: Live) -> None:
        self.socket = socket.create_connection((live.host, live.port), PATIENCE_SECONDS)
        self._answers = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> bytes:
        with contextlib.suppress(ConnectionError):
            return self._answers.readline()
        return b""

    def wait_for(self, count: int) -> None:
        """Read answers until `count` lines are acknowledged."""
        while (answer := self.answer()) != b"ok %d\n" % count:
            assert answer.startswith(b"ok "), answer

    def close(self) -> None:
        self._answers.close()
        self.socket.close()


@pytest.fixture
def client() -> Iterator[Callable[[Live], Client]]:
    with contextlib.ExitStack() as stack:

        def connect(live: Live) -> Client:
            made = Client(live)
            stack.callback(made.close)
            return made

        yield connect


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


# --- HTTP -----------------------------------------------------------------------------------------


def post(live: Live, body: bytes | None, method: str = "POST", **headers: str) -> tuple[int, Any]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(
        f"http://{live.host}:{live.port}/rows", data=body, method=method, headers=names
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_a_post_is_answered_with_what_became_of_its_rows(
    tmp_path: Path, opened: Callable[..., Live]
) -> None:
    live = opened(tmp_path, HttpPost(LOOPBACK, LARGEST))
    assert post(live, b"1,a\nx,bad\n2,b") == (200, {"accepted": 2, "dead": 1, "first_position": 0})
    assert replayed(tmp_path, rules(BY_COUNT)).values() == ["a", "b"]
    assert post(live, b"3,c\n") == (200, {"accepted": 1, "dead": 0, "first_position": 3})
    assert post(live, b"") == (200, {"accepted": 0, "dead": 0, "first_position": None})
    assert live.read_rows(4).values() == ["a", "b", "c"]


def test_a_post_with_a_key_counts_once_even_over_a_restart(
    tmp_path: Path, opened: Callable[..., Live]
) -> None:
    live = opened(tmp_path, HttpPost(LOOPBACK, LARGEST))
    first = post(live, b"1,a\n2,b\n", Idempotency_Key="one")
    assert post(live, b"1,a\n2,b\n", Idempotency_Key="one") == first
    live.reader.close()
    again = opened(tmp_path, HttpPost(LOOPBACK, LARGEST))
    assert post(again, b"1,a\n2,b\n", Idempotency_Key="one") == first
    assert post(again, b"3,c\n", Idempotency_Key="two")[1]["first_position"] == 2
    assert again.read_rows(3).values() == ["a", "b", "c"]


def test_a_delete_ends_the_source_only_where_it_may(
    tmp_path: Path, opened: Callable[..., Live]
) -> None:
    closed = opened(tmp_path / "never", HttpPost(LOOPBACK, LARGEST))
    assert post(closed, None, "DELETE")[0] == 403
    live = opened(tmp_path / "may", HttpPost(LOOPBACK, LARGEST, may_end=True))
    post(live, b"1,a\n")
    assert post(live, None, "DELETE") == (200, {"ended": True})
    assert live.read_until(lambda seen: seen.exhausted).values() == ["a"]


def test_requests_that_are_not_wanted_are_refused_and_nothing_is_logged(
    tmp_path: Path, opened: Callable[..., Live]
) -> None:
    live = opened(tmp_path, HttpPost(LOOPBACK, 1024, token=Token(SECRET.encode())))
    bearer = {"Authorization": f"Bearer {SECRET}"}
    assert post(live, b"1,a\n")[0] == 401
    assert post(live, b"1,a\n", Authorization="Bearer wrong")[0] == 401
    assert post(live, b"1,a\n", Origin="http://page.example", **bearer)[0] == 403
    assert post(live, None, "GET", **bearer)[0] == 405
    assert post(live, b"9" * 1025, **bearer)[0] == 413
    assert post(live, b"1,a\n", Idempotency_Key="a b", **bearer)[0] == 400
    assert replayed(tmp_path, rules(BY_COUNT)).rows_read == 0
    assert post(live, b"1,a\n", **bearer)[0] == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST / HTTP/1.1\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n1,a\n", 400),
        (b"POST / HTTP/1.1\r\n Folded: 1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nNo Name: 1\r\n\r\n", 400),
        (b"GARBAGE\r\n\r\n", 400),
        (b"POST / HTTP/2.0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1,a", 408),
        (b"POST / HT", 408),
    ],
)
def test_requests_that_are_none_are_answered_and_closed(
    tmp_path: Path,
    opened: Callable[..., Live],
    client: Callable[[Live], Client],
    request_bytes: bytes,
    status: int,
) -> None:
    live = opened(tmp_path, HttpPost(LOOPBACK, 1024, patience_seconds=0.3))
    sender = client(live)
    sender.send(request_bytes)
    assert sender.answer().startswith(f"HTTP/1.1 {status} ".encode())
    assert post(live, b"1,a\n")[0] == 200
    assert live.read_rows(1).values() == ["a"]


def test_one_connection_serves_many_requests(
    tmp_path: Path, opened: Callable[..., Live], client: Callable[[Live], Client]
) -> None:
    live = opened(tmp_path, HttpPost(LOOPBACK, 1024))
    sender = client(live)
    head = b"POST / HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    sender.send(head + b"1,a\n" + head + b"2,b\n")
    answers = [sender.answer() for _ in range(16)]
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert answers.count(b"HTTP/1.1 100 Continue\r\n") == 2
    assert live.read_rows(2).values() == ["a", "b"]


# --- ZeroMQ ---------------------------------------------------------------------------------------


@pytest.fixture
def dealer() -> Iterator[Callable[..., zmq.Socket[bytes]]]:
    with zmq.Context() as context:
        sockets = []

        def connect(
            live: Live, kind: int = zmq.DEALER, keys: ClusterKeys | None = None
        ) -> zmq.Socket[bytes]:
            made = context.socket(kind)
            made.linger = 0
            made.rcvtimeo = made.sndtimeo = int(PATIENCE_SECONDS * 1000)
            if keys is not None:
                made.curve_serverkey = keys.server.public
                made.curve_publickey = keys.client.public
                made.curve_secretkey = keys.client.secret
            made.connect(f"tcp://{live.host}:{live.port}")
            sockets.append(made)
            return made

        yield connect
        for each in sockets:
            each.close()


def answer_of(socket_: zmq.Socket[bytes]) -> tuple[bytes, Any]:
    client_id, answer = socket_.recv_multipart()
    return client_id, json.loads(answer)


def test_zeromq_messages_are_acknowledged_and_count_once_with_ids(
    tmp_path: Path, opened: Callable[..., Live], dealer: Callable[..., Any]
) -> None:
    live = opened(tmp_path, ZeroMq(LOOPBACK, LARGEST, may_end=True))
    sender = dealer(live)
    sender.send_multipart([b"one", b"1,a\nx,bad\n"])
    first = answer_of(sender)
    assert first == (b"one", {"accepted": 1, "dead": 1, "first_position": 0})
    assert replayed(tmp_path, rules(BY_COUNT)).values() == ["a"]
    sender.send_multipart([b"one", b"1,a\nx,bad\n"])
    assert answer_of(sender) == first
    asking = dealer(live, zmq.REQ)
    asking.send(b"2,b")
    assert answer_of(asking) == (b"", {"accepted": 1, "dead": 0, "first_position": 2})
    sender.send_multipart([b"a b", b"3,c"])
    assert "error" in answer_of(sender)[1]
    sender.send_multipart([b"1", b"2", b"3"])
    assert "error" in answer_of(sender)[1]
    sender.send(b"!end")
    assert answer_of(sender) == (b"", {"ended": True})
    assert live.read_until(lambda seen: seen.exhausted).values() == ["a", "b"]


def test_zeromq_messages_that_are_too_long_get_no_further_than_their_client(
    tmp_path: Path, opened: Callable[..., Live], dealer: Callable[..., Any]
) -> None:
    live = opened(tmp_path, ZeroMq(LOOPBACK, 1024))
    greedy, sender = dealer(live), dealer(live)
    greedy.rcvtimeo = 300
    greedy.send(b"9" * 2000)
    with pytest.raises(zmq.Again):
        greedy.recv_multipart()
    sender.send(b"1,a")
    assert answer_of(sender)[1]["accepted"] == 1
    assert live.read_rows(1).values() == ["a"]


def test_zeromq_with_keys_lets_only_their_holders_in(
    tmp_path: Path, opened: Callable[..., Live], dealer: Callable[..., Any]
) -> None:
    keys, others = ClusterKeys.create(), ClusterKeys.create()
    live = opened(tmp_path, ZeroMq(LOOPBACK, 1024, keys=keys))
    friend = dealer(live, keys=keys)
    friend.send(b"1,a")
    assert answer_of(friend)[1]["accepted"] == 1
    forged = SimpleNamespace(server=keys.server, client=others.client)
    for stranger_keys in (None, others, forged):
        stranger = dealer(live, keys=stranger_keys)
        stranger.rcvtimeo = 200
        stranger.send(b"2,b")
        with pytest.raises(zmq.Again):
            stranger.recv_multipart()
    assert replayed(tmp_path, rules(BY_COUNT)).values() == ["a"]
