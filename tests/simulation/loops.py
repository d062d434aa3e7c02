"""Topologies with loops, and what plain Python makes of their inputs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

import pyarrow as pa

from streammine import Operator, Topology, Value

EPOCH_SECONDS = 10
CLOSING = -1
FED = 1000

Row = tuple[Any, ...]


class Hub(Operator):
    """Hands everything on; when an epoch is over it adds what each id's numbers came to in all."""

    commutative = True
    ports = ("new", "again")
    output: ClassVar = {"id": "int64", "number": "int64", "hops": "int64"}
    state: ClassVar = {"total": Value(0)}

    def process_new(self, key: Any, event: Any, state: Any) -> Any:
        state.total += event.number
        return key, event.number, 0

    def process_again(self, key: Any, event: Any, state: Any) -> Any:
        state.total += event.number
        return key, event.number, event.hops

    def end_epoch(self, key: Any, state: Any) -> Any:
        return key, state.total, CLOSING


class Halve(Operator):
    """Halves numbers until they are 1, and counts in its state how many it has seen of each."""

    commutative = True
    output: ClassVar = {"id": "int64", "number": "int64", "hops": "int64"}
    state: ClassVar = {"seen": Value(0)}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.seen += 1
        if event.hops == CLOSING or event.number <= 1:
            return None
        return event.id, event.number // 2, event.hops + 1


def halving(
    slices: int = 2,
    max_rounds: int = 20,
    second: bool = False,
    sources: int = 1,
) -> Topology:
    """numbers -> hub -> halve -(even or odd, but not 0)-> hub; hub -> seen

    With `second`, what hub makes goes through a loop of its own kind once more.
    """
    topology = (
        Topology(name="halving", epoch={"time": f"{EPOCH_SECONDS}s", "column": "ts"})
        .source("numbers", files="numbers.parquet", prepare="none", slices=sources)
        .operator(
            "hub",
            inputs=["numbers", "smaller"],
            operator=Hub(),
            key="id",
            slices=slices,
            max_rounds=max_rounds,
        )
        .operator("halve", input="hub", operator=Halve(), key="number", slices=1 + slices % 3)
        .operator("smaller", input="halve", filter="number > 0")
        .sink("seen", input="hub", format="console")
    )
    if not second:
        return topology
    return (
        topology.operator("counts", input="hub", key="id", aggregate={"number": "count()"})
        .operator(
            "hub2",
            inputs=["counts", "smaller2"],
            operator=Hub(),
            key="id",
            slices=1,
            max_rounds=3,
        )
        .operator("smaller2", input="halve2", filter="number > 0")
        .operator("halve2", input="hub2", operator=Halve(), key="number", slices=slices)
        .sink("seen2", input="hub2", format="console")
    )


class Feed(Operator):
    """Lets what comes round pass, and adds other numbers to it; counts both."""

    commutative = True
    ports = ("round", "more")
    output: ClassVar = {"id": "int64", "number": "int64", "hops": "int64"}
    state: ClassVar = {"seen": Value(0)}

    def process_round(self, key: Any, event: Any, state: Any) -> Any:
        state.seen += 1
        return key, event.number, event.hops

    def process_more(self, key: Any, event: Any, state: Any) -> Any:
        state.seen += 1
        return key, event.number, FED


class Totals(Operator):
    """Says at the end of the input what each id's numbers came to."""

    commutative = True
    output: ClassVar = {"id": "int64", "number": "int64"}
    state: ClassVar = {"total": Value(0)}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.total += event.number

    def end_input(self, key: Any, state: Any) -> Any:
        return key, state.total


def fed(slices: int = 2, max_rounds: int = 20) -> Topology:
    """numbers -> hub -> halve -(but not 0)-> feed -> hub; more -> feed

    Out of the loop: hub -> seen; hub -> totals -> result.
    """
    return (
        Topology(name="fed", epoch={"time": f"{EPOCH_SECONDS}s", "column": "ts"})
        .source("numbers", files="numbers.parquet", prepare="none", slices=1)
        .source("more", files="more.parquet", prepare="none", slices=1)
        .operator(
            "hub",
            inputs=["numbers", "feed"],
            operator=Hub(),
            key="id",
            slices=slices,
            max_rounds=max_rounds,
        )
        .operator("halve", input="hub", operator=Halve(), key="number", slices=1 + slices % 3)
        .operator("smaller", input="halve", filter="number > 0")
        .operator("feed", inputs=["smaller", "more"], operator=Feed(), key="id", slices=slices)
        .sink("seen", input="hub", format="console")
        .operator("totals", input="hub", operator=Totals(), key="id", slices=slices)
        .sink("result", input="totals", format="console")
    )


