"""Loads all kernels before a job starts, so that no batch waits for it."""

from streammine.operators.kernels import (
    digit_kernels,
    digit_rounding,
    extremes,
    integer_sum,
    key_box,
    pair_extremes,
    string_table,
    word_bag,
    word_table,
    words,
)


def warm_up() -> None:
    """Compile every kernel, or load it from numba's cache. May run on any thread, repeatedly."""
    for module in (
        digit_kernels,
        digit_rounding,
        extremes,
        integer_sum,
        key_box,
        pair_extremes,
        string_table,
        word_bag,
        word_table,
        words,
    ):
        module.load_kernels()
