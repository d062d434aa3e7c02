"""What can go wrong between machines, as actions on a network. Each heals it again, but for what is slow.

What befalls processes goes on beside it: `faults`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from chaos_run.faults import LONGEST_PAUSE_SECONDS
from chaos_run.machines import DESK, ENSEMBLE, Machines
from chaos_run.network import CUT, Cable


@dataclass(frozen=True)
class NetworkFault:
    """`weight`: how often it is chosen among the others."""

    name: str
    weight: int
    act: Callable[[Machines, Random], str | None]


def _slow(machines: Machines, random: Random) -> str:
    delay, jitter = random.uniform(0.001, 0.05), random.uniform(0.0, 0.05)
    machines.network.everywhere(Cable(delay_seconds=delay, jitter_seconds=jitter))
    return f"{1000 * delay:.0f} to {1000 * (delay + jitter):.0f} ms everywhere"


def _lossy(machines: Machines, random: Random) -> str:
    loss, delay = random.uniform(0.005, 0.08), random.uniform(0.0, 0.01)
    machines.network.everywhere(Cable(delay_seconds=delay, loss=loss))
    return f"{loss:.1%} are lost everywhere, {1000 * delay:.0f} ms"


def _for_a_while(machines: Machines, random: Random) -> str:
    """From a moment to longer than a session."""
    seconds = random.uniform(0.3, LONGEST_PAUSE_SECONDS)
    time.sleep(seconds)
    machines.network.heal()
    return f"for {seconds:.1f} s"


def _node(machines: Machines, random: Random) -> str:
    return random.choice(machines.names)


def _split_node(machines: Machines, random: Random) -> str:
    node = _node(machines, random)
    machines.network.split([node])
    return f"{node} from all {_for_a_while(machines, random)}"


def _split_nodes(machines: Machines, random: Random) -> str:
    """Nodes do not reach each other, but all reach ZooKeeper."""
    names = list(machines.names)
    random.shuffle(names)
    size = random.randint(1, len(names) - 1)
    some, others = names[:size], names[size:]
    machines.network.split(some, others)
    sides = f"{' '.join(some)} | {' '.join(others)}"
    return f"{sides} {_for_a_while(machines, random)}"


def _one_way(machines: Machines, random: Random) -> str:
    sender, receiver = random.sample((*machines.names, ENSEMBLE), 2)
    machines.network.lay(CUT, [sender], [receiver])
    return f"{receiver} does not hear {sender} {_for_a_while(machines, random)}"


def _deaf(machines: Machines, random: Random) -> str:
    node = _node(machines, random)
    machines.network.lay(CUT, machines.network.hosts, [node])
    return f"{node} hears nobody {_for_a_while(machines, random)}"


def _mute(machines: Machines, random: Random) -> str:
    node = _node(machines, random)
    machines.network.lay(CUT, [node], machines.network.hosts)
    return f"nobody hears {node} {_for_a_while(machines, random)}"


def _without_zookeeper(machines: Machines, random: Random) -> str:
    machines.network.split([ENSEMBLE])
    return f"nobody reaches ZooKeeper {_for_a_while(machines, random)}"


def _manager_without_zookeeper(machines: Machines, random: Random) -> str | None:
    managers = machines.members()[:1]
    if not managers:
        return None
    machines.network.split(managers, [ENSEMBLE])
    return f"{managers[0]} | ZooKeeper {_for_a_while(machines, random)}"


def _desk(machines: Machines, random: Random) -> str:
    machines.network.split([DESK])
    return f"the user is cut off {_for_a_while(machines, random)}"


NETWORK_FAULTS = (
    NetworkFault("slow network", 2, _slow),
    NetworkFault("lossy network", 2, _lossy),
    NetworkFault("split off a node", 3, _split_node),
    NetworkFault("split nodes, not ZooKeeper", 3, _split_nodes),
    NetworkFault("one-way split", 3, _one_way),
    NetworkFault("deaf node", 2, _deaf),
    NetworkFault("mute node", 2, _mute),
    NetworkFault("split off ZooKeeper", 2, _without_zookeeper),
    NetworkFault("split the manager from ZooKeeper", 2, _manager_without_zookeeper),
    NetworkFault("split off the user", 1, _desk),
)


def chosen_for_network(random: Random) -> NetworkFault:
    return random.choices(NETWORK_FAULTS, [fault.weight for fault in NETWORK_FAULTS])[0]
