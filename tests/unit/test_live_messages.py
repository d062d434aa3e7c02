"""Live sources that take messages: HTTP and ZeroMQ, over real sockets on loopback."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live.addresses import Token
from streammine.runtime.sources.live.http_post import HttpPost
from streammine.runtime.sources.live.zeromq import ZeroMq
from tests.unit.live_endpoints import LARGEST, LOOPBACK, PATIENCE_SECONDS, SECRET, Client, Live
from tests.unit.live_logs import BY_COUNT, replayed, rules

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
