"""Random numbers that are the same whenever and wherever an epoch is processed.

The seed is the SHA-256 of plain data: job, operator, epoch and what user code adds, such as the key. The
numbers that follow are those of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
generators"), and all that is made of them is exact integer arithmetic or division by a power of two. So they
do not depend on the machine, the version of Python or of any library.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, TypeVar

from streammine.operators.plain_data import encode_canonical

_WORD = 2**64
_GAMMA = 0x9E3779B97F4A7C15

T = TypeVar("T")


class Draws:
    """A sequence of random numbers."""

    __slots__ = ("_state",)

    def __init__(self, *seed: Any) -> None:
        """`seed`: plain data. Raises TypeError for anything else."""
        self._state = int.from_bytes(sha256(encode_canonical(seed)).digest()[:8], "big")

    def bits64(self) -> int:
        """A whole number from 0 to 2^64 - 1."""
        self._state = word = (self._state + _GAMMA) % _WORD
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % _WORD
        return word ^ (word >> 31)

    def uniform(self) -> float:
        """A float in [0, 1), a multiple of 2^-53."""
        return (self.bits64() >> 11) / 2**53

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included, each as likely as the others.

        Raises TypeError for bounds that are no integers; ValueError where there is none between them, or
        more than 2^64.
        """
        for bound in (low, high):
            if type(bound) is not int:
                raise TypeError(f"a bound is an integer, not {type(bound).__name__}")
        count = high - low + 1
        if not 0 < count <= _WORD:
            raise ValueError(f"there are {max(0, count)} numbers from {low} to {high}")
        # the numbers at the upper end that would make some results more likely are drawn again
        limit = _WORD - _WORD % count
        while (word := self.bits64()) >= limit:
            pass
        return low + word % count

    def choice(self, values: Sequence[T]) -> T:
        """One of the values. Raises ValueError if there is none."""
        if not values:
            raise ValueError("there is no value to choose from")
        return values[self.integer(0, len(values) - 1)]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """The values in random order, every order as likely as the others."""
        found = list(values)
        for last in range(len(found) - 1, 0, -1):
            other = self.integer(0, last)
            found[last], found[other] = found[other], found[last]
        return found
