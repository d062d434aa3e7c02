"""What each scheme costs: CPU, memory, network and nodes, weighted (Martin 2015, section 6.2).

Counted is what a slice's further replicas use beyond the one that leads, for that one, its snapshots and what
is kept upstream are the same in every scheme. Of each further replica::

    scheme                cores     memory                 network per second           nodes
    passive-replication
    deployed                                                                            1
    passive-standby-cold  refresh   state                  increment / checkpoint       1
    passive-standby-hot   refresh   state + replay         increment / checkpoint       1
                                                           + input
    active-standby        busy      state + kept output    input                        1
    active-replication    busy      state + kept output    input + output               1

A standby that does not process fetches from each checkpoint what it added (*increment*), which keeps it at
work for as long as that takes to load, of the time from one *checkpoint* to the next (*refresh*: that much at
most, for part of it is waiting), and a hot one queues what came since (*replay*). Who processes needs what
the leading replica needs (*busy*), and keeps its output, too, for as long as two checkpoints reach back. The
cost is the sum of each amount, in the unit of its weight (`CostWeights`), times that weight.
"""

from __future__ import annotations

from streammine.model.recovery_assessment import ResourceUse, SliceOutlook, StepTimes
from streammine.model.recovery_policy import CostWeights
from streammine.model.schemes import Scheme

CHECKPOINTS_KEPT = 2
"""Output is kept until that many newer checkpoints are complete."""

MEMORY_UNIT_BYTES = 1e9
NETWORK_UNIT_BYTES_PER_SECOND = 1e9 / 8


def resource_use(scheme: Scheme, outlook: SliceOutlook, times: StepTimes) -> ResourceUse:
    """By all further replicas of a slice together."""
    if not scheme.deploys:
        return ResourceUse()
    cores = memory_bytes = network_bytes_per_second = 0.0
    if scheme.holds_state:
        memory_bytes += outlook.state_bytes
    if scheme.queues:
        network_bytes_per_second += outlook.input_bytes_per_second
    if scheme.processes:
        cores += outlook.busy_share
        kept_seconds = CHECKPOINTS_KEPT * outlook.checkpoint_seconds
        memory_bytes += outlook.output_bytes_per_second * kept_seconds
    elif scheme.holds_state:
        refresh_seconds = times.loading_seconds(outlook.increment_bytes)
        cores += refresh_seconds / outlook.checkpoint_seconds
        network_bytes_per_second += outlook.increment_bytes / outlook.checkpoint_seconds
        memory_bytes += outlook.replay_bytes if scheme.queues else 0.0
    if scheme.publishes:
        network_bytes_per_second += outlook.output_bytes_per_second
    count = outlook.further_replicas
    return ResourceUse(cores * count, memory_bytes * count, network_bytes_per_second * count, count)


def weighted_cost(use: ResourceUse, weights: CostWeights) -> float:
    return (
        weights.cpu * use.cores
        + weights.memory * use.memory_bytes / MEMORY_UNIT_BYTES
        + weights.network * use.network_bytes_per_second / NETWORK_UNIT_BYTES_PER_SECOND
        + weights.nodes * use.nodes
    )
