"""Every row to every slice: for small static tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Broadcast:
    """See contracts.Partitioner."""

    broadcast = True

    def targets(self, keys: Sequence[pa.Array], slices: int) -> npt.NDArray[np.int32]:
        raise AssertionError("a broadcast has no targets: every slice gets every row")
