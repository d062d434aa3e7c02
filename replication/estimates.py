"""How long a recovery would take under each scheme.

Every recovery goes up the same ladder (DESIGN §5), and a scheme has climbed some rungs of it before the crash
(Martin 2015, section 6.2, Figure 6)::

    scheme                detect  switch  deploy  load  catch up
    passive-replication   x       x       x       x     with all that came after the checkpoint
    deployed              x       x               x     the same
    passive-standby-cold  x       x                     the same
    passive-standby-hot   x       x                     the same, but it lies in its queue
    active-standby        x       x                     with its own queue, and meanwhile it goes on
    active-replication                                  with its own queue

    detect   measured: from the loss until the manager knows of it
    switch   measured: until the plan has reached all nodes, and links are subscribed
    deploy   measured: building the operator; times the slices that are built on the same node
    load     measured, by size: all snapshots that are loaded on the same node, one after the other
    catch up (backlog + input rate x outage) / (rate - input rate)

The thesis names what such an estimate rests on, the checkpoint's size and the input's rate (section 6.1); the
formulas are ours. What is lost is a node, with all slices that it leads: each of the nodes left makes up for
its share of them, one after the other (`SharedLoss`), whatever their schemes are: these are chosen alike. So
the *rate* is that part of what the slice processes while it catches up that their work leaves to it. The
*outage* is everything before the replica processes again. The *backlog* of the first four is the input after
the newest complete checkpoint at the worst moment (`SliceOutlook`), and more comes during the outage and
while it catches up. Who is not faster than the input never catches up. Where the input waits for the slice,
nothing comes meanwhile: catching up takes backlog / rate.

Under gap recovery the first three make up for nothing that came until the loss was known: what is left out is
settled then. There is no backlog but what comes from then on, until the replica processes again, and that
upstream keeps. What a replica has in its own queue is not lost, so the others recover as ever.
"""

from __future__ import annotations

import math

from streammine.model.recovery_assessment import RecoveryEstimate, SliceOutlook, StepTimes
from streammine.model.recovery_policy import RecoverySemantics
from streammine.model.schemes import Scheme


def recovery_estimates(
    outlook: SliceOutlook, times: StepTimes, semantics: RecoverySemantics
) -> dict[Scheme, RecoveryEstimate]:
    """Of every scheme, in the order of the ladder."""
    return {scheme: recovery_estimate(scheme, outlook, times, semantics) for scheme in Scheme}


def recovery_estimate(
    scheme: Scheme, outlook: SliceOutlook, times: StepTimes, semantics: RecoverySemantics
) -> RecoveryEstimate:
    if scheme.publishes:
        return RecoveryEstimate(catch_up_seconds=_own_queue_seconds(outlook))
    detect_seconds, switch_seconds = times.detect_seconds, times.switch_seconds
    if scheme.processes:
        # it works its queue off while others notice the loss
        left_seconds = max(0.0, _own_queue_seconds(outlook) - detect_seconds - switch_seconds)
        return RecoveryEstimate(detect_seconds, switch_seconds, catch_up_seconds=left_seconds)
    shared = outlook.shared
    deploy_seconds = 0.0 if scheme.deploys else times.deploy_seconds * shared.slices
    load_seconds = 0.0 if scheme.holds_state else _load_seconds(outlook, times)
    known_seconds = switch_seconds + deploy_seconds + load_seconds
    outage_seconds = detect_seconds + known_seconds
    rate = outlook.processing_bytes_per_second * _own_share(outlook)
    if semantics == "gap" and not scheme.queues:
        catch_up_seconds = _catch_up_seconds(outlook, 0.0, rate, known_seconds)
    else:
        catch_up_seconds = _catch_up_seconds(outlook, outlook.replay_bytes, rate, outage_seconds)
    return RecoveryEstimate(
        detect_seconds, switch_seconds, deploy_seconds, load_seconds, catch_up_seconds
    )


def _load_seconds(outlook: SliceOutlook, times: StepTimes) -> float:
    """Of all snapshots on the node, or of its own if that takes longer than the node's share of all."""
    together = (times.loading_seconds(nbytes, count) for count, nbytes in outlook.shared.snapshots)
    return max(times.loading_seconds(outlook.load_bytes), sum(together))


def _own_share(outlook: SliceOutlook) -> float:
    """Of the work that the node has to catch up with where the slice is rebuilt, at the worst moment: its
    input is at its highest then."""
    others = max(0.0, outlook.shared.replay_share - outlook.replay_share)
    rate = outlook.processing_bytes_per_second
    own = max(outlook.replay_share, outlook.input_bytes_per_second / rate if rate else 0.0)
    return own / (own + others) if own > 0 else 1.0


def _own_queue_seconds(outlook: SliceOutlook) -> float:
    rate = outlook.processing_bytes_per_second
    return _catch_up_seconds(outlook, outlook.standby_queued_bytes, rate, 0.0)


def _catch_up_seconds(
    outlook: SliceOutlook, backlog_bytes: float, bytes_per_second: float, outage_seconds: float
) -> float:
    arriving = 0.0 if outlook.input_waits else outlook.input_bytes_per_second
    behind_bytes = backlog_bytes + arriving * outage_seconds
    if behind_bytes == 0:
        return 0.0
    gain = bytes_per_second - arriving
    return behind_bytes / gain if gain > 0 else math.inf
