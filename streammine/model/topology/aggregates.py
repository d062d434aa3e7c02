"""What an aggregate computes, as it is written: ``sum(value)``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from streammine.model.suggestions import hint, listed
from streammine.model.topology.problems import shown, wrong_value

AggregateFunction = Literal["count", "sum", "mean", "min", "max", "variance", "variance_population"]
AGGREGATE_FUNCTIONS: tuple[str, ...] = get_args(AggregateFunction)

_OTHER_NAMES = {
    "avg": "mean",
    "average": "mean",
    "var": "variance",
    "var_samp": "variance",
    "var_pop": "variance_population",
    "minimum": "min",
    "maximum": "max",
    "total": "sum",
}
_CALL = re.compile(r'\s*([A-Za-z_]\w*)\s*\(\s*(\*|[^\W\d]\w*|"(?:[^"]|"")+")?\s*\)\s*')
_ANY_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_PLAIN_COLUMN = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate: `function` over the values of `column`; None only for ``count()``: rows.

    ``count(column)`` counts the values that are not null.
    """

    function: AggregateFunction
    column: str | None

    @classmethod
    def parse(cls, value: object) -> AggregateCall:
        """From text such as ``mean(value)`` or ``max("a column")``; raises a wrong-value error."""
        if isinstance(value, AggregateCall):
            return value
        if not isinstance(value, str):
            raise wrong_value(f"must be function(column), like sum(value), not {shown(value)}")
        found = _ANY_CALL.fullmatch(value)
        if found is None:
            if value.strip() in AGGREGATE_FUNCTIONS:
                call = "count()" if value.strip() == "count" else f"{value.strip()}(column)"
                suggestion = f"; did you mean {call}?"
            else:
                suggestion = "; write function(column), like sum(value)."
            raise wrong_value(f"{value!r} is no aggregate{suggestion} {_choice()}")
        function = found[1].lower()
        if function not in AGGREGATE_FUNCTIONS:
            other = _OTHER_NAMES.get(function.lower())
            suggestion = f"; write {other}." if other else hint(function, AGGREGATE_FUNCTIONS)
            raise wrong_value(
                f"there is no aggregate function '{found[1]}'{suggestion} {_choice()}"
            )
        call_of_column = _CALL.fullmatch(value)
        if call_of_column is None:
            raise wrong_value(
                f"{function} takes one column, not {found[2].strip()!r}; "
                "compute it with a map before, or put the column's name in double quotes"
            )
        argument: str | None = call_of_column[2]
        column = None if argument is None or argument == "*" else argument
        if column is not None and column.startswith('"'):
            column = column[1:-1].replace('""', '"')
        if column is None and function != "count":
            raise wrong_value(f"{function} needs a column, like {function}(value)")
        return cls(function, column)  # type: ignore[arg-type]

    def __str__(self) -> str:
        if self.column is None:
            return f"{self.function}()"
        if _PLAIN_COLUMN.fullmatch(self.column) is not None:
            return f"{self.function}({self.column})"
        quoted = self.column.replace('"', '""')
        return f'{self.function}("{quoted}")'


def _choice() -> str:
    return f"Functions: {listed(AGGREGATE_FUNCTIONS)}"


AggregateField = Annotated[
    AggregateCall,
    PlainValidator(AggregateCall.parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^\s*({'|'.join(AGGREGATE_FUNCTIONS)})\s*\(.*\)\s*$",
            "examples": ["count()", "sum(value)", "mean(value)"],
        }
    ),
]
