"""`streammine check`: whether the operators of a topology keep what they claim, over sample input."""

from __future__ import annotations

import json
from pathlib import Path

import click

from streammine.cli.checks import Check, checks
from streammine.cli.options import topology_argument
from streammine.cli.sampling import sampled
from streammine.model.errors import JobFailedError
from streammine.operators.checking import SEED

EPOCHS = 8
"""Of the sample: enough to restore between them, and few, so that a key has several events in one."""


@click.command()
@topology_argument
@click.option(
    "--rows", type=click.IntRange(1), default=2000, show_default=True, help="Taken of each source."
)
@click.option(
    "--seed", type=click.IntRange(0), default=SEED, show_default=True, help="Of all shuffles."
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def check(topology: Path, overrides: tuple[str, ...], rows: int, seed: int, as_json: bool) -> None:
    """Check that TOPOLOGY's operators give the same bytes whichever way their events arrive.

    The first rows of each source go through the topology. The rows that reach an operator are given to
    it again and again: shuffled where it says that it is commutative, cut into other batches, combined
    and merged in parts, and with the operator lost and restored from snapshots in between. Of one
    that fails, the few events that show it are printed. Exit code 1 when an operator failed.
    """
    definition, tables, notes = sampled(topology, overrides, rows, EPOCHS)
    width = max(map(len, definition.operators), default=0)
    done: list[Check] = []
    for note in () if as_json else notes:
        click.echo(note)
    for one in checks(definition, tables, str(topology.absolute().parent), seed):
        done.append(one)
        for line in () if as_json else one.lines(width):
            click.echo(line)
    failed = [one.operator for one in done if one.status == "failed"]
    checked = [one for one in done if one.status != "not checked"]
    if as_json:
        summary = {"checked": len(checked), "failed": len(failed)}
        click.echo(json.dumps({**summary, "operators": [one.tree for one in done]}))
    elif not done:
        click.echo("the topology has no operators")
    if failed:
        raise JobFailedError(
            f"{len(failed)} of {len(checked)} operators failed: {', '.join(failed)}"
        )
