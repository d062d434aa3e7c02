"""Topologies from a script or notebook: read one, run it, read what it committed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from streammine.model.document import parse_topology
from streammine.model.errors import JobFailedError, OutputError, TopologyError
from streammine.model.locations import below
from streammine.model.topology import Topology
from streammine.runtime import output
from streammine.runtime.jobs import JobRun
from streammine.runtime.results import Summary, summarize
from streammine.runtime.stores import open_store


@dataclass(frozen=True)
class Result:
    """A finished run: its figures, and where each sink's committed output lies.

    `summary` has what ``streammine run --json`` prints; `locations` the absolute folder or URL of
    each sink that has a path.
    """

    summary: Summary
    locations: dict[str, str]

    @property
    def digest(self) -> str:
        """sha256 (hex) over the output: equal digests mean equal rows in equal epochs."""
        return self.summary.output_digest

    def epochs(self, sink: str) -> Iterator[tuple[int, pa.Table]]:
        """(epoch, its rows) of a sink's committed output, epochs ascending.

        Rows of an epoch are in no particular order unless the sink is `ordered`. Raises
        LookupError for a sink without a path.
        """
        return read_output(self._location(sink))

    def table(self, sink: str) -> pa.Table:
        """All rows of a sink's committed output, in memory. Raises as `epochs`."""
        committed = output.CommittedOutput(open_store(self._location(sink)))
        assert committed.description is not None, "a finished run has sealed its output"
        empty = committed.description.schema.empty_table()
        return pa.concat_tables([empty, *(table for _, table in committed.epochs())])

    def _location(self, sink: str) -> str:
        if sink not in self.locations:
            raise LookupError(
                f"there is no output of a sink {sink!r}; sinks with a path: "
                f"{', '.join(sorted(self.locations)) or 'none'}"
            )
        return self.locations[sink]


def read_topology(path: str | Path, settings: Mapping[str, str] | None = None) -> Topology:
    """The topology of a YAML file.

    `settings` are as the command line's ``--set``: values of placeholders (``${name}``) and of
    fields by their dotted paths. Raises TopologyError, with file, line and column, when it can't
    run.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: not UTF-8 text at byte {error.start}") from None
    overrides = tuple(f"{name}={value}" for name, value in (settings or {}).items())
    return parse_topology(text, str(path), overrides)


def run(
    topology: Topology,
    *,
    base: str | Path = ".",
    nodes: int | None = None,
    zookeeper: str | None = None,
    spark_master: str | None = None,
    overwrite: bool = False,
    resume: str | None = None,
) -> Result:
    """Run a topology on a cluster that is started for it, and wait for its end.

    `base` is the folder that relative paths and user modules are found from; `nodes` overrides the
    topology's. `zookeeper` names an ensemble (``host:port,…``) to use instead of an own one,
    `spark_master` where raw sources are prepared. `overwrite` replaces output of another job in the
    sinks' folders. `resume` is the name, folder or URL of an earlier run of the same topology that was
    interrupted: it goes on from its newest checkpoint. Raises TopologyError, InputError,
    OutputError, UserCodeError or ClusterError before the job runs, and JobFailedError or
    ClusterError while it does; in any case no process and no temporary file is left behind. What
    it takes to resume the run is kept unless the job finished.
    """
    begin = time.monotonic()
    with JobRun(
        topology,
        Path(base).absolute(),
        nodes=nodes,
        zookeeper=zookeeper,
        master=spark_master,
        overwrite=overwrite,
        resume=resume,
    ) as job:
        submission = job.prepare()
        outcome = job.run()
        if outcome.status != "finished":
            kept = "" if job.kept is None else f"\nresume={job.kept.name!r} goes on with this run"
            raise JobFailedError(f"{outcome.reason or f'the job was {outcome.status}'}{kept}")
        summary = summarize(submission, outcome, time.monotonic() - begin)
    locations = {
        name: submission.spec.targets[name].location
        for name, sink in topology.sinks.items()
        if sink.path is not None
    }
    return Result(summary, locations)


def read_output(folder: str | Path) -> Iterator[tuple[int, pa.Table]]:
    """(epoch, its rows) of what is committed in a sink's folder or URL, epochs ascending.

    One group of epochs is in memory at a time. Raises OutputError when there is no output, or a
    file of it is missing or damaged.
    """
    return _committed(folder).epochs()


def output_files(folder: str | Path) -> list[str]:
    """The files that are committed in a sink's folder, as full paths in the order of epochs.

    For tools that read files themselves. A folder can hold other files too: of a crashed run, or
    of epochs that are not committed yet. Raises OutputError when there is no output.
    """
    names = [file.name for manifest in _committed(folder).manifests for file in manifest.files]
    root = str(folder) if "://" in str(folder) else os.path.abspath(folder)
    return [below(root, name) for name in names]


def _committed(folder: str | Path) -> output.CommittedOutput:
    committed = output.CommittedOutput(open_store(str(folder)))
    if committed.description is None:
        raise OutputError(f"{folder}: there is no committed output here; run the job first")
    return committed
