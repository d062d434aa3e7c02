"""What a Spark job tells its launcher while it runs, and when it fails: JSON lines on its standard
output. The last line is the job's report or its failure."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class SparkProgress(BaseModel):
    """Tasks of a step done, of how many."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: str
    done: int
    total: int


class SparkFailure(BaseModel):
    """Why there is no report, and whose fault that is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["input", "output", "cluster"]
    error: str
