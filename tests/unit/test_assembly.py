"""What a topology comes to before it runs."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pytest

from streammine import Operator, Topology
from streammine.assembly import CompiledJob

SCHEMA = pa.schema({"ts": pa.int64(), "plug": pa.int64()})


class Last(Operator):
    output: ClassVar = {"plug": "int64"}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        return event.plug


def compiled(epoch: dict[str, Any], merge_by: str | None) -> CompiledJob:
    topology = (
        Topology(name="merged", epoch=epoch)
        .source("plugs", files="*.parquet", prepare="none", merge_by=merge_by)
        .operator("last", input="plugs", key="plug", operator=Last)
        .sink("result", input="last", format="console")
    )
    return CompiledJob(topology, {"plugs": SCHEMA}, ".", lambda name: Last)


@pytest.mark.parametrize(
    ("epoch", "merge_by"),
    [({"count": 5}, None), ({"count": 5}, "ts"), ({"time": "5s", "column": "ts"}, "ts")],
)
def test_an_operator_in_strict_order_goes_with_merged_files_too(
    epoch: dict[str, Any], merge_by: str | None
) -> None:
    assert compiled(epoch, merge_by).graph.vertex("last").slices > 1
