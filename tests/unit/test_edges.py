"""The split of rows by target slice, and partitioners that get it wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.engine.outgoing_edge import OutgoingEdge
from streammine.engine.span import Span
from streammine.engine.stimuli import Output
from streammine.model.errors import UserCodeError
from streammine.model.ids import SliceId

BATCH = pa.record_batch({"key": [10, 11, 12]})


class Fixed:
    broadcast = False

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def targets(self, keys: Sequence[pa.Array], slices: int) -> Any:
        return self.answer


def pushed(answer: Any) -> dict[int, list[int]]:
    outputs: list[Output] = []
    edge = OutgoingEdge((5, 6), ("key",), Fixed(answer), target="counts")
    edge.push(SliceId("clicks", 0), Span.one(0, BATCH), outputs)
    return {each.channel: each.body.column("key").to_pylist() for each in outputs}


@pytest.mark.parametrize(
    "answer", [np.array([1, 0, 1], np.int32), np.array([1, 0, 1], np.uint64), [1, 0, 1]]
)
def test_each_row_goes_to_the_slice_that_the_partitioner_names(answer: Any) -> None:
    assert pushed(answer) == {5: [11], 6: [10, 12]}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([1, 0], "of shape"),
        ([1, 0, 1, 1], "of shape"),
        (1, "of shape"),
        ([[1], [0], [1]], "of shape"),
        (None, "of shape"),
        ([1.0, 0.0, 1.0], "float64"),
        ([True, False, True], "bool"),
        (pa.array([1, None, 1]), "float64"),
        ([0, 2, 1], "the slice 2"),
        ([0, 1, -1], "the slice -1"),
        ([0, 1, 1 << 40], "the slice 1099511627776"),
    ],
)
def test_a_partitioner_that_would_lose_rows_is_told_with_its_operator(
    answer: Any, found: str
) -> None:
    with pytest.raises(UserCodeError, match=rf"operator 'counts'.*Fixed gave .*{found}") as caught:
        pushed(answer)
    assert "one integer per row, from 0 to 1" in str(caught.value)
