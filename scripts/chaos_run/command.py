"""The command line of `scripts/chaos`."""

from __future__ import annotations

import logging
import secrets
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import click

from chaos_run.network import obstacle
from chaos_run.network_rounds import NetworkRound
from chaos_run.rounds import (
    ChaosError,
    Round,
    Tally,
    Wanted,
    full_disk_obstacle,
    undisturbed,
)
from streammine import read_topology
from streammine.cli.interruption import interruptible

NETWORK_SHARE = 0.4
"""How many of the rounds run on a network."""


@click.command()
@click.argument("topology", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--minutes", type=float, default=5.0, show_default=True, help="How long to go on.")
@click.option("--seed", type=int, help="Choose the same faults again; default: a new one.")
@click.option("--rounds", type=int, help="End after so many runs at the latest.")
@click.option("--nodes", type=int, default=2, show_default=True, help="Of the undisturbed run.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="As for `streammine run`."
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for what failing runs leave; default: a new one among the temporary files.",
)
def chaos(
    topology: Path,
    minutes: float,
    seed: int | None,
    rounds: int | None,
    nodes: int,
    settings: tuple[str, ...],
    evidence: Path | None,
) -> None:
    """Run TOPOLOGY again and again while nodes and ZooKeeper are killed and paused, snapshots are damaged,
    the disk is full and, with nodes on hosts of their own, the network is slow, loses and splits; compare
    each result with that of an undisturbed run. What this machine does not allow is skipped, and said.

    The same seed chooses the same faults; when exactly they hit depends on the machine. Exit code 1 when
    a run came to something else, hung, or left something behind; its logs and output are kept then.
    """
    seed = secrets.randbelow(1 << 31) if seed is None else seed
    folder = evidence or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.absolute()
    known = read_topology(topology, dict(each.split("=", 1) for each in settings))
    sinks = tuple(name for name, sink in known.sinks.items() if sink.path is not None)
    wanted = Wanted(topology.absolute(), settings, sinks, nodes)
    deadline = time.monotonic() + minutes * 60
    obstacles = {
        name: reason
        for name, reason in (("network", obstacle()), ("full disk", full_disk_obstacle()))
        if reason is not None
    }
    for name, reason in obstacles.items():
        click.echo(f"skipped: {name}, for {reason}")
    # that ZooKeeper is away is our own doing
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    with interruptible():
        try:
            expected, seconds = undisturbed(wanted, folder / "undisturbed")
        except ChaosError as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"seed {seed}; undisturbed: {seconds:.1f} s, {expected}")
        tally = Tally()
        while time.monotonic() < deadline and (rounds is None or tally.rounds < rounds):
            tally.rounds += 1
            click.echo(f"round {tally.rounds}")
            random = Random(f"{seed}/{tally.rounds}")
            place = folder / f"round-{tally.rounds}"
            on_machines = random.random() < NETWORK_SHARE and "network" not in obstacles
            kind = NetworkRound if on_machines else Round
            try:
                kind(wanted, place, random, click.echo, tally).run(expected)
            except ChaosError as error:
                tally.failures += 1
                click.echo(f"  FAILED: {error}\n  evidence: {place}")
    done = ", ".join(f"{name} {count}" for name, count in sorted(tally.faults.items())) or "none"
    click.echo(f"seed {seed}: {tally.rounds} rounds, {tally.failures} failed; faults: {done}")
    if not any(folder.iterdir()):
        folder.rmdir()
    sys.exit(1 if tally.failures else 0)
