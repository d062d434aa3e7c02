"""How often, how and where a job is saved: what a topology says of it, and what becomes of that."""

import json

import pytest

from streammine.model.document import parse_topology
from streammine.model.durations import Duration, Interval
from streammine.model.errors import TopologyError
from streammine.model.snapshots import RecoverySettings
from streammine.model.topology import Snapshot, Topology, json_schema
from streammine.runtime.submission import recovery_settings

DOCUMENT = """\
name: words
epoch: {count: 5}
SNAPSHOT
sources: {lines: {generator: words, rows: 10}}
sinks: {result: {input: lines, format: csv, path: out}}
"""


def parsed(line=""):
    return parse_topology(DOCUMENT.replace("SNAPSHOT", line), "t.yaml")


@pytest.mark.parametrize(
    ("text", "interval", "printed"),
    [
        ("1s", Interval(Duration(1_000_000)), "1s"),
        ("500ms", Interval(Duration(500_000)), "500ms"),
        ("10 epochs", Interval(epochs=10), "10 epochs"),
        (" 1 epoch ", Interval(epochs=1), "1 epoch"),
        ("7epochs", Interval(epochs=7), "7 epochs"),
    ],
)
def test_an_interval_is_a_duration_or_a_number_of_epochs(text, interval, printed):
    assert Interval.parse(text) == interval
    assert str(interval) == printed
    assert Interval.parse(printed) == interval


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", RecoverySettings("asynchronous", every_seconds=1.0, store="s")),
        ("snapshot: {}", RecoverySettings("asynchronous", every_seconds=1.0, store="s")),
        ("snapshot: none", RecoverySettings()),
        ("snapshot: {mode: none}", RecoverySettings()),
        (
            "snapshot: {every: 10 epochs, mode: synchronous}",
            RecoverySettings("synchronous", every_epochs=10, store="s"),
        ),
        (
            "snapshot: {every: 250ms}",
            RecoverySettings("asynchronous", every_seconds=0.25, store="s"),
        ),
    ],
)
def test_what_a_topology_says_becomes_the_job_s_settings(line, expected):
    assert recovery_settings(parsed(line), "s") == expected


@pytest.mark.parametrize(
    ("line", "where", "what"),
    [
        ("snapshot: {every: 0s}", "3:19: snapshot.every", "more than 0s, like 500ms"),
        ("snapshot: {every: 0 epochs}", "3:19: snapshot.every", "at least 1 epoch"),
        ("snapshot: {every: 3}", "3:19: snapshot.every", "write 3s, or 3 epochs"),
        ("snapshot: {every: 5 minutes}", "3:19: snapshot.every", "like 10 epochs"),
        ("snapshot: {evry: 3s}", "3:12: snapshot.evry", "did you mean 'every'?"),
        ("snapshot: {interval: 3s}", "3:12: snapshot.interval", "write every: 1s"),
        ("snapshot: {mode: async}", "3:18: snapshot.mode", "asynchronous, synchronous, none"),
        ("snapshot: {mode: none, every: 1s}", "3:1: snapshot", "so every says nothing"),
        ("snapshot: {mode: none, store: x}", "3:1: snapshot", "so store says nothing"),
        ("snapshot: {store: 5}", "3:19: snapshot.store", "quotes around it: '5'"),
        ("snapshot: 1s", "3:11: snapshot", "a mapping like {every: 1s"),
        ("snapshot:", "3:10: snapshot", "must be none, or a mapping"),
        ("snapshot: false", "3:11: snapshot", "not false"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(line, where, what):
    with pytest.raises(TopologyError) as caught:
        parsed(line)
    assert f"t.yaml:{where}" in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "line", ["", "snapshot: none", "snapshot: {every: 3 epochs, store: 's3://bucket/runs'}"]
)
def test_the_settings_travel_as_plain_data(line):
    topology = parsed(line)
    tree = json.loads(json.dumps(topology.model_dump(mode="json", by_alias=True)))
    assert Topology.model_validate(tree) == topology


def test_in_python_it_is_the_same():
    epoch = {"count": 5}
    assert Topology(epoch=epoch).snapshot == Snapshot()
    assert Topology(epoch=epoch, snapshot="none").snapshot.mode == "none"
    given = Topology(epoch=epoch, snapshot={"every": "2s", "mode": "synchronous"}).snapshot
    assert given == Snapshot(every="2s", mode="synchronous")
    assert str(given) == "every 2s, synchronous"
    with pytest.raises(TopologyError, match="can't be used here"):
        Topology(epoch=epoch, snapshot={"mode": "sometimes"})


def test_editors_know_the_short_form_and_the_mapping():
    choices = json_schema()["properties"]["snapshot"]["anyOf"]
    assert {"const": "none"} in choices
    assert {"$ref": "#/$defs/Snapshot"} in choices
    assert set(json_schema()["$defs"]["Snapshot"]["properties"]) == {"every", "mode", "store"}
