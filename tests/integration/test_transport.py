"""Transports that talk to each other, in one process and in two."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import zmq

from streammine.model.coordination import Member
from streammine.model.errors import ClusterError, ProtocolError
from streammine.runtime import transport as transport_module
from streammine.runtime.control_client import ControlClient
from streammine.runtime.endpoints import SocketFolder, tcp_endpoints
from streammine.runtime.identities import new_identity
from streammine.runtime.transport import (
    ControlReceived,
    DataReceived,
    RequestReceived,
    Transport,
)
from tests.integration.transport_cluster import (
    WAIT_SECONDS,
    Cluster,
    gather,
    member,
    own_threads,
)

HEADER = b"header"


@pytest.fixture(params=["ipc", "tcp", "curve"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    threads = own_threads()
    descriptors = len(os.listdir("/proc/self/fd"))
    with SocketFolder() as folder:
        made = Cluster(folder.path, request.param)
        yield made
        for transport in made.opened:
            transport.close()
        assert os.listdir(folder.path) == [], "a closed transport leaves no file"
    assert own_threads() <= threads, "a closed transport leaves no thread"
    # The thread that frees lent memory has some of its own.
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 12


@pytest.fixture
def ipc(tmp_path: Path) -> Iterator[Cluster]:
    with SocketFolder() as folder:
        made = Cluster(folder.path, "ipc")
        yield made
        for transport in made.opened:
            transport.close()
        assert os.listdir(folder.path) == []


def test_data_comes_in_order_with_its_body_unchanged(cluster: Cluster) -> None:
    a, b = cluster.pair()
    bodies = [
        None if size is None else pa.py_buffer(os.urandom(size))
        for size in (None, 0, 1, 100, 9_000, 70_000, 3_000_001, None, 20_000)
    ]
    for number, body in enumerate(bodies):
        assert a.send_data("b", b"%d" % number, body)
    received = gather(len(bodies), a, b)
    for number, (message, body) in enumerate(zip(received, bodies, strict=True)):
        assert isinstance(message, DataReceived)
        assert (message.sender, message.header) == ("a", b"%d" % number)
        assert (message.body is None) == (body is None)
        if body is not None and message.body is not None:
            assert message.body.equals(body)
            assert message.body.address % 8 == 0


def test_record_batches_are_read_out_of_the_received_memory(ipc: Cluster) -> None:
    a, b = ipc.pair()
    batch = pa.record_batch({"x": pa.array(range(100_000)), "s": pa.array(["w"] * 100_000)})
    a.send_data("b", HEADER, batch.serialize())
    (message,) = gather(1, a, b)
    assert isinstance(message, DataReceived)
    read = pa.ipc.read_record_batch(message.body, batch.schema)
    assert read.equals(batch)
    assert message.body is not None
    start = message.body.address
    assert start <= read.column(0).buffers()[1].address < start + message.body.size
    del message
    b.close()
    assert read.equals(batch), "the memory lives as long as someone uses it"


def test_control_goes_both_ways_and_to_ourselves(cluster: Cluster) -> None:
    a, b = cluster.pair()
    assert a.send_control("b", b"to b")
    assert b.send_control("a", b"to a")
    assert b.send_control("b", b"to myself")
    received = gather(3, a, b)
    assert set(map(repr, received)) == {
        repr(ControlReceived("a", b"to b")),
        repr(ControlReceived("b", b"to a")),
        repr(ControlReceived("b", b"to myself")),
    }


def test_control_is_given_before_data_that_came_earlier(ipc: Cluster) -> None:
    a, b = ipc.pair()
    a.send_control("b", b"hello")
    gather(1, a, b)
    for _ in range(2_000):
        a.send_data("b", HEADER, pa.py_buffer(bytes(20_000)))
    a.send_control("b", b"urgent")
    b._control.poll(int(WAIT_SECONDS * 1000))
    first = b.poll(1000)
    assert first[0] == ControlReceived("a", b"urgent")
    assert len(first) <= 1 + transport_module._DATA_FRAMES_PER_POLL, "batches are bounded"
    gather(2_001 - len(first), b)


def test_what_is_sent_before_the_peer_is_there_waits_in_bounds(ipc: Cluster) -> None:
    a = ipc.open("a")
    later = ipc.endpoints()
    a.connect(Member("b", later.data, later.control, "here", 1))
    body = pa.py_buffer(bytes(8 << 20))
    taken = [a.send_data("b", b"%d" % number, body) for number in range(20)]
    assert taken == [True] * 7 + [False] * 13, (
        "the headers count as well, so the eighth is too much"
    )
    b = Transport("b", later)
    ipc.opened.append(b)
    received = gather(7, a, b)
    assert [message.header for message in received if isinstance(message, DataReceived)] == [
        b"%d" % number for number in range(7)
    ]
    assert a.send_data("b", HEADER, body)
    gather(1, a, b)


def test_a_peer_that_was_never_connected_takes_nothing(ipc: Cluster) -> None:
    a = ipc.open("a")
    assert not a.send_data("nobody", HEADER, None)
    assert not a.send_control("nobody", b"x")


def test_a_disconnected_peer_takes_nothing_and_can_come_back(cluster: Cluster) -> None:
    a, b = cluster.pair()
    a.send_control("b", b"1")
    gather(1, a, b)
    a.disconnect("b")
    a.disconnect("b")
    assert a.peers == ()
    assert not a.send_control("b", b"2")
    a.connect(member(b))
    assert a.peers == ("b",)
    assert a.send_control("b", b"3")
    assert gather(1, a, b) == [ControlReceived("a", b"3")]


def test_a_node_started_again_under_its_name_is_reached_at_its_new_place(
    cluster: Cluster,
) -> None:
    a, b = cluster.pair()
    a.send_control("b", b"old")
    gather(1, a, b)
    b.close()
    for _ in range(3):
        a.send_control("b", b"lost or kept, but never for the new one")
    again = cluster.open("b")
    again.connect(member(a))
    a.connect(member(again))
    a.send_control("b", b"new")
    again.send_control("a", b"here")
    received = gather(2, a, again)
    assert set(map(repr, received)) == {
        repr(ControlReceived("a", b"new")),
        repr(ControlReceived("b", b"here")),
    }


def test_wake_ends_a_poll_from_another_thread(ipc: Cluster) -> None:
    a = ipc.open("a")
    threading.Timer(0.1, a.wake).start()
    start = time.monotonic()
    assert a.poll(20_000) == []
    assert time.monotonic() - start < 10
    for _ in range(200_000):
        a.wake()
    assert a.poll(20_000) == []
    start = time.monotonic()
    assert a.poll(50) == []
    assert time.monotonic() - start > 0.03, "many calls wake once"
    a.close()
    a.wake()


def test_a_client_asks_and_is_answered(cluster: Cluster) -> None:
    a = cluster.open("a")
    answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def ask() -> None:
        with ControlClient(a.control_endpoint, cluster.keys) as client:
            for question in (b"one", b"two"):
                answers.put(client.request(question, WAIT_SECONDS))

    asker = threading.Thread(target=ask)
    asker.start()
    for expected in (b"one", b"two"):
        (request,) = gather(1, a)
        assert isinstance(request, RequestReceived)
        assert request.payload == expected
        assert a.reply(request.token, b"answer to " + request.payload)
    # The client's handshake and answers need no more of our polling.
    asker.join()
    assert [answers.get_nowait() for _ in range(2)] == [b"answer to one", b"answer to two"]


def test_a_late_answer_is_not_taken_for_the_next_one(ipc: Cluster) -> None:
    a = ipc.open("a")
    with ControlClient(a.control_endpoint) as client:
        with pytest.raises(ClusterError, match="no answer"):
            client.request(b"first", 0.05)
        (first,) = gather(1, a)
        assert isinstance(first, RequestReceived)
        a.reply(first.token, b"late")
        result: list[bytes] = []
        asker = threading.Thread(target=lambda: result.append(client.request(b"second")))
        asker.start()
        (second,) = gather(1, a)
        assert isinstance(second, RequestReceived)
        a.reply(second.token, b"right")
        asker.join()
    assert result == [b"right"]


def test_an_answer_to_a_client_that_has_gone_is_reported(ipc: Cluster) -> None:
    a = ipc.open("a")
    with ControlClient(a.control_endpoint) as client, contextlib.suppress(ClusterError):
        client.request(b"question", 0.05)
    (request,) = gather(1, a)
    assert isinstance(request, RequestReceived)
    deadline = time.monotonic() + WAIT_SECONDS
    while a.reply(request.token, b"answer"):
        assert time.monotonic() < deadline
        a.poll(5)


def test_a_client_without_a_node_fails_in_time(ipc: Cluster) -> None:
    nowhere = ipc.endpoints().control
    start = time.monotonic()
    with ControlClient(nowhere) as client, pytest.raises(ClusterError, match="cannot connect"):
        client.request(b"x", 0.2)
    assert time.monotonic() - start < 5


def test_messages_that_are_none_of_ours_are_counted_and_passed_over(ipc: Cluster) -> None:
    a, b = ipc.pair()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets = []
    for identity, parts in [
        (None, [b"x"]),
        (b"node:b", [b"x"]),
        (b"node:../b:0123456789abcdef", [b"x"]),
        (new_identity("node", "c"), [b"x", b"y", b"z"]),
        (new_identity("client", "c"), [b"x"]),
        (new_identity("node", "d"), [bytes(1000), b"y"]),
    ]:
        socket = context.socket(zmq.DEALER)
        if identity is not None:
            socket.routing_id = identity
        socket.connect(a.data_endpoint)
        socket.send_multipart(parts)
        sockets.append(socket)
    deadline = time.monotonic() + WAIT_SECONDS
    while a.refused < len(sockets):
        assert time.monotonic() < deadline
        assert a.poll(10) == []
    b.send_data("a", HEADER, None)
    assert gather(1, a, b) == [DataReceived("b", HEADER, None)]
    for socket in sockets:
        socket.close(0)
    context.term()


def test_control_messages_have_a_size_limit(ipc: Cluster) -> None:
    a, b = ipc.pair()
    limit = transport_module.MAXIMUM_MESSAGE_BYTES
    with pytest.raises(ProtocolError, match="at most"):
        a.send_control("b", bytes(limit + 1))
    a.send_control("b", bytes(limit))
    assert gather(1, a, b) == [ControlReceived("a", bytes(limit))]


def test_an_address_that_is_taken_is_named() -> None:
    with SocketFolder() as folder:
        cluster = Cluster(folder.path, "tcp")
        a = cluster.open("a")
        port = int(a.data_endpoint.rpartition(":")[2])
        with pytest.raises(ClusterError, match=rf"127\.0\.0\.1:{port}.*another program"):
            Transport("b", tcp_endpoints("127.0.0.1", None, port))
        a.close()


PEER = """
import sys
import pyarrow as pa
from streammine.model.coordination import Member
from streammine.runtime.endpoints import ipc_endpoints, tcp_endpoints
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.transport import ControlReceived, Transport
kind, folder, key_file, data, control, frames, size = sys.argv[1:]
keys = ClusterKeys.load(key_file) if kind == "curve" else None
endpoints = ipc_endpoints(folder) if kind == "ipc" else tcp_endpoints("127.0.0.1", keys)
me = Transport("peer", endpoints, keys)
me.connect(Member("a", data, control, "here", 1, keys and keys.node("a").public.decode()))
print(me.data_endpoint, me.control_endpoint, flush=True)
while not any(isinstance(message, ControlReceived) for message in me.poll(1000)):
    pass
