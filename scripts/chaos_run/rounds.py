"""One disturbed run after another, from a seed."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos_run.faults import chosen, damage_snapshot
from chaos_run.surroundings import Surroundings, ended_with
from streammine.runtime.processes import ChildProcess

COMPARED = ("output_digest", "events_in", "events_out", "events_dead", "epochs")
LONGEST_RUN_SECONDS = 240.0
"""A run that has not ended by then, faults and resuming included, hangs."""

TIDY_SECONDS = 15.0
FIRST_OUTPUT_SECONDS = 60.0
MOST_FAULTS = 5
LOST_RUN_SHARE = 0.25
"""How many of the rounds lose everything (the launcher is killed) and are resumed."""

FULL_DISK_SHARE = 0.15
SMALL_DISK_BYTES = 256 << 10
LARGE_DISK_BYTES = 1 << 30

Tell = Callable[[str], None]


def full_disk_obstacle() -> str | None:
    """Why there can be no small disk here, None where there can."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "it needs root and mount(8)"
    return None


class ChaosError(Exception):
    """A run did not do what an undisturbed one does."""


@dataclass(frozen=True)
class Wanted:
    """What is run: the topology's file, options that every run gets, and its sinks that have a path."""

    topology: Path
    settings: tuple[str, ...]
    sinks: tuple[str, ...]
    nodes: int

    def arguments(self, place: Surroundings, nodes: int, resume: str | None = None) -> list[str]:
        """The topology and the options of `run` and `submit`."""
        words = [str(self.topology), "--json", "--quiet", "--nodes", str(nodes)]
        for setting in self.settings:
            words += ["--set", setting]
        words += ["--set", f"snapshot.store={place.runs}"]
        for sink in self.sinks:
            words += ["--set", f"sinks.{sink}.path={place.output / sink}"]
        return words if resume is None else [*words, "--resume", resume]


@dataclass
class Tally:
    """What was done, for the summary."""

    rounds: int = 0
    failures: int = 0
    faults: dict[str, int] = field(default_factory=dict)

    def count(self, name: str) -> None:
        self.faults[name] = self.faults.get(name, 0) + 1


def undisturbed(wanted: Wanted, folder: Path) -> tuple[dict[str, object], float]:
    """What the run comes to when nothing happens, and the seconds it takes. Raises ChaosError."""
    place = Surroundings(folder)
    begin = time.monotonic()
    with place.start("run", *wanted.arguments(place, wanted.nodes)) as command:
        code = command.wait(LONGEST_RUN_SECONDS)
        summary = ended_with(command)
        tail = command.output_tail()
    place.close(keep=False)
    if code != 0 or summary is None:
        raise ChaosError(f"the undisturbed run ended with {code}:\n{tail}")
    return {name: summary[name] for name in COMPARED}, time.monotonic() - begin


def wait_for_output(place: Surroundings, command: ChildProcess) -> None:
    """Until something is committed, or the command has ended. Raises ChaosError."""
    deadline = time.monotonic() + FIRST_OUTPUT_SECONDS
    while not place.committed() and command.wait(0.05) is None:
        if time.monotonic() > deadline:
            raise ChaosError(f"no output within {FIRST_OUTPUT_SECONDS:g} s")


def require_same(
    command: ChildProcess, timeout_seconds: float, expected: dict[str, object]
) -> None:
    """Raises ChaosError unless the command ends in time, and with what is expected."""
    code = command.wait(timeout_seconds)
    tail = command.output_tail()
    if code is None:
        raise ChaosError(f"it hangs; the end of its log:\n{tail}")
    summary = ended_with(command)
    if code != 0 or summary is None:
        raise ChaosError(f"it ended with {code}:\n{tail}")
    different = {
        name: f"{summary[name]} instead of {value}"
        for name, value in expected.items()
        if summary[name] != value
    }
    if different:
        raise ChaosError(f"it came to something else: {different}")


