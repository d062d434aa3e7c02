"""The job that benchmarks of fault tolerance run: smart plugs whose figures are kept over the whole run.

In columns it is an aggregate over one window that is as long as the input; as Python objects it is a
user's `Operator`. Either holds a few hundred bytes per plug and gives its results at the very end. With a
pulse a row is committed for every epoch, as soon as all slices that hold state are through with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.state_operators import SHOWN_HOUSES
from benchmarks.workloads import PLUG
from streammine import Topology
from streammine.model.schemes import Scheme

Form = Literal["columns", "objects"]
Mode = Literal["none", "asynchronous", "synchronous"]

HELD = "held"
PULSE = "pulse"
RECEIVERS = ("east", "west")


@dataclass(frozen=True)
class ReadingsFile:
    """A Parquet file of readings, in an epoch of one second of event time each. `speed`: so many of these
    come in a second of the clock; None: as fast as it goes."""

    path: Path
    epochs: int
    speed: int | None = None


@dataclass(frozen=True)
class HeldState:
    """`events` readings of `plugs` plugs, which tell one after the other, `epoch_events` in an epoch.

    `rate` in events/s; None: as fast as it goes. `file`: the readings come from there, and at its pace.
    `interval_seconds` is between checkpoints. Every slice has `replicas`, under `scheme`; None: one, or what
    follows from the other. `recovery`: as a topology has it; schemes are chosen then, or set while it runs.
    `receivers`: the readings come from one of two sources, which got other ones.
    """

    plugs: int
    events: int
    epoch_events: int
    form: Form = "columns"
    mode: Mode = "asynchronous"
    interval_seconds: float = 1.0
    rate: int | None = None
    slices: int = 2
    replicas: int | None = None
    scheme: Scheme | None = None
    file: ReadingsFile | None = None
    recovery: dict[str, Any] | None = None
    receivers: bool = False

    @property
    def epoch_seconds(self) -> float:
        """How long an epoch's events take to come, of a paced source."""
        assert self.rate is not None
        return self.epoch_events / self.rate

    def topology(self, output: Path) -> Topology:
        """Sinks lie in `output`: "result", and "pulse" where the source is paced."""
        topology = self._sources(
            Topology(
                name="held-state",
                epoch={"time": "1s", "column": "ts"},
                snapshot=self._snapshot(),
                replicas=self.replicas,
                scheme=self.scheme,
                recovery=self.recovery,
            )
        )
        if self.form == "columns":
            topology = topology.operator(
                HELD,
                input="readings",
                key=PLUG,
                window=f"{self._epochs}s",
                aggregate={
                    "count": "count()",
                    "mean": "mean(value)",
                    "max": "max(value)",
                },
                # every plug tells once in a round, so there is nothing to combine
                combine=False,
                slices=self.slices,
            )
        else:
            topology = topology.operator(
                HELD,
                input="readings",
                key=PLUG,
                operator="benchmarks.state_operators:PlugTotals",
                slices=self.slices,
            )
        topology = topology.operator("shown", input=HELD, filter=f"house_id < {SHOWN_HOUSES}").sink(
            "result", input="shown", format="parquet", path=str(output / "result")
        )
        return self._with_pulse(topology, output) if self._paced else topology

    def _sources(self, topology: Topology) -> Topology:
        if not self.receivers:
            return topology.source("readings", slices=self.slices, **self._input(seed=1))
        for seed, name in enumerate(RECEIVERS):
            topology = topology.source(
                name, slices=self.slices, replicas=1, **self._input(seed=seed)
            )
        return topology.operator("readings", either=list(RECEIVERS))

    @property
    def _epochs(self) -> int:
        return self.file.epochs if self.file else -(-self.events // self.epoch_events)

    @property
    def _paced(self) -> bool:
        return (self.rate if self.file is None else self.file.speed) is not None

    def _input(self, seed: int) -> dict[str, Any]:
        if self.file is not None:
            pace = {} if self.file.speed is None else {"speed": self.file.speed}
            return {"files": str(self.file.path), "prepare": "none", **pace}
        return {
            "generator": "readings",
            "rows": self.events,
            "seed": seed,
            "with_": {
                "plugs": self.plugs,
                "properties": 1,
                "per_second": self.epoch_events,
                "start": 0,
            },
            **({} if self.rate is None else {"rate": f"{self.rate}/s"}),
        }

    def _with_pulse(self, topology: Topology, output: Path) -> Topology:
        return (
            topology.operator(
                "beats",
                input="readings",
                key="property",
                aggregate={"count": "count()"},
                slices=1,
            )
            .operator(
                "beat",
                inputs=("beats", "shown"),
                operator="benchmarks.state_operators:Pulse",
                slices=1,
            )
            .sink(PULSE, input="beat", format="json", path=str(output / PULSE))
        )

    def _snapshot(self) -> dict[str, Any]:
        if self.mode == "none":
            return {"mode": "none"}
        return {"mode": self.mode, "every": f"{round(self.interval_seconds * 1000)}ms"}
