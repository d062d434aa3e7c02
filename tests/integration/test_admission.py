"""Who may talk to a node over TCP: those whose key is the cluster's, under their own name."""

from __future__ import annotations

import os
import threading
import time

import pytest
import zmq

from streammine.model.coordination import Member
from streammine.model.errors import ClusterError
from streammine.runtime.control_client import ControlClient
from streammine.runtime.endpoints import SocketFolder
from streammine.runtime.identities import new_identity
from streammine.runtime.transport import ControlReceived
from tests.integration.transport_cluster import Cluster, gather, member

HEADER = b"header"


def test_strangers_are_refused() -> None:
    with SocketFolder() as folder:
        home, abroad = Cluster(folder.path, "curve"), Cluster(folder.path, "curve")
        a = home.open("a")
        stranger = abroad.open("b")
        friend = home.open("b")
        a.connect(member(friend))
        friend.connect(member(a))
        with pytest.raises(ClusterError, match="key"):
            stranger.connect(member(a))
        stranger.connect(
            Member("a", a.data_endpoint, a.control_endpoint, "here", os.getpid(), None)
        )
        for number in range(50):
            stranger.send_control("a", b"let me in")
            stranger.send_data("a", HEADER, None)
            if number % 10 == 0:
                assert a.poll(5) == []
        for keys in (None, abroad.keys):
            with ControlClient(a.control_endpoint, keys) as client:
                asker = threading.Thread(target=lambda c=client: _expect_refusal(c))
                asker.start()
                while asker.is_alive():
                    assert a.poll(5) == []
                asker.join()
        friend.send_control("a", b"it is me")
        assert gather(1, a, friend, stranger) == [ControlReceived("b", b"it is me")]
        for transport in (a, stranger, friend):
            transport.close()
        assert os.listdir(folder.path) == []


def _expect_refusal(client: ControlClient) -> None:
    with pytest.raises(ClusterError):
        client.request(b"let me in", 0.5)


@pytest.mark.parametrize("domain", ["data", "control"])
def test_a_client_cannot_pass_for_a_node(domain: str) -> None:
    with SocketFolder() as folder:
        cluster = Cluster(folder.path, "curve")
        a = cluster.open("a")
        assert cluster.keys is not None
        b = cluster.open("b")
        a.connect(member(b))
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.DEALER)
        socket.routing_id = new_identity("node", "b")
        socket.curve_serverkey = cluster.keys.server.public
        socket.curve_publickey = cluster.keys.client.public
        socket.curve_secretkey = cluster.keys.client.secret
        socket.connect(a.data_endpoint if domain == "data" else a.control_endpoint)
        socket.send(b"I am b")
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            assert a.poll(10) == []
        assert a.refused == (1 if domain == "control" else 0)
        socket.close(0)
        context.term()
        for transport in (a, b):
            transport.close()
