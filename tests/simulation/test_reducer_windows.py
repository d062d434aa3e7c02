"""A Reducer over windows of several epochs: what leaves, however it is run and whatever fails meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology, TopologyError
from streammine.simulation.workload import Workload
from streammine.testing import assert_deterministic, assert_rows, simulate
from tests.simulation import workloads
from tests.simulation.seeds import PORTION, Seeds

WINDOW = 3
EPOCHS = 20
ROWS = 200


def letters() -> pa.Table:
    words = [word for line in workloads.text(ROWS) for word in line.split()][:ROWS]
    columns = {
        "ts": list(range(ROWS)),
        "letter": [word[0] for word in words],
        "length": [len(word) for word in words],
    }
    return pa.table(columns)


def longest(window: str, epoch: dict[str, Any], **settings: Any) -> Topology:
    return (
        Topology(name="longest", epoch=epoch)
        .source("letters", files="letters.parquet", prepare="none", slices=2)
        .operator(
            "longest",
            input="letters",
            key="letter",
            operator=settings.pop("operator", workloads.Longest),
            window=window,
            **settings,
        )
        .sink("result", input="longest", format="console")
    )


def expected(rows_per_window: int) -> Iterator[tuple[int, str, int, int]]:
    found: dict[tuple[int, str], list[int]] = {}
    for row in letters().to_pylist():
        found.setdefault((row["ts"] // rows_per_window, row["letter"]), []).append(row["length"])
    for (window, letter), lengths in found.items():
        yield (window + 1) * WINDOW - 1, letter, len(lengths), max(lengths)


BY_TIME = {"time": "10s", "column": "ts"}


@pytest.mark.parametrize(
    ("window", "epoch"),
    [("30s", BY_TIME), ("3 epochs", BY_TIME), ("3 epochs", {"count": ROWS // EPOCHS})],
)
@pytest.mark.parametrize("combine", [True, False])
def test_each_window_is_folded_once(window: str, epoch: dict[str, Any], combine: bool) -> None:
    topology = longest(window, epoch, slices=2, combine=combine)
    done = assert_deterministic(topology, {"letters": letters()}, seeds=range(6))
    assert_rows(done.table("result"), list(expected(WINDOW * ROWS // EPOCHS)))


WINDOWS = Seeds(Workload(longest("30s", BY_TIME, slices=2), {"letters": letters()}))


@pytest.mark.parametrize("first", range(0, 20, PORTION))
def test_windows_outlive_whatever_happens(first: int) -> None:
    WINDOWS.run("all", range(first, first + PORTION))


def test_the_window_is_told_in_the_context() -> None:
    class Told(workloads.Longest):
        output = {"start": "int64", "end": "int64"}  # noqa: RUF012

        def finish(self, key: Any, accumulator: Any) -> Any:
            return self.context.window

    topology = longest("30s", BY_TIME, operator=Told)
    rows = simulate(topology, {"letters": letters()}).table("result").to_pylist()
    assert {(row["start"], row["end"]) for row in rows} == {
        (start * 1_000_000, (start + 30) * 1_000_000) for start in range(0, ROWS, 30)
    }


@pytest.mark.parametrize(
    ("operator", "key", "message"),
    [
        (
            workloads.Chain,
            "letter",
            "only a Reducer takes a window; an Operator keeps in its state",
        ),
        (workloads.Letters, (), "only a Reducer takes a window"),
    ],
)
def test_a_window_of_other_code_is_refused(operator: type, key: Any, message: str) -> None:
    topology = (
        Topology(name="longest", epoch=BY_TIME)
        .source("letters", files="letters.parquet", prepare="none")
        .operator("longest", input="letters", key=key, operator=operator, window="30s")
        .sink("result", input="longest", format="console")
    )
    with pytest.raises(TopologyError, match=message):
        simulate(topology, {"letters": letters()})


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("25s", "window 25s is no whole multiple of the epoch, 10s; write 20s or 30s"),
        ({"length": "20s", "slide": "10s"}, "it takes tumbling windows only.*5m or 10 epochs"),
        ("global", "it takes tumbling windows only"),
        ("0 epochs", "A window is 5m or 10 epochs"),
    ],
)
def test_a_window_that_can_not_be_is_refused(window: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        simulate(longest(window, BY_TIME), {"letters": letters()})
