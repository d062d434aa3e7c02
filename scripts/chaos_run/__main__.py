"""`python -m chaos_run TOPOLOGY`."""

from __future__ import annotations

from chaos_run.command import chaos

if __name__ == "__main__":
    chaos(prog_name="scripts/chaos")
