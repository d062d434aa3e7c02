"""`python -m seed_runs`."""

from __future__ import annotations

from seed_runs.command import seeds

if __name__ == "__main__":
    seeds(prog_name="scripts/seeds")
