"""Query 1 of the DEBS 2014 Grand Challenge: load forecasts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from streammine import Mapper

START = 1_377_986_401
MINUTE_SECONDS = 60
LOAD = 1
"""The property of readings that are loads; 0 is work."""
LARGEST_WATTS = 1e9

PLUG = ("house_id", "household_id", "plug_id")


class Loads(Mapper):
    """The readings that are loads, in whole milliwatts, with the minute since `start` (s) they are of.

    A load that is no number or beyond a gigawatt raises ValueError.
    """

    needs: ClassVar = ("ts", "value", "property", *PLUG)
    output: ClassVar = {**dict.fromkeys(PLUG, "int32"), "minute": "int32", "milliwatts": "int64"}

    def __init__(self, start: int = START) -> None:
        self._start = start

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        rows = np.flatnonzero(batch.column("property").to_numpy(zero_copy_only=False) == LOAD)
        watts = batch.column("value").to_numpy(zero_copy_only=False)[rows]
        usable = np.abs(watts) <= LARGEST_WATTS
        if not usable.all():
            raise ValueError(f"{watts[~usable][0]} is no load in watts")
        minutes = (batch.column("ts").to_numpy()[rows] - self._start) // MINUTE_SECONDS
        columns = [batch.column(name).to_numpy()[rows] for name in PLUG]
        columns += [minutes.astype(np.int32), np.rint(watts * 1000.0).astype(np.int64)]
        names = [*PLUG, "minute", "milliwatts"]
        return pa.record_batch(list(map(pa.array, columns)), names), rows