class Round:
    """One disturbed run. All that is random comes from `random`."""

    def __init__(
        self, wanted: Wanted, folder: Path, random: Random, tell: Tell, tally: Tally
    ) -> None:
        self._wanted = wanted
        self._random = random
        self._tally = tally
        self._place = Surroundings(folder)
        self._told = tell
        self._begin = time.monotonic()

    def run(self, expected: dict[str, object]) -> None:
        """Raises ChaosError, and leaves the evidence, when the run does not come to what is expected."""
        keep = True
        try:
            self._lead(expected)
            keep = False
        finally:
            if keep:
                self._keep_logs()
            self._place.close(keep)

    def _lead(self, expected: dict[str, object]) -> None:
        full_disk = self._random.random() < FULL_DISK_SHARE
        lose_all = self._random.random() < LOST_RUN_SHARE
        if full_disk and not self._small_disk():
            full_disk = False
        nodes = self._random.randint(1, self._wanted.nodes + 1)
        command = self._start(nodes)
        try:
            if full_disk:
                command = self._until_full(command)
            command = self._disturb(command, lose_all)
            self._finish(command, expected)
        finally:
            command.close(0.0)

    def _start(self, nodes: int, resume: str | None = None) -> ChildProcess:
        self._tell(f"{'started' if resume is None else f'resumed {resume}'} with {nodes} nodes")
        return self._place.start("run", *self._wanted.arguments(self._place, nodes, resume))

    def _resumed(self) -> ChildProcess:
        runs = list(self._place.runs.iterdir())
        if len(runs) != 1:
            raise ChaosError(f"one run should be kept, there are {[each.name for each in runs]}")
        return self._start(self._random.randint(1, self._wanted.nodes + 1), runs[0].name)

    def _small_disk(self) -> bool:
        if full_disk_obstacle() is not None:
            return False
        self._place.limit_disk(SMALL_DISK_BYTES)
        return True

    def _until_full(self, command: ChildProcess) -> ChildProcess:
        code = command.wait(self._left_seconds())
        if code == 0:
            self._tell("its output found place on the small disk")
            return command
        tail = command.output_tail()
        if code is None or "No space left" not in tail:
            raise ChaosError(f"on a full disk the run should say so; it ended with {code}:\n{tail}")
        self._tally.count("full disk")
        self._tell("the disk was full, and the run said so; there is more place now")
        self._place.enlarge_disk(LARGE_DISK_BYTES)
        return self._resumed()

    def _disturb(self, command: ChildProcess, lose_all: bool) -> ChildProcess:
        wait_for_output(self._place, command)
        faults = self._random.randint(1, MOST_FAULTS)
        for number in range(faults):
            if command.wait(self._random.expovariate(1.0)) is not None:
                return command
            if lose_all and number == faults // 2:
                command = self._lose_all(command)
                continue
            fault = chosen(self._random)
            done = fault.act(self._place, self._random)
            if done is not None:
                self._tally.count(fault.name)
                self._tell(f"{fault.name}: {done}")
        return command

    def _lose_all(self, command: ChildProcess) -> ChildProcess:
        command.kill()
        if command.exit_code == 0:
            return command
        self._tally.count("kill everything")
        self._tell("kill everything: the launcher, and with it nodes and ZooKeeper")
        self._wait_until_gone()
        if self._random.random() < 0.5:
            damaged = damage_snapshot(self._place, self._random)
            self._tell(damaged or "no snapshot to damage yet")
        command.close()
        return self._resumed()

    def _wait_until_gone(self) -> None:
        deadline = time.monotonic() + TIDY_SECONDS
        while self._place.processes():
            if time.monotonic() > deadline:
                raise ChaosError(f"the launcher is gone, and left {self._place.left_over()}")
            time.sleep(0.05)

    def _finish(self, command: ChildProcess, expected: dict[str, object]) -> None:
        require_same(command, self._left_seconds(), expected)
        deadline = time.monotonic() + TIDY_SECONDS
        while left := self._place.left_over():
            if time.monotonic() > deadline:
                raise ChaosError(f"it left {left}")
            time.sleep(0.05)
        self._tell("the same as undisturbed")

    def _left_seconds(self) -> float:
        return max(0.0, self._begin + LONGEST_RUN_SECONDS - time.monotonic())

    def _keep_logs(self) -> None:
        """Nodes' logs lie among the temporary files, which go."""
        for log in self._place.logs():
            with contextlib.suppress(OSError):
                shutil.copy(log, self._place.folder / f"{log.parent.parent.name}-{log.name}")

    def _tell(self, text: str) -> None:
        self._told(f"  {time.monotonic() - self._begin:7.2f} s  {text}")
