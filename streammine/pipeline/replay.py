"""`replay`: a log into the slices of a running source, on Spark.

Run as ``python -m streammine.pipeline.replay REQUEST.json``. Standard output gets JSON lines as that of
`prepare` does; a line of progress comes every second, so that whoever reads them can look after the job.

No more tasks run than Spark has slots for, each serving its share of the source's slices, always the
one that is furthest behind and may be sent something. (With a task per slice, tasks that wait for
credit could fill all slots, while the slice that the others wait for has no task.) A task that dies
is run again, and goes on from what its slices say they have. When all slices have everything, a second
step ends the source, so that a replay that fails leaves it open.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import zmq

from streammine.model.epoch_log import MANIFEST_NAME
from streammine.model.epochs import BEGINNING
from streammine.model.errors import InputError
from streammine.model.replay import (
    LETTERS_PARTITION,
    PROTOCOL_VERSION,
    Hello,
    Mark,
    epoch_text,
    going_on,
    unfit,
)
from streammine.model.replay_job import ReplayReport, ReplayRequest
from streammine.model.spark_job import SparkProgress
from streammine.pipeline.command import print_line, run_command
from streammine.pipeline.epoch_log_parcels import EpochLog
from streammine.pipeline.ingest_log_parcels import IngestLog, SliceLog
from streammine.pipeline.parcels import Content, ReplayableLog, slice_contents
from streammine.pipeline.session import ProgressListener, run_tasks, start_session, stop_session
from streammine.pipeline.slice_push import Contents, SlicePush
from streammine.pipeline.source_slices import CurveKeys, find_slice, state_of
from streammine.pipeline.storage import Folder
from streammine.pipeline.task_results import task_result, unpacked

TEND_MILLISECONDS = 100
TELL_SECONDS = 1.0


class Pace:
    """When an epoch is due: `speed` times faster than event time, counted from the first one."""

    def __init__(self, first_epoch: int, length_microseconds: int, speed: float, start: float):
        self._first_epoch = first_epoch
        self._seconds_each = length_microseconds / 1e6 / speed
        self._start = start

    def is_due(self, epoch: int, now: float) -> bool:
        return now - self._start >= (epoch - self._first_epoch) * self._seconds_each


class Replay:
    """What all tasks know: the log, the request, and the epochs. Travels to them."""

    def __init__(self, request: ReplayRequest, log: ReplayableLog, epochs: range) -> None:
        self.request = request
        self.log = log
        self.epochs = epochs
        self.slices = len(request.target.logs)
        self.pace: Pace | None = None

    def partitions(self, index: int) -> list[int]:
        """Of the log, for the slice of that number."""
        mine = list(range(index, self.log.partitions, self.slices))
        return [LETTERS_PARTITION, *mine] if index == 0 else mine

    def contents(self, index: int, after: Mark | None = None) -> Iterator[Content]:
        """The stream of a slice behind a mark."""
        return slice_contents(self.log, self.partitions(index), self.epochs, after)

    def hello(self, attempt: int) -> Hello:
        """What a slice is told first. Which rows it gets depends on the number of slices, too."""
        return Hello(
            PROTOCOL_VERSION,
            self.request.replay,
            attempt,
            f"{self.log.identity}/{self.slices}",
            self.log.columns.serialize().to_pybytes(),
            epoch_text(self.log.epoch),
            self.epochs.start if self.epochs else BEGINNING,
        )

    def slice_name(self, index: int) -> str:
        return f"slice {index} of source '{self.request.target.source}'"


def open_log(request: ReplayRequest) -> ReplayableLog:
    """The epoch log or ingest log that is to be replayed. Raises InputError."""
    try:
        names = Folder(request.log).names()
    except OSError as error:
        raise InputError(f"{request.log}: can't be read: {error}") from None
    if not names:
        raise InputError(f"{request.log}: there is no log, or an empty folder")
    if MANIFEST_NAME in names:
        return EpochLog(request.log)
    return IngestLog(request.log, request.target.source)


def replay_of(request: ReplayRequest) -> Replay:
    """What is to be done. Raises InputError where it can't be."""
    target = request.target
    log = open_log(request)
    reason = unfit(
        target.source, target.schema, target.epoch.definition, log.columns, epoch_text(log.epoch)
    )
    if reason is not None:
        raise InputError(f"{request.log} can't be replayed: {reason}")
    if request.speed is not None and log.epoch.kind == "count":
        raise InputError(
            "--speed is about event time, and the log's epochs count rows; leave it out"
        )
    replay = Replay(request, log, _epochs(request, log))
    _look_at_slices(replay)
    return replay


def _epochs(request: ReplayRequest, log: ReplayableLog) -> range:
    """The epochs to replay. Where the source stays open, only those that nothing can be added to."""
    if log.first_epoch is None or log.last_epoch is None:
        return range(0)
    last = log.whole_epoch if request.keep_open else log.last_epoch
    if last is None or last < log.first_epoch:
        raise InputError(
            f"{request.log}: no epoch of it is over yet; leave out --keep-open to replay all that is "
            "there and end the source"
        )
    lowest = log.first_epoch
    if request.from_epoch is not None:
        lowest = max(lowest, request.from_epoch)
    highest = last if request.to_epoch is None else min(last, request.to_epoch)
    if lowest > highest:
        raise InputError(
            f"{request.log} has epochs {log.first_epoch} to {last}; none of them are asked for"
        )
    return range(lowest, highest + 1)


