"""Replaying logs into slices of a source, over real sockets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
import zmq

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import ClusterError, InputError
from streammine.model.replay import Hello, Mark
from streammine.model.topology.live_sources import TcpSource
from streammine.model.topology.sources import LogSource
from streammine.pipeline import slice_push
from streammine.pipeline.ingest_log_parcels import SliceLog
from streammine.pipeline.parcels import Content
from streammine.pipeline.replay import Pace, replay_of, serve
from streammine.pipeline.slice_push import Contents
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live import opening, replay_opening
from streammine.runtime.sources.live.replay_port import ReplayPort
from tests.unit.epoch_logs import write_log
from tests.unit.live_logs import free_ports
from tests.unit.replays import PATIENCE_SECONDS, Gathered, Source
from tests.unit.source_reading import COUNT, TIME, read_source

EPOCHS = {0: 10, 1: 4, 3: 31, 4: 12}


def direct(folder: Path, log: str = "log", epoch: EpochDefinition = COUNT) -> Gathered:
    """What reading the log directly gives."""
    read = read_source(LogSource.model_validate({"log": log}), epoch, folder)
    found = Gathered()
    found.rows = sorted(read.rows)
    reasons = {(file, number): reason for file, number, reason in read.dead}
    found.dead = sorted(
        (epoch_, file, number, reasons[file, number]) for file, number, epoch_ in read.dead_epochs
    )
    found.rows_read = read.rows_read
    return found


def assert_same(got: Gathered, expected: Gathered) -> None:
    assert got.rows == expected.rows
    assert got.dead == expected.dead
    assert got.rows_read == expected.rows_read


class BrokenError(Exception):
    """A task dies."""


def breaking(contents: Contents, parcels: int) -> Contents:
    """The task dies once it has made so many parcels of a slice."""

    def broken(after: Mark | None = None) -> Iterator[Content]:
        for at, content in enumerate(contents(after)):
            if at == parcels:
                raise BrokenError
            yield content

    return broken


@pytest.mark.parametrize("partitions", [1, 3, 5])
@pytest.mark.parametrize("slices", [1, 2, 4])
def test_a_source_gets_what_reading_the_log_directly_gives(
    tmp_path: Path, partitions: int, slices: int
) -> None:
    write_log(tmp_path / "log", partitions, EPOCHS)
    with Source(tmp_path, COUNT, slices) as source:
        sent = source.push(tmp_path / "log")
        assert_same(source.gathered(), direct(tmp_path))
    assert sent == {"rows": 57, "dead": 2}


@pytest.mark.parametrize("parcels", [0, 1, 5, 9])
def test_a_task_that_dies_is_gone_on_from(tmp_path: Path, parcels: int) -> None:
    write_log(tmp_path / "log", 3, EPOCHS)
    with Source(tmp_path, COUNT, 2) as source:
        work = replay_of(source.request(tmp_path / "log"))
        with pytest.raises(BrokenError):
            serve(range(2), 1, work, False, partial(breaking, parcels=parcels))
        source.push(tmp_path / "log", attempt=2)
        assert_same(source.gathered(), direct(tmp_path))


def test_what_a_task_sends_again_is_dropped_by_the_source(tmp_path: Path) -> None:
    """The second attempt does not listen to what the slices say they have."""
    write_log(tmp_path / "log", 3, EPOCHS)

    def from_the_start(contents: Contents) -> Contents:
        return lambda after=None: contents(None)

    with Source(tmp_path, COUNT, 2) as source:
        work = replay_of(source.request(tmp_path / "log"))
        with pytest.raises(BrokenError):
            serve(range(2), 1, work, False, partial(breaking, parcels=5))
        serve(range(2), 2, work, False, from_the_start)
        serve(range(2), 3, work, True, None)
        assert_same(source.gathered(), direct(tmp_path))


def test_a_replay_that_was_done_sends_nothing_the_second_time(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 3, EPOCHS)
    with Source(tmp_path, COUNT) as source:
        assert source.push(tmp_path / "log", keep_open=True)["rows"] == 57
        assert source.push(tmp_path / "log", replay="s") == {"rows": 0, "dead": 0}
        assert_same(source.gathered(), direct(tmp_path))
        assert source.push(tmp_path / "log", replay="t") == {"rows": 0, "dead": 0}


def test_epochs_of_a_range_arrive_and_close(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 3, EPOCHS)
    expected = direct(tmp_path)
    with Source(tmp_path, COUNT) as source:
        source.push(tmp_path / "log", from_epoch=1, to_epoch=2, keep_open=True)
        source.wait_for_rows(4)
        for each in source.slices:
            while each.gathered.open_epoch < 2:
                time.sleep(0.01)
        source.push(tmp_path / "log", replay="s", from_epoch=2)
        found = source.gathered()
    assert found.rows == [row for row in expected.rows if row[0] >= 1]
    assert not found.dead, "they are of epoch 0"


def test_epochs_that_are_over_are_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 3, EPOCHS)
    with Source(tmp_path, COUNT) as source:
        source.push(tmp_path / "log", from_epoch=3, to_epoch=3, keep_open=True)
        with pytest.raises(InputError, match=r"epochs below 4 are over.*begin at epoch 0.*--from"):
            source.push(tmp_path / "log", replay="s")
        write_log(tmp_path / "other", 2, {1: 6, 5: 9}, dead=False)
        with pytest.raises(InputError, match=r"--from-epoch 4"):
            source.push(tmp_path / "other", replay="t")
        source.push(tmp_path / "other", replay="u", from_epoch=4)
        found = source.gathered()
    other = direct(tmp_path, "other")
    assert found.rows == [
        *(row for row in direct(tmp_path).rows if row[0] == 3),
        *(row for row in other.rows if row[0] == 5),
    ]


def test_a_slice_that_comes_up_elsewhere_goes_on(tmp_path: Path) -> None:
    """Slice 1 is opened anew, midway, as after a crash or a move; both copies give the same rows."""
    write_log(tmp_path / "log", 3, dict.fromkeys(range(60), 40))
    halfway, moved = threading.Event(), threading.Event()

    def held_up(contents: Contents) -> Contents:
        def slow(after: Mark | None = None) -> Iterator[Content]:
            for content in contents(after):
                if content.mark.epoch == 30:
                    halfway.set()
                    assert moved.wait(PATIENCE_SECONDS)
                yield content

        return slow

    with Source(tmp_path, COUNT, 2) as source:
        work = replay_of(source.request(tmp_path / "log"))
        failed: list[Exception] = []

        def pushing() -> None:
            try:
                serve(range(2), 1, work, False, held_up)
                serve(range(2), 2, work, True, None)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=pushing)
        thread.start()
        assert halfway.wait(PATIENCE_SECONDS)
        old = source.slices[1]
        source.slices[1] = source.open(1)
        source.slices[1].start()
        moved.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        assert not failed
        assert_same(source.gathered(), direct(tmp_path))
        old.close()


def test_a_reader_resumes_from_its_position(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 3, EPOCHS)
    with Source(tmp_path, COUNT, 1) as source:
        source.push(tmp_path / "log", keep_open=True)
        source.wait_for_rows(59)
        position = source.slices[0].reader.position()
        before = source.slices[0].gathered.rows
        source.slices[0].close()
        source.slices[0] = source.open(0, position)
        source.slices[0].start()
        write_log(tmp_path / "more", 2, {7: 11}, dead=False)
        source.push(tmp_path / "more", replay="s")
        found = source.gathered()
        assert sorted(before) == direct(tmp_path).rows
        assert found.rows == direct(tmp_path, "more").rows


def test_a_source_that_is_not_read_takes_a_bounded_amount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither slice is read; what was taken in stands in the log, and no more than that comes."""
    monkeypatch.setattr(replay_opening, "HANDOVER_BYTES", 20_000)
    monkeypatch.setattr("streammine.runtime.sources.live.replay_port.WINDOW_BYTES", 10_000)
    write_log(tmp_path / "log", 2, dict.fromkeys(range(40), 400), dead=False)
    source = Source(tmp_path, COUNT, 1)
    with source:
        source.slices[0].running.clear()
        made = [0]

        def counted(contents: Contents) -> Contents:
            def counting(after: Mark | None = None) -> Iterator[Content]:
                for content in contents(after):
                    made[0] += content.rows
                    yield content

            return counting

        work = replay_of(source.request(tmp_path / "log"))
        thread = threading.Thread(target=serve, args=(range(1), 1, work, False, counted))
        thread.start()
        before = -1
        while made[0] != before:
            before = made[0]
            time.sleep(0.5)
        assert 0 < before < 4_000, "of 16,000 rows"
        source.slices[0].running.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        assert made[0] == 16_000
        serve(range(1), 2, work, True, None)
        assert_same(source.gathered(), direct(tmp_path))


