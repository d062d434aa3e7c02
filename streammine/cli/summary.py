"""The end of a run, for people or for machines."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from streammine.cli.tables import text_table
from streammine.model.epoch_ranges import EpochRanges
from streammine.model.job import DEAD_LETTERS
from streammine.model.readable_rows import readable_rows
from streammine.runtime.output import CommittedOutput
from streammine.runtime.results import Summary
from streammine.runtime.stores import open_store
from streammine.runtime.submission import Submission

HEAD_ROWS = 10
REASON_CHARACTERS = 200


def print_summary(summary: Summary, submission: Submission, as_json: bool) -> None:
    """One JSON line on standard output, or a text for people with the top of each sink's output."""
    if as_json:
        click.echo(json.dumps(asdict(summary)))
        return
    rate = summary.events_in / summary.seconds if summary.seconds else 0.0
    for name, sink in _file_sinks(submission):
        output = CommittedOutput(open_store(sink))
        table = output.head(HEAD_ROWS)
        click.echo(f"\n{name}: {output.rows:,} rows in {sink}")
        if table.num_rows:
            click.echo(text_table(readable_rows(table), table.column_names))
    click.echo(
        f"\n{summary.events_in:,} events in, {summary.events_out:,} out, "
        f"{summary.events_dead:,} dead letters, {summary.epochs:,} epochs\n"
        f"{summary.seconds:.3f} s of processing ({rate:,.0f} events/s), "
        f"{summary.wall_seconds:.1f} s in all\n"
        f"digest {summary.output_digest}"
    )
    if summary.events_dead:
        click.echo(_dead_letters_line(submission))
    elif not summary.events_in:
        click.echo("no source had a row: see whether the input is the one that is meant")
    for name, ranges in summary.lost.items():
        click.echo(lost_line(name, EpochRanges(ranges)))


def _dead_letters_line(submission: Submission) -> str:
    """Where rows that could not be used are, and why the first of them is among them."""
    location = submission.spec.targets[DEAD_LETTERS].location
    (first,) = CommittedOutput(open_store(location)).head(1).to_pylist()
    # it may quote what was read, which a terminal must not take for commands
    reason = "".join(each if each.isprintable() else "\ufffd" for each in first["reason"])
    if len(reason) > REASON_CHARACTERS:
        reason = reason[:REASON_CHARACTERS] + "…"
    # beside no sink's files they are gone with the run
    folder = f", all in {location}" if _file_sinks(submission) else ""
    return f"the first dead letter, from {first['origin']}: {reason}{folder}"


def lost_line(sink: str, lost: EpochRanges) -> str:
    count = "1 epoch may" if lost.count == 1 else f"{lost.count:,} epochs may"
    return f"{sink}: {count} lack rows, which gap recovery has lost: {lost}"


def _file_sinks(submission: Submission) -> list[tuple[str, str]]:
    sinks = submission.compiled.topology.sinks
    return [
        (name, submission.spec.targets[name].location)
        for name, sink in sinks.items()
        if sink.path is not None
    ]
