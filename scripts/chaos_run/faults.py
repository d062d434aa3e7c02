"""What can go wrong, as actions on the surroundings of a run.

Each fault says in a line what it did, or gives None where there was nothing to do it to.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil

from chaos_run.surroundings import Surroundings

LONGEST_PAUSE_SECONDS = 7.0
"""More than a node's session lasts: some of those that are paused are given up, some are not."""


@dataclass(frozen=True)
class Fault:
    """`weight`: how often it is chosen among the others."""

    name: str
    weight: int
    act: Callable[[Surroundings, Random], str | None]


def _kill(processes: list[psutil.Process]) -> str | None:
    killed = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            killed.append(str(process.pid))
    return f"kill -9 {' '.join(killed)}" if killed else None


def _one(processes: list[psutil.Process], random: Random) -> list[psutil.Process]:
    return [random.choice(processes)] if processes else []


def _kill_node(place: Surroundings, random: Random) -> str | None:
    return _kill(_one(place.nodes(), random))


def _kill_manager(place: Surroundings, random: Random) -> str | None:
    return _kill(place.manager())


def _kill_all_nodes(place: Surroundings, random: Random) -> str | None:
    return _kill(place.nodes())


def _kill_zookeeper(place: Surroundings, random: Random) -> str | None:
    return _kill(place.zookeeper())


def _kill_twice(place: Surroundings, random: Random) -> str | None:
    """The second one while the first is being made up for."""
    first = _kill(_one(place.nodes(), random))
    pause_seconds = random.uniform(0.0, 0.6)
    time.sleep(pause_seconds)
    second = _kill(_one(place.nodes(), random))
    return f"{first}; {pause_seconds:.2f} s later {second}" if first and second else first


def _pause(processes: list[psutil.Process], random: Random) -> str | None:
    """Stop the processes, and let them go on after a while as if nothing had been."""
    seconds = random.uniform(0.2, LONGEST_PAUSE_SECONDS)
    stopped = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
            stopped.append(process)
    if not stopped:
        return None
    time.sleep(seconds)
    for process in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)
    return f"stopped {' '.join(str(each.pid) for each in stopped)} for {seconds:.1f} s"


def _pause_node(place: Surroundings, random: Random) -> str | None:
    return _pause(_one(place.nodes(), random), random)


def _pause_manager(place: Surroundings, random: Random) -> str | None:
    return _pause(place.manager(), random)


def _pause_zookeeper(place: Surroundings, random: Random) -> str | None:
    return _pause(place.zookeeper(), random)


def _damage(file: Path, random: Random) -> str | None:
    try:
        content = bytearray(file.read_bytes())
        if not content:
            return None
        if random.random() < 0.5:
            length = random.randrange(len(content))
            file.write_bytes(content[:length])
            return f"cut {file.name} of {len(content)} to {length} bytes"
        place, bit = random.randrange(len(content)), random.randrange(8)
        content[place] ^= 1 << bit
        file.write_bytes(content)
        return f"bit {bit} of byte {place} of {file.name} flipped"
    except OSError:
        # removed meanwhile
        return None


def damage_snapshot(place: Surroundings, random: Random) -> str | None:
    """A file of the newest snapshot of one slice."""
    files = sorted(place.newest_snapshots())
    return _damage(random.choice(files), random) if files else None


def _damage_and_kill(place: Surroundings, random: Random) -> str | None:
    damaged = damage_snapshot(place, random)
    killed = _kill_node(place, random)
    return f"{damaged or 'no snapshot yet'}, and {killed}"


FAULTS = (
    Fault("kill a node", 6, _kill_node),
    Fault("kill the manager", 4, _kill_manager),
    Fault("kill two nodes in turn", 3, _kill_twice),
    Fault("kill all nodes", 1, _kill_all_nodes),
    Fault("kill ZooKeeper", 2, _kill_zookeeper),
    Fault("pause a node", 3, _pause_node),
    Fault("pause the manager", 2, _pause_manager),
    Fault("pause ZooKeeper", 1, _pause_zookeeper),
    Fault("damage a snapshot and kill a node", 3, _damage_and_kill),
)


def chosen(random: Random) -> Fault:
    return random.choices(FAULTS, [fault.weight for fault in FAULTS])[0]
