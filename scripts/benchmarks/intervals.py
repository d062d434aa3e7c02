"""Medians with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

RESAMPLES = 10_000
SEED = 1


@dataclass(frozen=True)
class Interval:
    """A median and the bootstrap 95 % interval around it (percentile method)."""

    median: float
    low: float
    high: float


def median_interval(values: Sequence[float]) -> Interval:
    """Resamples with a fixed seed, so the same values give the same interval."""
    sample = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(SEED)
    drawn = random.integers(0, len(sample), (RESAMPLES, len(sample)))
    medians = np.median(sample[drawn], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return Interval(float(np.median(sample)), float(low), float(high))


def rounded(interval: Interval) -> dict[str, float]:
    """As it stands in JSON."""
    return {key: round(value, 4) for key, value in asdict(interval).items()}
