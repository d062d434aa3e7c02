"""The virtual shell: the same machines and operators on a virtual cluster, from one seed.

`simulate` runs a topology in milliseconds, with arbitrary delays and interleavings, and checks after
every step what must always hold. The same seed gives the same run, to the last message.
"""

from streammine.simulation.run import SimulationError, SimulationResult, simulate
from streammine.simulation.settings import SimulationSettings

__all__ = ["SimulationError", "SimulationResult", "SimulationSettings", "simulate"]
