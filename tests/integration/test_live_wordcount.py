"""A live word count: lines come over TCP while the job runs, and again from the ingest log."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.workplace import Workplace, eventually, wait_for_output
from tests.unit.live_logs import free_ports

pytestmark = pytest.mark.slow

LINES = [f"{word} and the {word} of line {n % 7}" for n in range(300) for word in ("sea", "sky")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with Workplace(tmp_path) as made:
        yield made


def live_wordcount(port: int) -> dict[str, Any]:
    return {
        "name": "live",
        "epoch": {"count": 100},
        "nodes": 2,
        "sources": {
            "lines": {
                "type": "tcp",
                "bind": f"127.0.0.1:{port}",
                "ingest_log": "ingest",
                "format": "text",
                "end": "on_request",
            }
        },
        "operators": {
            "words": {"input": "lines", "flat_map": {"split": "line", "into": "word"}},
            "counts": {"input": "words", "key": "word", "aggregate": {"count": "count()"}},
        },
        "sinks": {"result": {"input": "counts", "format": "parquet", "path": "out"}},
    }


def connected(port: int) -> socket.socket:
    found: list[socket.socket] = []

    def connect() -> bool:
        try:
            found.append(socket.create_connection(("127.0.0.1", port), 20))
        except ConnectionRefusedError:
            return False
        return True

    eventually(connect, lambda: f"nobody listens at port {port}", 60)
    return found[0]


def live_readings(port: int) -> dict[str, Any]:
    return {
        "name": "readings",
        "epoch": {"time": "1s", "column": "ts"},
        "nodes": 2,
        "sources": {
            "readings": {
                "type": "http",
                "bind": f"127.0.0.1:{port}",
                "ingest_log": "ingest",
                "slices": 2,
                "format": "json",
                "schema": {"ts": "int64", "word": "string"},
                "idle": "200ms",
                "end": "on_request",
            }
        },
        "operators": {
            "counts": {"input": "readings", "key": "word", "aggregate": {"count": "count()"}},
        },
        "sinks": {"result": {"input": "counts", "format": "parquet", "path": "out"}},
    }


def request(port: int, method: str, body: bytes | None = None) -> Any:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/", body, method=method)
    with urllib.request.urlopen(asked, timeout=20) as answer:
        return json.loads(answer.read())


def written(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in folder.rglob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            found[row["word"]] += row["count"]
    return found


def test_a_live_word_count_and_its_replay_give_the_same(place: Workplace) -> None:
    port = free_ports(1)
    topology = place.topology(live_wordcount(port))
    with place.start("run", topology, "--json") as running:
        with connected(port) as sender, sender.makefile("rb") as answers:
            for at in range(0, len(LINES), 50):
                sender.sendall("".join(f"{line}\n" for line in LINES[at : at + 50]).encode())
                while (answer := answers.readline()) != b"ok %d\n" % (at + 50):
                    assert answer.startswith(b"ok "), answer
            sender.sendall(b"\xff no text\n!end\n")
            assert answers.read() == b"ok %d\nended\n" % (len(LINES) + 1)
        output, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    result = json.loads(output.splitlines()[-1])
    assert result["events_in"] == len(LINES) + 1
    assert result["epochs"] == 6
    assert result["events_dead"] == 1
    expected = Counter(word for line in LINES for word in line.split())
    assert written(place.folder / "out") == expected
    again = place.result("run", topology, "--set", "sinks.result.path=again", "--set", "nodes=1")
    assert again["output_digest"] == result["output_digest"]
    assert written(place.folder / "again") == expected
    place.require_nothing_left()


def test_a_silent_slice_does_not_hold_up_the_other(place: Workplace) -> None:
    """Only slice 0 gets a row; its epoch is committed while both slices go on listening."""
    port = free_ports(2)
    topology = place.topology(live_readings(port))
    with place.start("run", topology, "--json") as running:
        for slice_port in (port, port + 1):
            connected(slice_port).close()
        row = json.dumps({"ts": int(time.time()), "word": "sea"}).encode()
        assert request(port, "POST", row) == {"accepted": 1, "dead": 0, "first_position": 0}
        wait_for_output(place.folder / "out")
        assert running.poll() is None
        for slice_port in (port, port + 1):
            assert request(slice_port, "DELETE") == {"ended": True}
        output, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    assert written(place.folder / "out") == Counter({"sea": 1})
    result = json.loads(output.splitlines()[-1])
    again = place.result("run", topology, "--set", "sinks.result.path=again")
    assert again["output_digest"] == result["output_digest"]
    place.require_nothing_left()
