"""Frames that are lost, come twice or too early: resends and announcements bring all of them, once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine.testing import SimulationSettings, assert_rows, simulate
from tests.simulation import workloads

LINES = workloads.text()
INPUTS = {"lines": pa.table({"line": LINES})}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("loss", [0.02, 0.3, 0.6])
def test_every_lost_frame_is_sent_again(loss: float, seed: int) -> None:
    settings = SimulationSettings(frame_loss=loss, read_rows=9)
    run = simulate(workloads.word_count(3), INPUTS, seed=seed, nodes=3, settings=settings)
    assert loss < 0.1 or run.frames_lost > 0
    assert_rows(run.table("result"), workloads.counted_words(LINES))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("discipline", ["epoch", "strict"])
def test_a_frame_that_comes_twice_counts_once(discipline: str, seed: int) -> None:
    settings = SimulationSettings(frame_duplication=0.8, read_rows=9)
    topology = workloads.word_count(3, discipline=discipline)
    run = simulate(topology, INPUTS, seed=seed, nodes=3, settings=settings)
    assert run.frames_doubled > 0
    assert_rows(run.table("result"), workloads.counted_words(LINES))


@pytest.mark.parametrize("seed", range(8))
def test_both_at_once_on_channels_with_hardly_any_credit(seed: int) -> None:
    settings = SimulationSettings(
        frame_loss=0.2, frame_duplication=0.2, channel_budget_bytes=1, read_rows=9
    )
    tables = workloads.orders_and_payments()
    run = simulate(workloads.equi_join(3), tables, seed=seed, nodes=4, settings=settings)
    assert_rows(run.table("result"), workloads.joined(tables))
