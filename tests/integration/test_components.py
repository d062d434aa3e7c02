"""The connected components on real processes, exact on real graphs, with nodes killed on the way."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.components import check
from streammine.model.errors import ClusterError
from tests.integration.disturbed import Watched, figures
from tests.integration.workplace import ROOT, Workplace, eventually, standing, wait_for_output

pytestmark = pytest.mark.slow

APP = ROOT / "apps" / "components"
SHIPPED = APP / "data" / "edges.txt"
GRAPHS = ROOT.parent / "shared" / "data" / "graphs"
MOVE_SECONDS = 30.0

needs_graphs = pytest.mark.skipif(not GRAPHS.is_dir(), reason=f"the graphs are not in {GRAPHS}")


def components(place: Workplace, file: str, edges: Path, epoch: int, **changes: Any) -> Path:
    """The application's topology over other edges, with output in a folder of its own."""
    shutil.copy(APP / "operators.py", place.folder)
    content = yaml.safe_load((APP / "topology.yaml").read_text())
    return place.topology(
        content,
        file=file,
        sources__edges__files=str(edges),
        epoch__count=epoch,
        sinks__result__path=f"{file}-out",
        **changes,
    )


def require_right(place: Workplace, file: str, edges: Path, epoch: int) -> dict[int, int]:
    """Every epoch is what union-find finds; the components after the last one."""
    found = check.committed(str(place.folder / f"{file}-out"))
    assert found == check.changes_by_epoch(check.edges_of(edges), epoch)
    return check.final(found)


