"""What a person sees while a job runs: a live view on a terminal, plain lines elsewhere.

Everything goes to standard error; standard output belongs to results.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streammine.cli.figures import JobFigures, figures
from streammine.cli.tables import text_table
from streammine.model.readable_rows import readable_rows
from streammine.model.spark_job import SparkProgress
from streammine.model.topology import Topology
from streammine.runtime.submission import Submission

SHOWN_TABLE_ROWS = 20
PLAIN_SECONDS = 2.0


class Display(Protocol):
    """A watcher of a run that is a context manager."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def close(self) -> None: ...

    def note(self, text: str) -> None: ...

    def phase(self, text: str) -> None: ...

    def preparing(self, source: str, progress: SparkProgress) -> None: ...

    def status(self, submission: Submission, status: dict[str, Any]) -> None: ...

    def table(self, sink: str, epoch: int, table: Any) -> None: ...


def display_for(topology: Topology, quiet: bool) -> Display:
    """The live view on a terminal, plain lines otherwise; with `quiet` only console sinks speak."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return PlainDisplay(topology.name, quiet)
    return LiveDisplay(topology.name, console)


def _table_text(sink: str, epoch: int, table: Any) -> str:
    """The first rows of a console sink's epoch."""
    rows = readable_rows(table.slice(0, SHOWN_TABLE_ROWS))
    more = table.num_rows - len(rows)
    text = f"{sink}, epoch {epoch}: {table.num_rows:,} rows\n{text_table(rows, table.column_names)}"
    return f"{text}\n  … {more:,} more" if more > 0 else text


class PlainDisplay:
    """One line per phase, and one every few seconds while the job runs."""

    def __init__(self, name: str, quiet: bool) -> None:
        self._name = name
        self._quiet = quiet
        self._next_line = 0.0
        self._before: JobFigures | None = None
        self._last_step = ""

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held open."""

    def note(self, text: str) -> None:
        if not self._quiet:
            print(f"{self._name}: {text}", file=sys.stderr, flush=True)

    def phase(self, text: str) -> None:
        self.note(text)

    def preparing(self, source: str, progress: SparkProgress) -> None:
        step = f"preparing {source}: {progress.step}"
        if step != self._last_step:
            self._last_step = step
            self.note(step)

    def status(self, submission: Submission, status: dict[str, Any]) -> None:
        now = time.monotonic()
        if now < self._next_line:
            return
        self._next_line = now + PLAIN_SECONDS
        current = figures(submission.spec, status, self._before)
        self._before = current
        self.note(current.line())

    def table(self, sink: str, epoch: int, table: Any) -> None:
        print(_table_text(sink, epoch, table), flush=True)


class LiveDisplay:
    """A table that is drawn anew: operators, nodes and progress."""

    def __init__(self, name: str, console: Console) -> None:
        self._name = name
        self._phase = ""
        self._before: JobFigures | None = None
        # standard output may lead elsewhere, so it is not to be diverted into the view
        self._live = Live(
            Text(""),
            console=console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        self._live.console.print(f"{self._name}: {text}", highlight=False)

    def phase(self, text: str) -> None:
        self._phase = text
        self._live.update(Text(f"{self._name}: {text} …"))

    def preparing(self, source: str, progress: SparkProgress) -> None:
        bar = ProgressBar(total=max(1, progress.total), completed=progress.done, width=40)
        text = Text(f"{self._name}: preparing {source} with Spark: {progress.step}")
        self._live.update(Group(text, _line(bar)))

    def status(self, submission: Submission, status: dict[str, Any]) -> None:
        current = figures(submission.spec, status, self._before)
        self._before = current
        self._live.update(_drawn(self._name, current))

    def table(self, sink: str, epoch: int, table: Any) -> None:
        text = _table_text(sink, epoch, table)
        if sys.stdout.isatty():
            # above the view, on the same screen
            self._live.console.print(Text(text), soft_wrap=True)
        else:
            print(text, flush=True)


def _drawn(name: str, current: JobFigures) -> RenderableType:
    parts: list[RenderableType] = [
        Text(f"{name}: {current.line()}", no_wrap=True, overflow="ellipsis")
    ]
    if current.progress is not None:
        parts.append(_line(ProgressBar(total=1.0, completed=current.progress, width=60)))
    operators = Table()
    for column in ("operator", "epoch", "events in", "since", "events/s", "buffered", "slices"):
        operators.add_column(
            column, justify="left" if column in ("operator", "slices") else "right"
        )
    for each in current.shown:
        operators.add_row(
            each.name,
            each.epoch,
            f"{each.rows_in:,}",
            each.counted_from,
            f"{each.rows_per_second:,.0f}",
            f"{each.buffered_bytes / 1e6:,.1f} MB",
            each.places,
        )
    nodes = Table()
    for column in ("node", "CPU", "memory", "tasks"):
        nodes.add_column(column, justify="left" if column == "node" else "right")
    for node in current.nodes:
        nodes.add_row(
            node.name,
            f"{node.cpu_share:.0%}",
            f"{node.memory_bytes / 1e6:,.0f} MB",
            f"{node.queued_tasks:.0f}",
        )
    return Group(*parts, operators, nodes)


def _line(bar: ProgressBar) -> RenderableType:
    """A bar by itself does not end its line."""
    grid = Table.grid()
    grid.add_row(bar)
    return grid
