"""What a run came to: its figures, and the digest of what it committed."""

from __future__ import annotations

from dataclasses import dataclass, field

from streammine.model.epoch_ranges import EpochRange, EpochRanges
from streammine.model.job import COMMITTER_SUFFIX, DEAD_LETTERS, JobOutcome
from streammine.runtime.output import CommittedOutput, output_digest
from streammine.runtime.stores import open_store
from streammine.runtime.submission import Submission


@dataclass(frozen=True)
class Summary:
    """`seconds`: from before a source opened its input to the last sink commit. `wall_seconds`: the whole
    command. `epochs_lost`: of how many epochs some sink may lack rows, which gap recovery has lost; `lost`:
    which these are, as ranges (first, last), by sink.
    """

    events_in: int
    events_out: int
    events_dead: int
    seconds: float
    wall_seconds: float
    epochs: int
    output_digest: str
    epochs_lost: int = 0
    lost: dict[str, tuple[EpochRange, ...]] = field(default_factory=dict)


def run_seconds(outcome: JobOutcome) -> float:
    """Seconds from before a source opened its input to the last sink commit; 0.0 without either."""
    counters = outcome.counters
    began = [each["first_read_at"] for each in counters.values() if "first_read_at" in each]
    committed = [
        each["last_commit_at"]
        for name, each in counters.items()
        if name.partition("/")[0].endswith(COMMITTER_SUFFIX) and "last_commit_at" in each
    ]
    return max(committed) - min(began) if began and committed else 0.0


def summarize(submission: Submission, outcome: JobOutcome, wall_seconds: float) -> Summary:
    counters = outcome.counters
    kinds = {vertex.name: vertex.kind for vertex in submission.spec.graph.vertices}
    sinks = [name for name, kind in kinds.items() if kind == "sink" and name != DEAD_LETTERS]
    stores = {name: open_store(submission.spec.targets[name].location) for name in sinks}
    outputs = {name: CommittedOutput(store) for name, store in stores.items()}
    epochs = {epoch for output in outputs.values() for epoch in output.epoch_numbers()}
    read = sum(
        each["rows_in"]
        for name, each in counters.items()
        if kinds[name.partition("/")[0]] == "source"
    )
    # what a slice counted before it was lost is gone with it; what was committed is not
    letters = submission.spec.targets.get(DEAD_LETTERS)
    dead = 0 if letters is None else CommittedOutput(open_store(letters.location)).rows
    lost = {name: tuple(output.lost) for name, output in outputs.items() if output.lost}
    return Summary(
        events_in=int(read),
        events_out=sum(output.rows for output in outputs.values()),
        events_dead=dead,
        seconds=round(run_seconds(outcome), 6),
        wall_seconds=round(wall_seconds, 3),
        epochs=len(epochs),
        output_digest=output_digest(stores),
        epochs_lost=EpochRanges(each for ranges in lost.values() for each in ranges).count,
        lost=lost,
    )
