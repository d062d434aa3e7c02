"""Conditions of random shape, as expressions and as plain Python that knows true, false and None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    text: str
    holds: Callable[[Row], bool | None]


def negated(inner: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        found = inner.holds(row)
        return None if found is None else not found

    return Condition(f"not ({inner.text})", holds)


def both(left: Condition, right: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        sides = (left.holds(row), right.holds(row))
        if False in sides:
            return False
        return None if None in sides else True

    return Condition(f"({left.text}) and ({right.text})", holds)


def one_of_both(left: Condition, right: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        sides = (left.holds(row), right.holds(row))
        if True in sides:
            return True
        return None if None in sides else False

    return Condition(f"({left.text}) or ({right.text})", holds)


def conditions(atoms: list[Condition]) -> st.SearchStrategy[Condition]:
    """Atoms, and what `and`, `or` and `not` make of them."""
    return st.recursive(
        st.sampled_from(atoms),
        lambda inner: st.one_of(
            st.builds(negated, inner),
            st.builds(both, inner, inner),
            st.builds(one_of_both, inner, inner),
        ),
        max_leaves=5,
    )
