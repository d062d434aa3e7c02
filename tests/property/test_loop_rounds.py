"""Any events, rounds, slices and batch sizes: a loop gives the rows of plain Python."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.simulation.settings import SimulationSettings
from streammine.testing import simulate
from tests.simulation import loops

EVENTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(-3, 40)), min_size=1, max_size=12
)


@settings(max_examples=15, deadline=None)
@given(
    EVENTS,
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 9),
    st.sampled_from([None, 1, 200]),
    st.integers(0, 1000),
)
def test_the_rows_are_those_of_plain_python(
    events: list[tuple[int, int, int]],
    max_rounds: int,
    slices: int,
    sources: int,
    read_rows: int,
    budget_bytes: int | None,
    seed: int,
) -> None:
    table = pa.table(
        {
            "ts": [epoch * loops.EPOCH_SECONDS + 3 for epoch, _, _ in sorted(events)],
            "id": [key for _, key, _ in sorted(events)],
            "number": [number for _, _, number in sorted(events)],
        },
        pa.schema([(name, pa.int64()) for name in ("ts", "id", "number")]),
    )
    result = simulate(
        loops.halving(slices, max_rounds, sources=sources),
        {"numbers": table},
        seed=seed,
        settings=SimulationSettings(read_rows=read_rows, channel_budget_bytes=budget_bytes),
    )
    rows = [
        (epoch, *row.values())
        for epoch, each in result.outputs["seen"].items()
        for row in each.to_pylist()
    ]
    assert sorted(rows) == loops.halved(events, max_rounds)
