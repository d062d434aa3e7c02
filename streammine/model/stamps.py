"""Stamps: time inside a loop is the pair (epoch, round), as one integer (DESIGN §5, "Loops").

A stamp is ``epoch << 20 | round``, so stamps of one epoch are ordered by their rounds, and all stamps of
an epoch lie below those of the next. The *final* round comes behind every other; there windows and timers
fire, and ``final(e) + 1 == stamp(e + 1, 0)``. BEGINNING and INFINITY stay themselves.

What a frontier, a channel's log, credit and retention do with epochs, they do with stamps inside a loop
without knowing. At the loop's border times are translated, by the kind of the edge:

=======  =======================  ==========================================================
kind     its channels speak       what a member makes at stamp s travels as
=======  =======================  ==========================================================
entry    epochs                   (epoch e arrives as (e, 0); its end ends (e, final))
inside   stamps                   s
back     stamps                   s + 1: the next round, or round 0 of the next epoch
exit     epochs                   the epoch of s; an epoch ends there with its final round
=======  =======================  ==========================================================
"""

from __future__ import annotations

from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import InputError
from streammine.model.job import EdgeKind

ROUND_BITS = 20
FINAL_ROUND = (1 << ROUND_BITS) - 1
"""Above the most rounds that a loop may have (1,000,000)."""

LARGEST_EPOCH = (1 << 42) - 1
LOWEST_EPOCH = -(1 << 42)
"""Before every epoch of the input: loops begin with it, to learn which epoch is the first."""


def stamp(epoch: int, round_: int = 0) -> int:
    """Raises InputError for an epoch whose number is too large for a loop."""
    if not LOWEST_EPOCH <= epoch <= LARGEST_EPOCH:
        if epoch in (BEGINNING, INFINITY):
            return epoch
        raise InputError(
            f"epoch {epoch} can't go through a loop, whose epochs lie between {LOWEST_EPOCH} and "
            f"{LARGEST_EPOCH}; choose longer epochs"
        )
    return epoch << ROUND_BITS | round_


def final(epoch: int) -> int:
    """The stamp of an epoch's last round."""
    return stamp(epoch, FINAL_ROUND)


def epoch_of(at: int) -> int:
    return at if at in (BEGINNING, INFINITY) else at >> ROUND_BITS


def round_of(at: int) -> int:
    return at & FINAL_ROUND


def is_final(at: int) -> bool:
    return at & FINAL_ROUND == FINAL_ROUND and at != INFINITY


def arriving(kind: EdgeKind, at: int) -> int:
    """The stamp at which a member of a loop takes what a channel into it delivers."""
    return stamp(at) if kind == "entry" else at


def leaving(kind: EdgeKind, at: int) -> int:
    """The time by which a channel out of a loop's member names what was made at stamp `at`."""
    if kind == "inside" or at in (BEGINNING, INFINITY):
        return at
    return at + 1 if kind == "back" else epoch_of(at)


def covered(kind: EdgeKind, epoch: int) -> int:
    """The last time on a channel that belongs to what lies up to `epoch`."""
    if kind in ("plain", "entry", "exit") or epoch in (BEGINNING, INFINITY):
        return epoch
    return leaving(kind, final(epoch))


def made_in(kind: EdgeKind, at: int) -> int:
    """The epoch in which a member of a loop made what travels by the time `at`."""
    if kind == "exit" or at in (BEGINNING, INFINITY):
        return at
    return epoch_of(at - 1 if kind == "back" else at)


def epochs_below(at: int) -> int:
    """Where every stamp below `at` is over, so is every epoch below this one."""
    epoch = epoch_of(at)
    return BEGINNING if epoch <= LOWEST_EPOCH + 1 else epoch
