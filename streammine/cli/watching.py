"""Running a job under a person's eyes: what `run` and `submit` share."""

from __future__ import annotations

import time

from streammine.cli.display import Display
from streammine.cli.summary import print_summary
from streammine.model.errors import JobFailedError
from streammine.model.topology import Topology
from streammine.runtime.jobs import JobRun
from streammine.runtime.output import Tail
from streammine.runtime.results import summarize
from streammine.runtime.stores import open_store
from streammine.runtime.submission import Submission


def run_and_show(
    job: JobRun, topology: Topology, display: Display, began_at: float, as_json: bool
) -> None:
    """Run the job to its end and print the summary. Raises JobFailedError when it failed.

    `began_at`: when the command began, in seconds of the monotonic clock.
    """
    submission = job.prepare()
    for warning in topology.warnings():
        display.note(f"note: {warning}")
    outcome = job.run(_consoles(topology, submission))
    if outcome.status != "finished":
        raise JobFailedError(
            f"{topology.name} {outcome.status}: {outcome.reason}"
            if outcome.reason
            else f"{topology.name} {outcome.status}"
        )
    summary = summarize(submission, outcome, time.monotonic() - began_at)
    display.close()
    print_summary(summary, submission, as_json)


def _consoles(topology: Topology, submission: Submission) -> list[tuple[str, Tail]]:
    """Console sinks, to be printed as they are committed."""
    return [
        (name, Tail(open_store(submission.spec.targets[name].location)))
        for name, sink in topology.sinks.items()
        if sink.format == "console"
    ]
