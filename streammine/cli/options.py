"""The options that commands on topologies share. They are known before anything that takes long is loaded."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

LARGEST_FILE_BYTES = 1 << 20
"""Of a topology."""


def topology_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """TOPOLOGY and --set."""
    command = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Fill in the placeholder ${KEY}, or replace the field with this dotted path; repeatable.",
    )(command)
    return click.argument("topology", type=click.Path(path_type=Path, dir_okay=False))(command)


@dataclass(frozen=True)
class JobOptions:
    """What `run` and `submit` are told of a job; `command` is what to type for another such."""

    command: str
    topology: Path
    overrides: tuple[str, ...]
    nodes: int | None
    spark_master: str | None
    overwrite: bool
    resume: str | None
    as_json: bool
    quiet: bool

    def resuming(self, run: str) -> str:
        """The command line that goes on with a run."""
        settings = [word for each in self.overrides for word in ("--set", each)]
        words = [str(self.topology), *settings, "--resume", run]
        return f"{self.command} {shlex.join(words)}"


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """TOPOLOGY and the options of commands that run it."""
    for option in (
        click.option("--quiet", is_flag=True, help="No progress on standard error."),
        click.option(
            "--json", "as_json", is_flag=True, help="End with one line of JSON on standard output."
        ),
        click.option(
            "--resume",
            metavar="RUN",
            help="Go on with this run (its name, folder or URL) after everything was lost.",
        ),
        click.option(
            "--overwrite", is_flag=True, help="Replace output of another job in the sinks' folders."
        ),
        click.option(
            "--spark-master", metavar="URL", help="Spark master for raw sources; default local[*]."
        ),
        click.option(
            "--nodes",
            type=click.IntRange(1, 1000),
            help="Nodes that share the work; default: the topology's.",
        ),
    ):
        command = option(command)
    return topology_argument(command)