def listed_components(graph: str) -> dict[int, int]:
    with gzip.open(GRAPHS / f"components_{graph}.tsv.gz", "rt") as file:
        return {int(node): int(least) for node, least in (line.split() for line in file)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A workplace where a cluster of three nodes is up; nothing is left of it in the end."""
    with standing(tmp_path_factory.mktemp("components"), "--nodes", 3) as made:
        yield made


@pytest.fixture
def cluster(place: Workplace) -> Iterator[Watched]:
    watched = Watched(place)
    watched.wait_for_members(lambda members: len(members) == 3)
    yield watched
    watched.close()


@pytest.fixture(scope="module")
def known(place: Workplace) -> dict[str, Any]:
    """What the shipped edges come to when nothing happens."""
    return figures(place.result("submit", components(place, "known", SHIPPED, 25)))


class Running:
    """The job over the shipped edges in the middle of its work."""

    def __init__(self, place: Workplace, file: str) -> None:
        self._place, self._file = place, file
        changes = {"sources__edges__rate": "100/s", "snapshot": {"every": "400ms"}}
        self.topology = components(place, file, SHIPPED, 25, **changes)
        self.process: subprocess.Popen[str] = place.start("submit", self.topology, "--json")
        wait_for_output(place.folder / f"{file}-out")

    def finished(self) -> dict[str, Any]:
        """Its figures; it must end well, with every epoch right."""
        output, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, errors
        require_right(self._place, self._file, SHIPPED, 25)
        return figures(json.loads(output))


@pytest.fixture
def running(place: Workplace, request: pytest.FixtureRequest) -> Iterator[Running]:
    job = Running(
        place, "".join(each if each.isalnum() else "-" for each in request.node.name)[-30:]
    )
    with job.process:
        yield job
        job.process.kill()


def test_shipped_edges_come_out_right(place: Workplace, known: dict[str, Any]) -> None:
    final = require_right(place, "known", SHIPPED, 25)
    assert len(set(final.values())) == 12
    assert known["events_in"] == 600


@pytest.mark.parametrize(("nodes", "messages", "labels"), [(1, 1, 1), (3, 5, 8)], ids=str)
def test_neither_nodes_nor_slices_change_a_byte(
    tmp_path: Path, known: dict[str, Any], nodes: int, messages: int, labels: int
) -> None:
    with Workplace(tmp_path) as own:
        topology = components(
            own,
            "own",
            SHIPPED,
            25,
            operators__messages__slices=messages,
            operators__labels__slices=labels,
        )
        assert figures(own.result("run", topology, "--nodes", str(nodes))) == known


@needs_graphs
@pytest.mark.parametrize(
    ("graph", "epoch", "nodes"),
    [("email-Eu-core", 1_000, 1_005), ("facebook_combined", 5_000, 4_039)],
)
def test_real_graphs_come_out_right(
    place: Workplace, cluster: Watched, graph: str, epoch: int, nodes: int
) -> None:
    edges = GRAPHS / f"{graph}.txt.gz"
    place.result("submit", components(place, graph, edges, epoch))
    final = require_right(place, graph, edges, epoch)
    assert final == listed_components(graph)
    assert len(final) == nodes


@needs_graphs
def test_a_real_graph_comes_out_right_though_nodes_die(place: Workplace, cluster: Watched) -> None:
    graph, edges = "email-Eu-core", GRAPHS / "email-Eu-core.txt.gz"
    topology = components(
        place, "dying", edges, 1_000, sources__edges__rate="3000/s", snapshot={"every": "400ms"}
    )
    with place.start("submit", topology, "--json") as process:
        wait_for_output(place.folder / "dying-out")
        for name in list(cluster.members())[-2:]:
            cluster.kill(name)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert require_right(place, "dying", edges, 1_000) == listed_components(graph)


def manager(cluster: Watched) -> list[str]:
    return list(cluster.members())[:1]


def all_nodes(cluster: Watched) -> list[str]:
    return list(cluster.members())


@pytest.mark.parametrize("victims", [manager, all_nodes], ids=["the manager", "all"])
def test_nodes_killed_in_the_middle_are_made_up_for(
    cluster: Watched,
    running: Running,
    known: dict[str, Any],
    victims: Callable[[Watched], list[str]],
) -> None:
    for process in [cluster.process(name) for name in victims(cluster)]:
        process.kill()
    assert running.finished() == known


def move(cluster: Watched, number: int, moved: str, there: str) -> None:
    """Right after a move there may be no checkpoint yet that the next can begin from."""

    def accepted() -> bool:
        try:
            cluster.client.move(number, moved, there, "live", MOVE_SECONDS)
        except ClusterError as error:
            if "ask again" not in str(error):
                raise
            return False
        return True

    eventually(accepted, lambda: f"{moved} can't be moved")


def test_slices_of_a_loop_move(cluster: Watched, running: Running, known: dict[str, Any]) -> None:
    number = cluster.job()
    for moved in ("labels/0", "messages/1"):
        (here,) = cluster.client.nodes_of(number)[moved]
        there = next(name for name in cluster.members() if name != here)
        move(cluster, number, moved, there)
        assert cluster.client.nodes_of(number)[moved] == {there}
    assert running.finished() == known


def test_a_saved_loop_goes_on_where_it_was(
    place: Workplace, cluster: Watched, running: Running, known: dict[str, Any]
) -> None:
    outcome = cluster.client.savepoint(cluster.job(), MOVE_SECONDS)
    assert outcome.status == "savepoint"
    _, errors = running.process.communicate(timeout=20)
    assert running.process.returncode == 0, errors
    (run,) = (place.folder / ".streammine" / "runs").iterdir()
    assert figures(place.result("submit", running.topology, "--resume", run.name)) == known


def test_a_run_goes_on_after_everything_was_killed(tmp_path: Path, known: dict[str, Any]) -> None:
    with Workplace(tmp_path) as own:
        topology = components(
            own, "own", SHIPPED, 25, sources__edges__rate="100/s", snapshot={"every": "300ms"}
        )
        with own.start("run", topology, "--nodes", "2") as process:
            wait_for_output(own.folder / "own-out")
            runs = own.folder / ".streammine" / "runs"
            eventually(
                lambda: any(runs.glob("*/checkpoints/*.json")), lambda: "no checkpoint is complete"
            )
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=20)
        own.require_nothing_left()
        (run,) = runs.iterdir()
        done = own.run("run", topology, "--resume", run.name, "--nodes", "3", "--json")
        assert done.returncode == 0, done.stderr
        assert figures(json.loads(done.stdout)) == known
        require_right(own, "own", SHIPPED, 25)
