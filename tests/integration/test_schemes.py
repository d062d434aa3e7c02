"""Six schemes, changed while a job runs and while nodes are killed: the output stays what it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streammine.model.ids import SliceId
from streammine.model.schemes import Scheme
from tests.integration.disturbed import RunningJob, Watched, figures, load, nodes_of
from tests.integration.workplace import Workplace, eventually, standing

pytestmark = pytest.mark.slow

CHANGE_SECONDS = 60.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A workplace where a cluster of three nodes is up; nothing is left of it in the end."""
    with standing(tmp_path_factory.mktemp("schemes"), "--nodes", 3) as made:
        yield made


@pytest.fixture(scope="module")
def known(place: Workplace) -> dict[str, Any]:
    """What the job comes to when nothing happens."""
    return figures(place.result("submit", load(place, "known", sources__readings__rate=None)))


@pytest.fixture
def cluster(place: Workplace) -> Iterator[Watched]:
    watched = Watched(place)
    watched.wait_for_members(lambda members: len(members) == 3)
    yield watched
    watched.close()


@pytest.fixture
def start(place: Workplace, request: pytest.FixtureRequest) -> Iterator[Callable[..., RunningJob]]:
    """Starts the job under the test's name."""
    started: list[RunningJob] = []

    def starter(**changes: Any) -> RunningJob:
        file = "".join(each if each.isalnum() else "-" for each in request.node.name)
        started.append(RunningJob(place, f"{file[-40:].strip('-')}", **changes))
        return started[-1]

    yield starter
    for job in started:
        job.close()


@pytest.mark.parametrize("scheme", [each for each in Scheme if each.deploys])
def test_a_killed_node_is_not_seen_in_the_output(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any], scheme: Scheme
) -> None:
    job = start(scheme=scheme.value)
    victim = list(cluster.members())[1]
    cluster.kill(victim)
    cluster.wait_for_plan(cluster.job(), lambda plan: victim not in nodes_of(plan))
    assert job.finished() == known


def test_schemes_are_changed_in_any_order_while_a_job_runs(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start(sources__readings__rate="1500/s")
    number = cluster.job()
    slices = [SliceId("plugs", 0), SliceId("plugs", 1)]
    ladder = list(Scheme)
    for scheme in (*ladder[1:], ladder[3], ladder[5], ladder[2], ladder[4], ladder[0]):
        cluster.client.change_scheme(number, slices, "plugs", scheme, CHANGE_SECONDS)
    assert cluster.plan(number).schemes == dict.fromkeys(slices, ladder[0])
    assert job.finished() == known


def test_the_command_changes_a_slice_and_tells_what_is_wrong(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start(sources__readings__rate="800/s")
    changed = place.run("scheme", "plugs/1", "active-standby")
    assert (changed.returncode, changed.stderr) == (0, "")
    (first, second) = cluster.plan(cluster.job()).placements[SliceId("plugs", 1)]
    assert (first.rung, second.rung) == (Scheme.ACTIVE_REPLICATION, Scheme.ACTIVE_STANDBY)
    for named, scheme, said in (
        ("plugs", "active-stanby", "did you mean 'active-standby'?"),
        ("plug", "deployed", "did you mean 'plugs'?"),
    ):
        refused = place.run("scheme", named, scheme)
        assert refused.returncode == 1
        assert said in refused.stderr
    assert job.finished() == known


def test_schemes_are_chosen_and_a_killed_node_is_made_up_for(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    recovery = {"max_time": "60s", "cool_down": "1s"}
    job = start(sources__readings__rate="1000/s", recovery=recovery)
    number = cluster.job()

    def chosen() -> dict[SliceId, Scheme]:
        return cluster.plan(number).schemes

    eventually(
        lambda: Scheme.PASSIVE_REPLICATION in chosen().values(),
        lambda: str(place.run("status", str(number)).stdout),
    )
    jobs = place.result("status", str(number))["jobs"]
    (told,) = [each for each in jobs if each["job"] == number]
    assert {each["chosen"] for each in told["decisions"]} >= {"active-replication"}
    plugs = told["slices"]["plugs/0"]
    assert plugs["chosen"]["schemes"][plugs["scheme"]]["seconds"] <= 60
    assert plugs["replicas"][0]["counters"]["bytes_in"] > 0
    victim = list(cluster.members())[1]
    cluster.kill(victim)
    cluster.wait_for_plan(number, lambda plan: victim not in nodes_of(plan))
    assert job.finished() == known


def test_what_was_decided_and_measured_outlives_the_manager(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    began = time.time()
    job = start(sources__readings__rate="800/s", recovery={"max_time": "60s", "cool_down": "1s"})
    number = cluster.job()

    def told() -> dict[str, Any]:
        return dict(cluster.client.status(number)["jobs"][str(number)])

    def noticing() -> set[float]:
        """Seconds that noticing a loss is taken to last, by estimates of schemes that have to notice it."""
        chosen = [each["chosen"] for each in told()["slices"].values()]
        return {
            each["schemes"][Scheme.PASSIVE_REPLICATION]["detect_seconds"]
            for each in chosen
            if each is not None and each["schemes"]
        }

    eventually(lambda: bool(told()["decisions"]) and bool(noticing()), lambda: str(told()))
    guessed = noticing()
    manager, victim, *_ = cluster.members()
    cluster.kill(victim)
    eventually(lambda: bool(noticing()) and noticing() != guessed, lambda: str(told()))
    (measured,) = noticing()
    before = told()["decisions"]
    run = max(place.folder.glob(".streammine/runs/*"), key=lambda path: path.stat().st_ctime)

    def kept() -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in run.glob("**/controller/*.json")]

    eventually(
        lambda: any(
            measured in each["detection_seconds"] and len(each["decisions"]) >= len(before)
            for each in kept()
        ),
        lambda: f"{run}: {kept()}",
    )
    cluster.kill(manager)
    cluster.wait_for_members(lambda members: len(members) == 3 and next(iter(members)) != manager)
    eventually(lambda: bool(noticing()), lambda: str(told()))
    assert noticing() == {measured}
    after = told()["decisions"]
    # the newest are shown: those of before, and behind them the new manager's
    assert after[0] in before
    assert after[: len(before) - before.index(after[0])] == before[before.index(after[0]) :]
    assert all(began < each["at_seconds"] < time.time() for each in after)
    assert job.finished() == known
