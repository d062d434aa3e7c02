"""What a topology says of schemes: who has which, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest

from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.model.schemes import Scheme
from streammine.model.topology import redundancy

DOCUMENT = """\
name: words
epoch: {count: 5}
TOPOLOGY
sources: {lines: {generator: words, rows: 10}}
operators: {counts: {input: lines, key: word, aggregate: {n: count()}PART}}
sinks: {result: {input: counts, format: csv, path: out}}
"""
NEEDS_STATE = (Scheme.PASSIVE_STANDBY_COLD, Scheme.PASSIVE_STANDBY_HOT)


def parsed(topology: str = "", part: str = ""):
    text = DOCUMENT.replace("TOPOLOGY", topology).replace("PART", part and f", {part}")
    return parse_topology(text, "t.yaml")


def refused(topology: str = "", part: str = "") -> str:
    with pytest.raises(TopologyError) as caught:
        parsed(topology, part)
    return str(caught.value)


def test_each_rung_does_all_that_those_below_it_do() -> None:
    done = [
        (each.deploys, each.holds_state, each.queues, each.processes, each.publishes)
        for each in Scheme
    ]
    assert [sum(each) for each in done] == [0, 1, 2, 3, 4, 5]
    assert all(low <= high for a, b in pairwise(done) for low, high in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("topology", "part", "replicas", "scheme"),
    [
        ("", "", 1, Scheme.PASSIVE_REPLICATION),
        ("replicas: 3", "", 3, Scheme.ACTIVE_REPLICATION),
        ("scheme: deployed", "", 2, Scheme.DEPLOYED),
        ("replicas: 3\nscheme: deployed", "", 3, Scheme.DEPLOYED),
        ("scheme: deployed", "scheme: active-standby", 2, Scheme.ACTIVE_STANDBY),
        ("scheme: deployed", "scheme: passive-replication", 1, Scheme.PASSIVE_REPLICATION),
        ("replicas: 3", "scheme: passive-standby-hot", 3, Scheme.PASSIVE_STANDBY_HOT),
        ("scheme: passive-replication", "replicas: 2", 2, Scheme.ACTIVE_REPLICATION),
        ("scheme: deployed", "replicas: 1", 1, Scheme.PASSIVE_REPLICATION),
    ],
)
def test_whoever_says_more_and_nearer_to_the_part_counts(
    topology: str, part: str, replicas: int, scheme: Scheme
) -> None:
    found = parsed(topology, part)
    counts = found.operators["counts"]
    assert redundancy(counts.replicas, counts.scheme, found) == {
        "replicas": replicas,
        "scheme": scheme,
    }


def test_a_contradiction_is_refused_with_what_would_be_right() -> None:
    text = refused("replicas: 2\nscheme: passive-replication")
    assert "passive-replication has no further replicas, and replicas is 2" in text
    text = refused(part="replicas: 1, scheme: deployed")
    assert "deployed needs a second replica, and replicas is 1" in text


def test_a_scheme_with_a_typo_is_refused_with_those_that_there_are() -> None:
    text = refused("scheme: active-standbye")
    assert "active-standby" in text
    assert "t.yaml" in text


@pytest.mark.parametrize("scheme", NEEDS_STATE)
def test_who_stands_by_with_state_needs_checkpoints(scheme: Scheme) -> None:
    for place in ({"topology": f"snapshot: none\nscheme: {scheme}"},):
        text = refused(**place)
        assert f"{scheme} takes its state from checkpoints, and snapshot: none makes none" in text
    assert "takes its state from" in refused("snapshot: none", f"scheme: {scheme}")


@pytest.mark.parametrize("scheme", [each for each in Scheme if each not in NEEDS_STATE])
def test_others_do_not(scheme: Scheme) -> None:
    assert parsed(f"snapshot: none\nscheme: {scheme}").scheme is scheme
