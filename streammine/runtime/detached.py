"""Runs of jobs that nobody waits for (``submit --detach``): the cluster's supervisor removes them.

Whoever submits such a job leaves a note of its run in the cluster's folder. A run is removed when its job
has finished; one whose job failed, was stopped or savepointed is kept for `--resume`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from streammine.model.errors import ClusterError, StreammineError
from streammine.model.job_codec import decode_outcome
from streammine.runtime.run_folders import Run, is_there

logger = logging.getLogger(__name__)

DETACHED_FOLDER = "detached"


def leave_run(cluster: Path, job: int, run: Run) -> None:
    """Leave the run of job number `job` to the cluster in this folder."""
    folder = cluster / DETACHED_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    unfinished = folder / f".{job}"
    unfinished.write_text(run.location, encoding="utf-8")
    unfinished.rename(folder / str(job))


def remove_finished(cluster: Path, outcome_of: Callable[[int], bytes | None]) -> None:
    """Look at what was left: remove the runs of jobs that have finished.

    `outcome_of` gives a job's encoded outcome, None while it runs. What can't be removed is told in the
    log.
    """
    for note in sorted(cluster.glob(f"{DETACHED_FOLDER}/[0-9]*")):
        try:
            outcome = outcome_of(int(note.name))
        except ClusterError as error:
            # ZooKeeper may be back at the next look
            logger.warning("how job %s ended can't be read: %s", note.name, error)
            continue
        if outcome is None:
            continue
        location = note.read_text(encoding="utf-8")
        try:
            if decode_outcome(outcome).status == "finished" and is_there(location):
                Run(location).remove()
                # the note stays: at the next look the last snapshot may have been written after all
                continue
        except StreammineError as error:
            logger.warning("the run of job %s stays: %s", note.name, error)
        note.unlink()