body = pa.py_buffer(bytes(int(size)))
for number in range(int(frames)):
    while not me.send_data("a", b"%d" % number, body):
        me.poll(100)
    me.poll(0)
while True:
    for message in me.poll(1000):
        if isinstance(message, ControlReceived) and message.payload == b"end":
            me.close()
            sys.exit(0)
"""


@contextlib.contextmanager
def peer_process(
    cluster: Cluster, a: Transport, tmp_path: Path, frames: int, size: int
) -> Iterator[tuple[subprocess.Popen[str], Member]]:
    key_file = tmp_path / "cluster.key"
    if cluster.keys is not None:
        cluster.keys.save(key_file)
    command = [sys.executable, "-c", PEER, cluster.kind, str(cluster.folder), str(key_file)]
    command += [a.data_endpoint, a.control_endpoint, str(frames), str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            data, control = process.stdout.readline().split()
            public_key = cluster.keys and cluster.keys.node("peer").public.decode()
            yield process, Member("peer", data, control, "here", process.pid, public_key)
        finally:
            process.kill()


def test_big_frames_between_two_processes(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames, size = 400, 1_500_000
    a = cluster.open("a")
    with peer_process(cluster, a, tmp_path, frames, size) as (process, peer):
        a.connect(peer)
        a.send_control("peer", b"begin")
        received = 0
        start = 0.0
        deadline = time.monotonic() + WAIT_SECONDS
        while received < frames:
            assert time.monotonic() < deadline, f"{received} frames; peer: {process.poll()}"
            for message in a.poll(1000):
                assert isinstance(message, DataReceived)
                assert message.header == b"%d" % received
                assert message.body is not None
                assert message.body.size == size
                start = start or time.monotonic()
                received += 1
        seconds = time.monotonic() - start
        a.send_control("peer", b"end")
        assert process.wait(WAIT_SECONDS) == 0
    with capsys.disabled():
        rate = frames * size / seconds / 1e9
        print(f"\n{cluster.kind}: {rate:.1f} GB/s in frames of {size / 1e6} MB")


def test_a_peer_that_dies_does_not_block_and_what_waits_for_it_is_bounded(
    cluster: Cluster, tmp_path: Path
) -> None:
    a = cluster.open("a")
    with peer_process(cluster, a, tmp_path, 1, 10) as (process, peer):
        a.connect(peer)
        a.send_control("peer", b"begin")
        gather(1, a)
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        body = pa.py_buffer(bytes(4 << 20))
        deadline = time.monotonic() + WAIT_SECONDS
        while a.send_data("peer", HEADER, body):
            assert time.monotonic() < deadline
            a.poll(1)
        start = time.monotonic()
        assert not a.send_data("peer", HEADER, body)
        a.disconnect("peer")
        a.close()
        assert time.monotonic() - start < 3
    for path in cluster.folder.iterdir():
        # Only a process that was killed leaves its sockets; the folder's owner removes them.
        assert path.stem in peer.data_endpoint
        path.unlink()


def test_two_senders_share_a_receiver(cluster: Cluster) -> None:
    receiver = cluster.open("r")
    senders = [cluster.open(name) for name in ("s1", "s2")]
    for sender in senders:
        receiver.connect(member(sender))
        sender.connect(member(receiver))
    for number in range(100):
        for sender in senders:
            sender.send_data("r", b"%d" % number, None)
    received = gather(200, receiver, *senders)
    for sender in senders:
        headers = [
            message.header
            for message in received
            if isinstance(message, DataReceived) and message.sender == sender.name
        ]
        assert headers == [b"%d" % number for number in range(100)]
