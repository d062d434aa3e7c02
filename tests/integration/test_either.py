"""Two receivers of one feed with real processes: a node is lost, and every epoch is what one of them got."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streammine
from tests.integration.disturbed import Watched, nodes_of
from tests.integration.workplace import Workplace, standing, wait_for_output

pytestmark = pytest.mark.slow

ROWS = 24_000
LOST = 0.05
RECEIVERS = ("east", "west")

Counts = dict[tuple[int, int], tuple[int, int]]
"""By epoch and key: how many, and the sum."""

CHOSEN: dict[str, Any] = {
    "name": "chosen",
    "epoch": {"time": "5s", "column": "ts"},
    "nodes": 3,
    "snapshot": {"every": "300ms"},
    "sources": {
        name: {"files": f"{name}.parquet", "prepare": "none", "slices": 1, "rate": "4000/s"}
        for name in RECEIVERS
    },
    "operators": {
        "feed": {"either": list(RECEIVERS)},
        "counts": {
            "input": "feed",
            "key": "key",
            "aggregate": {"count": "count()", "sum": "sum(number)"},
            "slices": 2,
            "replicas": 2,
        },
    },
    "sinks": {"result": {"input": "counts", "format": "parquet", "path": "out", "replicas": 2}},
}


def received(seed: int) -> list[tuple[int, int, int]]:
    """What one receiver got of the feed."""
    feed, own = Random(1), Random(seed)
    rows = ((number // 100, feed.randrange(40), number) for number in range(ROWS))
    return [row for row in rows if own.random() > LOST]


def counted(rows: list[tuple[int, int, int]]) -> Counts:
    found: Counts = {}
    for time, key, number in rows:
        count, total = found.get((time // 5, key), (0, 0))
        found[time // 5, key] = count + 1, total + number
    return found


@pytest.fixture(scope="module")
def feed() -> dict[str, list[tuple[int, int, int]]]:
    return {name: received(seed) for seed, name in enumerate(RECEIVERS)}


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, feed: dict[str, list[tuple[int, int, int]]]
) -> Iterator[Workplace]:
    """A workplace where a cluster of three nodes is up; nothing is left of it in the end."""
    with standing(tmp_path_factory.mktemp("either"), "--nodes", 3, at_once=False) as made:
        for name, rows in feed.items():
            columns = dict(
                zip(("ts", "key", "number"), map(list, zip(*rows, strict=True)), strict=True)
            )
            pq.write_table(pa.table(columns), made.folder / f"{name}.parquet", row_group_size=500)
        yield made


@pytest.fixture
def cluster(place: Workplace) -> Iterator[Watched]:
    watched = Watched(place)
    watched.wait_for_members(lambda members: len(members) == 3)
    yield watched
    watched.close()


def check_result(place: Workplace, output: str, feed: dict[str, Any]) -> None:
    """Each epoch of each slice is what one receiver got, whole."""
    slices = slices_of(place, output)
    assert set(slices.values()) == {0, 1}
    got: Counts = {}
    tables = [table for _, table in streammine.read_output(place.folder / output)]
    for row in pa.concat_tables(tables).to_pylist():
        key = row["epoch"], row["key"]
        assert key not in got, "a row came twice"
        got[key] = row["count"], row["sum"]
    shares = shared(got, slices)
    ways = [shared(counted(rows), slices) for rows in feed.values()]
    assert shares.keys() == {share for way in ways for share in way}
    for share, rows in shares.items():
        assert rows in [way.get(share) for way in ways], share


def slices_of(place: Workplace, output: str) -> dict[int, int]:
    """By key, the slice that counts it: that of the sink which writes its rows has the same number."""
    found: dict[int, int] = {}
    for file in (place.folder / output).glob("part-*.parquet"):
        number = int(file.name.partition("-s")[2].partition("-")[0])
        for key in pq.read_table(file, columns=["key"])["key"].to_pylist():
            assert found.setdefault(key, number) == number
    return found


def shared(counts: Counts, slices: dict[int, int]) -> dict[tuple[int, int], Counts]:
    """By epoch and slice."""
    found: dict[tuple[int, int], Counts] = {}
    for (epoch, key), row in counts.items():
        found.setdefault((epoch, slices[key]), {})[epoch, key] = row
    return found


def check_replicas(place: Workplace, output: str) -> None:
    """All replicas of a sink's slice have written the same rows of an epoch, alive at the end or not."""
    written: dict[str, list[pa.Table]] = {}
    for file in (place.folder / output).glob("part-*.parquet"):
        epoch_and_slice = file.name.partition("-g")[0]
        written.setdefault(epoch_and_slice, []).append(pq.read_table(file).sort_by("key"))
    assert any(len(tables) > 1 for tables in written.values())
    for epoch_and_slice, tables in written.items():
        assert all(each.equals(tables[0]) for each in tables), epoch_and_slice


def freeze(cluster: Watched, name: str) -> psutil.Process:
    process = cluster.process(name)
    process.suspend()
    return process


def test_without_agreement_every_epoch_is_what_one_receiver_got_too(
    place: Workplace, cluster: Watched, feed: dict[str, Any]
) -> None:
    """As long as nobody is lost: each replica chooses for itself, and the sink takes one of them."""
    topology = place.topology(
        CHOSEN,
        file="alone",
        sinks__result__path="alone",
        sinks__result__exactly_once=False,
        operators__counts__discipline="merge",
    )
    process = place.start("submit", topology, "--json")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    check_result(place, "alone", feed)
    cluster.wait_for_members(lambda members: len(members) == 3)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_every_epoch_is_what_one_receiver_got(
    place: Workplace, cluster: Watched, feed: dict[str, Any], how: str, number: int
) -> None:
    output = f"{how}-{number}"
    topology = place.topology(CHOSEN, file=output, sinks__result__path=output)
    process = place.start("submit", topology, "--json")
    wait_for_output(place.folder / output)
    name, job = list(cluster.members())[number], cluster.job()
    end: Callable[[], object]
    if how == "killed":
        cluster.kill(name)
        end = bool
    else:
        end = freeze(cluster, name).resume
    try:
        cluster.wait_for_plan(job, lambda plan: name not in nodes_of(plan))
    finally:
        end()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    check_result(place, output, feed)
    check_replicas(place, output)
    cluster.wait_for_members(lambda members: len(members) == 3)