def test_an_older_attempt_gives_way_and_another_replay_waits_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_push, "SILENCE_SECONDS", 0.5)
    write_log(tmp_path / "log", 2, EPOCHS)
    entered, go_on = threading.Event(), threading.Event()

    def waiting(contents: Contents) -> Contents:
        def held_up(after: Mark | None = None) -> Iterator[Content]:
            for at, content in enumerate(contents(after)):
                if at == 3:
                    entered.set()
                    assert go_on.wait(PATIENCE_SECONDS)
                yield content

        return held_up

    with Source(tmp_path, COUNT, 1) as source:
        work = replay_of(source.request(tmp_path / "log"))
        refused: list[Exception] = []

        def pushing() -> None:
            try:
                serve(range(1), 3, work, False, waiting)
            except InputError as error:
                refused.append(error)

        thread = threading.Thread(target=pushing)
        thread.start()
        assert entered.wait(PATIENCE_SECONDS)
        other = replay_of(source.request(tmp_path / "log", "another", patience_seconds=0.5))
        with pytest.raises(ClusterError, match="another replay is pushing into the source now"):
            serve(range(1), 9, other, False, None)
        with pytest.raises(InputError, match="a newer attempt of the same task"):
            serve(range(1), 2, work, False, None)
        source.push(tmp_path / "log", attempt=4)
        go_on.set()
        thread.join(PATIENCE_SECONDS)
        assert_same(source.gathered(), direct(tmp_path))
        assert not refused or "newer attempt" in str(refused[0])


