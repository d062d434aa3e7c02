"""What the benchmark of orderings says of its runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.ordering import ordering
from benchmarks.ordering_picture import draw
from benchmarks.ordering_receivers import SIDES, Agreed, received, topology
from benchmarks.ordering_runs import Ordering
from benchmarks.pictures import save_picture
from click.testing import CliRunner


def found(nodes: int = 2) -> Ordering:
    return Ordering(
        "words",
        nodes,
        1_000_000,
        {"epoch": [(1.0, 2.0), (3.0, 3.0), (2.0, 2.0)], "merge": [(1.0, 1.0), (2.0, 4.0)]},
        {"consensus": [2.5], "strict": [5.0, 7.0, 6.0]},
    )


def test_a_discipline_is_compared_with_the_run_beside_it() -> None:
    assert found().ratio("epoch").median == 1.0
    assert found().ratio("merge").median == pytest.approx(0.75)
    medians = {"none": 2.0, "epoch": 2.0, "merge": 2.5, "consensus": 2.5, "strict": 6.0}
    assert found().medians == medians
    figures = found().figures()
    assert figures["strict_ratio"] == pytest.approx(0.3333)
    assert figures["consensus_ratio"] == pytest.approx(0.8)
    assert figures["merge_ratio"]["median"] == pytest.approx(0.75)
    assert figures["runs"]["none"] == [1.0, 3.0, 2.0, 1.0, 2.0]


def test_nodes_that_are_no_number_are_refused() -> None:
    done = CliRunner().invoke(ordering, ["--nodes", "some"])
    assert done.exit_code == 2
    assert "'some' is neither a number from 1 to 64 nor all" in done.output


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture_is_drawn_in_the_format_of_its_name(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "pictures" / f"ordering.{ending}"
    save_picture(picture, lambda figure: draw(figure, [found(1), found(2)]))
    assert picture.stat().st_size > 1000


def test_consensus_is_compared_with_merge_over_the_same_receivers(tmp_path: Path) -> None:
    feed = tmp_path / "readings.parquet"
    pq.write_table(pa.table({"ts": list(range(4000))}), feed)
    lost = [
        set(range(4000)) - set(pq.read_table(received(feed, each))["ts"].to_pylist())
        for each in (0, 1)
    ]
    assert all(10 < len(each) < 100 for each in lost)
    assert lost[0] != lost[1]
    made = {side: topology("readings", {"readings": feed}, tmp_path, 2, side) for side in SIDES}
    for side in ("merge", "consensus"):
        assert list(made[side].sources) == ["readings_east", "readings_west"]
        assert made[side].operators["result_rows"].discipline == side
    assert list(made["one receiver"].sources) == ["readings"]
    assert all(each.replicas == 2 for each in made.values())
    for each in made.values():
        each.check()
    seconds = [(1.0, 2.0, 1.0), (3.0, 3.0, 1.5), (2.0, 1.0, 2.0)]
    rounds = [dict(zip(SIDES, each, strict=True)) for each in seconds]
    ratios = Agreed("readings", 2, 10, rounds).figures()["consensus_ratio"]
    assert ratios["merge"]["median"] == 1.0
    assert ratios["one receiver"]["median"] == 0.5
