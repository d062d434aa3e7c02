"""What `streammine status JOB` shows of replicas and of what is chosen for them."""

from datetime import datetime

from streammine.cli.schemes_shown import SchemesShown
from streammine.model.epochs import BEGINNING, INFINITY

ESTIMATES = {
    "passive-standby-cold": {"seconds": 1.25, "cost": 1.5},
    "passive-replication": {"seconds": None, "cost": 0.0},
}


def replica(node, leads, frontier=7, **counters):
    return {
        "node": node,
        "generation": 1 if leads else 3,
        "leads": leads,
        "rung": "active-replication" if leads else "passive-standby-cold",
        "phase": "running" if leads else "ready",
        "frontier": frontier,
        "counters": counters,
    }


def estimates(phase="settled", reason="so", missing=(), schemes=ESTIMATES):
    return {"phase": phase, "reason": reason, "missing": list(missing), "schemes": schemes}


def told(stands="passive-standby-cold", chosen=None, set_by="controller"):
    return {
        "slices": {
            "counts/0": {
                "node": "a",
                "scheme": "passive-standby-cold",
                "set_by": set_by,
                "stands": stands,
                "chosen": estimates() if chosen is None else chosen,
                "unestimated": None,
                "replicas": [
                    replica("a", True, state_bytes=5e6, rows_in=1234.0, rows_sent=99.0),
                    replica("b", False, BEGINNING, state_bytes=4e6),
                ],
            }
        },
        "lacking": [],
        "decisions": [
            {
                "slice": "counts/0",
                "previous": "active-replication",
                "chosen": "passive-standby-cold",
                "at_seconds": datetime(2026, 3, 4, 5, 6, 7).timestamp(),
                "reason": "the cheapest within 1.6 s",
            }
        ],
    }


def shown(tree):
    return "\n".join(SchemesShown(tree).lines())


def test_each_replica_has_a_row_with_what_proves_its_rung():
    text = shown(told())
    leading, standing_by = (line.split() for line in text.splitlines() if "MB" in line)
    assert leading[:5] == ["counts/0", "passive-standby-cold", "controller,", "settled", "a"]
    assert leading[5:] == [
        "1",
        "leads",
        "running",
        "7",
        "5.0",
        "MB",
        "0.0",
        "MB",
        "1,234",
        "start",
        "99",
        "1.25",
        "s",
        "1.50",
    ]
    assert standing_by[:5] == ["b", "3", "passive-standby-cold", "ready", "-"]


def test_what_a_replica_counts_since_its_snapshot_is_told_with_that():
    tree = told()
    counters = tree["slices"]["counts/0"]["replicas"][1]["counters"]
    counters |= {"rows_in": 7.0, "counted_after": 41.0, "bytes_waiting": 2e6}
    standing_by = [line.split() for line in shown(tree).splitlines() if "MB" in line][1]
    assert standing_by[5:] == ["4.0", "MB", "2.0", "MB", "7", "42", "0"]


def test_the_last_decisions_follow():
    last = shown(told()).splitlines()[-1]
    assert last == (
        "2026-03-04 05:06:07 counts/0: active-replication -> passive-standby-cold: "
        "the cheapest within 1.6 s"
    )


def test_the_estimate_is_that_of_what_stands_not_of_what_is_to_be():
    assert "never" in shown(told("passive-replication"))
    assert "never" not in shown(told())


def test_what_is_not_known_yet_is_said_with_the_reason():
    lacking = estimates("fixed", "the topology says so", ("a complete checkpoint",), {})
    for set_by in ("topology", "person"):
        text = shown(told(chosen=lacking, set_by=set_by))
        assert "?" in text
        assert "counts/0: not measured yet: a complete checkpoint" in text


def test_who_has_set_a_scheme_is_shown_and_why_one_was_chosen():
    tree = told()
    tree["slices"]["counts/1"] = tree["slices"]["counts/0"]
    tree["slices"]["counts/2"] = told(
        chosen=estimates("fixed", "a person has set it"), set_by="person"
    )["slices"]["counts/0"]
    _, *rows, why, _ = shown(tree).splitlines()
    assert [row[34:53].rstrip() for row in rows[::2]] == [
        "controller, settled",
        "controller, settled",
        "person",
    ]
    assert why == "counts/0, counts/1: so"


def test_nothing_is_estimated_where_no_snapshots_are_made():
    tree = told(set_by="topology")
    tree["slices"]["counts/0"] |= {"chosen": None, "unestimated": "no snapshots are made"}
    tree["slices"]["counts/0"]["replicas"][0]["frontier"] = INFINITY
    text = shown(tree)
    assert "1.25 s" not in text
    assert "end" in text
    assert text.splitlines()[1].split()[-2:] == ["-", "-"]
    assert "counts/0: not estimated: no snapshots are made" in text.splitlines()
    assert "topology" in text


def test_the_tree_has_what_tools_need():
    tree = SchemesShown(told()).tree()
    assert set(tree["slices"]["counts/0"]) == {
        "scheme",
        "set_by",
        "stands",
        "chosen",
        "unestimated",
        "replicas",
    }
    assert len(tree["decisions"]) == 1


def test_replicas_that_have_no_node_are_named():
    tree = told() | {
        "lacking": [{"vertices": ["lines", "counts"], "wanted": 5, "placed": 2, "nodes": 2}]
    }
    assert (
        "lines, counts: 5 replicas of each slice wanted, 2 placed: only 2 nodes are there for them; the "
        "others are placed when nodes join"
    ) in shown(tree).splitlines()
    assert SchemesShown(tree).tree()["lacking"] == tree["lacking"]
    assert "placed" not in shown(told())
