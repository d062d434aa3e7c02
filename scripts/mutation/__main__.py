"""`python -m mutation`."""

from __future__ import annotations

from mutation.command import mutate

if __name__ == "__main__":
    mutate(prog_name="scripts/mutate")
