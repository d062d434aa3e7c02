"""Whatever dies, hangs or breaks on the way: the output is that of an undisturbed run, byte for byte."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streammine.model.errors import ClusterError
from streammine.model.ids import SliceId
from streammine.model.job import Plan
from tests.integration.disturbed import (
    RunningJob,
    Watched,
    figures,
    load,
    newest_part,
    nodes_of,
)
from tests.integration.workplace import Workplace, eventually, standing, wait_for_output

pytestmark = pytest.mark.slow

MOVE_SECONDS = 30.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A workplace where a cluster of two nodes is up; nothing is left of it in the end."""
    with standing(tmp_path_factory.mktemp("recovery")) as made:
        yield made
    runs = made.folder / ".streammine" / "runs"
    assert not list(runs.iterdir()), "every job has finished"


@pytest.fixture(scope="module")
def known(place: Workplace) -> dict[str, Any]:
    """What the job comes to when nothing happens."""
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
    """Starts the job under the test's name."""
    started: list[RunningJob] = []

    def starter(**changes: Any) -> RunningJob:
        file = "".join(each if each.isalnum() else "-" for each in request.node.name)
        started.append(RunningJob(place, f"{file[-40:].strip('-')}", **changes))
        return started[-1]

    yield starter
    for job in started:
        job.close()


def manager(cluster: Watched) -> str:
    return next(iter(cluster.members()))


def other(cluster: Watched) -> str:
    return list(cluster.members())[-1]


@pytest.mark.parametrize("victim", [manager, other], ids=["the manager", "another node"])
def test_a_killed_node_is_made_up_for(
    cluster: Watched,
    start: Callable[..., RunningJob],
    known: dict[str, Any],
    victim: Callable[[Watched], str],
) -> None:
    job = start()
    name = victim(cluster)
    cluster.kill(name)
    plan = cluster.wait_for_plan(cluster.job(), lambda plan: name not in nodes_of(plan))
    assert plan.version > 2
    assert job.finished() == known


