"""Loops: which operators read from each other in a circle, where each circle begins, what leads back.

A loop is a strongly connected component of the graph. It begins at its *head*, an operator that rows
enter it at and that lies on all of its cycles; inputs of the head that come from the loop itself are
*back-edges*. Without them the graph has no cycles, so rounds can be counted at the head alone
(DESIGN §5). A loop without such an operator has a cycle inside a cycle. Where several could be the head,
it is the one that rows reach first, searched depth-first from the sources in the order of declaration.

Sources: Tarjan, "Depth-first search and linear graph algorithms" (1972), for the components; Carbone
et al., "Lightweight asynchronous snapshots for distributed dataflows" (2015), §4.3, for back-edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Inputs = Mapping[str, tuple[str, ...]]
"""Per name, the names that it reads from, by port; in the order of declaration."""

DEFAULT_MAX_ROUNDS = 1_000
MOST_ROUNDS = 1_000_000


@dataclass(frozen=True)
class OperatorLoop:
    """One loop of operators, in words that `explain` and the planner share.

    `members` are all its operators, the head first, each behind what it reads but for the back-edges.
    `back`: the members whose streams lead back to the head. After `max_rounds` rounds of an epoch what
    is still going round waits for the next epoch.
    """

    head: str
    members: tuple[str, ...]
    back: tuple[str, ...]
    max_rounds: int


def circles(inputs: Inputs) -> list[tuple[str, ...]]:
    """The members of every loop, each loop's in the order in which rows reach them.

    Inputs that don't exist are passed over.
    """
    found = _components(_readers(inputs), [*_sources(inputs), *inputs])
    return [group for group in found if len(group) > 1 or group[0] in inputs[group[0]]]


def fed(inputs: Inputs) -> set[str]:
    """The sources and all that gets rows from them, directly or not."""
    readers = _readers(inputs)
    waiting = _sources(inputs)
    found = set(waiting)
    while waiting:
        for reader in readers[waiting.pop()]:
            if reader not in found:
                found.add(reader)
                waiting.append(reader)
    return found


def is_entered(name: str, members: tuple[str, ...], inputs: Inputs) -> bool:
    """Whether a member of a loop reads from outside of it, too."""
    return any(one not in members for one in inputs[name])


def head_of(members: tuple[str, ...], inputs: Inputs) -> str | None:
    """The first of a loop's members, in their order, that can be its head; None when there is none."""
    candidates = tuple(name for name in members if is_entered(name, members, inputs))
    while candidates:
        others = cycle_without(candidates[0], members, inputs)
        if not others:
            return candidates[0]
        candidates = tuple(name for name in candidates if name in others)
    return None


def cycle_without(left_out: str, members: tuple[str, ...], inputs: Inputs) -> tuple[str, ...]:
    """A cycle of a loop that passes one of its members by; () when all lead through it."""
    return cycle({name: inputs[name] for name in members if name != left_out})


def cycle(inputs: Inputs) -> tuple[str, ...]:
    """The names around one cycle, in the direction the rows flow; () when there is none.

    Inputs that don't exist are passed over.
    """
    finished: set[str] = set()
    for start in sorted(inputs):
        trail: list[str] = []
        waiting: list[tuple[str, int]] = [(start, 0)]
        while waiting:
            name, depth = waiting.pop()
            finished.update(trail[depth:])
            del trail[depth:]
            if name in trail:
                return _from_lowest(tuple(reversed(trail[trail.index(name) :])))
            if name in finished or name not in inputs:
                continue
            trail.append(name)
            waiting += [(one, len(trail)) for one in sorted(set(inputs[name]), reverse=True)]
        finished.update(trail)
    return ()


def cycle_text(names: tuple[str, ...]) -> str:
    """``a → b → a``"""
    return " → ".join([*names, names[0]])


def _sources(inputs: Inputs) -> list[str]:
    return [name for name, names in inputs.items() if not names]


def _readers(inputs: Inputs) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {name: [] for name in inputs}
    for name, names in inputs.items():
        for one in dict.fromkeys(names):
            if one in readers:
                readers[one].append(name)
    return readers


def _from_lowest(names: tuple[str, ...]) -> tuple[str, ...]:
    start = names.index(min(names))
    return names[start:] + names[:start]


def _components(readers: Mapping[str, list[str]], starts: list[str]) -> list[tuple[str, ...]]:
    """The strongly connected components (Tarjan), the members of each by their first visit."""
    visits: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: list[str] = []
    still_open: set[str] = set()
    found: list[tuple[str, ...]] = []
    walk: list[tuple[str, Iterator[str]]] = []

    def visit(name: str) -> None:
        visits[name] = lowest[name] = len(visits)
        open_names.append(name)
        still_open.add(name)
        walk.append((name, iter(readers[name])))

    for start in starts:
        if start not in visits:
            visit(start)
        while walk:
            name, following = walk[-1]
            reader = next(following, None)
            if reader is None:
                walk.pop()
                if walk:
                    before = walk[-1][0]
                    lowest[before] = min(lowest[before], lowest[name])
                if lowest[name] == visits[name]:
                    first = open_names.index(name)
                    found.append(tuple(open_names[first:]))
                    still_open.difference_update(open_names[first:])
                    del open_names[first:]
            elif reader not in visits:
                visit(reader)
            elif reader in still_open:
                lowest[name] = min(lowest[name], visits[reader])
    return found
