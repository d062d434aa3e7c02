"""Whatever the seed, the nodes, the slices, the batches and the discipline: one output."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine.testing import SimulationSettings, assert_rows, simulate
from tests.simulation import workloads

SEEDS = 200
DISCIPLINES = ("epoch", "strict")
READ_ROWS = (2, 9, 33, 1000)


def settings(seed: int) -> SimulationSettings:
    """Each seed has other batches; every fifth is on a bad network, every third short of credit."""
    return SimulationSettings(
        read_rows=READ_ROWS[seed // 4 % 4],
        frame_loss=0.05 if seed % 5 == 0 else 0.0,
        frame_duplication=0.1 if seed % 5 == 0 else 0.0,
        channel_budget_bytes=64 if seed % 3 == 0 else None,
        bag_memory_bytes=256 if seed % 7 == 0 else 1 << 20,
    )


def test_two_hundred_seeds_count_words_alike() -> None:
    lines = workloads.text()
    inputs = {"lines": pa.table({"line": lines})}
    digests = set()
    for seed in range(SEEDS):
        topology = workloads.word_count(
            slices=1 + seed // 2 % 4,
            discipline=DISCIPLINES[seed % 2],
            combine=seed % 8 < 6,
        )
        run = simulate(topology, inputs, seed=seed, nodes=1 + seed % 4, settings=settings(seed))
        if not digests:
            assert_rows(run.table("result"), workloads.counted_words(lines))
        digests.add(run.digest)
    assert len(digests) == 1


def test_two_hundred_seeds_join_alike() -> None:
    tables = workloads.orders_and_payments()
    digests = set()
    for seed in range(SEEDS):
        topology = workloads.equi_join(1 + seed // 2 % 4, discipline=DISCIPLINES[seed % 2])
        run = simulate(topology, tables, seed=seed, nodes=1 + seed % 4, settings=settings(seed))
        if not digests:
            assert_rows(run.table("result"), workloads.joined(tables))
        digests.add(run.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("files", [1, 2, 5])
def test_how_the_input_lies_in_files_makes_no_difference_to_a_count_epoch(files: int) -> None:
    lines = workloads.text()
    whole = pa.table({"line": lines})
    step = -(-len(lines) // files)
    parts = [whole.slice(start, step) for start in range(0, len(lines), step)]
    run = simulate(workloads.word_count(), {"lines": parts}, seed=files)
    assert_rows(run.table("result"), workloads.counted_words(lines))


def test_an_empty_input_gives_an_empty_output() -> None:
    run = simulate(workloads.word_count(), {"lines": pa.table({"line": pa.array([], pa.string())})})
    assert run.outputs == {"result": {}}
