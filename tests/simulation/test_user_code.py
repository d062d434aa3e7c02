"""Mappers, Reducers and Operators of users, and the rows that they can't take."""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from streammine import JobFailedError, Mapper, Operator, Topology, Value
from streammine.testing import SimulationSettings, assert_rows, simulate
from tests.simulation import workloads

WORDS = ["apple", "queen", "bag", "plum", "bag", "quay", "egg", "lap"]


def letters(slices: int) -> Topology:
    return (
        Topology(name="letters", epoch={"count": 4})
        .source("words", files="words.parquet", prepare="none")
        .operator("letters", input="words", operator=workloads.Letters, on_error="dead_letter")
        .operator(
            "longest", input="letters", key="letter", operator=workloads.Longest, slices=slices
        )
        .sink("result", input="longest", format="json", path="out")
    )


def longest_by_hand() -> list[tuple[Any, ...]]:
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for number, word in enumerate(WORDS):
        for letter in "" if "q" in word else word:
            words, longest = found.get((number // 4, letter), (0, 0))
            found[number // 4, letter] = words + 1, max(longest, len(word))
    return [(*key, *value) for key, value in found.items()]


@pytest.mark.parametrize("seed", range(12))
def test_a_mapper_and_a_reducer_with_dead_letters(seed: int) -> None:
    words = {"words": pa.table({"word": WORDS})}
    settings = SimulationSettings(read_rows=3)
    run = simulate(letters(1 + seed % 4), words, seed=seed, nodes=1 + seed % 3, settings=settings)
    assert_rows(run.table("result"), longest_by_hand())
    assert run.dead_letters is not None
    assert run.dead_letters.column("origin").to_pylist() == ["letters"] * 2
    assert all("no q" in reason for reason in run.dead_letters.column("reason").to_pylist())
    assert sum(each["rows_dead"] for each in run.counters.values()) == 2


def chain(slices: int, sources: int) -> Topology:
    return (
        Topology(name="chain", epoch={"time": "5s", "column": "ts"})
        .source("numbers", files="n.parquet", prepare="none", slices=sources, lateness="20s")
        .operator("mixed", input="numbers", key="key", operator=workloads.Chain, slices=slices)
        .sink("result", input="mixed", format="json", path="out", ordered=True)
    )


def disordered_numbers(rows: int = 120) -> pa.Table:
    """Times go up and, by up to 12 seconds, down again: epochs of a read are out of order."""
    random = Random(3)
    reached = [100 + number // 3 for number in range(rows)]
    return pa.table(
        {
            "ts": [time - random.choice((0, 0, 3, 12)) for time in reached],
            "key": [random.randrange(3) for _ in range(rows)],
            "value": list(range(rows)),
        }
    )


def chained_by_hand(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in (epoch, time, position) order: epochs follow from times, and sorting is stable."""
    state: dict[int, int] = {}
    rows = []
    for event in sorted(table.to_pylist(), key=lambda event: event["ts"]):
        key = event["key"]
        state[key] = workloads.chained(state.get(key, 7), event["value"])
        rows.append((key, state[key]))
    return rows + [(key, -mixed) for key, mixed in sorted(state.items())]


@pytest.mark.parametrize("seed", range(24))
def test_an_order_sensitive_operator_sees_one_order_however_many_slices(seed: int) -> None:
    table = disordered_numbers()
    settings = SimulationSettings(
        read_rows=(4, 17, 200)[seed % 3],
        frame_loss=0.1 * (seed % 2),
        channel_budget_bytes=1 if seed % 4 == 0 else None,
    )
    topology = chain(slices=1 + seed % 4, sources=1 + seed // 4 % 3)
    run = simulate(topology, {"numbers": table}, seed=seed, nodes=1 + seed % 3, settings=settings)
    assert_rows(run.table("result"), chained_by_hand(table), ordered=True)
    if seed == 0:
        assert len(run.outputs["result"]) > 3


def test_all_seeds_of_an_ordered_output_have_one_digest() -> None:
    numbers = {"numbers": disordered_numbers()}
    runs = [
        simulate(chain(1 + seed % 4, 1 + seed % 3), numbers, seed=seed, nodes=1 + seed % 4)
        for seed in range(12)
    ]
    assert len({run.digest for run in runs}) == 1


class Rounds(Operator):
    """For every key, at the end of each epoch: how many it has seen end since its first event."""

    output: ClassVar = {"key": "int64", "rounds": "int64"}
    state: ClassVar = {"rounds": Value(0)}
    every_key = True

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.rounds = state.rounds or 0

    def end_epoch(self, key: Any, state: Any) -> Any:
        state.rounds += 1
        return key, state.rounds


def test_ends_of_epochs_concern_every_key_however_many_slices() -> None:
    # each epoch's events are of one key only, so of one slice
    table = pa.table({"key": [number // 2 for number in range(12)]})
    digests = set()
    for seed in range(9):
        topology = (
            Topology(name="rounds", epoch={"count": 2})
            .source("numbers", files="n.parquet", prepare="none", slices=1 + seed // 3)
            .operator("rounds", input="numbers", key="key", operator=Rounds, slices=1 + seed % 3)
            .sink("result", input="rounds", format="json", path="out")
        )
        run = simulate(topology, {"numbers": table}, seed=seed, nodes=1 + seed % 2)
        rows = [(key, epoch - key + 1) for epoch in range(6) for key in range(epoch + 1)]
        assert_rows(run.table("result"), rows)
        digests.add(run.digest)
    assert len(digests) == 1


class Fails(Mapper):
    output: ClassVar = {"word": "string"}

    def map(self, event: Any) -> Any:
        raise ZeroDivisionError(event.word)


class FailsAtClose(Operator):
    output: ClassVar = {"word": "string"}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        raise ZeroDivisionError(event.word)


@pytest.mark.parametrize("kind", [Fails, FailsAtClose])
def test_an_error_of_user_code_ends_the_job_and_names_the_operator(kind: type) -> None:
    key = {} if kind is Fails else {"key": "word"}
    topology = (
        Topology(name="failing", epoch={"count": 4})
        .source("words", files="words.parquet", prepare="none")
        .operator("breaks", input="words", operator=kind, **key)
        .sink("result", input="breaks", format="json", path="out")
    )
    for seed in range(4):
        with pytest.raises(JobFailedError, match="breaks"):
            simulate(topology, {"words": pa.table({"word": WORDS})}, seed=seed)


def test_late_rows_and_rows_without_time_are_dead_letters_and_counted() -> None:
    times = [10, 11, None, 30, 5, 31, None, 29]
    table = pa.table({"ts": times, "key": [1] * 8, "value": range(8)})
    topology = (
        Topology(name="late", epoch={"time": "5s", "column": "ts"})
        .source("numbers", files="n.parquet", prepare="none")
        .operator("counts", input="numbers", key="key", aggregate={"count": "count()"})
        .sink("result", input="counts", format="console")
    )
    for seed in range(10):
        settings = SimulationSettings(read_rows=1 + seed % 4)
        run = simulate(topology, {"numbers": table}, seed=seed, settings=settings)
        # 5 is a whole epoch behind 30; 29 is in the epoch before 31's
        assert_rows(run.table("result"), [(2, 1, 2), (6, 1, 2)])
        assert run.dead_letters is not None
        assert sorted(run.dead_letters.column("row").to_pylist()) == [2, 4, 6, 7]
        used = sum(count for count in run.table("result").column("count").to_pylist())
        dead = sum(each["rows_dead"] for each in run.counters.values())
        read = sum(run.counters[name]["rows_in"] for name in run.counters if "numbers" in name)
        assert read == used + dead == len(times)


def test_an_input_of_dead_rows_only_is_dead_letters_only() -> None:
    table = pa.table({"ts": pa.array([None] * 9, pa.int64()), "key": [1] * 9})
    topology = (
        Topology(name="dead", epoch={"time": "5s", "column": "ts"})
        .source("numbers", files="n.parquet", prepare="none")
        .operator("counts", input="numbers", key="key", aggregate={"count": "count()"})
        .sink("result", input="counts", format="console")
    )
    for seed in range(4):
        settings = SimulationSettings(read_rows=2)
        run = simulate(topology, {"numbers": table}, seed=seed, settings=settings)
        assert run.outputs == {"result": {}}
        assert run.dead_letters is not None
        assert run.dead_letters.num_rows == 9


class WithEpoch(Mapper):
    """Numbers with the epoch that they are told to be of."""

    output: ClassVar = {"epoch": "int64", "n": "int64"}

    def map(self, event: Any) -> Any:
        return self.context.epoch, event.n


class OddWithEpoch(Mapper):
    """All at once; only where there is an odd one, the epoch is looked at."""

    output = WithEpoch.output

    def map_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = batch.column("n")
        odd = [number % 2 == 1 for number in numbers.to_pylist()]
        epoch = self.context.epoch if any(odd) else None
        epochs = pa.array([epoch if each else None for each in odd], pa.int64())
        return pa.record_batch({"epoch": epochs, "n": numbers})


def told_epochs(mapper: type[Mapper], shuffled: bool) -> Topology:
    """The mapper stands behind a source, or behind an operator that has several slices."""
    topology = Topology(name="told", epoch={"count": 3}).source(
        "numbers", files="n.parquet", prepare="none"
    )
    if shuffled:
        topology = topology.operator(
            "told", input="numbers", key="n", aggregate={"times": "count()"}, slices=2
        )
    return topology.operator(
        "mapped", input="told" if shuffled else "numbers", operator=mapper
    ).sink("result", input="mapped", format="json", path="out")


@pytest.mark.parametrize("shuffled", [False, True], ids=["source", "operator"])
@pytest.mark.parametrize("mapper", [WithEpoch, OddWithEpoch])
@pytest.mark.parametrize("seed", range(4))
def test_a_mapper_is_told_the_epoch_of_its_rows(
    mapper: type[Mapper], shuffled: bool, seed: int
) -> None:
    numbers = [4, 8, 6, 2, 10, 12, *range(14, 60)]
    settings = SimulationSettings(read_rows=(7, 1000)[seed % 2], work_delay_seconds=0.02)
    run = simulate(
        told_epochs(mapper, shuffled),
        {"numbers": pa.table({"n": numbers})},
        seed=seed,
        settings=settings,
    )
    expected = [
        (place // 3 if mapper is WithEpoch or number % 2 else None, number)
        for place, number in enumerate(numbers)
    ]
    assert_rows(run.table("result"), expected)
