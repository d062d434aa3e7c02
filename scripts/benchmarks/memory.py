"""Whether a node's memory grows with the input: the word count on an input and on one ten times as long.

The long one is the short one's file read ten times over. Both must take several checkpoints, because what
a node keeps grows until the first ones let it forget.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import click

from benchmarks import options
from benchmarks.cluster import BenchmarkCluster
from benchmarks.report import print_json, print_table
from benchmarks.workloads import WORKLOADS, Settings

EVENTS = 10_000_000
FACTOR = 10
TOLERANCE = 1.1
"""Allocators do not give the same peak twice."""


@click.command(help="Peak memory of the nodes on the word count, and on ten times the input.")
@options.nodes
@options.slices
@options.events
@options.folder
@options.as_json
@options.discipline
def memory(
    nodes: int,
    slices: int,
    events: int | None,
    folder: Path,
    as_json: bool,
    discipline: str | None,
) -> None:
    workload = WORKLOADS["wordcount"]
    small = events or EVENTS
    files = workload.files(folder, small)
    peaks = {}
    for times in (1, FACTOR):
        size = times * small
        # a new cluster each time: a process's peak is that of its life
        with (
            tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
            BenchmarkCluster(nodes) as cluster,
        ):
            repeated = {
                name: repeat(path, times, Path(scratch) / name) for name, path in files.items()
            }
            settings = Settings(Path(scratch) / "output", slices, discipline)
            cluster.run(workload.topology(repeated, settings), folder)
            peaks[size] = {
                name: peak_bytes(process.pid) for name, process in cluster.local.processes.items()
            }
    ratio = max(peaks[FACTOR * small].values()) / max(peaks[small].values())
    if as_json:
        print_json(
            {
                "name": "memory",
                "nodes": nodes,
                "events": small,
                "factor": FACTOR,
                "peak_bytes": peaks[small],
                "peak_bytes_of_long_input": peaks[FACTOR * small],
                "ratio": round(ratio, 3),
                "grows": ratio > TOLERANCE,
            }
        )
        return
    print_table(
        ("node", f"{small:,} lines", f"{FACTOR * small:,} lines"),
        [
            (name, *(f"{peaks[size][name] / 2**20:.0f} MiB" for size in peaks))
            for name in peaks[small]
        ],
    )
    verdict = "grows" if ratio > TOLERANCE else "does not grow"
    print(
        f"greatest peak, long input over short: {ratio:.2f}; {verdict} (up to {TOLERANCE} is noise)"
    )


def repeat(path: Path, times: int, folder: Path) -> Path:
    """A pattern of files in a new folder that are all the same one."""
    folder.mkdir()
    for number in range(times):
        (folder / f"{number:03d}{path.suffix}").symlink_to(path.resolve())
    return folder / f"*{path.suffix}"


def peak_bytes(pid: int) -> int:
    """The most memory that a living process has had in use, as Linux counted it."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None, "Linux tells the peak of a living process"
    return int(found[1]) * 1024
