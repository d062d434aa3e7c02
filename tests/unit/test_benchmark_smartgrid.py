"""What the smart grid's benchmark runs: the application as it is, reading a log, in other slices."""

from __future__ import annotations

from pathlib import Path

from scripts.benchmarks.smartgrid import APP, SOURCE, app_topology
from streammine import read_topology
from streammine.model.topology import LogSource


def test_the_application_runs_as_it_is_but_for_its_source(tmp_path: Path) -> None:
    shipped = read_topology(APP / "topology.yaml", {"output": str(tmp_path)})
    topology = app_topology(tmp_path, "/logs/readings", slices=3, commit_epochs=7)
    source = topology.sources[SOURCE]
    assert isinstance(source, LogSource)
    assert (source.log, source.slices) == ("/logs/readings", 3)
    assert list(topology.operators) == list(shipped.operators)
    assert topology.operators["forecasts"].model_dump()["slices"] == 3
    assert [sink.commit.every for sink in topology.sinks.values()] == [7] * 10
    assert [sink.path for sink in topology.sinks.values()] == [
        sink.path for sink in shipped.sinks.values()
    ]
    assert topology.epoch == shipped.epoch
