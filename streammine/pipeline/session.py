"""A quiet Spark session for a job of its own, and running a function as Spark tasks.

Spark gives the job what it is good at: it runs tasks wherever the master has room, repeats those
that die, and hands over the results of exactly one attempt of each. Rows stay in Arrow and go from
storage to storage; they never cross into the JVM.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streammine.model.errors import ClusterError
from streammine.model.spark_job import SparkProgress

ATTEMPTS = 4
"""A task that dies is run again until it has had so many attempts (Spark's own default on
clusters)."""

GONE = "it was killed, or memory ran out: free some memory, or take fewer cores (local[2])"

_PROGRESS_SECONDS = 0.5
_LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n%ex
"""

_LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""The driver's Java hands out tasks, which are Python: to optimize it takes more time than it saves.

No garbage collector is chosen: Java does not start with two, and a user's settings may name one."""

ProgressListener = Callable[[SparkProgress], None]


def start_session(master: str, scratch: Path, name: str) -> SparkSession:
    """A session whose files all lie in `scratch`; Spark shows it as `name`.

    Raises ClusterError when Spark can't start there.
    """
    # Local masters run their tasks in this process's Java; all others elsewhere.
    local = master == "local" or master.startswith("local[")
    package = Path(__file__).parents[1]
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOGGING)
    # Python workers are started by the JVM and inherit this environment.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(package.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    os.environ["PYTHONPATH"] = ":".join(dict.fromkeys(paths))
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LIGHT_JAVA)
    java_options = (
        f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile=file:{logging} {_LIGHT_JAVA}"
    )
    builder = SparkSession.builder.appName(name).master(_with_attempts(master))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": java_options,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.task.maxFailures": str(ATTEMPTS),
    }
    if local:
        settings |= {
            "spark.local.dir": str(scratch / "blocks"),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
        }
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        if not local:
            # Executors need this package; its dependencies must be installed there.
            archive = shutil.make_archive(
                str(scratch / package.name), "zip", package.parent, package.name
            )
            session.sparkContext.addPyFile(archive)
    except (Py4JNetworkError, ConnectionError) as error:
        raise ClusterError(f"Spark's Java process ended while it started; {GONE}") from error
    except (PySparkException, Py4JError, OSError) as error:
        raise ClusterError(
            f"Spark can't be started on master {master}: {_reason(str(error))}"
        ) from error
    return session


def stop_session(session: SparkSession) -> None:
    """End the session; one whose Java process is gone has ended already."""
    with suppress(Py4JError, ConnectionError):
        session.stop()


def _with_attempts(master: str) -> str:
    """A local master that repeats dead tasks, which Spark's plain ones do not."""
    found = re.fullmatch(r"local(?:\[([0-9]+|\*)\])?", master)
    return f"local[{found[1] or 1},{ATTEMPTS}]" if found else master


def run_tasks(
    session: SparkSession,
    step: str,
    count: int,
    work: Callable[[int, int], bytes],
    listener: ProgressListener,
) -> list[bytes]:
    """Results of ``work(task, attempt)`` for the tasks 0 … count-1, in that order.

    `attempt` is a number that no other attempt of any task of the session has.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        # The master decides how many tasks run side by side; Arrow is not to multiply that.
        pa.set_cpu_count(1)
        for batch in batches:
            for task in batch.column(0).to_pylist():
                result = work(task, context.taskAttemptId())
                yield pa.record_batch({"task": [task], "result": [result]})

    if not count:
        return []
    frame = session.range(0, count, 1, count).mapInArrow(run, "task long, result binary")
    try:
        with _Progress(session.sparkContext, step, count, listener):
            rows = frame.collect()
    except (Py4JNetworkError, ConnectionError) as error:
        raise ClusterError(f"Spark's Java process ended in step '{step}'; {GONE}") from error
    except (PySparkException, Py4JError) as error:
        reason = _reason(str(error))
        if "PYTHON_VERSION_MISMATCH" in reason:
            reason += f"; set PYSPARK_PYTHON to a Python like {sys.executable} on every worker"
        if "ModuleNotFoundError" in reason:
            reason += "; the tasks' Python (PYSPARK_PYTHON) needs what streammine depends on"
        raise ClusterError(f"step '{step}' failed {ATTEMPTS} times on Spark: {reason}") from error
    results = {row["task"]: bytes(row["result"]) for row in rows}
    assert sorted(results) == list(range(count)), "each task answers once"
    return [results[task] for task in range(count)]


def _reason(text: str) -> str:
    """The line of Spark's long-winded error that names the exception behind it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    return (named or lines or ["no reason given"])[-1 if named else 0]


class _Progress:
    """Tells the listener how many tasks are done, while the driver waits for them."""

    def __init__(
        self, context: SparkContext, step: str, total: int, listener: ProgressListener
    ) -> None:
        self._tracker = context.statusTracker()
        self._step = step
        self._total = total
        self._listener = listener
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> None:
        self._tell(0)
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if kind is None:
            self._tell(self._total)

    def _tell(self, done: int) -> None:
        self._listener(SparkProgress(step=self._step, done=done, total=self._total))

    def _watch(self) -> None:
        told = 0
        while not self._over.wait(_PROGRESS_SECONDS):
            try:
                active = self._tracker.getActiveStageIds()
                stages = [self._tracker.getStageInfo(at) for at in active]
            except (Py4JError, ConnectionError):
                # Java is gone, which whoever waits for the result learns, too.
                return
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            if told < done < self._total:
                told = done
                self._tell(done)
