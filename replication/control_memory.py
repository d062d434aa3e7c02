"""What a manager's controller is to leave to the next one, in the job's store (see `ControlMemory`).

Each manager writes a document of its own term, anew whenever something is added, and removes those of lower
terms. Who takes over reads that of the highest term. Nothing but estimates rests on it: what is damaged, or
of another version, is not worth a job, so the next manager measures anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from replication.documents import fetch, seal, unseal
from replication.naming import CONTROLLER, Term, memory_name, memory_of
from streammine.model.contracts import Store
from streammine.model.errors import SnapshotDamagedError, StateVersionError
from streammine.model.recovery_assessment import ControlMemory

_MEMORY = TypeAdapter(ControlMemory)


def keep_memory(store: Store, memory: ControlMemory, term: Term) -> None:
    """Raises OutputError."""
    content: dict[str, Any] = _MEMORY.dump_python(memory, mode="json")
    store.put(memory_name(term), seal("controller's memory", content))
    for each, name in _memories(store):
        if each < term:
            store.delete(name)


def find_memory(store: Store, warn: Callable[[str], None] | None = None) -> ControlMemory | None:
    """None where there is none, or none that can be read, which is told to `warn`. Raises OutputError where
    the store can't be listed."""
    found = max(_memories(store), default=None)
    if found is None:
        return None
    _, name = found
    try:
        return unseal(name, fetch(store, name), "controller's memory", _build)
    except (SnapshotDamagedError, StateVersionError) as error:
        if warn is not None:
            warn(
                f"{error}. Decisions and detection times before now are forgotten; all is measured anew"
            )
        return None


def _memories(store: Store) -> list[tuple[Term, str]]:
    return [
        (term, name) for name in store.list(CONTROLLER) if (term := memory_of(name)) is not None
    ]


def _build(document: dict[str, Any]) -> ControlMemory:
    try:
        return _MEMORY.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = "/".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}") from error
