"""A manager that was replaced publishes checkpoints that nobody believes."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from replication import Term, begin_term, newest_checkpoints, publish_checkpoint
from replication.naming import checkpoint_name, ledger_name
from streammine.model.errors import OutputError
from streammine.model.recovery import Checkpoint
from tests.unit.test_replication_checkpoints import Blobs

OLD, NEW, NEWER = Term(0, 3), Term(0, 5), Term(1, 1)


class Interrupted(Blobs):
    """A store before whose operation number `at` something else happens, once."""

    def __init__(self) -> None:
        super().__init__()
        self.at: int | None = None
        self.operations = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def _count(self) -> None:
        self.operations += 1
        if self.operations - 1 == self.at:
            self.at = None
            self.meanwhile()

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        self._count()
        super().put(name, data)

    def list(self, prefix: str) -> list[str]:
        self._count()
        return super().list(prefix)


def publishes(store: Blobs, epoch: int, term: Term) -> bool:
    """Whether the manager of `term` may prune and remove on account of a checkpoint of `epoch`."""
    try:
        publish_checkpoint(store, Checkpoint(epoch, {}), term)
    except OutputError:
        return False
    return True


def epochs(store: Blobs) -> list[int]:
    return [checkpoint.epoch for checkpoint in newest_checkpoints(store, 9)]


def test_a_new_manager_goes_on_from_what_it_found_and_from_its_own() -> None:
    store = Blobs()
    begin_term(store, OLD)
    assert publishes(store, 10, OLD)
    begin_term(store, NEW)
    assert publishes(store, 20, NEW)
    assert epochs(store) == [10, 20]
    assert not publishes(store, 30, OLD)
    assert epochs(store) == [10, 20]
    begin_term(store, NEWER)
    assert epochs(store) == [10, 20]
    assert not publishes(store, 25, NEW)
    assert epochs(store) == [10, 20]


def test_a_manager_that_was_replaced_begins_no_term() -> None:
    store = Blobs()
    begin_term(store, NEW)
    with pytest.raises(OutputError, match="manager 3 of attempt 0 was replaced by manager 5"):
        begin_term(store, OLD)


def test_to_begin_a_term_again_changes_nothing() -> None:
    store = Blobs()
    assert publishes(store, 10, OLD)
    begin_term(store, NEW)
    publish_checkpoint(store, Checkpoint(20, {}), NEW)
    before = dict(store.blobs)
    begin_term(store, NEW)
    assert store.blobs == before


def test_where_nobody_began_a_term_all_checkpoints_count() -> None:
    store = Blobs()
    assert publishes(store, 10, OLD)
    assert publishes(store, 20, NEW)
    assert epochs(store) == [10, 20]


def test_a_damaged_ledger_costs_what_only_it_named() -> None:
    store = Blobs()
    begin_term(store, OLD)
    assert publishes(store, 10, OLD)
    begin_term(store, NEW)
    assert publishes(store, 20, NEW)
    store.damage(ledger_name(NEW))
    warnings: list[str] = []
    assert [each.epoch for each in newest_checkpoints(store, 9, warnings.append)] == [10, 20]
    assert ledger_name(NEW) in warnings[0]
    store.damage(ledger_name(OLD))
    assert epochs(store) == [10, 20]


def test_a_renamed_ledger_is_damaged() -> None:
    store = Blobs()
    assert publishes(store, 10, OLD)
    begin_term(store, NEW)
    store.blobs[ledger_name(NEWER)] = store.blobs[ledger_name(NEW)]
    warnings: list[str] = []
    newest_checkpoints(store, 9, warnings.append)
    assert "another term" in warnings[0]


@pytest.mark.parametrize("at", range(12))
def test_a_checkpoint_that_comes_while_a_term_begins_counts_for_both_or_is_given_up(
    at: int,
) -> None:
    store = Interrupted()
    believed: list[bool] = []
    store.at = at
    store.meanwhile = lambda: believed.append(publishes(store, 10, OLD))
    begin_term(store, NEW)
    if not believed:
        # the term had begun before
        believed.append(publishes(store, 10, OLD))
        assert not believed[0]
    assert believed[0] <= (epochs(store) == [10])


@pytest.mark.parametrize("at", range(3))
def test_a_term_that_begins_while_a_checkpoint_is_published(at: int) -> None:
    store = Interrupted()
    found: list[list[int]] = []

    def replace() -> None:
        begin_term(store, NEW)
        found.append(epochs(store))

    store.at = at
    store.meanwhile = replace
    believed = publishes(store, 10, OLD)
    if not found:
        store.at = None
        replace()
        assert believed
    assert believed <= (found == [[10]])
    assert epochs(store) == found[0], "what a manager found stays what counts"


def test_names_tell_the_term() -> None:
    assert checkpoint_name(7, NEW) == "checkpoints/p0000000000000000007-a000000-m0000000005.json"
