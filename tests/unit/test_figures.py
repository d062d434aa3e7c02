"""Figures of a running job: rates are those between two heartbeats of each slice's node."""

from types import SimpleNamespace

import pytest

from streammine.cli.figures import epochs_lost, figures
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.job import JobGraph, Vertex

SPEC = SimpleNamespace(
    graph=JobGraph(
        (
            Vertex("lines", "source", 2, "epoch", "because"),
            Vertex("result.committer", "committer", 1, "epoch", "because"),
        ),
        (),
    ),
    sources=(SimpleNamespace(rows=1000),),
)


def replica(node, generation, frontier, leads=False):
    return {
        "node": node,
        "generation": generation,
        "rung": "active-replication",
        "leads": leads,
        "phase": "running",
        "frontier": frontier,
    }


def status(clocks, rows):
    """Node n-0 hosts lines/0, and so on."""
    return {
        "nodes": {f"n-{number}": {"load": {"clock": clock}} for number, clock in enumerate(clocks)},
        "jobs": {
            "3": {
                "slices": {
                    f"lines/{number}": {
                        "node": f"n-{number}",
                        "frontier": number,
                        "counters": {"rows_in": count},
                        "replicas": [replica(f"n-{number}", 1, number, leads=True)],
                    }
                    for number, count in enumerate(rows)
                }
            }
        },
    }


def test_each_node_s_rate_is_by_its_own_clock():
    first = figures(SPEC, status([10.0, 500.0], [100.0, 100.0]), None)
    assert (first.rows_read, first.rows_per_second) == (200, 0.0)
    second = figures(SPEC, status([10.5, 500.25], [150.0, 125.0]), first)
    assert second.rows_per_second == pytest.approx(100 + 100)
    assert second.progress == pytest.approx(0.275)
    assert second.operators[0].epoch == "0"


def test_between_two_heartbeats_the_rate_stays():
    first = figures(SPEC, status([10.0], [100.0]), None)
    second = figures(SPEC, status([10.5], [150.0]), first)
    again = figures(SPEC, status([10.5], [150.0]), second)
    assert again.rows_per_second == second.rows_per_second == pytest.approx(100)
    third = figures(SPEC, status([11.0], [250.0]), again)
    assert third.rows_per_second == pytest.approx(200)


def test_a_slice_that_started_again_has_no_negative_rate():
    first = figures(SPEC, status([10.0], [100.0]), None)
    assert figures(SPEC, status([10.5], [5.0]), first).rows_per_second == 0.0


def test_the_rows_of_a_slice_with_two_replicas_are_counted_once():
    told = status([10.0, 20.0], [100.0])
    told["jobs"]["3"]["slices"]["lines/0"]["replicas"] += [replica("n-1", 2, BEGINNING)]
    shown = figures(SPEC, told, None)
    assert shown.operators[0].places == "n-0: 1, n-1: 1"
    assert shown.rows_read == 100


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ((None, None), "start"),
        ((41, 41), "42"),
        ((None, 41), "start to 42"),
        ((1041, 41), "42 to 1,042"),
        ((INFINITY, INFINITY), "end"),
    ],
)
def test_it_is_told_since_when_rows_are_counted(after, told):
    answer = status([10.0, 10.0], [5.0, 7.0])
    for number, epoch in enumerate(after):
        counters = answer["jobs"]["3"]["slices"][f"lines/{number}"]["counters"]
        counters |= {} if epoch is None else {"counted_after": epoch}
        counters["buffered_bytes"] = 3.0
    shown = figures(SPEC, answer, None).operators[0]
    assert (shown.rows_in, shown.counted_from, shown.buffered_bytes) == (12, told, 6.0)


def test_epochs_are_lost_where_output_lacks_them_not_dead_letters():
    counters = {
        "result.committer/0": {"epochs_lost": 3.0},
        ".dead-letters.committer/0": {"epochs_lost": 5.0},
        "lines/0": {"rows_in": 9.0},
    }
    assert epochs_lost(counters) == 3
    assert epochs_lost({}) == 0
