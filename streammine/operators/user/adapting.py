"""User code to the operators that the engine runs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streammine.model.errors import TopologyError
from streammine.operators.api import Mapper, Operator, Reducer, UserCode, overrides
from streammine.operators.user.mapper import UserMapper
from streammine.operators.user.operator import UserOperator
from streammine.operators.user.reducer import UserReducer
from streammine.operators.user.slice import UserSliceOperator


def adapted(
    name: str,
    code: UserCode,
    inputs: Sequence[pa.Schema],
    keys: Sequence[Sequence[str]] = (),
    orders: Sequence[Sequence[pa.Field]] = (),
    dead_letter: bool = False,
    window_epochs: int = 1,
    carries_order: bool = False,
    job: str = "",
) -> UserMapper | UserReducer | UserOperator | UserSliceOperator:
    """The contract's operator for an instance of user code (see loading.load_user_code).

    `inputs`: visible schema per port. `keys`: key columns per port; none stands for no key.
    `orders`: for an Operator, the fields that order the rows per port. `job`: its name. Raises
    TopologyError when they don't fit.
    """
    place = f"operator '{name}' ({type(code).__name__})"
    all_keys = list(keys) or [()] * len(inputs)
    if not isinstance(code, Operator) and len(inputs) != 1:
        raise TopologyError(
            f"{place}: has {len(inputs)} inputs; only an Operator takes more than one"
        )
    if not isinstance(code, Reducer) and window_epochs != 1:
        raise TopologyError(
            f"{place}: only a Reducer takes a window; an Operator keeps in its state what lasts longer"
        )
    if isinstance(code, Mapper):
        if any(all_keys):
            raise TopologyError(f"{place}: a Mapper has no key")
        return UserMapper(name, code, inputs[0], dead_letter)
    if isinstance(code, Reducer):
        return UserReducer(name, code, inputs[0], all_keys[0], dead_letter, window_epochs)
    assert isinstance(code, Operator)
    if overrides(code, "process_slice"):
        return UserSliceOperator(name, code, inputs, all_keys, dead_letter, job)
    return UserOperator(name, code, inputs, all_keys, orders, dead_letter, carries_order, job)
