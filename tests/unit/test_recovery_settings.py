"""How long a recovery may take: what a topology says of it, and what becomes of that."""

import json

import pytest

from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.model.recovery_policy import CostWeights, RecoveryGoal
from streammine.model.topology import Recovery, Topology, json_schema

DOCUMENT = """\
name: words
epoch: {count: 5}
RECOVERY
sources: {lines: {generator: words, rows: 10}}
sinks: {result: {input: lines, format: csv, path: out}}
"""


def parsed(line=""):
    return parse_topology(DOCUMENT.replace("RECOVERY", line), "t.yaml")


@pytest.mark.parametrize("line", ["", "recovery:"])
def test_without_it_nothing_is_chosen(line):
    assert parsed(line).recovery is None


@pytest.mark.parametrize(
    ("line", "goal"),
    [
        ("recovery: {max_time: 2s}", RecoveryGoal(2.0, "precise", 5.0, CostWeights(1, 1, 1, 1))),
        (
            "recovery: {max_time: 500ms, semantics: precise, cool_down: 0s}",
            RecoveryGoal(0.5, "precise", 0.0),
        ),
        (
            "recovery: {max_time: 5.5s, weights: {cpu: 2, memory: 0.5, network: 0, nodes: 10}}",
            RecoveryGoal(5.5, weights=CostWeights(2.0, 0.5, 0.0, 10.0)),
        ),
        (
            "recovery: {max_time: 1m, cool_down: 10s, weights: {nodes: 0}}",
            RecoveryGoal(60.0, cool_down_seconds=10.0, weights=CostWeights(nodes=0.0)),
        ),
    ],
)
def test_what_a_topology_says_becomes_the_controller_s_goal(line, goal):
    assert parsed(line).recovery.goal == goal


@pytest.mark.parametrize(
    ("line", "where", "what"),
    [
        ("recovery: 2s", "3:11: recovery", "a mapping like {max_time: 2s, semantics: precise}"),
        ("recovery: {}", "3:1: recovery.max_time", "recovery needs 'max_time'"),
        ("recovery: {max_time: 2}", "3:22: recovery.max_time", "write 2s for seconds"),
        ("recovery: {max_time: 0s}", "3:22: recovery.max_time", "replicas: 2 instead of recovery"),
        ("recovery: {time: 2s}", "3:12: recovery.time", "write max_time: 2s"),
        ("recovery: {every: 2s}", "3:12: recovery.every", "snapshot: {every: 1s}"),
        ("recovery: {replicas: 2}", "3:12: recovery.replicas", "beside recovery, not in it"),
        ("recovery: {max_tme: 2s}", "3:12: recovery.max_tme", "did you mean 'max_time'?"),
        (
            "recovery: {max_time: 2s, semantics: exact}",
            "3:37: recovery.semantics",
            "Allowed: precise, gap",
        ),
        (
            "recovery: {max_time: 2s, cooldown: 3s}",
            "3:26: recovery.cooldown",
            "did you mean 'cool_down'?",
        ),
        (
            "recovery: {max_time: 2s, cool_down: 3}",
            "3:37: recovery.cool_down",
            "write 3s for seconds",
        ),
        (
            "recovery: {max_time: 2s, weights: {cpu: -1}}",
            "3:41: recovery.weights.cpu",
            "at least 0.0",
        ),
        (
            "recovery: {max_time: 2s, weights: {cpu: true}}",
            "3:41: recovery.weights.cpu",
            "must be a number, not true",
        ),
        (
            "recovery: {max_time: 2s, weights: {nodes: .inf}}",
            "3:43: recovery.weights.nodes",
            "finite",
        ),
        (
            "recovery: {max_time: 2s, weights: {cores: 1}}",
            "3:36: recovery.weights.cores",
            "write cpu: 1, the weight of one core",
        ),
        (
            "recovery: {max_time: 2s, weights: 3}",
            "3:35: recovery.weights",
            "must be a mapping",
        ),
        (
            "recovery: {max_time: 2s}\nsnapshot: none",
            "3:1: recovery",
            "snapshot: none makes none; write snapshot: {every: 1s}",
        ),
        (
            "recovery: {max_time: 2s}\nscheme: active-standby",
            "4:1: scheme",
            "recovery chooses the schemes; take scheme or recovery out",
        ),
        (
            "recovery: {max_time: 2s}\noperators: {few: {input: lines, scheme: deployed, key: line, "
            "aggregate: {n: count()}}}",
            "4:33: operators.few.scheme",
            "recovery chooses the schemes; take scheme or recovery out",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(line, where, what):
    with pytest.raises(TopologyError) as caught:
        parsed(line).check()
    assert f"t.yaml:{where}" in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "line", ["", "recovery: {max_time: 2s, semantics: precise, cool_down: 1s, weights: {cpu: 3}}"]
)
def test_the_settings_travel_as_plain_data(line):
    topology = parsed(line)
    tree = json.loads(json.dumps(topology.model_dump(mode="json", by_alias=True)))
    assert Topology.model_validate(tree) == topology


def test_in_python_it_is_the_same():
    epoch = {"count": 5}
    given = Topology(epoch=epoch, recovery={"max_time": "2s", "weights": {"cpu": 2}}).recovery
    assert given == Recovery(max_time="2s", weights={"cpu": 2})
    assert Topology(epoch=epoch, recovery=given).recovery == given
    with pytest.raises(TopologyError, match="can't be used here"):
        Topology(epoch=epoch, recovery={"max_time": "2s", "semantics": "sometimes"})


def test_editors_know_the_fields():
    schema = json_schema()
    assert {"$ref": "#/$defs/Recovery"} in schema["properties"]["recovery"]["anyOf"]
    recovery = schema["$defs"]["Recovery"]
    assert set(recovery["properties"]) == {"max_time", "semantics", "cool_down", "weights"}
    assert recovery["required"] == ["max_time"]
    assert set(schema["$defs"]["Weights"]["properties"]) == {"cpu", "memory", "network", "nodes"}
