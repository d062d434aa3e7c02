"""How many replicas the slices of a part have, and how ready they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from streammine.model.schemes import Scheme

if TYPE_CHECKING:
    from streammine.model.topology.definition import Topology


class Redundancy(TypedDict):
    """`replicas`: the first one counted. `scheme`: the rung of the others."""

    replicas: int
    scheme: Scheme


def redundancy(replicas: int | None, scheme: Scheme | None, topology: Topology) -> Redundancy:
    """Of a part that says this of itself; what it leaves out is the topology's."""
    if not _stands_by(replicas, scheme, topology):
        return Redundancy(replicas=1, scheme=Scheme.PASSIVE_REPLICATION)
    chosen = scheme or topology.scheme
    if chosen in (None, Scheme.PASSIVE_REPLICATION):
        chosen = Scheme.ACTIVE_REPLICATION
    return Redundancy(replicas=max(2, replicas or topology.replicas or 2), scheme=chosen)


def _stands_by(replicas: int | None, scheme: Scheme | None, topology: Topology) -> bool:
    """Whether there are further replicas: whoever says more of it, and nearer to the part, counts."""
    for said_scheme, said_replicas in (
        (scheme, replicas),
        (topology.scheme, topology.replicas),
    ):
        if said_scheme is not None:
            return said_scheme is not Scheme.PASSIVE_REPLICATION
        if said_replicas is not None:
            return said_replicas > 1
    return False


def contradiction(replicas: int | None, scheme: Scheme | None) -> str | None:
    """What is wrong with a part that says both, if anything is."""
    if replicas is None or scheme is None:
        return None
    if scheme is Scheme.PASSIVE_REPLICATION and replicas > 1:
        return f"{scheme} has no further replicas, and replicas is {replicas}; take one of them out"
    if scheme is not Scheme.PASSIVE_REPLICATION and replicas == 1:
        return (
            f"{scheme} needs a second replica, and replicas is 1; write replicas: 2 or take it out"
        )
    return None
