"""One order of sets in every process that runs user code.

Python hashes texts and bytes differently in each process unless it is told not to, and what user code makes
may depend on it, by the order of a set for instance. Whoever runs user code hashes alike, so the output is
the same again.
"""

from __future__ import annotations

import os
import sys

HASH_SEED = {"PYTHONHASHSEED": "0"}
"""For the environment of a program. With 0 nothing is random."""


def begin_with_hash_seed() -> None:
    """Let this program begin anew with HASH_SEED, unless it has begun so; it then does not return."""
    told = os.environ.items() >= HASH_SEED.items()
    if sys.flags.hash_randomization and not told:
        os.environ.update(HASH_SEED)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