def numbers(rows: int = 40, seed: int = 3, largest: int = 200) -> pa.Table:
    """Numbers with event time in seconds; some epochs hold none."""
    random = Random(seed)
    time = 1000
    columns: dict[str, list[int]] = {"ts": [], "id": [], "number": []}
    for _ in range(rows):
        time += random.choice((0, 1, 2, 3, 3, 45))
        columns["ts"].append(time)
        columns["id"].append(random.randrange(5))
        columns["number"].append(random.randrange(1, largest))
    return pa.table(columns, pa.schema([(each, pa.int64()) for each in columns]))


def halved(events: Sequence[Row], max_rounds: int, more: Sequence[Row] = ()) -> list[Row]:
    """(epoch, id, number, hops) that leave the hub; `events` are (epoch, id, number).

    `more`: those that come in behind it, so that it sees them a round later.
    """
    arriving: dict[int, list[Row]] = defaultdict(list)
    for epoch, key, number in events:
        arriving[epoch].append((key, number, 0))
    feeding: dict[int, list[Row]] = defaultdict(list)
    for epoch, key, number in more:
        feeding[epoch].append((key, number, FED))
    totals: Counter[int] = Counter()
    seen: list[Row] = []
    while arriving or feeding:
        epoch = min([*arriving, *feeding])
        bag = arriving.pop(epoch, [])
        touched = set()
        round_ = 0
        while bag or epoch in feeding:
            if round_ == max_rounds:
                arriving[epoch + 1] += bag
                break
            for key, number, hops in bag:
                totals[key] += number
                touched.add(key)
                seen.append((epoch, key, number, hops))
            bag = [(key, number // 2, hops + 1) for key, number, hops in bag if number > 1]
            bag += feeding.pop(epoch, [])
            round_ += 1
        seen += [(epoch, key, totals[key], CLOSING) for key in touched]
    return sorted(seen)


def totals_of(seen: Sequence[Row]) -> list[Row]:
    """(id, total) of rows that left the hub."""
    totals: Counter[int] = Counter()
    for _, key, number, _ in seen:
        totals[key] += number
    return sorted(totals.items())


def events_of(table: pa.Table) -> list[Row]:
    return [(row["ts"] // EPOCH_SECONDS, row["id"], row["number"]) for row in table.to_pylist()]


class Pairs(Operator):
    """Brings new numbers and those that come round together."""

    commutative = True
    ports = ("new", "again")
    output: ClassVar = {"id": "int64", "number": "int64"}

    def process_new(self, key: Any, event: Any, state: Any) -> Any:
        return key, event.number

    def process_again(self, key: Any, event: Any, state: Any) -> Any:
        return key, event.number


def summing(slices: int = 2, combine: bool = True) -> Topology:
    """numbers -> both -> sums -(doubled, below 300)-> both; sums -> result

    An aggregate fires in the final round, so what it sends back is in the next epoch.
    """
    return (
        Topology(name="summing", epoch={"time": f"{EPOCH_SECONDS}s", "column": "ts"})
        .source("numbers", files="numbers.parquet", prepare="none", slices=1)
        .operator("both", inputs=["numbers", "small"], operator=Pairs(), key="id", slices=slices)
        .operator(
            "sums",
            input="both",
            key="id",
            aggregate={"number": "sum(number)"},
            slices=1 + slices % 3,
            combine=combine,
        )
        .operator("doubled", input="sums", map={"id": "id", "number": "number * 2"})
        .operator("small", input="doubled", filter="number < 300")
        .sink("result", input="sums", format="console")
    )


def summed(events: Sequence[Row]) -> list[Row]:
    """(epoch, id, sum) that the aggregate gives; `events` are (epoch, id, number)."""
    arriving: dict[int, Counter[int]] = defaultdict(Counter)
    for epoch, key, number in events:
        arriving[epoch][key] += number
    sums: list[Row] = []
    while arriving:
        epoch = min(arriving)
        for key, total in arriving.pop(epoch).items():
            sums.append((epoch, key, total))
            if total * 2 < 300:
                arriving[epoch + 1][key] += total * 2
    return sorted(sums)
