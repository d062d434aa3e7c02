"""Column kernels: grouping, exact aggregates and word splitting, in machine code by numba.

All are deterministic, take any batch sizes, and release the interpreter lock while they work.
An object serves one thread at a time.
"""

from streammine.operators.kernels.columns import fixed_values, validity_mask
from streammine.operators.kernels.exact_sum import (
    ExactSquares,
    ExactSum,
    exact_deviation,
    exact_variance,
)
from streammine.operators.kernels.extremes import Count, Extreme, StringExtreme
from streammine.operators.kernels.group_index import GroupIndex
from streammine.operators.kernels.integer_sum import IntegerSum
from streammine.operators.kernels.warming import warm_up
from streammine.operators.kernels.words import split_words

__all__ = [
    "Count",
    "ExactSquares",
    "ExactSum",
    "Extreme",
    "GroupIndex",
    "IntegerSum",
    "StringExtreme",
    "exact_deviation",
    "exact_variance",
    "fixed_values",
    "split_words",
    "validity_mask",
    "warm_up",
]
