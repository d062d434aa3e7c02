"""Topologies and inputs of the simulation tests, and what plain Python makes of the inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

import pyarrow as pa

from streammine import Mapper, Operator, Reducer, Topology, Value

EPOCH_LINES = 12
WORDS = ("the", "of", "epoch", "slice", "stream", "node", "a", "bag", "frontier", "credit")

Row = tuple[Any, ...]


def text(lines: int = 70, seed: int = 5) -> list[str]:
    """Lines of a few words; some are empty."""
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=random.randint(0, 5))) for _ in range(lines)]


def word_count(
    slices: int = 2,
    *,
    discipline: str | None = None,
    combine: bool | None = None,
    replicas: int = 1,
) -> Topology:
    """lines -> words -> counts -> result"""
    fields: dict[str, Any] = {"slices": slices}
    if discipline is not None:
        fields["discipline"] = discipline
    if combine is not None:
        fields["combine"] = combine
    return (
        Topology(name="wordcount", epoch={"count": EPOCH_LINES}, replicas=replicas)
        .source("lines", files="lines.txt", slices=1 + slices % 3)
        .operator("words", input="lines", flat_map={"split": "line", "into": "word"})
        .operator("counts", input="words", key="word", aggregate={"count": "count()"}, **fields)
        .sink("result", input="counts", format="console", commit={"every": slices})
    )


def counted_words(lines: Sequence[str]) -> list[Row]:
    """(epoch, word, count), as plain Python counts them."""
    counts = Counter(
        (number // EPOCH_LINES, word) for number, line in enumerate(lines) for word in line.split()
    )
    return [(*key, count) for key, count in counts.items()]


def orders_and_payments(rows: int = 60, seed: int = 9) -> dict[str, pa.Table]:
    """Two streams with event time in seconds; keys repeat within an epoch and some are null."""
    random = Random(seed)
    tables = {}
    for name, column in (("orders", "item"), ("payments", "cents")):
        time = 1000
        columns: dict[str, list[Any]] = {"ts": [], "id": [], column: []}
        for number in range(rows):
            time += random.choice((0, 0, 1, 1, 2, 25))
            columns["ts"].append(time)
            columns["id"].append(random.choice((None, 1, 2, 3, 4)))
            columns[column].append(number)
        tables[name] = pa.table(columns, pa.schema([(each, pa.int64()) for each in columns]))
    return tables


def equi_join(slices: int = 2, *, discipline: str | None = None, replicas: int = 1) -> Topology:
    """orders, payments -> matches -> result, in epochs of ten seconds"""
    fields: dict[str, Any] = {} if discipline is None else {"discipline": discipline}
    return (
        Topology(name="equijoin", epoch={"time": "10s", "column": "ts"}, replicas=replicas)
        .source("orders", files="orders.parquet", prepare="none", slices=slices)
        .source("payments", files="payments.parquet", prepare="none", slices=1)
        .operator(
            "matches",
            join={"left": "orders", "right": "payments", "on": ["id"]},
            slices=slices,
            **fields,
        )
        .sink("result", input="matches", format="console")
    )


def joined(tables: dict[str, pa.Table]) -> list[Row]:
    """(epoch, id, ts, item, ts of the payment, cents), as plain Python joins them."""
    left, right = (tables[name].to_pylist() for name in ("orders", "payments"))
    return [
        (a["ts"] // 10, a["id"], a["ts"], a["item"], b["ts"], b["cents"])
        for a in left
        for b in right
        if a["id"] is not None and a["id"] == b["id"] and a["ts"] // 10 == b["ts"] // 10
    ]


class Letters(Mapper):
    """Each word becomes its letters; a word with a 'q' is more than it can take."""

    output: ClassVar = {"letter": "string", "length": "int64"}

    def map(self, event: Any) -> Any:
        if "q" in event.word:
            raise ValueError("no q")
        return [(letter, len(event.word)) for letter in event.word]


class Longest(Reducer):
    """Per letter the number of its words and the longest one's length."""

    output: ClassVar = {"words": "int64", "longest": "int64"}

    def create(self) -> Any:
        return (0, 0)

    def add(self, accumulator: Any, event: Any) -> Any:
        return accumulator[0] + 1, max(accumulator[1], event.length)

    def merge(self, left: Any, right: Any) -> Any:
        return left[0] + right[0], max(left[1], right[1])

    def finish(self, key: Any, accumulator: Any) -> Any:
        return accumulator


class Chain(Operator):
    """A number per key into which every event is mixed: any other order gives another one."""

    output: ClassVar = {"key": "int64", "mixed": "int64"}
    state: ClassVar = {"mixed": Value(7)}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.mixed = chained(state.mixed, event.value)
        return key, state.mixed

    def end_input(self, key: Any, state: Any) -> Any:
        return key, -state.mixed


def chained(mixed: int, value: int) -> int:
    return (mixed * 31 + value) % 1_000_003


class Braid(Operator):
    """A number per key into which the events of two streams are mixed, and each seen on its way."""

    ports = ("left", "right")
    output: ClassVar = {"key": "int64", "mixed": "int64"}
    state: ClassVar = {"mixed": Value(7)}

    def process_left(self, key: Any, event: Any, state: Any) -> Any:
        state.mixed = chained(state.mixed, event.value)
        return key, state.mixed

    def process_right(self, key: Any, event: Any, state: Any) -> Any:
        state.mixed = chained(state.mixed, -event.value)
        return key, state.mixed


def keyed_values(rows: int, seed: int = 3) -> pa.Table:
    random = Random(seed)
    keys = [random.randrange(5) for _ in range(rows)]
    return pa.table({"key": keys, "value": [random.randrange(1000) for _ in range(rows)]})


def braid(
    epoch_rows: int = 10,
    slices: int = 2,
    source_slices: int = 2,
    discipline: str = "merge",
    replicas: int = 1,
) -> Topology:
    """Two streams into one operator that depends on the order of all its events::

    left --odd--+
                +--> braid --> result
    right ------+
    """
    return (
        Topology(name="braid", epoch={"count": epoch_rows}, replicas=replicas)
        .source("left", files="left.parquet", prepare="none", slices=source_slices)
        .source("right", files="right.parquet", prepare="none", slices=source_slices)
        .operator("odd", input="left", filter="value % 2 = 1 or key = 0")
        .operator(
            "braid",
            inputs=["odd", "right"],
            key="key",
            operator=Braid,
            slices=slices,
            discipline=discipline,
        )
        .sink("result", input="braid", format="console")
    )


class PairChain(Operator):
    """As Chain, of the pairs of a join."""

    output: ClassVar = {"id": "int64", "mixed": "int64"}
    state: ClassVar = {"mixed": Value(7)}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.mixed = chained(chained(state.mixed, event.item), event.cents)
        return key, state.mixed


def braided_pairs(slices: int = 2) -> Topology:
    """The join, and behind it an operator that depends on the order of its rows."""
    topology = equi_join(slices).model_copy(update={"sinks": {}})
    return topology.operator(
        "chain", input="matches", key="id", operator=PairChain, slices=slices, discipline="merge"
    ).sink("result", input="chain", format="console")
