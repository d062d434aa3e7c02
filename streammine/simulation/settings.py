"""How a simulated cluster behaves."""

from __future__ import annotations

from dataclasses import dataclass

MOST_SLOWNESS = 25.0
"""However many faults slow a node or its messages down: slower than that they would look stuck."""


@dataclass(frozen=True)
class SimulationSettings:
    """Delays are upper bounds of even distributions, in virtual seconds.

    `frame_loss` and `frame_duplication` are probabilities per data frame between two nodes, and
    `control_loss` is one per control message (a node's credits or announcements for another, a
    request, a heartbeat); what stays inside a node, or goes over the coordination service, is never
    lost. `read_rows` is the most that a source reads at once; the shell reads a random number up to it
    where `random_read_sizes` is set.
    `serialised`: bodies cross the network as bytes. `channel_budget_bytes` is the credit of each
    channel, None for the engine's own. Sources without a rate of their own give their rows within
    `source_seconds`, in lots of `read_rows`; None for as fast as they can. `quiet_limit_seconds`: without
    progress for so long a run is stuck.

    `clock_rate`: what machines take for seconds, per virtual second; their timeouts are made for real
    clusters. `clock_skew_seconds`: how far a node's system clock is ahead or behind at most.
    A session with the coordination service is over when the service has heard nothing of a node for
    `session_timeout_seconds`. `checkpoint_epochs`: a checkpoint is named after so many epochs, None for
    none. `check_every`: the inside of every machine is looked at after each so-many-th step (what
    machines ask for and get is checked at every step). `convergence_seconds`: once the last fault is
    over, the job must be over, or have closed one more epoch, within them. `traced`: the result has the
    hash of every stimulus and effect.
    """

    network_delay_seconds: float = 0.01
    work_delay_seconds: float = 0.01
    coordination_delay_seconds: float = 0.02
    join_delay_seconds: float = 0.2
    heartbeat_seconds: float = 0.25
    clock_rate: float = 1.0
    clock_skew_seconds: float = 0.0
    session_timeout_seconds: float = 0.4
    frame_loss: float = 0.0
    frame_duplication: float = 0.0
    control_loss: float = 0.0
    read_rows: int = 64
    random_read_sizes: bool = True
    source_seconds: float | None = None
    serialised: bool = True
    channel_budget_bytes: int | None = None
    bag_memory_bytes: int = 256 << 20
    checkpoint_epochs: int | None = None
    check_every: int = 1
    step_limit: int = 1_000_000
    quiet_limit_seconds: float = 30.0
    convergence_seconds: float = 120.0
    traced: bool = True

    def __post_init__(self) -> None:
        assert 0.0 <= self.frame_loss < 1.0, "a network that loses every frame gets nowhere"
        assert 0.0 <= self.frame_duplication <= 1.0
        assert 0.0 <= self.control_loss < 1.0, "a network that loses every message gets nowhere"
        assert self.read_rows > 0
        assert self.check_every > 0
