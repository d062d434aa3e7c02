"""How many partial sums of a group were not finite, so that they can be taken out of it again.

An infinity or a NaN is not a number that could be subtracted. So a group counts the partials that
held one, by kind, apart from the digits of those that did not.
"""

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.group_states import extended

_KINDS = 3
"""Flags 1, 2 and 4: positive infinity, negative infinity, not a number."""


class SpecialCounts:
    """Partials that were not finite, per group and kind. Holds nothing until the first of them."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._counts.nbytes

    def add(self, groups: npt.NDArray[np.int64], flags: npt.NDArray[np.uint8]) -> None:
        """Count partials of groups int64[n], each with one flag (uint8[n], 1, 2 or 4)."""
        self._counts = extended(self._counts, _KINDS * (int(groups.max()) + 1), 0)
        np.add.at(self._counts, _KINDS * groups + (flags >> 1), 1)

    def subtract(self, groups: npt.NDArray[np.int64], flags: npt.NDArray[np.uint8]) -> None:
        """Count partials, which were added before, no more."""
        np.add.at(self._counts, _KINDS * groups + (flags >> 1), -1)

    def flags(self, groups: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """The flags of what is left in the groups (uint8[n])."""
        flags = np.zeros(groups.size, dtype=np.uint8)
        for kind in range(_KINDS):
            flags |= (self._counts[_KINDS * groups + kind] > 0).astype(np.uint8) << kind
        return flags
