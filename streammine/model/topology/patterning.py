"""The pattern: events of one stream that together mean something."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from streammine.model.topology.keyed import EPOCH_COLUMN, KEYED_ELSEWHERE, KeyedFields, Timed
from streammine.model.topology.parts import (
    MOST_ENTRIES,
    NO_BOOLEAN,
    Column,
    Columns,
    DurationField,
    Part,
)
from streammine.model.topology.pattern_alternatives import Alternative, alternatives
from streammine.model.topology.pattern_parts import (
    GroupKind,
    PatternGroup,
    PatternPartField,
    leaves,
    pattern_part,
)
from streammine.model.topology.problems import shown, wrong_value
from streammine.model.topology.stateless import Expression, OneInput

DEFAULT_LIMIT = 10_000_000
_MOST_EVENTS = 48

Matching = Literal["any", "next", "strict"]


def _conditions(value: object) -> object:
    if isinstance(value, str | bool | int | float):
        return [value]
    if not isinstance(value, list | tuple):
        raise wrong_value(f"must be an expression or a list of them, not {shown(value)}")
    return value


_Parts = Annotated[tuple[PatternPartField, ...], Field(max_length=MOST_ENTRIES)]


class Pattern(Part):
    """Which events make a match, and what leaves for each."""

    label: ClassVar[str] = "pattern"
    elsewhere: ClassVar[dict[str, str]] = {
        "input": "it stands beside pattern, not in it",
        "key": "it stands beside pattern, not in it",
        "time": "it stands beside pattern, not in it",
        "window": "the span of a match is within: 10m",
        "not": "it stands in a sequence: sequence: [not: {fault: 'x = 0'}, start: 'x > 9']",
        "any": "alternatives are one_of: [...]; every combination is matching: any",
        "or": "alternatives are one_of: [...]",
        "and": "events in any order are all: [...]",
        "seq": "events one after the other are sequence: [...]",
    }

    sequence: _Parts | None = Field(
        default=None,
        description="Parts that follow one another; events of one time may stand in either order.",
        examples=[[{"start": "value > 100"}, {"rise+": "value > start.value"}]],
    )
    all_: _Parts | None = Field(
        default=None, alias="all", description="Parts that all must be there, in any order."
    )
    one_of: _Parts | None = Field(
        default=None, description="Parts of which one must be there; each one that is, is a match."
    )
    where: Annotated[
        tuple[Expression, ...],
        BeforeValidator(_conditions),
        Field(max_length=MOST_ENTRIES),
        WithJsonSchema(
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
        ),
    ] = Field(
        default=(),
        description="Conditions between events, which must all hold: start.value, and of closures each "
        "element (rise.value, previous(rise.value)) or first, last, count, sum, mean, min, max of them. "
        "One that names an event which the match does not have, does not count.",
        examples=["mean(rise.value) > 2 * start.value"],
    )
    within: DurationField = Field(
        description="The most time between the first and the last event of a match, inclusive. It bounds "
        "what is kept, so it must be there.",
        examples=["10m"],
    )
    matching: Matching = Field(
        default="any",
        description="any: every combination of events that fits. next: after each event the next one that "
        "fits. strict: events that follow one another without any other of the key between them.",
    )
    limit: Annotated[int, Field(ge=1), NO_BOOLEAN] = Field(
        default=DEFAULT_LIMIT,
        description="The most combinations that are tried for one key in one epoch; more stop the job with "
        "an error.",
    )
    output: dict[Column, Expression] = Field(
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Output columns and the expressions over the events of a match that they hold; null "
        "where the match does not have the event.",
        examples=[{"begin": "start.ts", "rises": "count(rise)", "peak": "max(rise.value)"}],
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Pattern:
        given = [kind for kind, parts in self._groups.items() if parts is not None]
        if len(given) != 1:
            there = " and ".join(given) or "none"
            raise wrong_value(
                f"a pattern has exactly one of sequence, all, one_of, and this has {there}; one may stand "
                "inside of another"
            )
        # how many parts a group has is said where groups are made
        pattern_part(self.root.plain())
        names = [leaf.name for leaf in leaves(self.root)]
        for name in names:
            if names.count(name) > 1:
                raise wrong_value(f"two events are called '{name}'; conditions could not tell them")
        if len(names) > _MOST_EVENTS:
            raise wrong_value(f"a pattern names at most {_MOST_EVENTS} events, not {len(names)}")
        if EPOCH_COLUMN in self.output:
            raise wrong_value(f"the output has a column '{EPOCH_COLUMN}' already; use another name")
        _ = self.alternatives
        return self

    @property
    def _groups(self) -> dict[GroupKind, _Parts | None]:
        return {"sequence": self.sequence, "all": self.all_, "one_of": self.one_of}

    @property
    def root(self) -> PatternGroup:
        """The whole pattern as one part."""
        ((kind, parts),) = [(k, parts) for k, parts in self._groups.items() if parts is not None]
        return PatternGroup(kind, parts)

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        return alternatives(self.root, total_order=self.matching != "any")


class PatternOperator(OneInput, KeyedFields, Timed):
    """Finds combinations of events of one key that fit a pattern."""

    label: ClassVar[str] = "a pattern operator"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "inputs": "it has one input; bring streams together with a union before, write input: NAME",
        "window": "the span of a match is pattern: {within: 10m}",
        "combine": "the rows of a pattern can't be combined",
        **dict.fromkeys(
            ("sequence", "all", "one_of", "where", "within", "matching", "output", "limit"),
            "it stands inside of pattern",
        ),
    }
    kind: ClassVar[str] = "pattern"

    pattern: Pattern = Field(
        description="The events, the conditions between them, and what leaves: the column epoch, the key "
        "columns, then the output columns, one row per match.",
        examples=[
            {
                "sequence": [{"low": "value < 10"}, {"high": "value > 100"}],
                "within": "10m",
                "output": {"begin": "low.ts", "end": "high.ts"},
            }
        ],
    )
    key: Columns = Field(
        default=(),
        description="Column or columns whose events are matched with each other. Default: all events.",
        examples=["plug_id"],
    )

    @model_validator(mode="after")
    def _distinct_output(self) -> PatternOperator:
        for column in self.pattern.output:
            if column in self.key:
                raise wrong_value(f"output column '{column}' is a key column, too; rename it")
        if EPOCH_COLUMN in self.key:
            raise wrong_value(f"the output has a column '{EPOCH_COLUMN}' already; rename the key")
        return self

    @property
    def sets_aside(self) -> bool:
        return True

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)
