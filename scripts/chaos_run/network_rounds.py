"""A disturbed run on machines of their own, whose network is disturbed as well."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from random import Random

import psutil

from chaos_run.faults import chosen
from chaos_run.machines import Machines, MachinesError
from chaos_run.network import NetworkError
from chaos_run.network_faults import chosen_for_network
from chaos_run.rounds import (
    LONGEST_RUN_SECONDS,
    MOST_FAULTS,
    ChaosError,
    Tally,
    Tell,
    Wanted,
    require_same,
    wait_for_output,
)
from chaos_run.surroundings import Surroundings
from streammine.runtime.processes import ChildProcess

MOST_NODES = 4
PROCESS_SHARE = 0.35
"""How many of the faults befall processes instead of the network."""

LOOK_SECONDS = 0.3


class MachinesSurroundings(Surroundings):
    """The same harm to the same processes, which are on machines of their own."""

    machines: Machines | None = None

    def manager(self) -> list[psutil.Process]:
        assert self.machines is not None
        pids = [self.machines.processes[name].pid for name in self.machines.members()[:1]]
        return [process for process in self.nodes() if process.pid in pids]


class NetworkRound:
    """One disturbed run. All that is random comes from `random`."""

    def __init__(
        self, wanted: Wanted, folder: Path, random: Random, tell: Tell, tally: Tally
    ) -> None:
        self._wanted = wanted
        self._random = random
        self._told = tell
        self._tally = tally
        self._place = MachinesSurroundings(folder)
        self._begin = time.monotonic()

    def run(self, expected: dict[str, object]) -> None:
        """Raises ChaosError, and leaves the evidence, when the run does not come to what is expected."""
        keep = True
        try:
            self._lead(expected)
            keep = False
        finally:
            if keep:
                for log in self._place.logs():
                    with contextlib.suppress(OSError):
                        shutil.copy(log, self._place.folder)
            self._place.close(keep)

    def _lead(self, expected: dict[str, object]) -> None:
        names = [f"host-{number}" for number in range(1, self._random.randint(2, MOST_NODES) + 1)]
        place = self._place
        seed = self._random.randrange(1 << 31)
        try:
            with Machines(place.temporary, names, place.environment, seed) as machines:
                place.machines = machines
                self._tell(f"{len(names)} machines are up")
                words = self._wanted.arguments(place, len(names))
                with machines.submit(*words) as command:
                    self._disturb(machines, command)
                    machines.network.heal()
                    self._wait(machines, command)
                    require_same(command, 0.0, expected)
        except (MachinesError, NetworkError) as error:
            raise ChaosError(str(error)) from None
        if left := self._place.processes():
            raise ChaosError(f"it left {left}")
        self._tell("the same as undisturbed")

    def _disturb(self, machines: Machines, command: ChildProcess) -> None:
        wait_for_output(self._place, command)
        for _ in range(self._random.randint(1, MOST_FAULTS)):
            if command.wait(self._random.expovariate(1.0)) is not None:
                return
            if self._random.random() < PROCESS_SHARE:
                process_fault = chosen(self._random)
                name, done = process_fault.name, process_fault.act(self._place, self._random)
            else:
                fault = chosen_for_network(self._random)
                name, done = fault.name, fault.act(machines, self._random)
            if done is not None:
                self._tally.count(name)
                self._tell(f"{name}: {done}")
            self._tend(machines)

    def _tend(self, machines: Machines) -> None:
        if started := machines.tend():
            self._tell(f"started again: {' '.join(started)}")

    def _wait(self, machines: Machines, command: ChildProcess) -> None:
        deadline = self._begin + LONGEST_RUN_SECONDS
        while command.wait(LOOK_SECONDS) is None and time.monotonic() < deadline:
            self._tend(machines)

    def _tell(self, text: str) -> None:
        self._told(f"  {time.monotonic() - self._begin:7.2f} s  {text}")
