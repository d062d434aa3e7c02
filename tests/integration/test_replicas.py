"""Active replication with real processes: a node that dies or hangs is not noticed in the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streammine.model.ids import SliceId
from streammine.model.job import Plan
from tests.integration.disturbed import RunningJob, Watched, figures, load, nodes_of
from tests.integration.workplace import Workplace, standing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A workplace where a cluster of two nodes is up; nothing is left of it in the end."""
    with standing(tmp_path_factory.mktemp("replicas"), at_once=False) as made:
        yield made


@pytest.fixture(scope="module")
def known(place: Workplace) -> dict[str, Any]:
    """What the job comes to with one replica of everything, when nothing happens."""
    return figures(place.result("submit", load(place, "known", sources__readings__rate=None)))


@pytest.fixture
def cluster(place: Workplace) -> Iterator[Watched]:
    """The standing cluster with two nodes at work."""
    watched = Watched(place)
    watched.wait_for_members(lambda members: len(members) == 2)
    yield watched
    watched.close()


@pytest.fixture
def start(place: Workplace, request: pytest.FixtureRequest) -> Iterator[Callable[..., RunningJob]]:
    """Starts the job, with two replicas, under the test's name."""
    started: list[RunningJob] = []

    def starter(**changes: Any) -> RunningJob:
        file = "".join(each if each.isalnum() else "-" for each in request.node.name)
        job = RunningJob(place, f"{file[-40:].strip('-')}", **{"replicas": 2, **changes})
        started.append(job)
        return job

    yield starter
    for job in started:
        job.close()


def manager(cluster: Watched) -> str:
    return next(iter(cluster.members()))


def other(cluster: Watched) -> str:
    return list(cluster.members())[-1]


def everywhere_twice(plan: Plan) -> bool:
    """Every slice has two replicas, on two nodes."""
    return all(
        len(group) == 2 and len({each.node for each in group}) == 2
        for group in plan.placements.values()
    )


def hosts_of(plan: Plan) -> dict[SliceId, set[tuple[str, int]]]:
    """The members that host each slice. Plans may change besides, where a busy machine leaves a node no time
    for replicas behind others; of who is lost the member goes, even if the node comes back."""
    return {
        slice_id: {(each.node, each.member) for each in group}
        for slice_id, group in plan.placements.items()
    }


@pytest.mark.parametrize("victim", [manager, other], ids=["the manager", "another node"])
def test_a_killed_replica_is_not_missed(
    cluster: Watched,
    start: Callable[..., RunningJob],
    known: dict[str, Any],
    victim: Callable[[Watched], str],
) -> None:
    job = start()
    name, number = victim(cluster), cluster.job()
    assert everywhere_twice(cluster.plan(number))
    cluster.kill(name)
    plan = cluster.wait_for_plan(number, lambda plan: name not in nodes_of(plan))
    assert plan.rebuilt == 0, "the other replicas go on, and nothing is lost"
    assert job.finished() == known


def test_the_node_in_its_place_gets_a_replica_of_everything(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start(sources__readings__rate="2000/s")
    name, number = other(cluster), cluster.job()
    cluster.kill(name)
    cluster.wait_for_plan(number, lambda plan: name not in nodes_of(plan))
    plan = cluster.wait_for_plan(number, everywhere_twice)
    assert name not in nodes_of(plan)
    assert job.finished() == known


@pytest.mark.parametrize("victim", [manager, other], ids=["the manager", "another node"])
def test_a_frozen_replica_is_not_missed_and_does_no_harm_when_it_wakes_up(
    cluster: Watched,
    start: Callable[..., RunningJob],
    known: dict[str, Any],
    victim: Callable[[Watched], str],
) -> None:
    # so slow that it outlasts the session of the node that hangs
    job = start(sources__readings__rate="2000/s")
    name, number = victim(cluster), cluster.job()
    before = cluster.members()[name]
    hung = cluster.process(name)
    hung.suspend()
    try:
        plan = cluster.wait_for_plan(number, lambda plan: name not in nodes_of(plan))
        assert plan.rebuilt == 0
    finally:
        # what it had begun it now sends and writes
        hung.resume()
    cluster.wait_for_members(lambda members: name in members)
    assert cluster.members()[name].sequence > before.sequence
    cluster.wait_for_plan(number, everywhere_twice)
    assert job.finished() == known


def test_a_replica_that_was_frozen_for_a_moment_goes_on(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    name, number = other(cluster), cluster.job()
    hosts = hosts_of(cluster.plan(number))
    hung = cluster.process(name)
    hung.suspend()
    try:
        job.wait_for_more_output()
    finally:
        hung.resume()
    assert job.finished() == known
    assert hosts_of(cluster.plan(number)) == hosts


def test_a_replica_that_is_frozen_to_the_end_holds_nothing_up(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    hung = cluster.process(other(cluster))
    hung.suspend()
    try:
        assert job.finished() == known
    finally:
        hung.resume()


def test_the_status_tells_where_the_replicas_of_each_slice_are(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob]
) -> None:
    job = start()
    number = cluster.job()
    told = next(each for each in place.result("status", number)["jobs"] if each["job"] == number)
    replicas = [each["replicas"] for each in told["slices"].values()]
    assert {len({replica["node"] for replica in each}) for each in replicas} == {2}
    assert [sum(replica["leads"] for replica in each) for each in replicas] == [1] * len(replicas)
    shown = place.run("status", number).stdout
    assert "generation" in shown
    assert "leads" in shown
    assert job.finished()


def test_more_replicas_than_nodes_are_refused(place: Workplace) -> None:
    done = place.run("submit", load(place, "many", replicas=3))
    assert done.returncode != 0
    assert "replicas: 3 needs as many nodes" in done.stderr
