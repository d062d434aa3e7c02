"""What replicas that agree on their input ask of the job's store."""

from __future__ import annotations

from collections.abc import Callable

from replication import seal_decisions, store_decisions
from streammine.engine.node_stimuli import MadeSure, MakeSure
from streammine.model.agreement import AskWitness, MakeDurable, SealStore
from streammine.model.contracts import Store


def settled(store: Store, effect: MakeSure, warn: Callable[[str], None] | None = None) -> MadeSure:
    """Do what a replica asks for; what is damaged is told to `warn`.

    Raises OutputError, and StateVersionError for what can't be read.
    """
    match effect.wish:
        case SealStore(version, known):
            return MadeSure(effect, seal_decisions(store, effect.slice, version, known, warn))
        case MakeDurable(stored):
            done = store_decisions(store, effect.slice, effect.generation, stored)
            return MadeSure(effect, done)
        case AskWitness():
            raise AssertionError("the witness is in the coordination service")
