"""The recovery line: which snapshot each lost slice is restored from (DESIGN §5).

A slice that was lost goes back to a snapshot and takes the epochs after it again from upstream's
retention; nobody else rolls back. Let L be the slices that are rebuilt, S(x) the epoch whose state
x is rebuilt from. Then for every x in L

* what living consumers lack comes again:     S(x) < lacks_from(y)      for consumers y that live,
* what rebuilt consumers will ask for, too:   S(x) <= S(y)              for consumers y in L,
* what x needs can be sent to it:             retained_after(u) <= S(x) for producers u not in L.

The beginning satisfies the first two whatever the bound. A living producer u that breaks the third is
rebuilt as well: a second replica of it makes again what the living one no longer holds.

Example, A → B → C: B has snapshots 10 and 20, C lacks epochs from 18 on, and B is lost. From 20 it would
never make 18 to 20 again, so S(B) = 10, and it takes 11 and later from A. That is why retention is
pruned by complete checkpoints alone: had A pruned up to B's durable snapshot 20, A would have to be
rebuilt as well.

A replica that stood by, and is the first now, holds the state of a complete checkpoint and makes what comes
after it. Where a living consumer lacks an epoch up to that one, it is rebuilt, too.

Every rule bounds S(x) from above by something that only falls, or adds to L, which only grows. So taking
the newest snapshots first and lowering them until every rule holds ends, after at most as many steps as
there are snapshots and slices, in *the* best answer: the fewest slices rebuilt, and each from the newest
snapshot that any answer could give it (the greatest fixed point of monotone rules; Tarski 1955). Nothing
in that asks the graph to have no cycles. Consumers are looked at before their producers, so that a
graph without cycles takes few rounds.

Uncoordinated snapshots can make such a line fall back without end, the domino effect (Elnozahy et al.
2002, section 2). Here it can't pass the older of the last two complete checkpoints while that one is
sound: every slice has a snapshot there, and everything after it is retained.
"""

from __future__ import annotations

from collections.abc import Mapping

from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.model.recovery import LineStanding


def recovery_line(graph: JobGraph, standings: Mapping[SliceId, LineStanding]) -> dict[SliceId, int]:
    """Epoch by slice that must be rebuilt, BEGINNING for "from nothing"; {} when nobody is lost.

    `standings` holds all slices of the graph.
    """
    line = {
        slice_id: max(standings[slice_id].snapshots, default=BEGINNING)
        for slice_id in graph.slices
        if not standings[slice_id].alive or _holds_too_little(graph, standings, slice_id)
    }
    changed = bool(line)
    while changed:
        changed = False
        for slice_id in reversed(graph.slices):
            if slice_id in line:
                changed |= _lower(graph, standings, line, slice_id)
                changed |= _add_producers(graph, standings, line, slice_id)
    return {slice_id: line[slice_id] for slice_id in graph.slices if slice_id in line}


def _holds_too_little(
    graph: JobGraph, standings: Mapping[SliceId, LineStanding], slice_id: SliceId
) -> bool:
    """A consumer that lives lacks what no replica makes: one that stood by was made the first, and its state
    had gone ahead of that consumer."""
    held_after = standings[slice_id].held_after
    consumers = (standings[channel.target] for channel in graph.outputs[slice_id])
    return held_after != BEGINNING and any(
        each.alive and each.lacks_from <= held_after for each in consumers
    )


def _lower(
    graph: JobGraph,
    standings: Mapping[SliceId, LineStanding],
    line: dict[SliceId, int],
    slice_id: SliceId,
) -> bool:
    """Give the slice the newest snapshot that its consumers allow; whether that changed it."""
    bound = line[slice_id]
    for channel in graph.outputs[slice_id]:
        consumer = channel.target
        if consumer in line:
            bound = min(bound, line[consumer])
        if standings[consumer].alive:
            bound = min(bound, standings[consumer].lacks_from - 1)
    if bound == line[slice_id]:
        return False
    possible = [epoch for epoch in standings[slice_id].snapshots if epoch <= bound]
    lowered = max(possible, default=BEGINNING)
    changed = lowered != line[slice_id]
    line[slice_id] = lowered
    return changed


def _add_producers(
    graph: JobGraph,
    standings: Mapping[SliceId, LineStanding],
    line: dict[SliceId, int],
    slice_id: SliceId,
) -> bool:
    """Rebuild living producers that don't hold what the slice needs; whether there are any."""
    changed = False
    for channel in graph.inputs[slice_id]:
        producer = channel.source
        if producer not in line and standings[producer].retained_after > line[slice_id]:
            line[producer] = max(standings[producer].snapshots, default=BEGINNING)
            changed = True
    return changed
