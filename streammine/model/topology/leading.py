"""Leaders: the foremost keys of a ranking, told whenever what they show changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from streammine.model.topology.keyed import KEYED_ELSEWHERE, KeyedFields
from streammine.model.topology.parts import NO_BOOLEAN, Column, Columns, Part, StreamName
from streammine.model.topology.problems import Path, wrong_value
from streammine.model.topology.recent import InEventOrder, check_distinct, parsed_call, quoted
from streammine.model.topology.stateless import Expression, OperatorBase

MeasureFunction = Literal["latest", "sum"]
MEASURE_FUNCTIONS: tuple[str, ...] = get_args(MeasureFunction)

MOST_LEADERS = 1_000
MOST_MEASURES = 60


@dataclass(frozen=True)
class MeasureCall:
    """What is known of a key: the `latest` value of a column, or the `sum` of all."""

    function: MeasureFunction
    column: str

    @classmethod
    def parse(cls, value: object) -> MeasureCall:
        """From text such as ``sum(change)``; raises a wrong-value error."""
        if isinstance(value, MeasureCall):
            return value
        function, column = parsed_call(value, MEASURE_FUNCTIONS, "latest(value)")
        assert column is not None, "only count needs no column"
        return cls(function, column)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.function}({quoted(self.column)})"


MeasureField = Annotated[
    MeasureCall,
    PlainValidator(MeasureCall.parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": rf"^\s*({'|'.join(MEASURE_FUNCTIONS)})\s*\(.*\)\s*$"}
    ),
]


class Leading(Part):
    """How keys are ranked, and what is told of the foremost."""

    label: ClassVar[str] = "leaders"
    elsewhere: ClassVar[dict[str, str]] = {
        "key": "it stands beside leaders, not in it",
        "input": "it stands beside leaders, not in it",
        "inputs": "it stands beside leaders, not in it",
        "k": "write count: 10",
        "order": "write by: the expression to rank by, descending",
    }

    count: Annotated[int, Field(ge=1, le=MOST_LEADERS), NO_BOOLEAN] = Field(
        description="How many are told.", examples=[10]
    )
    measures: dict[Column, MeasureField] = Field(
        min_length=1,
        max_length=MOST_MEASURES,
        description="What is known of each key, and how it follows from the rows: latest(c), the value of "
        "column c in the key's latest row; sum(c) of whole numbers, which may be negative. A measure "
        "follows from the inputs that have its column.",
        examples=[{"median": "latest(median)", "taxis": "sum(change)"}],
    )
    by: Expression = Field(
        description="Expression over key and measures, the higher the further in front; a key for which it "
        "is null is not listed. Of equals, the one stands in front that a row has changed more recently.",
        examples=["trips", "case when taxis > 0 then median / taxis end"],
    )
    show: dict[Column, Expression] = Field(
        min_length=1,
        max_length=MOST_MEASURES,
        description="What is told of each of the foremost: columns, to whose names _1, _2, … are added, and "
        "expressions over key and measures. Null where there are fewer.",
        examples=[{"cell": "cell", "median": "median"}],
    )
    keep: Columns = Field(
        default=(),
        description="Columns of the row by which the foremost have changed; told before them.",
        examples=[["ts"]],
    )

    @property
    def output_columns(self) -> list[str]:
        """Names of all columns that leave."""
        places = range(1, self.count + 1)
        return [*self.keep, *(f"{name}_{place}" for place in places for name in self.show)]


class LeadersOperator(InEventOrder, OperatorBase, KeyedFields):
    """The foremost keys of a ranking, told whenever what they show changes, event by event."""

    label: ClassVar[str] = "a leaders"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "window": "what comes and goes in its input is taken into account as long as it lasts",
        "within": "it belongs to recent and latest, whose output leaders read",
        "combine": "its rows count one after the other",
        "keep": "it stands inside of leaders: {keep: [columns]}",
    }
    kind: ClassVar[str] = "leaders"

    input: StreamName | None = Field(
        default=None,
        description="Name of the source or operator whose rows change the ranking.",
        examples=["routes"],
    )
    inputs: tuple[StreamName, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=10,
        description="Names of several, which stem from one source. Give this or input.",
        examples=[["profits", "taxis"]],
    )
    key: Columns = Field(
        min_length=1,
        description="Column or columns of what is ranked.",
        examples=["cell", ["start", "end"]],
    )
    leaders: Leading = Field(
        description="What is known of each key, how keys are ranked by it, and what is told of the foremost.",
        examples=[
            {
                "count": 10,
                "measures": {"trips": "latest(trips)"},
                "by": "trips",
                "show": {"route": "route"},
            }
        ],
    )

    @model_validator(mode="after")
    def _inputs_once(self) -> LeadersOperator:
        if (self.input is None) == (self.inputs is None):
            both = "has both input and inputs; keep one" if self.input else "has no input"
            raise wrong_value(f"{both}: input: NAME, or inputs: [NAME, NAME] for several")
        for measure in self.leaders.measures:
            if measure in self.key:
                raise wrong_value(f"measure '{measure}' is a key column, too; rename it")
        check_distinct(self.leaders.output_columns)
        return self

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.inputs if self.inputs is not None else (self.input or "",)

    def input_place(self, port: int) -> Path:
        return ("input",) if self.inputs is None else ("inputs", port)