def _look_at_slices(replay: Replay) -> None:
    """Raise InputError at once for what the slices would refuse."""
    if not replay.epochs:
        return
    hello = replay.hello(0)
    for index, location in enumerate(replay.request.target.logs):
        log = SliceLog(location)
        find_slice(log)
        state = state_of(log)
        if not state.ended:
            try:
                going_on(state.replayed, state.open_epoch, hello.log, hello.from_epoch)
            except InputError as error:
                raise InputError(f"{replay.slice_name(index)}: {error}") from None


def replay(
    request: ReplayRequest,
    listener: ProgressListener,
    tampered: Callable[[Contents], Contents] | None = None,
) -> ReplayReport:
    """Do what the request asks for and tell about it. `tampered`: for tests, makes tasks fail.

    Raises InputError (the log, or what the source has of it), OutputError and ClusterError (Spark
    can't be started, or the source is out of reach).
    """
    started = time.perf_counter()
    work = replay_of(request)
    with tempfile.TemporaryDirectory(prefix="streammine-replay-") as scratch:
        listener(SparkProgress(step="start Spark", done=0, total=1))
        session = start_session(request.master, Path(scratch), "streammine replay")
        try:
            tasks = min(work.slices, session.sparkContext.defaultParallelism)
            if request.speed is not None and work.epochs:
                length = work.log.epoch.length
                work.pace = Pace(work.epochs.start, length, request.speed, time.time())
            with _telling(listener, tasks):
                push = partial(_task, replay=work, tasks=tasks, finish=False, tampered=tampered)
                answers = run_tasks(session, "replay", tasks, push, listener)
                sent = unpacked(answers, request.log)
                if not request.keep_open:
                    end = partial(_task, replay=work, tasks=tasks, finish=True, tampered=None)
                    unpacked(run_tasks(session, "end", tasks, end, listener), request.log)
        finally:
            stop_session(session)
    return ReplayReport(
        log=request.log,
        first_epoch=work.epochs[0] if work.epochs else None,
        last_epoch=work.epochs[-1] if work.epochs else None,
        rows_sent=sum(answer["rows"] for answer in sent),
        rows_dead=sum(answer["dead"] for answer in sent),
        tasks=tasks,
        slices=work.slices,
        ended=not request.keep_open,
        seconds=round(time.perf_counter() - started, 3),
    )


def _task(
    task: int,
    attempt: int,
    *,
    replay: Replay,
    tasks: int,
    finish: bool,
    tampered: Callable[[Contents], Contents] | None,
) -> bytes:
    """One task: every `tasks`-th slice of the source."""
    slices = range(task, replay.slices, tasks)
    return task_result(partial(serve, slices, attempt, replay, finish, tampered))


def serve(
    slices: Sequence[int],
    attempt: int,
    replay: Replay,
    finish: bool,
    tampered: Callable[[Contents], Contents] | None,
) -> dict[str, Any]:
    """Push the streams of some slices, always the lowest epoch that may be sent.

    Returns the numbers of rows and of dead rows that were sent. Raises as `SlicePush`.
    """
    request = replay.request
    keys = None if request.target.keys is None else CurveKeys.load(request.target.keys)
    with ExitStack() as stack:
        context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
        pushes = []
        for index in slices:
            contents: Contents = partial(replay.contents, index)
            push = SlicePush(
                context,
                replay.slice_name(index),
                SliceLog(request.target.logs[index]),
                replay.hello(attempt),
                contents if tampered is None else tampered(contents),
                keys,
                request.patience_seconds,
                finish,
            )
            pushes.append(stack.enter_context(closing(push)))
        while any(push.phase != "over" for push in pushes):
            _round(pushes, replay.pace)
    return {
        "rows": sum(push.sent.rows for push in pushes),
        "dead": sum(push.sent.dead for push in pushes),
    }


def _round(pushes: list[SlicePush], pace: Pace | None) -> None:
    """Send what may be sent now, then wait a moment for answers."""
    for push in pushes:
        push.receive()
        push.tend()
    now = time.time()
    ready = [
        (epoch, number)
        for number, push in enumerate(pushes)
        if (epoch := push.next_epoch) is not None and (pace is None or pace.is_due(epoch, now))
    ]
    if ready:
        pushes[min(ready)[1]].send_next()
    poller = zmq.Poller()
    for push in pushes:
        if push.socket is not None:
            poller.register(push.socket, zmq.POLLIN)
    poller.poll(0 if ready else TEND_MILLISECONDS)


@contextmanager
def _telling(listener: ProgressListener, tasks: int) -> Iterator[None]:
    """Tell the listener every second that the replay goes on."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(TELL_SECONDS):
            listener(SparkProgress(step="replay", done=0, total=tasks))

    thread = threading.Thread(target=tell, name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main(arguments: Sequence[str], write_line: Callable[[str], None]) -> int:
    """The command; returns its exit code."""
    module = "streammine.pipeline.replay"
    return run_command(arguments, module, ReplayRequest, replay, write_line)


if __name__ == "__main__":
    # Spark writes to standard output at times; what the launcher reads must stay apart from that.
    sys.exit(main(sys.argv[1:], print_line))
