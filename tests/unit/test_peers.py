"""What a replica knows of the others of its slice: who has yet to be built, and is not waited for."""

from __future__ import annotations

from replication.peers import Peers
from streammine.model.agreement import Report
from tests.unit.agreement_transcripts import check, ready


def report(sender: int, sequence: int, plan_version: int, ready_in: int) -> Report:
    return Report(sender, sequence, plan_version, ready_in, decided=5)


def test_a_replica_is_built_once_it_takes_part_in_its_plan() -> None:
    peers = Peers()
    peers.hear(report(2, 1, 1, 1), 0.0)
    peers.expect({2, 4})
    assert peers.unbuilt == {4}
    peers.hear(report(4, 1, 2, 0), 0.1)
    assert peers.unbuilt == {4}, "it is still learning"
    peers.hear(report(4, 2, 2, 2), 0.2)
    assert peers.unbuilt == set(), "it is waited for from now on, as others are"


def test_who_was_still_learning_under_a_plan_is_so_under_the_next() -> None:
    peers = Peers()
    peers.hear(report(2, 1, 1, 1), 0.0)
    peers.expect({2, 4})
    peers.hear(report(4, 1, 2, 0), 0.1)
    peers.expect({2, 4, 5})
    assert peers.unbuilt == {4, 5}
    peers.expect({2, 5})
    assert peers.unbuilt == {5}


def test_nobody_waits_for_a_replica_that_is_still_being_built() -> None:
    # 4 takes the place of 3, and has yet to be deployed when 1 and 2 could go on
    replicas = ready(3)
    for line in (
        *(f"{one} has 5a" for one in (1, 2, 3)),
        *(f"{one} hears {other}" for one in (1, 2) for other in (1, 2, 3) if one != other),
        "plan 2 of 1 2 4, after 1 of 1 2 3",
        "1 read",
        "2 read",
        "1 hears 2",
        "2 hears 1",
    ):
        replicas(line)
    check(
        replicas,
        """
        > 1 has 6a
          1 tells 2 4: named 6a
        > 2 has 6a
          2 tells 1 4: named 6a
        > 1 hears 2
          1 tells 2 4: accepted 6a in 1
        > 2 hears 1
          2 processes 6a
          2 tells 1 4: accepted 6a in 1
        > 1 hears 2
          1 processes 6a
        """,
    )
