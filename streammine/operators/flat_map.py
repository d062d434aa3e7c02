"""`flat_map`: the words of a text column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.model.errors import TopologyError
from streammine.operators.expressions import unknown_column
from streammine.operators.kernels.words import load_kernels, split_words
from streammine.operators.map import check_column_name


class WordSplit:
    """One row per word of a text column, words in the order of the text (a StatelessOperator).

    A null line has no words. What a word is, is said by `split_words` of the kernels.
    """

    one_to_many = True
    deterministic = True

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        *,
        split: str,
        into: str = "word",
        on: Literal["whitespace", "letters"] = "whitespace",
        lower: bool = False,
        keep: Sequence[str] = (),
    ) -> None:
        """Split column `split` of `schema` into column `into`; columns of `keep` go along.

        Raises TopologyError for unknown columns, a column that holds no text, or a double name.
        """
        for column in (split, *keep):
            if column not in schema.names:
                raise TopologyError(
                    f"operator {name!r}: flat_map: {unknown_column(column, schema)}"
                )
        split_type = schema.field(split).type
        if not (pa.types.is_string(split_type) or pa.types.is_large_string(split_type)):
            raise TopologyError(
                f"operator {name!r}: flat_map splits column {split!r}, which has type "
                f"{split_type}; it must be a text column (string)"
            )
        check_column_name(name, into)
        if into in keep or len(set(keep)) != len(keep):
            raise TopologyError(
                f"operator {name!r}: flat_map gives two columns of one name; choose another `into` "
                f"than {into!r} or take a name out of `keep`"
            )
        self.name = name
        self._split = split
        self._mode = on
        self._lower = lower
        self._keep = tuple(keep)
        kept = [schema.field(column) for column in keep]
        self.output = pa.schema([pa.field(into, pa.string()), *kept])
        self.needs: frozenset[str] | None = frozenset((split, *keep))

    def prepare(self) -> None:
        """Load the kernels, so that the first batch does not wait for them."""
        load_kernels()

    def apply(self, batch: pa.RecordBatch) -> Derived:
        words, parents = split_words(batch.column(self._split), self._mode, self._lower)
        columns = [words]
        if self._keep:
            rows = pa.array(parents)
            columns += [batch.column(column).take(rows) for column in self._keep]
        return Derived(pa.record_batch(columns, schema=self.output), parents)