def test_all_nodes_killed_at_once_are_made_up_for(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    for process in [cluster.process(name) for name in cluster.members()]:
        process.kill()
    assert job.finished() == known


def test_a_node_killed_while_another_is_made_up_for(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    first = other(cluster)
    number = cluster.job()
    cluster.kill(first)
    plan = cluster.wait_for_plan(number, lambda plan: first not in nodes_of(plan))
    cluster.kill(sorted(nodes_of(plan))[0])
    assert job.finished() == known


def test_synchronous_snapshots_do_as_well(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start(snapshot={"every": "400ms", "mode": "synchronous"})
    cluster.kill(other(cluster))
    assert job.finished() == known


def test_without_snapshots_a_job_starts_from_its_beginning(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start(snapshot="none")
    cluster.kill(other(cluster))
    assert job.finished() == known


def test_a_node_that_hung_finds_itself_replaced_and_joins_again(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    # so slow that it outlasts the session of the node that hangs
    job = start(sources__readings__rate="2000/s")
    name = other(cluster)
    number = cluster.job()
    before = cluster.members()[name]
    hung = cluster.process(name)
    hung.suspend()
    try:
        cluster.wait_for_members(lambda members: name not in members)
        cluster.wait_for_plan(number, lambda plan: name not in nodes_of(plan))
    finally:
        # what it had begun it now sends and writes
        hung.resume()
    cluster.wait_for_members(lambda members: name in members)
    after = cluster.members()[name]
    assert after.pid == before.pid
    assert after.sequence > before.sequence
    assert after.control_endpoint != before.control_endpoint
    assert job.finished() == known


def test_a_zookeeper_that_dies_with_a_node_comes_back(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    victim = cluster.process(other(cluster))
    place.processes("ZooKeeperServerMain")[0].kill()
    victim.kill()
    assert job.finished() == known


def known_slices(cluster: Watched, job: int) -> bool:
    """Whether the status tells of each slice; of one that has moved, its new node does so by and by."""
    status = cluster.client.status(job)["jobs"][str(job)]["slices"]
    return set(status) == {str(each) for each in cluster.plan(job).placements}


@pytest.mark.parametrize("mode", ["live", "state-transfer"])
def test_every_kind_of_slice_moves(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any], mode: str
) -> None:
    job = start(sources__readings__rate="2000/s")
    number = cluster.job()
    names = set(cluster.members())
    for moved in ("plugs/0", "readings/0", "result/1", "result.committer/0"):
        (here,) = cluster.client.nodes_of(number)[moved]
        (there,) = names - {here}
        move(cluster, number, moved, there, mode)
        assert cluster.client.nodes_of(number)[moved] == {there}
        eventually(lambda: known_slices(cluster, number), lambda: "status lacks a slice")
    assert job.finished() == known


def move(cluster: Watched, number: int, moved: str, there: str, mode: str) -> None:
    """Right after a move there may be no checkpoint yet that the next can begin from."""

    def accepted() -> bool:
        try:
            cluster.client.move(number, moved, there, mode, MOVE_SECONDS)
        except ClusterError as error:
            if "ask again" not in str(error):
                raise
            return False
        return True

    eventually(accepted, lambda: f"{moved} can't be moved")


def test_a_drained_node_has_nothing_to_do(
    cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    name = manager(cluster)
    cluster.client.drain(name, MOVE_SECONDS)
    assert name not in nodes_of(cluster.plan(cluster.job()))
    assert job.finished() == known


def test_a_saved_job_goes_on_where_it_was(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    number = cluster.job()
    outcome = cluster.client.savepoint(number, MOVE_SECONDS)
    assert outcome.status == "savepoint"
    _, errors = job.process.communicate(timeout=20)
    assert job.process.returncode == 0, errors
    (run,) = (place.folder / ".streammine" / "runs").iterdir()
    resumed = place.result("submit", job.topology, "--resume", run.name)
    assert figures(resumed) == known
    assert not run.exists()


def test_a_damaged_snapshot_costs_time_only(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    number = cluster.job()
    (run,) = (place.folder / ".streammine" / "runs").iterdir()
    eventually(lambda: any(run.glob("checkpoints/*.json")), lambda: "no checkpoint is complete")
    (host,) = cluster.client.nodes_of(number)["plugs/0"]
    part = newest_part(run, ".bin", "plugs")
    flip_a_bit(part)
    cluster.kill(host)
    assert job.finished() == known


def test_damage_to_both_kept_checkpoints_costs_time_only(
    place: Workplace, cluster: Watched, start: Callable[..., RunningJob], known: dict[str, Any]
) -> None:
    job = start()
    number = cluster.job()
    (run,) = (place.folder / ".streammine" / "runs").iterdir()

    def kept() -> list[int]:
        return sorted({epoch_in(path) for path in run.glob("checkpoints/*.json")})

    eventually(lambda: len(kept()) >= 2, lambda: f"checkpoints of {kept()} are complete")
    first = newest_part(run, ".bin", "plugs")
    slice_id = SliceId("plugs", int(first.parent.name))
    (host,) = cluster.client.nodes_of(number)[str(slice_id)]
    damaged = set[Path]()

    def damage_on() -> int:
        """Each snapshot of the slice from there on; of how many a checkpoint is complete."""
        for part in first.parent.glob("*.bin"):
            if epoch_in(part) >= epoch_in(first) and part not in damaged:
                flip_a_bit(part)
                damaged.add(part)
        return len([each for each in kept() if each >= epoch_in(first)])

    eventually(lambda: damage_on() >= 2, lambda: f"checkpoints of {kept()} are complete")
    cluster.kill(host)
    damage_on()
    # what can't be read back keeps those before it from being removed
    sound = max(each for each in kept() if each < epoch_in(first))

    def restored(plan: Plan) -> int | None:
        (placement,) = plan.placements[slice_id]
        return placement.restore and placement.restore.epoch

    cluster.wait_for_plan(number, lambda plan: restored(plan) == sound)
    assert job.finished() == known


def epoch_in(path: Path) -> int:
    """The epoch, not a negative one, that a file's name begins with."""
    return int(path.name[1:20])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("harm", "suffix"),
    [(None, ""), (flip_a_bit, ".bin"), (cut_in_half, ".json")],
    ids=["whole", "a part is damaged", "a header is cut"],
)
def test_a_run_goes_on_after_everything_was_killed(
    tmp_path: Path,
    known: dict[str, Any],
    harm: Callable[[Path], None] | None,
    suffix: str,
) -> None:
    with Workplace(tmp_path) as own:
        topology = load(own, "own")
        with own.start("run", topology, "--nodes", "2") as process:
            wait_for_output(own.folder / "own-out")
            runs = own.folder / ".streammine" / "runs"
            # two: the one before is what a damaged one is made up for with
            eventually(
                lambda: len(list(runs.glob("*/checkpoints/*.json"))) >= 2,
                lambda: "no two checkpoints are complete",
            )
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=20)
        own.require_nothing_left()
        (run,) = runs.iterdir()
        if harm is not None:
            harm(newest_part(run, suffix, "plugs"))
        done = own.run("run", topology, "--resume", run.name, "--nodes", "3", "--json")
        assert done.returncode == 0, done.stderr
        assert figures(json.loads(done.stdout)) == known
        assert not own.left_over()
        assert not run.exists()