def test_a_replay_over_tcp_needs_the_keys(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 2, EPOCHS)
    ClusterKeys.create().save(tmp_path / "keys")
    ClusterKeys.create().save(tmp_path / "wrong")
    bind = f"127.0.0.1:{free_ports(2)}"
    with Source(tmp_path, COUNT, 2, bind=bind, keys="keys") as source:
        target = source.target().model_copy(update={"keys": str(tmp_path / "wrong")})
        with pytest.raises(ClusterError, match=r"out of reach for 1 s.*says nothing|no address"):
            source.push(tmp_path / "log", target=target, patience_seconds=1.0)
        source.push(tmp_path / "log", replay="s")
        assert_same(source.gathered(), direct(tmp_path))


def test_the_private_socket_is_its_users_alone(tmp_path: Path) -> None:
    with Source(tmp_path, COUNT, 1):
        (about,) = (tmp_path / "own" / "slice-00000" / "addresses").iterdir()
        endpoint = json.loads(about.read_text())["endpoint"]
        folder = Path(endpoint.removeprefix("ipc://")).parent
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_event_time_sets_the_pace(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 2, dict.fromkeys(range(4), 4), False, TIME)
    with Source(tmp_path, TIME, 2) as source:
        started = time.monotonic()
        request = source.request(tmp_path / "log", speed=100.0)
        work = replay_of(request)
        work.pace = Pace(0, TIME.length, 100.0, time.time())
        serve(range(2), 1, work, False, None)
        assert time.monotonic() - started >= 0.3, "the last of four epochs of 10 s is due then"
        serve(range(2), 2, work, True, None)
        assert_same(source.gathered(), direct(tmp_path, epoch=TIME))


