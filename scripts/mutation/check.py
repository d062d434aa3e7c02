"""What may notice a mutant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """`run` gives whether all was well. `group` says what kind of check it is."""

    name: str
    group: str
    run: Callable[[], bool]
