"""A process that hosts a live source is killed again and again while clients send."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import zmq

from streammine.model.topology.live_sources import TcpSource, ZeroMqSource
from streammine.runtime.sources.live import open_live_reader
from tests.integration.workplace import ROOT
from tests.unit.live_logs import BY_COUNT, Seen, free_ports

pytestmark = pytest.mark.slow

HOST = """
import sys
from streammine.model.topology.live_sources import ZeroMqSource
from streammine.model.epochs import EpochDefinition
from streammine.runtime.sources.live import open_live_reader
source = ZeroMqSource.model_validate_json(sys.argv[1])
reader = open_live_reader("s", source, EpochDefinition("count", 5), sys.argv[2], 0, None)
print("open", flush=True)
while True:
    reader.read(100, 0.0)
"""

MESSAGES = 400
ROUNDS = 4


@pytest.mark.parametrize("with_ids", [True, False])
def test_every_acknowledged_message_survives_kills(tmp_path: Path, with_ids: bool) -> None:
    """Once each with ids, at least once without; a client sends again what was not answered."""
    port = free_ports(1)
    source = ZeroMqSource.model_validate(
        {"type": "zeromq", "bind": f"127.0.0.1:{port}", "ingest_log": "in", "format": "text"}
    )
    over = threading.Event()
    sending = threading.Thread(target=send_all, args=(port, with_ids, over))
    sending.start()
    chance = random.Random(7)
    kills = 0
    while not over.is_set():
        command = [sys.executable, "-c", HOST, source.model_dump_json(), str(tmp_path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as host:
            assert host.stdout is not None
            assert host.stdout.readline() == b"open\n"
            if kills < ROUNDS:
                over.wait(chance.uniform(0.05, 0.3))
            else:
                assert over.wait(60)
            host.kill()
            kills += 1
    sending.join()
    assert kills > 1, "it was killed while messages came"
    found = Counter(logged(tmp_path, port))
    assert set(found) == {f"message {number}" for number in range(MESSAGES)}
    if with_ids:
        assert set(found.values()) == {1}


def send_all(port: int, with_ids: bool, over: threading.Event) -> None:
    """Send each message until it is answered, a few at a time."""
    with zmq.Context() as context:
        waiting = list(range(MESSAGES))
        while waiting:
            with context.socket(zmq.DEALER) as client:
                client.linger = 0
                client.rcvtimeo = 300
                client.connect(f"tcp://127.0.0.1:{port}")
                with contextlib.suppress(zmq.Again):
                    while waiting:
                        window = waiting[:5]
                        for number in window:
                            name = b"%d" % number
                            body = b"message %d" % number
                            client.send_multipart([name, body] if with_ids else [body])
                        for _ in window:
                            client.recv_multipart()
                        del waiting[: len(window)]
                        time.sleep(0.005)
    over.set()


def logged(folder: Path, port: int) -> list[str]:
    """What a reader gets out of the log."""
    source = TcpSource.model_validate(
        {"type": "tcp", "bind": f"127.0.0.1:{port}", "ingest_log": "in", "format": "text"}
    )
    reader = open_live_reader("s", source, BY_COUNT, str(folder), 0, None)
    seen = Seen()
    try:
        while (delivery := reader.read(1000, 0.0)).wake_after_seconds is None:
            seen.add(delivery)
    finally:
        reader.close()
    return [str(value) for value in seen.values(0)]
