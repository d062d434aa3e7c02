"""`streammine`: run topologies, look at them, keep clusters.

Commands are loaded when they are asked for, so that `--help` answers at once.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from typing import NoReturn

import click

from streammine.cli.interruption import (
    INTERRUPTED_CODE,
    TERMINATED_CODE,
    first_interruption,
    note_interruptions,
)
from streammine.model.errors import StreammineError
from streammine.runtime.hash_seed import begin_with_hash_seed

COMMANDS = {
    "run": ("streammine.cli.run_command", "Run a topology on a cluster made for it."),
    "explain": (
        "streammine.cli.explain_command",
        "Show what a topology comes to, without running it.",
    ),
    "check": ("streammine.cli.check_command", "Check that operators keep what they claim."),
    "simulate": ("streammine.cli.simulate_command", "Try a topology on clusters that faults hit."),
    "schema": (
        "streammine.cli.schema_command",
        "Print the JSON Schema of topologies, for editors.",
    ),
    "prepare": ("streammine.cli.prepare_command", "Turn raw sources into epoch logs with PySpark."),
    "digest": ("streammine.cli.digest_command", "Print the digest of committed output."),
    "up": ("streammine.cli.up_command", "Start a cluster that stays for several jobs."),
    "submit": ("streammine.cli.submit_command", "Run a topology on a cluster that is up."),
    "status": ("streammine.cli.status_command", "Show a cluster's nodes, jobs and slices."),
    "stop": ("streammine.cli.stop_command", "Stop a job of a cluster that is up."),
    "replay": (
        "streammine.cli.replay_command",
        "Push a log into a source of a running job with PySpark.",
    ),
    "savepoint": (
        "streammine.cli.savepoint_command",
        "Save a job and stop it, so that it can go on later.",
    ),
    "migrate": (
        "streammine.cli.migrate_command",
        "Move a partition of a running job to another node.",
    ),
    "scheme": (
        "streammine.cli.scheme_command",
        "Change the fault-tolerance scheme of a running job's slices.",
    ),
    "down": ("streammine.cli.down_command", "End a cluster that is up."),
    "node": ("streammine.cli.node_command", "Run one node process, or take the work from one."),
    "supervise": ("streammine.cli.supervise_command", "Own the processes of a cluster that is up."),
}
_INTERNAL = frozenset({"supervise"})
_RUN_USER_CODE = frozenset({"run", "check", "simulate", "up", "node", "supervise"})
"""Or start those who do."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if name not in _INTERNAL]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streammine")
def streammine() -> None:
    """An epoch-based, deterministic event-stream processing engine."""


def main() -> NoReturn:
    """Entry point: errors of the world become one message and exit code 1, Ctrl-C becomes 130."""
    if _RUN_USER_CODE.intersection(sys.argv[1:2]):
        begin_with_hash_seed()
    _fill_standard_descriptors()
    code = _exit_code()
    # At its end Python would look through all that is loaded for garbage, which takes up to a second.
    gc.freeze()
    sys.exit(code)


def _fill_standard_descriptors() -> None:
    """Where one was closed (``>&-``), have nothing else opened in its place and written to."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # the lowest that is free, which is this one
            os.open(os.devnull, os.O_RDWR)


def _exit_code() -> int:
    note_interruptions()
    try:
        code = streammine.main(standalone_mode=False)
    except BaseException as error:
        return _code_after(error)
    return code if isinstance(code, int) else 0


def _code_after(error: BaseException) -> int:
    number = first_interruption()
    if number == signal.SIGTERM:
        click.echo("terminated", err=True)
        return TERMINATED_CODE
    if number is not None or isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED_CODE
    match error:
        case click.ClickException():
            error.show()
            return error.exit_code
        case StreammineError():
            click.echo(f"streammine: {error}", err=True)
            return 1
        case BrokenPipeError():
            # the reader of our output has gone; nothing more can be said to it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
    raise error


if __name__ == "__main__":
    main()
