"""The workloads: their input, and what the engine is to do with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks import inputs
from streammine import Topology

LINES_PER_EPOCH = 100_000
PATTERN_SECONDS = 17
"""How long a match of the pattern may take: 1 % as many matches as events."""

SINK = "result"

InputKind = Literal["parquet", "log"]


@dataclass(frozen=True)
class Settings:
    """How the engine is to run a workload. None leaves the choice to the engine.

    `output` is the sink's folder. `commit_every` is in epochs. `rows`: row-at-a-time Python operators
    of the user's own do the work.
    """

    output: Path
    slices: int = 2
    discipline: str | None = None
    source: InputKind = "parquet"
    commit_every: int = 1
    rows: bool = False


@dataclass(frozen=True)
class Workload:
    """`files` makes the input of a number of events; `topology` computes the result from it.

    `events` is the default size, per stream; `streams` the number of streams. `keys` are the columns
    that identify a row of the result (none: the rows are a bag), `floats` its inexact columns.
    `units_per_event` is the number of `unit` in an event, for figures that count these.
    """

    name: str
    events: int
    files: Callable[[Path, int], dict[str, Path]]
    topology: Callable[[dict[str, Path], Settings], Topology]
    keys: tuple[str, ...]
    floats: tuple[str, ...] = ()
    streams: int = 1
    unit: str = "events"
    units_per_event: int = 1


def _source(path: Path, settings: Settings) -> dict[str, Any]:
    prepare: dict[str, Any] = {"prepare": "none"} if settings.source == "parquet" else {}
    return {"files": str(path), "slices": settings.slices, **prepare}


def _keyed(settings: Settings) -> dict[str, Any]:
    chosen = {} if settings.discipline is None else {"discipline": settings.discipline}
    return {"slices": settings.slices, **chosen}


def _sink(topology: Topology, settings: Settings, of: str) -> Topology:
    return topology.sink(
        SINK,
        input=of,
        format="parquet",
        path=str(settings.output),
        commit={"every": settings.commit_every},
        exactly_once=settings.discipline != "none",
    )


def _wordcount_files(folder: Path, events: int) -> dict[str, Path]:
    return {"lines": inputs.lines_file(folder, events)}


def _wordcount(files: dict[str, Path], settings: Settings) -> Topology:
    topology = Topology(name="wordcount", epoch={"count": LINES_PER_EPOCH})
    topology = topology.source("lines", **_source(files["lines"], settings))
    if settings.rows:
        topology = topology.operator(
            "words", input="lines", operator="benchmarks.row_operators:Words"
        ).operator(
            "counts",
            input="words",
            key="word",
            operator="benchmarks.row_operators:Count",
            **_keyed(settings),
        )
    else:
        topology = topology.operator(
            "words", input="lines", flat_map={"split": "line", "into": "word"}
        ).operator(
            "counts",
            input="words",
            key="word",
            aggregate={"count": "count()"},
            **_keyed(settings),
        )
    return _sink(topology, settings, "counts")


PLUG = ("house_id", "household_id", "plug_id")


def _readings_files(folder: Path, events: int) -> dict[str, Path]:
    return {"readings": inputs.readings_file(folder, events)}


def _readings(files: dict[str, Path], settings: Settings) -> Topology:
    topology = Topology(name="readings", epoch={"time": "60s", "column": "ts"})
    topology = topology.source("readings", **_source(files["readings"], settings))
    if settings.rows:
        topology = topology.operator(
            "plugs",
            input="readings",
            key=PLUG,
            operator="benchmarks.row_operators:PlugLoad",
            **_keyed(settings),
        )
    else:
        topology = topology.operator(
            "plugs",
            input="readings",
            key=PLUG,
            aggregate={
                "count": "count()",
                "mean": "mean(value)",
                "min": "min(value)",
                "max": "max(value)",
            },
            **_keyed(settings),
        )
    return _sink(topology, settings, "plugs")


def _join_files(folder: Path, events: int) -> dict[str, Path]:
    return {
        "orders": inputs.orders_file(folder, events),
        "payments": inputs.payments_file(folder, events),
    }


def _join(files: dict[str, Path], settings: Settings) -> Topology:
    topology = Topology(name="join", epoch={"time": "60s", "column": "ts"})
    for name, path in files.items():
        topology = topology.source(name, **_source(path, settings))
    topology = topology.operator(
        "matches",
        join={"left": "orders", "right": "payments", "on": "id"},
        **_keyed(settings),
    )
    return _sink(topology, settings, "matches")


def _pattern_files(folder: Path, events: int) -> dict[str, Path]:
    return {"steps": inputs.steps_file(folder, events)}


def _pattern(files: dict[str, Path], settings: Settings) -> Topology:
    topology = Topology(name="pattern", epoch={"time": "60s", "column": "ts"})
    topology = topology.source("steps", **_source(files["steps"], settings)).operator(
        "rises",
        input="steps",
        key="machine",
        pattern={
            "sequence": [
                {"low": "kind = 1"},
                {"high": "kind = 2 and value > low.value"},
                {"stop": "kind = 3"},
            ],
            "within": f"{PATTERN_SECONDS}s",
            "output": {
                "begin_ts": "low.ts",
                "end_ts": "stop.ts",
                "rise": "high.value - low.value",
            },
        },
        **_keyed(settings),
    )
    return _sink(topology, settings, "rises")


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            name="wordcount",
            events=2_000_000,
            files=_wordcount_files,
            topology=_wordcount,
            keys=("epoch", "word"),
            unit="words",
            units_per_event=inputs.WORDS_PER_LINE,
        ),
        Workload(
            name="readings",
            events=20_000_000,
            files=_readings_files,
            topology=_readings,
            keys=("epoch", *PLUG),
            floats=("mean",),
        ),
        Workload(
            name="join",
            events=5_000_000,
            files=_join_files,
            topology=_join,
            keys=(),
            streams=2,
        ),
        Workload(
            name="pattern",
            events=10_000_000,
            files=_pattern_files,
            topology=_pattern,
            keys=(),
        ),
    )
}
