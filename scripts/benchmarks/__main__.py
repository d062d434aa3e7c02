"""`python -m benchmarks NAME`."""

from __future__ import annotations

from benchmarks.commands import benchmarks

if __name__ == "__main__":
    benchmarks(prog_name="scripts/bench")
