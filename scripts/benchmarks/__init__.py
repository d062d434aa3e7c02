"""Benchmarks: the engine against the fastest batch programs for the same work, and against itself.

`python -m benchmarks NAME`; `scripts/bench NAME` makes the environment first. Throughput is given as a
ratio of medians measured in one call, because machines differ and are noisy.
"""
