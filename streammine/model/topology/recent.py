"""Recent and latest: what the last while amounts to by key, event by event."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from streammine.model.disciplines import Discipline
from streammine.model.durations import Duration
from streammine.model.suggestions import hint, listed
from streammine.model.topology.keyed import KEYED_ELSEWHERE, DisciplineField, KeyedFields
from streammine.model.topology.parts import MOST_ENTRIES, Column, Columns, DurationField, Part
from streammine.model.topology.problems import shown, wrong_value
from streammine.model.topology.stateless import OneInput

RecentFunction = Literal["count", "sum", "median"]
RECENT_FUNCTIONS: tuple[str, ...] = get_args(RecentFunction)

CHANGE_COLUMN = "change"
"""What `latest` tells: 1 of a row that comes, -1 of one that goes."""

_CALL = re.compile(r'\s*([A-Za-z_]\w*)\s*\(\s*([^\W\d]\w*|"(?:[^"]|"")+")?\s*\)\s*')


def parsed_call(value: object, functions: tuple[str, ...], like: str) -> tuple[str, str | None]:
    """Function and column of a text such as ``sum(value)``; raises a wrong-value error."""
    choice = f"Functions: {listed(functions)}"
    if not isinstance(value, str):
        raise wrong_value(f"must be function(column), like {like}, not {shown(value)}")
    found = _CALL.fullmatch(value)
    if found is None:
        raise wrong_value(f"{value!r} is no function(column), like {like}. {choice}")
    function, column = found[1].lower(), found[2]
    if function not in functions:
        raise wrong_value(
            f"there is no function '{found[1]}' here{hint(function, functions)} {choice}"
        )
    if column is not None and column.startswith('"'):
        column = column[1:-1].replace('""', '"')
    if column is None and function != "count":
        raise wrong_value(f"{function} needs a column, like {function}(value)")
    return function, column


@dataclass(frozen=True)
class RecentCall:
    """`function` over the values of `column`; None only for ``count()``: rows."""

    function: RecentFunction
    column: str | None

    @classmethod
    def parse(cls, value: object) -> RecentCall:
        """From text such as ``median(value)``; raises a wrong-value error."""
        if isinstance(value, RecentCall):
            return value
        function, column = parsed_call(value, RECENT_FUNCTIONS, "median(value)")
        return cls(function, column)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.function}({quoted(self.column)})"


def quoted(column: str | None) -> str:
    """A column as it is written in a call."""
    if column is None or re.fullmatch(r"[^\W\d]\w*", column):
        return column or ""
    doubled = column.replace('"', '""')
    return f'"{doubled}"'


RecentField = Annotated[
    RecentCall,
    PlainValidator(RecentCall.parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": rf"^\s*({'|'.join(RECENT_FUNCTIONS)})\s*\(.*\)\s*$"}
    ),
]


class InEventOrder(Part):
    """An operator that takes events one after the other, and so can't do without their order."""

    discipline: DisciplineField | None = Field(
        default=None,
        description="How much order the operator gets: strict, and nothing else.",
        examples=["strict"],
    )

    @field_validator("discipline", mode="after")
    @classmethod
    def _strict(cls, value: Discipline | None) -> Discipline | None:
        if value not in (None, Discipline.STRICT):
            raise wrong_value(
                f"it takes events one after the other, which discipline {value} does not give; write "
                "strict, or leave it out"
            )
        return value


class Lasting(Part):
    """An operator whose rows count for some time."""

    within: DurationField = Field(
        description="How long a row counts: one of time t until t + within, when it leaves before the rows "
        "of that time come.",
        examples=["30m"],
    )
    keep: Columns = Field(
        default=(),
        description="Columns of the row that comes, told with what it changes; null where nothing but time "
        "has passed.",
        examples=[["ts"]],
    )

    @field_validator("within", mode="after")
    @classmethod
    def _some_time(cls, value: Duration) -> Duration:
        if value.microseconds < 1:
            raise wrong_value("must be some time, like 30m")
        return value


_ELSEWHERE = {
    **KEYED_ELSEWHERE,
    "inputs": "it has one input; write input: NAME",
    "window": "write within: how long a row counts",
    "combine": "its rows count one after the other",
    "time": "rows count by the time of the epochs",
}


class RecentOperator(InEventOrder, Lasting, OneInput, KeyedFields):
    """Aggregates over the last while of each key, told whenever they change."""

    label: ClassVar[str] = "a recent"
    elsewhere: ClassVar[dict[str, str]] = _ELSEWHERE
    kind: ClassVar[str] = "recent"

    recent: dict[Column, RecentField] = Field(
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Output columns and what they hold: count(), count(c), sum(c), median(c), of whole "
        "numbers. The output has the key columns, these, then those of keep.",
        examples=[{"trips": "count()", "fare": "median(cents)"}],
    )
    key: Columns = Field(
        default=(),
        description="Column or columns to group by. Default: one group of all rows.",
        examples=["cell", ["start", "end"]],
    )

    @model_validator(mode="after")
    def _distinct_output(self) -> RecentOperator:
        check_distinct([*self.key, *self.recent, *self.keep])
        return self

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)


class LatestOperator(InEventOrder, Lasting, OneInput, KeyedFields):
    """Each key's latest row, until another one comes or it is too old."""

    label: ClassVar[str] = "a latest"
    elsewhere: ClassVar[dict[str, str]] = _ELSEWHERE
    kind: ClassVar[str] = "latest"

    latest: Columns = Field(
        min_length=1,
        description="Columns that are told of a row when it comes, with 1 in the column change, and when it "
        "goes, with -1. Those of keep follow.",
        examples=[["cell"]],
    )
    key: Columns = Field(
        min_length=1,
        description="Column or columns of the key.",
        examples=["taxi"],
    )

    @model_validator(mode="after")
    def _distinct_output(self) -> LatestOperator:
        check_distinct([*self.latest, CHANGE_COLUMN, *self.keep])
        return self

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)


def check_distinct(columns: list[str]) -> None:
    """Refuse an output with two columns of one name."""
    for column in columns:
        if columns.count(column) > 1:
            raise wrong_value(
                f"the output would have two columns '{column}'; rename one, or keep it once"
            )
