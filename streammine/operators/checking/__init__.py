"""A harness for operators: does one epoch give the same bytes whichever way it arrives?

The epochs are run again and again with their rows shuffled (where order may not matter), cut into
other batches, and split over several combiners and accumulators. The operator is also lost and
restored in between, as after a crash: after epochs chosen by chance it is frozen, incrementally or in
full, goes on with the next epoch while its pieces are made, and a fresh one that is restored from the
chain of snapshots takes that epoch again. A seed makes the trials the same each time. When one fails,
the sample is cut down to the few events that it takes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from streammine.model.epochs import EpochDefinition
from streammine.operators.api import Mapper, Operator, Reducer, UserCode
from streammine.operators.checking.events import Events
from streammine.operators.checking.faults import Fault, Finding, find_fault
from streammine.operators.checking.running import Adapter, Maker
from streammine.operators.loading import instance_of
from streammine.operators.user.adapting import adapted
from streammine.operators.user.reducer import UserReducer

__all__ = ["SEED", "Events", "Fault", "Finding", "Maker", "check_operator", "find_fault"]

SEED = 20150401


def check_operator(
    operator: type[UserCode] | UserCode | Callable[[], Adapter],
    batches: Sequence[pa.RecordBatch],
    *,
    key: str | Sequence[str] = (),
    **settings: Any,
) -> None:
    """Check that an operator keeps what it claims, on these batches.

    `operator` is a Mapper, Reducer or Operator (class, made with `settings`, or instance) of one
    input, or a function that makes a contract's operator anew. Each batch is one epoch. `key` names
    the key column or columns. Raises AssertionError, which tells the way of arriving, the first
    difference and the few events that show it, and what the operator raises.
    """
    assert batches, "check_operator needs at least one batch with rows"
    schema = batches[0].schema
    keys = [key] if isinstance(key, str) else list(key)

    def fresh(combined: bool) -> Adapter:
        if isinstance(operator, (Mapper, Reducer, Operator)):
            return adapted("checked", copy.deepcopy(operator), [schema], [keys])
        if isinstance(operator, type) and issubclass(operator, (Mapper, Reducer, Operator)):
            code = instance_of(operator, operator.__name__, settings)
            return adapted("checked", code, [schema], [keys])
        make: Any = operator
        return make()

    first = fresh(False)
    whole = max(batch.num_rows for batch in batches)
    epochs = {number: (batch,) for number, batch in enumerate(batches)}
    events = Events(EpochDefinition("count", max(1, whole)), epochs)
    # built-in operators are told when they are made whether they get partials
    combines = isinstance(first, UserReducer) and first.traits.combinable
    finding = find_fault(fresh, events, SEED, combines)
    if finding.fault is not None:
        raise AssertionError(f"{_name(operator)}: {finding.fault}")


def _name(operator: Any) -> str:
    return str(getattr(operator, "__name__", type(operator).__name__))
