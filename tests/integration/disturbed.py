"""A job that has state and several sinks, on a cluster that stays up, and ways to disturb it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from streammine.model.coordination import Member
from streammine.model.job import Plan
from streammine.model.job_codec import decode_plan
from streammine.runtime.client import Client
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.standing import StandingCluster
from tests.integration.workplace import Workplace, eventually, wait_for_output

LOAD: dict[str, Any] = {
    "name": "load",
    "epoch": {"time": "5s", "column": "ts"},
    "nodes": 2,
    "snapshot": {"every": "400ms"},
    "sources": {
        "readings": {
            "generator": "readings",
            "rows": 24_000,
            "rate": "4000/s",
            "with": {"plugs": 40, "per_second": 100},
        }
    },
    "operators": {
        "plugs": {
            "input": "readings",
            "key": ["house_id", "household_id", "plug_id"],
            "window": "30s",
            "aggregate": {"readings": "count()", "load": "mean(value)", "most": "max(value)"},
            "slices": 2,
        },
        "loads": {"input": "readings", "filter": "property = 1"},
        "houses": {"input": "loads", "key": "house_id", "aggregate": {"load": "mean(value)"}},
    },
    "sinks": {
        "result": {"input": "plugs", "format": "parquet", "path": "out", "slices": 2},
        "houses_now": {"input": "houses", "format": "json", "path": "houses"},
    },
}
"""48 epochs in six seconds; windows of six epochs are open at every snapshot."""

FIGURES = ("output_digest", "events_in", "events_out", "events_dead", "epochs")


def figures(summary: dict[str, Any]) -> dict[str, Any]:
    """What must be the same whatever happened."""
    return {name: summary[name] for name in FIGURES}


def load(place: Workplace, file: str, **changes: Any) -> Path:
    """The job's topology, with output in folders of its own."""
    return place.topology(
        LOAD,
        file=file,
        sinks__result__path=f"{file}-out",
        sinks__houses_now__path=f"{file}-houses",
        **changes,
    )


class RunningJob:
    """A job submitted by the command line, once it has committed something."""

    def __init__(self, place: Workplace, file: str, **changes: Any) -> None:
        self.place = place
        self.topology = load(place, file, **changes)
        self.process: subprocess.Popen[str] = place.start("submit", self.topology, "--json")
        self.output = place.folder / f"{file}-out"
        wait_for_output(self.output)

    def wait_for_more_output(self) -> None:
        """Until some epochs more are committed."""

        def manifests() -> int:
            return len(list((self.output / "manifests").glob("*.json")))

        wanted = manifests() + 4
        eventually(lambda: manifests() >= wanted, lambda: f"{manifests()} of {wanted} groups")

    def finished(self) -> dict[str, Any]:
        """Its figures; it must end well."""
        output, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, errors
        return figures(json.loads(output))

    def close(self) -> None:
        with self.process:
            self.process.kill()


class Watched:
    """What is to be known of the standing cluster, from ZooKeeper."""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        cluster = StandingCluster(place.home / ".streammine" / "clusters" / "default")
        self.client = Client(cluster.address)
        self.client.wait_for_members(1, cluster.check)
        address = cluster.address
        self.service = Coordinator(
            address.zookeeper, address.name, address.keys().zookeeper_secret, lambda event: None
        )
        self.service.start(watch=False)

    def members(self) -> dict[str, Member]:
        """The members by name, the manager first."""
        return {member.name: member for member in self.service.members()}

    def wait_for_members(self, condition: Callable[[dict[str, Member]], bool]) -> None:
        eventually(lambda: condition(self.members()), lambda: str(self.members()))

    def job(self) -> int:
        """The number of the job that runs."""
        (number,) = [each.number for each in self.service.jobs() if not each.ended]
        return number

    def plan(self, job: int) -> Plan:
        published = self.service.read_plan(job)
        assert published is not None
        return decode_plan(published.blob)

    def wait_for_plan(self, job: int, condition: Callable[[Plan], bool]) -> Plan:
        eventually(lambda: condition(self.plan(job)), lambda: str(self.plan(job)))
        return self.plan(job)

    def process(self, name: str) -> psutil.Process:
        return psutil.Process(self.members()[name].pid)

    def kill(self, name: str) -> None:
        """End a node's process. It must be alive."""
        self.process(name).kill()

    def close(self) -> None:
        self.client.close()
        self.service.close()


def nodes_of(plan: Plan) -> set[str]:
    """The nodes that a plan uses."""
    return {each.node for group in plan.placements.values() for each in group}


def newest_part(run: Path, suffix: str, vertex: str) -> Path:
    """A file of the newest snapshot of some slice of `vertex` in a run's folder."""
    files = sorted(run.glob(f"snapshots/{vertex}/*/*{suffix}"), key=lambda path: path.name)
    assert files, f"no snapshot of {vertex} in {run}"
    return files[-1]
