"""Key rows to dense group ids, column-wise and incrementally."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.operators.kernels.columns import (
    byte_ranges,
    bytes_to_array,
    canonical_words,
    fixed_values,
    is_bytes_type,
    taken_bytes,
    validity_mask,
    word_count,
    words_to_array,
)
from streammine.operators.kernels.key_box import KeyColumn
from streammine.operators.kernels.string_table import StringContents, StringTable
from streammine.operators.kernels.word_table import WordTable

_MAXIMUM_COLUMNS = 63


class GroupIndex:
    """Maps key rows to group ids 0, 1, 2, ... in order of first appearance.

    Two rows are the same group if every column agrees, where a null equals a null, -0.0 equals
    0.0 and every NaN equals every NaN. Ids depend on the order of the rows only, not on how
    they are cut into batches.

    A string column alone is its table's ids. Otherwise string columns are first coded by tables
    of their own and all columns form one row of words. The word that tells which columns are
    null is added to the rows when the first null comes, so columns without nulls do not pay.
    """

    def __init__(self, key_types: Sequence[pa.DataType]) -> None:
        """`key_types`: the types of the key columns, 1 to 63. Raises TypeError, ValueError."""
        if not 1 <= len(key_types) <= _MAXIMUM_COLUMNS:
            raise ValueError(f"{len(key_types)} key columns; use 1 to {_MAXIMUM_COLUMNS}")
        self._types = list(key_types)
        self._strings = [StringTable() if is_bytes_type(t) else None for t in key_types]
        self._word_counts = [1 if is_bytes_type(t) else word_count(t) for t in key_types]
        self._only_strings = self._strings[0] if len(key_types) == 1 else None
        self._rows: WordTable | None = None
        if self._only_strings is None:
            self._rows = WordTable(sum(self._word_counts))
        self._has_null_word = False

    @property
    def size(self) -> int:
        """Number of groups."""
        if self._rows is None:
            assert self._only_strings is not None
            return self._only_strings.size
        return self._rows.size

    @property
    def nbytes(self) -> int:
        """Bytes held by the tables."""
        total = sum(table.nbytes for table in self._strings if table is not None)
        return total + (self._rows.nbytes if self._rows is not None else 0)

    def ids(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Return int64[n], the group of each row; a new key row gets the next id.

        Raises TypeError or ValueError if the columns do not fit the key types, OverflowError
        beyond 2^31 - 2 groups.
        """
        return self._find(columns, insert=True)

    def lookup(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Return int64[n], the group of each row or -1 where the key row is unknown."""
        return self._find(columns, insert=False)

    def keys(self) -> list[pa.Array]:
        """Return the key columns of all groups in id order, in the original types."""
        return self.keys_as_of_now()()

    def keys_as_of_now(self) -> Callable[[], list[pa.Array]]:
        """What `keys` gives now, to be made later, also on another thread while rows are added.

        Costs microseconds: the tables only append, so what a view of them shows never changes.
        """
        if self._rows is None:
            assert self._only_strings is not None
            contents, value_type = self._only_strings.contents(), self._types[0]
            return lambda: [bytes_to_array(*contents, value_type)]
        rows = self._rows.keys()
        strings = [None if table is None else table.contents() for table in self._strings]
        return partial(self._key_columns, rows, strings, self._has_null_word)

    def keys_of(self, ids: npt.NDArray[np.int64]) -> list[pa.Array]:
        """Return the key columns of these groups (int64[n]) in their order; costs by n, but for nulls."""
        if self._rows is None:
            assert self._only_strings is not None
            contents = self._only_strings.contents()
            return [taken_bytes(*contents, self._types[0], ids)]
        strings = [None if table is None else table.contents() for table in self._strings]
        return self._key_columns(self._rows.keys().take(ids, axis=0), strings, self._has_null_word)

    def _key_columns(
        self,
        rows: npt.NDArray[np.int64],
        strings: Sequence[StringContents | None],
        has_null_word: bool,
    ) -> list[pa.Array]:
        arrays = []
        first = 0
        for number, key_type in enumerate(self._types):
            words = rows[:, first : first + self._word_counts[number]]
            first += self._word_counts[number]
            contents = strings[number]
            if contents is not None:
                arrays.append(taken_bytes(*contents, key_type, words[:, 0]))
                continue
            validity = np.empty(0, dtype=np.bool_)
            if has_null_word:
                validity = (rows[:, -1] >> number) & 1 == 0
            arrays.append(words_to_array(words, validity, key_type))
        return arrays

    def _find(self, columns: Sequence[pa.Array], insert: bool) -> npt.NDArray[np.int64]:
        self._check(columns)
        if self._rows is None:
            assert self._only_strings is not None
            return self._only_strings.ids(
                *byte_ranges(columns[0]), validity_mask(columns[0]), insert
            )
        return self._rows.ids(self._word_columns(columns, insert, self._rows), insert)

    def _check(self, columns: Sequence[pa.Array]) -> None:
        if len(columns) != len(self._types):
            raise ValueError(f"{len(columns)} key columns given, {len(self._types)} declared")
        for number, (column, key_type) in enumerate(zip(columns, self._types, strict=True)):
            if column.type != key_type:
                raise TypeError(
                    f"key column {number} has type {column.type}, declared was {key_type}"
                )
            if len(column) != len(columns[0]):
                raise ValueError(
                    f"key column {number} has {len(column)} rows, column 0 has {len(columns[0])}"
                )

    def _word_columns(
        self, columns: Sequence[pa.Array], insert: bool, rows: WordTable
    ) -> list[KeyColumn]:
        """The words of the key rows, one array for each place in a row, the null word last."""
        fixed_nulls = any(
            column.null_count
            for column, table in zip(columns, self._strings, strict=True)
            if table is None
        )
        if fixed_nulls and not self._has_null_word:
            rows.widen()
            self._has_null_word = True
        words: list[KeyColumn] = []
        null_word = np.zeros(len(columns[0]) if self._has_null_word else 0, dtype=np.int64)
        for number, (column, table) in enumerate(zip(columns, self._strings, strict=True)):
            if table is not None:
                words.append(table.ids(*byte_ranges(column), validity_mask(column), insert))
            elif column.null_count:
                missing = ~validity_mask(column)
                words.extend(np.where(missing, 0, canonical_words(column)))
                null_word |= missing.astype(np.int64) << number
            elif _is_int32(column.type):
                words.append(fixed_values(column))
            else:
                words.extend(canonical_words(column))
        if self._has_null_word:
            words.append(null_word)
        return words


def _is_int32(key_type: pa.DataType) -> bool:
    """Whether a value is its own word, in 32 bits."""
    types = pa.types
    return bool(types.is_int32(key_type) or types.is_date32(key_type) or types.is_time32(key_type))
