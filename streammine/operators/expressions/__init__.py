"""SQL-like expressions over the columns of a batch: for `map`, `filter`, `enrich`, conditions of patterns.

- `words`: the text cut into tokens, of which every word must be a column of the input, a function of
  `FUNCTIONS` or a keyword of `KEYWORDS`. So what is not elementwise and deterministic (aggregates,
  window functions, sub-queries, random numbers, the clock) cannot be written.
- `sql`, `divisors`, `logic`, `mixtures`: what Polars, which parses and evaluates the rest on Arrow memory
  without copies where the types allow it, would compute otherwise than promised below.
- `functions`: those that its SQL lacks, each computed before as a column that the rest reads.
- `expression`: all of this joined.
- `salvage`: where rows that fail are to be dead letters, the values of the others.
- `frames`, `errors`: values and failures, from Arrow to Polars and back.

What the values are:

- Integers narrower than 64 bits are widened to int64 (unsigned ones to uint64 where the column has
  64 bits) in every expression that computes; an expression that only names a column keeps its type.
- int64 arithmetic wraps around at its bounds (two's complement), the same on every machine.
- ``/`` gives a float64; ``x / 0`` is an infinity, ``0 / 0`` is NaN. ``//`` and ``%`` take integers
  and give null where the divisor is 0.
- A number with a point is a float64, except where a decimal column is read; there it is a decimal.
- Null in, null out. Comparisons know three values; ``coalesce``, ``nullif``, ``case``,
  ``is null`` and ``is not distinct from`` treat nulls.
- NaN equals NaN and is greater than every number.
- A computed -0.0 is 0.0. (Polars computes with a value that is the same in all rows of a batch otherwise than
  with one per row: ``0 - x`` would be -0.0 or 0.0, depending on where batches are cut.)
- Text is compared by its UTF-8 bytes; ``length`` counts characters; ``upper`` and ``lower`` follow
  Unicode, not a locale.
- ``cast`` of a value that does not fit fails; ``try_cast`` gives null.

docs/operators/expressions.md describes the language for its users.
"""

from streammine.operators.expressions.expression import Expression, evaluated
from streammine.operators.expressions.words import FUNCTIONS, KEYWORDS, unknown_column

__all__ = ["FUNCTIONS", "KEYWORDS", "Expression", "evaluated", "unknown_column"]