class TestRefused:
    def test_columns_and_epochs_must_be_those_of_the_log(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", 2, EPOCHS)
        other = Source(tmp_path, COUNT, 1, schema={"ts": "int64", "v": "int64"})
        with pytest.raises(InputError, match=r"columns ts: int64, v: double, and source 's'"):
            replay_of(other.request(tmp_path / "log"))
        with pytest.raises(InputError, match=r"epochs of 70 rows, and the topology of source 's'"):
            replay_of(Source(tmp_path, TIME, 1).request(tmp_path / "log"))

    def test_a_log_that_is_none(self, tmp_path: Path) -> None:
        source = Source(tmp_path, COUNT, 1)
        with pytest.raises(InputError, match="nowhere: there is no log"):
            replay_of(source.request(tmp_path / "nowhere"))
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "notes.txt").write_text("x")
        with pytest.raises(InputError, match="neither a manifest nor slices"):
            replay_of(source.request(tmp_path / "empty"))

    def test_a_damaged_log(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", 2, EPOCHS)
        segment = tmp_path / "log" / "partition-00001" / "segment-000000.arrow"
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 1
        segment.write_bytes(data)
        with (
            Source(tmp_path, COUNT, 1) as source,
            pytest.raises(InputError, match=r"partition-00001/segment-000000.arrow.* damaged"),
        ):
            source.push(tmp_path / "log")

    def test_epochs_that_the_log_has_not(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", 2, EPOCHS)
        source = Source(tmp_path, COUNT, 1)
        with pytest.raises(InputError, match="has epochs 0 to 4; none of them are asked for"):
            replay_of(source.request(tmp_path / "log", from_epoch=9))

    def test_a_pace_for_epochs_that_count_rows(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", 2, EPOCHS)
        with pytest.raises(InputError, match="--speed is about event time"):
            replay_of(Source(tmp_path, COUNT, 1).request(tmp_path / "log", speed=1.0))

    def test_a_source_that_something_else_has_ended(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", 2, EPOCHS)
        write_log(tmp_path / "other", 2, {7: 3}, dead=False)
        with Source(tmp_path, COUNT, 1) as source:
            source.push(tmp_path / "log")
            source.gathered()
            with pytest.raises(InputError, match="is over already, and it was not this replay"):
                source.push(tmp_path / "other", replay="s")

    def test_a_log_that_was_replayed_into_another_number_of_slices(self, tmp_path: Path) -> None:
        """Which partitions a slice has depends on it."""
        write_log(tmp_path / "log", 4, EPOCHS)
        with Source(tmp_path, COUNT, 2) as source:
            source.push(tmp_path / "log", to_epoch=1, keep_open=True)
        with (
            Source(tmp_path, COUNT, 3) as source,
            pytest.raises(InputError, match="slice 0 of source 's': its epochs below 2 are over"),
        ):
            source.push(tmp_path / "log", replay="s")

    def test_nobody_there(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", 2, EPOCHS)
        with pytest.raises(
            ClusterError, match=r"out of reach for 0\.3 s: no address of it is known"
        ):
            Source(tmp_path, COUNT, 1).push(tmp_path / "log", patience_seconds=0.3)

    def test_a_socket_of_another_machine(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", 2, EPOCHS)
        folder = tmp_path / "own" / "slice-00000" / "addresses"
        folder.mkdir(parents=True)
        about = {"endpoint": "ipc:///tmp/nowhere", "host": "elsewhere"}
        (folder / "0000000001-0000abcd").write_text(json.dumps(about))
        with pytest.raises(InputError, match="runs on elsewhere, at a socket that only processes"):
            replay_of(Source(tmp_path, COUNT, 1).request(tmp_path / "log"))

    def test_a_log_that_clients_wrote_to(self, tmp_path: Path) -> None:
        settings: dict[str, Any] = {
            "type": "tcp",
            "bind": f"127.0.0.1:{free_ports(1)}",
            "ingest_log": "own",
            "schema": {"ts": "int64", "v": "float64"},
        }
        tcp = TcpSource.model_validate(settings)
        opening.open_live_reader("s", tcp, COUNT, str(tmp_path), 0, None).close()
        with pytest.raises(InputError, match="holds what came from clients"):
            Source(tmp_path, COUNT, 1).open(0)


def test_silence_makes_a_task_look_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slice died with its node, and its socket with it; it comes up later."""
    monkeypatch.setattr(slice_push, "SILENCE_SECONDS", 0.3)
    write_log(tmp_path / "log", 2, EPOCHS)
    folder = tmp_path / "own" / "slice-00000" / "addresses"
    folder.mkdir(parents=True)
    about = {"endpoint": f"ipc://{tmp_path}/gone", "host": gethostname()}
    (folder / "0000000000-0000abcd").write_text(json.dumps(about))
    source = Source(tmp_path, COUNT, 1)
    work = replay_of(source.request(tmp_path / "log"))
    thread = threading.Thread(target=serve, args=(range(1), 1, work, False, None))
    thread.start()
    time.sleep(0.5)
    with source:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        serve(range(1), 2, work, True, None)
        assert_same(source.gathered(), direct(tmp_path))


def test_a_task_that_was_busy_does_not_take_its_slice_for_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads its log for ten minutes, while what the slice has answered waits in the socket."""
    greeted = []
    begin = ReplayPort._begin

    def counted(port: ReplayPort, client: bytes, hello: Hello) -> None:
        greeted.append(hello.attempt)
        begin(port, client, hello)

    monkeypatch.setattr(ReplayPort, "_begin", counted)
    write_log(tmp_path / "log", 2, EPOCHS)
    with Source(tmp_path, COUNT, 1) as source, zmq.Context() as context:
        work = replay_of(source.request(tmp_path / "log"))
        now = [0.0]

        def reading(after: Mark | None = None) -> Iterator[Content]:
            for at, content in enumerate(work.contents(0, after)):
                if at == 5:
                    assert push.socket is not None
                    assert push.socket.poll(PATIENCE_SECONDS * 1000)
                    now[0] += 600.0
                yield content

        log = SliceLog(work.request.target.logs[0])
        push = slice_push.SlicePush(
            context, "it", log, work.hello(1), reading, None, 100.0, clock=lambda: now[0]
        )
        while push.phase != "over":
            push.receive()
            push.tend()
            if push.next_epoch is not None:
                push.send_next()
            elif push.socket is not None:
                push.socket.poll(100)
                now[0] += 0.01
            else:
                now[0] += 1.0
        serve(range(1), 2, work, True, None)
        assert_same(source.gathered(), direct(tmp_path))
    assert greeted == [1, 2]
