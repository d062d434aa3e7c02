"""What replicas that agree on their input ask of the job's store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replication import seal_decisions, store_decisions
from streammine.engine.node_stimuli import MadeSure, MakeSure
from streammine.model.agreement import AskWitness, MakeDurable, SealStore
from streammine.model.contracts import Store


def settled(
    store: Store, wishes: Sequence[MakeSure], warn: Callable[[str], None] | None = None
) -> list[MadeSure]:
    """Do what one replica asks for; decisions of one version are put there together.

    What is damaged is told to `warn`. Raises OutputError, and StateVersionError for what can't be read.
    """
    done: list[MadeSure] = []
    versions: dict[int, list[MakeSure]] = {}
    for each in wishes:
        match each.wish:
            case SealStore(version):
                done.append(MadeSure(each, seal_decisions(store, each.slice, version, warn)))
            case MakeDurable(stored):
                versions.setdefault(stored.plan_version, []).append(each)
            case AskWitness():
                raise AssertionError("the witness is in the coordination service")
    for together in versions.values():
        decided = [each.wish.stored for each in together if isinstance(each.wish, MakeDurable)]
        first = together[0]
        answers = store_decisions(store, first.slice, first.generation, decided)
        done += map(MadeSure, together, answers)
    return done
