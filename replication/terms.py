"""Whose checkpoints count: managers' terms fence the manifests, as seals do those of committers (DESIGN §5).

A manager that stood still does not know that it was replaced, and a store has no compare-and-set. So a
manager's term, (attempt to run the job, its sequence number among the cluster's members), is in the name of
each manifest that it publishes. Successors have higher terms. A new manager

1. puts a *claim* of its term,
2. looks which checkpoints count, and
3. puts a *ledger* of its term, which names them: it goes on from these and no others.

What counts is what the ledger of the highest term names, and every manifest of that term or a higher one.
A publisher puts its manifest first and then looks for the claim of a higher term; where there is one, the
checkpoint does not count for it, and nothing may be pruned or removed on its account.

Why that is enough: a manifest of an old term that is put before step 2 is seen there and counts for both,
unless its publisher, too late, sees the claim, which costs nothing but that checkpoint's pruning. One that
is put after step 2 was put after the claim, so its publisher sees that; and no reader believes it.

A ledger that is damaged is passed over for that of the term before, so it costs time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replication.documents import fetch, seal, unseal
from replication.naming import (
    CHECKPOINTS,
    TERMS,
    Term,
    checkpoint_of,
    claim_name,
    claim_of,
    ledger_name,
    ledger_of,
)
from streammine.model.contracts import Store
from streammine.model.errors import OutputError, SnapshotDamagedError


def begin_term(store: Store, term: Term, warn: Callable[[str], None] | None = None) -> None:
    """Fence every lower term. Raises OutputError, also where a higher term has begun already."""
    claims = _claims(store)
    if term not in claims:
        store.put(claim_name(term), seal("claim", _content(term)))
    require_latest(store, term)
    if not any(ledger_of(name) == term for name in store.list(TERMS)):
        names = counting(store, warn)
        store.put(ledger_name(term), seal("ledger", {**_content(term), "checkpoints": names}))


def require_latest(store: Store, term: Term) -> None:
    """Raises OutputError where a manager of a higher term has taken over."""
    highest = max(_claims(store), default=term)
    if highest > term:
        raise OutputError(
            f"manager {term.manager} of attempt {term.attempt} was replaced by manager "
            f"{highest.manager} of attempt {highest.attempt}: its checkpoints count no more"
        )


def counting(store: Store, warn: Callable[[str], None] | None = None) -> list[str]:
    """Names of the manifests that count, ascending. Damaged ledgers are told to `warn`.

    Raises OutputError where the store can't be listed, StateVersionError for a ledger of another
    version's format.
    """
    manifests = [
        (named[1], name)
        for name in store.list(CHECKPOINTS)
        if (named := checkpoint_of(name)) is not None
    ]
    ledgers = [term for name in store.list(TERMS) if (term := ledger_of(name)) is not None]
    counted: set[str] = set()
    above: Term | None = None
    for term in sorted(ledgers, reverse=True):
        counted |= {
            name for made, name in manifests if made >= term and (above is None or made < above)
        }
        above = term
        try:
            listed = _read_ledger(store, term)
        except SnapshotDamagedError as error:
            if warn is not None:
                warn(str(error))
            continue
        return sorted(counted | {name for _, name in manifests if name in listed})
    return sorted(counted | {name for made, name in manifests if above is None or made < above})


def _read_ledger(store: Store, term: Term) -> frozenset[str]:
    def build(document: dict[str, Any]) -> frozenset[str]:
        if (document["attempt"], document["manager"]) != (term.attempt, term.manager):
            raise ValueError("it is of another term; somebody renamed it")
        return frozenset(map(str, document["checkpoints"]))

    name = ledger_name(term)
    return unseal(name, fetch(store, name), "ledger", build)


def _claims(store: Store) -> set[Term]:
    return {term for name in store.list(TERMS) if (term := claim_of(name)) is not None}


def _content(term: Term) -> dict[str, Any]:
    return {"attempt": term.attempt, "manager": term.manager}
