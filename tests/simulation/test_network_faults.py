"""Frames that are lost, come twice or too early: resends and announcements bring all of them, once.

So do lost credits, announcements and requests: every heartbeat says again what may not have arrived.
"""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest

from streammine.testing import SimulationResult, SimulationSettings, assert_rows, simulate
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


LOSSES = [0.3, 0.9]
SEEDS = range(12)


@functools.cache
def undisturbed(workload: str) -> str:
    """The digest over a network that loses nothing."""
    return run_of(workload, SimulationSettings(), 0).digest


def run_of(workload: str, settings: SimulationSettings, seed: int) -> SimulationResult:
    if workload == "word count":
        return simulate(workloads.word_count(3), INPUTS, seed=seed, nodes=3, settings=settings)
    tables = workloads.orders_and_payments()
    return simulate(workloads.equi_join(3), tables, seed=seed, nodes=4, settings=settings)


def one_node(run: SimulationResult) -> bool:
    """Whether the job was placed before others had joined: then nothing crosses the network."""
    return run.frames_sent == 0


def lossy(loss: float, duplication: float = 0.0) -> SimulationSettings:
    """Frames, and even more so what controls them, get lost where little may be under way.

    Announcement and request both arrive in one of a hundred heartbeats where nine of ten messages are
    lost, so silence for minutes is no sign of being stuck.
    """
    return SimulationSettings(
        frame_loss=0.1,
        frame_duplication=duplication,
        control_loss=loss,
        channel_budget_bytes=200,
        read_rows=9,
        quiet_limit_seconds=30.0 if loss < 0.5 else 600.0,
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("workload", ["word count", "join"])
def test_lost_control_messages_neither_stop_a_job_nor_change_it(
    workload: str, loss: float, seed: int
) -> None:
    run = run_of(workload, lossy(loss), seed)
    assert run.messages_lost > 0 or one_node(run)
    assert run.digest == undisturbed(workload)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("workload", ["word count", "join"])
def test_nor_do_they_where_frames_come_twice_as_well(workload: str, loss: float, seed: int) -> None:
    run = run_of(workload, lossy(loss, duplication=0.3), seed)
    assert run.messages_lost > 0 or one_node(run)
    assert run.frames_doubled > 0 or one_node(run)
    assert run.digest == undisturbed(workload)
