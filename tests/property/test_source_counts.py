"""Events read = used + dead, however often a source slice is lost and restored on the way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streammine.engine.edges import OutgoingEdges, StageNode
from streammine.engine.outgoing_edge import OutgoingEdge
from streammine.engine.source_processor import SourceProcessor
from streammine.engine.stimuli import Freeze, Read
from streammine.model.contracts import DEAD_SCHEMA, Position
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.ids import SliceId
from streammine.model.topology.sources import FilesSource
from streammine.operators.api import Mapper
from streammine.operators.user.mapper import UserMapper
from streammine.runtime.sources import open_reader, resolve_source

ROWS = 90
SOURCE_DEAD = [row for row in range(ROWS) if row % 7 == 3]
MAPPER_DEAD = [row for row in range(ROWS) if row % 11 == 5 and row not in SOURCE_DEAD]
SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
DATA, DEAD = 1, 2


class Picky(Mapper):
    """Raises on rows of its own."""

    output = SCHEMA

    def map(self, event):  # type: ignore[no-untyped-def]
        if event.v in MAPPER_DEAD:
            raise ValueError("not this one")
        return event


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counts")
    lines = [f"{row // 2},{'x' if row in SOURCE_DEAD else row}" for row in range(ROWS)]
    (folder / "rows.csv").write_text("\n".join(["ts,v", *lines]) + "\n")
    return folder


def processor(
    folder: Path, epoch: EpochDefinition, rate: str | None, position: Position | None, after: int
) -> SourceProcessor:
    document = {
        "files": "rows.csv",
        "prepare": "none",
        "schema": {"ts": "int64", "v": "int64"},
        "rate": rate,
    }
    source = FilesSource.model_validate({k: v for k, v in document.items() if v is not None})
    resolved = resolve_source("s", source, epoch, str(folder))
    stage = StageNode(
        UserMapper("picky", Picky(), SCHEMA, dead_letter=True),
        edges=[OutgoingEdge((DATA,), (), None, 0)],
    )
    return SourceProcessor(
        SliceId("s", 0),
        lambda place: open_reader(resolved, source, epoch, 0, 1, None, place),
        OutgoingEdges(
            SliceId("counts", 0), StageNode(children=[stage]), OutgoingEdge((DEAD,), (), None, 0)
        ),
        carries_order=False,
        carries_time=epoch.kind == "time",
        position=position,
        restored_after=after,
        checkpointed=True,
    )


@pytest.mark.parametrize("rate", [None, "1000000/s"])
@pytest.mark.parametrize(
    "epoch", [EpochDefinition("count", 13), EpochDefinition("time", 7_000_000, "ts")]
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=12), st.integers(1, 40))
def test_what_a_restored_source_reads_again_is_counted_once(
    folder: Path,
    rate: str | None,
    epoch: EpochDefinition,
    reads: list[tuple[int, bool]],
    last_rows: int,
) -> None:
    used: dict[int, int] = {}
    dead: dict[int, int] = {}
    current = processor(folder, epoch, rate, None, BEGINNING)
    turn = 0
    while True:
        turn += 1
        rows, lost = reads[turn - 1] if turn <= len(reads) else (last_rows, False)
        result = current.perform([Read(rows, 1)], 1e6 + turn)
        for output in result.outputs:
            of = dead if output.channel == DEAD else used
            of[output.epoch] = of.get(output.epoch, 0) + output.rows
            assert isinstance(output.body, pa.RecordBatch)
            assert (output.body.schema == DEAD_SCHEMA) == (output.channel == DEAD)
        if result.exhausted:
            break
        assert result.open_epoch is not None
        if lost and BEGINNING < result.open_epoch < INFINITY:
            after = result.open_epoch - 1
            frozen = current.perform([Freeze(after, True, after, None)], 0.0).frozen
            assert frozen is not None
            # what the lost one sent of later epochs comes again
            for sent in (used, dead):
                for later in [each for each in sent if each > after]:
                    del sent[later]
            current = processor(folder, epoch, rate, frozen.position, after)
    counted = current.counters
    assert sum(dead.values()) == len(SOURCE_DEAD) + len(MAPPER_DEAD) == counted.rows_dead
    assert counted.rows_in == ROWS == sum(used.values()) + counted.rows_dead
