"""What may be a key column."""

from __future__ import annotations

import pyarrow as pa

from streammine.model.errors import TopologyError
from streammine.operators.expressions import unknown_column
from streammine.operators.kernels.columns import is_bytes_type, word_count


def check_key(operator: str, key: str, schema: pa.Schema, role: str = "key") -> None:
    """Refuse a key column that is not there or whose values can't be keys. Raises TopologyError."""
    if key not in schema.names:
        raise TopologyError(f"operator {operator!r}: {role}: {unknown_column(key, schema)}")
    key_type = schema.field(key).type
    if is_bytes_type(key_type):
        return
    try:
        word_count(key_type)
    except TypeError as error:
        raise TopologyError(f"operator {operator!r}: {role} {key!r}: {error}") from error
