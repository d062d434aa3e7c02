"""What replicas have decided on their input, in the job's store (DESIGN §5, "Agreement"; see `consensus`).

Where `AgreementSettings.every_decision_stored` is set, as the engine's hosts have it, every decision comes
here before it counts. Elsewhere most never do: they stand when enough replicas hold what was chosen. Only
those of a replica that is alone do, and what such a one knows of earlier ones.

A store has no compare-and-set. So a new set of replicas, *version* by version, puts its seal first and lists
what is there afterwards; who writes a decision looks for a seal afterwards. Either the decision is on the
list, or its writer finds the seal, and knows that the decision does not count for it.

A decision names bags by their channels, and holds none: bags come from the logs of their receivers, which
keep them until a complete checkpoint covers them. What is here is kept until then, too, and until replicas
have followed it. Nobody goes back behind what may have been removed (`forgotten_until`), and a replica that
stands behind it learns from others or gives up: something else might be decided there.

Decisions are written in the order of the chain. So one that was damaged after it had counted shows by those
that rest on it, and is like one that was removed. Where nothing rests on it nobody can tell it from one that
never counted, which its writer found damaged, and died before it wrote it once more: it is passed over. One
that is there and can't be read says nothing of the kind: a store that answers again has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from replication.documents import seal, unseal
from replication.naming import (
    DECIDERS,
    DECISIONS,
    FORGOTTEN,
    DecisionsName,
    SealName,
    deciders_of,
    decisions_of,
    last_decided,
    mark_name,
    marked,
    seal_of,
)
from streammine.model.agreement import (
    Bag,
    BagSet,
    Decision,
    DecisionDurable,
    StoredDecision,
    StoreRead,
)
from streammine.model.contracts import Store
from streammine.model.epochs import BEGINNING
from streammine.model.errors import OutputError, SnapshotDamagedError
from streammine.model.ids import SliceId


def seal_decisions(
    store: Store,
    slice_id: SliceId,
    version: int,
    known: int,
    warn: Callable[[str], None] | None = None,
) -> StoreRead:
    """Fence what lower versions still write, and read what there is of epochs above `known`.

    What is damaged is told to `warn`. Raises OutputError, also where something that is there can't be read,
    and StateVersionError.
    """
    store.put(SealName(slice_id, version).name, seal("decisions' seal", {"version": version}))
    decided: list[StoredDecision] = []
    damaged: list[int] = []
    for name in sorted(store.list(decisions_of(slice_id))):
        epoch = last_decided(name)
        if epoch is None or epoch <= known:
            continue
        try:
            decided += _read(store, name)
        except OutputError:
            if name in store.list(name):
                raise
            # it was removed meanwhile, and what is read below says so
        except SnapshotDamagedError as error:
            damaged.append(epoch)
            if warn is not None:
                warn(str(error))
    # looked for last: who removes something has said so before
    removed = forgotten_until(store)
    lost = _lost_until(decided, damaged, max(known, removed))
    if lost > removed and warn is not None:
        warn(
            f"what replicas of {slice_id} agreed on up to epoch {lost} can't be read, and later ones rest on "
            "it: it is not agreed on anew, and who does not know it learns it from others or is built "
            "anew; check the store's disk"
        )
    return StoreRead(version, tuple(decided), max(removed, lost))


def _lost_until(decided: list[StoredDecision], damaged: list[int], start: int) -> int:
    """The epoch up to which decisions are lost that others rest on; BEGINNING where the chain from `start` on
    has no hole. `damaged`: the last epoch of each blob that can't be read."""
    following = {
        each.decision.after: each.decision.chosen.epoch
        for each in sorted(decided, key=lambda each: each.plan_version)
    }
    reached = start
    while reached in following:
        reached = following[reached]
    if all(after <= reached for after in following):
        return BEGINNING
    return max((epoch for epoch in damaged if epoch > reached), default=BEGINNING)


def store_decisions(
    store: Store, slice_id: SliceId, generation: int, decided: tuple[StoredDecision, ...]
) -> DecisionDurable:
    """Put decisions of one version there, and read them back. Raises OutputError."""
    version = decided[0].plan_version
    assert all(each.plan_version == version for each in decided)
    epochs = [each.decision.chosen.epoch for each in decided]
    name = DecisionsName(slice_id, max(epochs), min(epochs), version, generation).name
    data = seal(
        "decisions",
        {"version": version, "decisions": [_content(each.decision) for each in decided]},
    )
    store.put(name, data)
    if bytes(store.get(name)) != data:
        # once it counts there is nothing older to go back to
        raise OutputError(f"{name} holds something else than was written")
    seals = _seals(store, deciders_of(slice_id))
    highest = max((found.version for found in seals), default=0)
    return DecisionDurable(decided, highest)


def superseded_decisions(store: Store, covered: int) -> list[str]:
    """Names of what nobody needs once a complete checkpoint covers that epoch for good."""
    seals = _seals(store, DECIDERS)
    newest: dict[SliceId, int] = {}
    for found in seals:
        newest[found.slice_id] = max(newest.get(found.slice_id, 0), found.version)
    over = [
        name
        for name in store.list(DECISIONS)
        if (epoch := last_decided(name)) is not None and epoch <= covered
    ]
    return over + [found.name for found in seals if found.version < newest[found.slice_id]]


def forgotten_until(store: Store) -> int:
    """The epoch up to which decisions may be removed, BEGINNING for none. Raises OutputError."""
    return max((epoch for epoch, _ in _marks(store)), default=BEGINNING)


def forget_decisions(store: Store, covered: int, superseded: Iterable[str]) -> list[str]:
    """Say that decisions up to an epoch are no more, before these are removed; the names of what said so of
    lower ones."""
    if not any(last_decided(name) is not None for name in superseded):
        return []
    store.put(mark_name(covered), seal("mark", {"epoch": covered}))
    return [name for epoch, name in _marks(store) if epoch < covered]


def _marks(store: Store) -> list[tuple[int, str]]:
    names = store.list(FORGOTTEN)
    return [(epoch, name) for name in names if (epoch := marked(name)) is not None]


def _seals(store: Store, prefix: str) -> list[SealName]:
    return [found for name in store.list(prefix) if (found := seal_of(name)) is not None]


def _content(decision: Decision) -> list[Any]:
    chosen = decision.chosen
    bags = [[channel, bag.digest, bag.nbytes] for channel, bag in chosen.bags]
    return [decision.after, chosen.epoch, bags]


def _read(store: Store, name: str) -> list[StoredDecision]:
    def build(document: dict[str, Any]) -> list[StoredDecision]:
        version = int(document["version"])
        found = [StoredDecision(version, _decision(*each)) for each in document["decisions"]]
        if max(each.decision.chosen.epoch for each in found) != last_decided(name):
            raise ValueError("it is of other epochs; somebody renamed it")
        return found

    return unseal(name, store.get(name), "decisions", build)


def _decision(after: int, epoch: int, bags: list[list[Any]]) -> Decision:
    held = ((int(channel), Bag(str(digest), int(nbytes))) for channel, digest, nbytes in bags)
    return Decision(int(after), BagSet(int(epoch), tuple(held)))
