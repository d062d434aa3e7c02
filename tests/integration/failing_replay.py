"""Runs a replay whose tasks each die once: python -m tests.integration.failing_replay REQUEST.json.

Each leaves a file beside the request, dead-<task>. What tasks print is mixed with what Spark prints,
within lines too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark import TaskContext

from streammine.model.replay import Mark
from streammine.model.replay_job import ReplayRequest
from streammine.pipeline.parcels import Content
from streammine.pipeline.replay import replay
from streammine.pipeline.slice_push import Contents

PARCELS = 100


class TaskDiesError(Exception):
    """Not one of ours, so that Spark runs the task again."""


class DyingOnce:
    """The first attempt of every task dies when it has made so many parcels of a slice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, contents: Contents) -> Contents:
        def dying(after: Mark | None = None) -> Iterator[Content]:
            context = TaskContext.get()
            assert context is not None
            for at, content in enumerate(contents(after)):
                if at == PARCELS and context.attemptNumber() == 0:
                    (self._folder / f"dead-{context.partitionId()}").touch()
                    raise TaskDiesError
                yield content

        return dying


if __name__ == "__main__":
    file = Path(sys.argv[1])
    request = ReplayRequest.model_validate_json(file.read_bytes())
    print(replay(request, lambda progress: None, DyingOnce(file.parent)).model_dump_json())
