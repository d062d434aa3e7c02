"""The operators of the connected components, round by round without the engine, against union-find."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.components import check, draw, make_edges
from apps.components.operators import MESSAGE, Ends, Labels, Messages
from streammine import read_topology
from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.operators.user.adapting import adapted
from streammine.testing import check_operator

EPOCHS = EpochDefinition("count", 25)

Edge = tuple[int, int]


class Rounds:
    """The loop as the engine runs it: one bag of messages per round, in any order.

    edges ─→ messages ─→ labels ─→ changes
                ↑───────────┘
    """

    def __init__(self, max_rounds: int = 1000, seed: int = 0) -> None:
        self._messages: Any = adapted("messages", Messages(), [MESSAGE, MESSAGE], [("node",)] * 2)
        self._labels: Any = adapted("labels", Labels(), [MESSAGE], [("node",)])
        self._max_rounds = max_rounds
        self._random = Random(seed)
        self.carried: list[dict[str, int]] = []
        self.rounds: list[int] = []

    def epoch(self, number: int, edges: list[Edge]) -> dict[int, int]:
        """Changed nodes with the least label of the epoch."""
        columns = [pa.array([edge[end] for edge in edges], pa.int64()) for end in (0, 1)]
        batch = pa.record_batch(columns, names=["u", "v"])
        ends, parents = Ends().map_batch(batch)
        assert parents.tolist() == [row for row in range(len(edges)) for _ in range(2)]
        waiting = [(0, ends), (1, self._shuffled(self.carried))]
        changed: dict[int, int] = {}
        self.rounds.append(0)
        while True:
            close = EpochClose(number, 0, EPOCHS)
            entered = [(0, batch) for batch in self._messages.run(close, iter(waiting))]
            rows = [
                row for each in self._labels.run(close, iter(entered)) for row in each.to_pylist()
            ]
            told = [row for row in rows if row["node"] != row["neighbour"]]
            for row in rows:
                if row["node"] == row["neighbour"]:
                    least = changed.get(row["node"], row["component"])
                    changed[row["node"]] = min(least, row["component"])
            if told:
                self.rounds[-1] += 1
            if not told or self.rounds[-1] == self._max_rounds:
                self.carried = told
                return changed
            waiting = [(1, self._shuffled(told))]

    def _shuffled(self, rows: list[dict[str, int]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(self._random.sample(rows, len(rows)), schema=MESSAGE)


def changes(rounds: Rounds, edges: Iterable[Edge], epoch_edges: int) -> check.Changes:
    """What leaves, by epoch, until nothing goes round any more."""
    found: check.Changes = {}
    arriving = iter(edges)
    for number in count():
        some = list(islice(arriving, epoch_edges))
        if not some and not rounds.carried:
            return found
        if changed := rounds.epoch(number, some):
            found[number] = changed
    raise AssertionError


def searched(edges: list[Edge]) -> dict[int, int]:
    """Component of each node, by looking for one that can still be lowered, again and again."""
    components = {node: node for edge in edges for node in edge}
    while wrong := [(u, v) for u, v in edges if components[u] != components[v]]:
        for u, v in wrong:
            components[u] = components[v] = min(components[u], components[v])
    return components


GRAPHS = st.lists(st.tuples(st.integers(-3, 12), st.integers(-3, 12)), max_size=30)


@settings(max_examples=40, deadline=None)
@given(GRAPHS, st.integers(1, 8))
def test_the_reference_itself_is_right(edges: list[Edge], epoch_edges: int) -> None:
    found = check.changes_by_epoch(edges, epoch_edges)
    assert check.final(found) == searched(edges)
    for epoch, changed in found.items():
        before = searched(edges[: epoch * epoch_edges])
        after = searched(edges[: (epoch + 1) * epoch_edges])
        assert changed == {node: after[node] for node in after if after[node] != before.get(node)}


@settings(max_examples=40, deadline=None)
@given(GRAPHS, st.integers(1, 8), st.integers(0, 99))
def test_every_epoch_changes_what_union_find_changes(
    edges: list[Edge], epoch_edges: int, seed: int
) -> None:
    rounds = Rounds(seed=seed)
    assert changes(rounds, edges, epoch_edges) == check.changes_by_epoch(edges, epoch_edges)


@settings(max_examples=40, deadline=None)
@given(GRAPHS, st.integers(1, 8), st.integers(1, 4))
def test_what_is_carried_from_epoch_to_epoch_is_not_lost(
    edges: list[Edge], epoch_edges: int, max_rounds: int
) -> None:
    found = changes(Rounds(max_rounds), edges, epoch_edges)
    assert check.final(found) == searched(edges)


def test_the_shipped_edges_take_many_rounds_and_merge_to_few_components() -> None:
    edges = list(check.edges_of(make_edges.FOLDER / "edges.txt"))
    assert edges == list(make_edges.edges())
    rounds = Rounds()
    found = changes(rounds, edges, 25)
    assert found == check.changes_by_epoch(edges, 25)
    assert len(rounds.rounds) == 24
    assert max(rounds.rounds) == 37
    assert rounds.rounds[9] == 19, "the chain's edges are all in one epoch"
    assert len(set(check.final(found).values())) == 12


def test_a_label_is_not_told_to_who_has_just_told_it() -> None:
    labels: Any = adapted("labels", Labels(), [MESSAGE], [("node",)])

    def answer(*messages: tuple[int, int, int]) -> list[tuple[int, ...]]:
        batch = pa.record_batch(list(zip(*messages, strict=True)), schema=MESSAGE)
        output = labels.run(EpochClose(0, 0, EPOCHS), iter([(0, batch)]))
        return [tuple(row.values()) for batch in output for row in batch.to_pylist()]

    # 7 hears of its neighbours 5 and 9; it tells 9 and notes its new label
    assert answer((7, 5, 5), (7, 9, 9)) == [(7, 7, 5), (9, 7, 5)]
    # 9 answers the same: there is nothing to say
    assert answer((7, 9, 5)) == []
    # a new neighbour must be told, the others know
    assert answer((7, 8, 8)) == [(8, 7, 5)]
    # a lower label goes to all but the one that it came from
    assert answer((7, 9, 2)) == [(5, 7, 2), (7, 7, 2), (8, 7, 2)]
    # a late, higher one changes nothing
    assert answer((7, 5, 4)) == []


def test_the_operators_are_as_commutative_as_they_say() -> None:
    random = Random(7)
    batches = [
        pa.record_batch(
            [[random.randrange(6) for _ in range(20)] for _ in range(3)], schema=MESSAGE
        )
        for _ in range(5)
    ]
    check_operator(Labels, batches, key="node")
    check_operator(Ends, [batch.rename_columns(["u", "v", "w"]) for batch in batches])


def test_the_topology_begins_its_loop_where_the_edges_come_in() -> None:
    topology = read_topology(Path(make_edges.FOLDER.parent / "topology.yaml"))
    (loop,) = topology.graph().loops
    assert (loop.head, loop.members, loop.back) == (
        "messages",
        ("messages", "labels", "told"),
        ("told",),
    )
    assert topology.epoch_definition() == EPOCHS
    assert EPOCHS.length == check.EPOCH_EDGES


@pytest.mark.parametrize("wrong", [{3: 1}, {2: 2}, {}])
def test_the_check_notices_a_wrong_component(
    wrong: dict[int, int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("1 2\n3 3\n")
    right = {1: 1, 2: 1, 3: 3}
    found = {0: {**right, **wrong} if wrong else {}}
    monkeypatch.setattr("sys.argv", ["check", "--edges", str(edges)])
    monkeypatch.setattr(check, "committed", lambda folder: found)
    assert check.main() == 1
    assert "NO: epoch 0 is the first that differs" in capsys.readouterr().out
    monkeypatch.setattr(check, "committed", lambda folder: {0: right})
    assert check.main() == 0


def test_the_picture_shows_the_sizes_after_every_epoch() -> None:
    assert draw.sizes({0: {1: 1, 2: 1, 7: 7}, 2: {3: 1, 7: 1, 9: 9}}) == [[2, 1], [2, 1], [4, 1]]


def test_a_line_that_is_no_edge_still_counts_in_its_epoch(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("# comment\n 1  2\n\n3 x\n4\n5 -6\n7 8 9\n")
    edges = list(check.edges_of(tmp_path / "*.txt"))
    assert edges == [None, (1, 2), None, None, (5, -6), None]
    assert check.changes_by_epoch(edges, 2) == {0: {1: 1, 2: 1}, 2: {5: -6, -6: -6}}
