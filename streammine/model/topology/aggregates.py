"""What an aggregate computes, as it is written: ``sum(value)``, ``quantile(delay, 0.95) where ok``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, get_args

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from streammine.model.suggestions import hint, listed
from streammine.model.topology.problems import shown, wrong_value

AggregateFunction = Literal[
    "count",
    "count_distinct",
    "sum",
    "mean",
    "min",
    "max",
    "variance",
    "variance_population",
    "stddev",
    "stddev_population",
    "median",
    "quantile",
    "first",
    "last",
    "arg_min",
    "arg_max",
    "collect",
]
AGGREGATE_FUNCTIONS: tuple[str, ...] = get_args(AggregateFunction)

Interpolation = Literal["linear", "lower", "higher", "nearest"]
INTERPOLATIONS: tuple[str, ...] = get_args(Interpolation)

MOST_SHARE_DIGITS = 7
"""Digits after the point in the share of a quantile."""

COLLECT_LIMIT = 100_000
"""Values that a list of `collect` may have, if it says nothing else."""

MOST_COLLECTED = 10_000_000

_OTHER_NAMES = {
    "avg": "mean",
    "average": "mean",
    "var": "variance",
    "var_samp": "variance",
    "var_pop": "variance_population",
    "std": "stddev",
    "stdev": "stddev",
    "stddev_samp": "stddev",
    "stddev_pop": "stddev_population",
    "standard_deviation": "stddev",
    "percentile": "quantile",
    "percentile_cont": "quantile",
    "quantile_cont": "quantile",
    "distinct": "count_distinct",
    "nunique": "count_distinct",
    "argmin": "arg_min",
    "min_by": "arg_min",
    "argmax": "arg_max",
    "max_by": "arg_max",
    "array_agg": "collect",
    "list": "collect",
    "first_value": "first",
    "last_value": "last",
    "minimum": "min",
    "maximum": "max",
    "total": "sum",
}
_EXAMPLES = {
    "quantile": "quantile(value, 0.95)",
    "arg_min": "arg_min(plug_id, value)",
    "arg_max": "arg_max(plug_id, value)",
}
_ORDERED = ("first", "last", "arg_min", "arg_max")

_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_ARGUMENT = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"]|"")+")|(?P<column>[^\W\d]\w*)|(?P<all>\*)
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?))\s*(?=[,)])""",
    re.VERBOSE,
)
_UP_TO_BRACKET = re.compile(r'(?:[^()"]|"(?:[^"]|"")*"|\([^()]*\))*')
_WHERE = re.compile(r"\s*where\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_PLAIN_COLUMN = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate: `function` over the values of `column`; None only for ``count()``: rows.

    ``count(column)`` counts the values that are not null. `by` is the column that orders the rows of
    first, last, arg_min and arg_max; None for the event time. `share` and `interpolation` belong to
    quantile, `limit` to collect. Only the rows for which the expression `where` is true count.
    """

    function: AggregateFunction
    column: str | None
    by: str | None = None
    share: Decimal | None = None
    interpolation: Interpolation = "linear"
    limit: int = COLLECT_LIMIT
    where: str | None = None

    @classmethod
    def parse(cls, value: object) -> AggregateCall:
        """From text such as ``mean(value)``, ``max("a column")`` or ``sum(value) where property = 1``.

        Raises a wrong-value error.
        """
        if isinstance(value, AggregateCall):
            return value
        if not isinstance(value, str):
            raise wrong_value(f"must be function(column), like sum(value), not {shown(value)}")
        named = _NAME.match(value)
        if named is None:
            raise _no_call(value)
        function = named[1].lower()
        if function not in AGGREGATE_FUNCTIONS:
            other = _OTHER_NAMES.get(function)
            suggestion = f"; write {other}." if other else hint(function, AGGREGATE_FUNCTIONS)
            raise wrong_value(
                f"there is no aggregate function '{named[1]}'{suggestion} {_choice()}"
            )
        arguments, end = _arguments(function, value, named.end())
        return _CallOf(function, arguments).call(_condition(value[:end], value[end:]))

    def __str__(self) -> str:
        arguments = [] if self.column is None else [_written(self.column)]
        if self.by is not None:
            arguments.append(_written(self.by))
        if self.share is not None:
            arguments.append(f"{self.share:f}")
            if self.interpolation != "linear":
                arguments.append(self.interpolation)
        if self.limit != COLLECT_LIMIT:
            arguments.append(str(self.limit))
        call = f"{self.function}({', '.join(arguments)})"
        return call if self.where is None else f"{call} where {self.where}"


@dataclass(frozen=True)
class _Argument:
    kind: str
    text: str

    @property
    def column(self) -> str:
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else self.text


@dataclass(frozen=True)
class _CallOf:
    """The arguments of a call on their way to being what its function takes."""

    function: str
    arguments: list[_Argument]

    def call(self, where: str | None) -> AggregateCall:
        column = self._column()
        self._check_number()
        function: AggregateFunction = self.function  # type: ignore[assignment]
        more = self.arguments[1:]
        if function in _ORDERED:
            by = self._by(more[0]) if more else None
            return AggregateCall(function, column, by=by, where=where)
        if function == "quantile":
            share, interpolation = self._share(more[0]), self._interpolation(more[1:])
            return AggregateCall(
                function, column, share=share, interpolation=interpolation, where=where
            )
        if more:
            return AggregateCall(function, column, limit=self._limit(more[0]), where=where)
        return AggregateCall(function, column, where=where)

    def _column(self) -> str | None:
        if not self.arguments or self.arguments[0].kind == "all":
            if self.function != "count":
                example = _EXAMPLES.get(self.function, f"{self.function}(value)")
                raise wrong_value(f"{self.function} needs a column, like {example}")
            return None
        if self.arguments[0].kind == "number":
            raise wrong_value(
                f"{self.function} takes a column first, not {self.arguments[0].text!r}"
            )
        return self.arguments[0].column

    def _check_number(self) -> None:
        """Whether there are as many arguments as the function takes."""
        least, most = {
            "quantile": (2, 3),
            "arg_min": (2, 2),
            "arg_max": (2, 2),
            "first": (1, 2),
            "last": (1, 2),
            "collect": (1, 2),
        }.get(self.function, (0, 1))
        if not least <= len(self.arguments) <= most:
            example = _EXAMPLES.get(self.function, f"{self.function}(value)")
            takes = {1: "one argument"}.get(
                most, f"{least} arguments" if least == most else f"{least} to {most} arguments"
            )
            raise wrong_value(
                f"{self.function} takes {takes}, like {example}, not {len(self.arguments)}"
            )

    def _by(self, argument: _Argument) -> str:
        if argument.kind not in ("column", "quoted"):
            raise wrong_value(
                f"{self.function} takes the column that orders the rows, not {argument.text!r}, "
                f"like {self.function}(value, ts)"
            )
        return argument.column

    def _share(self, argument: _Argument) -> Decimal:
        share = Decimal(argument.text) if argument.kind == "number" else None
        if share is None or not 0 <= share <= 1:
            near = ""
            if share is not None and 2 <= share <= 100:
                near = f"; write {(share / 100).normalize():f}"
            raise wrong_value(
                f"the second argument of quantile is a share from 0 to 1, not {argument.text!r}{near}"
            )
        share = share.normalize() + 0
        exponent = share.as_tuple().exponent
        assert isinstance(exponent, int), share
        if -exponent > MOST_SHARE_DIGITS:
            raise wrong_value(
                f"the share {argument.text} has more than {MOST_SHARE_DIGITS} digits after the point"
            )
        return share

    def _interpolation(self, arguments: list[_Argument]) -> Interpolation:
        if not arguments:
            return "linear"
        name = arguments[0].text.lower()
        if name not in INTERPOLATIONS:
            raise wrong_value(
                f"between two values, quantile goes {listed(INTERPOLATIONS)}, not "
                f"{arguments[0].text!r}"
            )
        return name  # type: ignore[return-value]

    def _limit(self, argument: _Argument) -> int:
        text = argument.text
        if argument.kind != "number" or not text.isdigit() or not 1 <= int(text) <= MOST_COLLECTED:
            raise wrong_value(
                f"the second argument of collect is the greatest number of values of a list, a whole "
                f"number from 1 to {MOST_COLLECTED}, not {text!r}"
            )
        return int(text)


def _arguments(function: str, text: str, start: int) -> tuple[list[_Argument], int]:
    """The arguments from `start`, behind the bracket, and the place behind the closing one."""
    found: list[_Argument] = []
    place = start
    while True:
        match = _ARGUMENT.match(text, place)
        if match is None:
            break
        found.append(_Argument(str(match.lastgroup), match[0].strip()))
        place = match.end() + 1
        if text[match.end()] == ")":
            return found, place
    inside = _UP_TO_BRACKET.match(text, start)
    assert inside is not None, "the pattern matches nothing, too"
    closed = text[inside.end() : inside.end() + 1] == ")"
    if closed and not found and not inside[0].strip():
        return [], inside.end() + 1
    raise _wrong_arguments(function, inside[0].strip(), closed)


def _wrong_arguments(function: str, inside: str, closed: bool) -> PydanticCustomError:
    if not closed:
        return wrong_value(f"{function}({inside} has no closing bracket; write {function}(column)")
    if function == "count" and inside.lower().startswith("distinct"):
        return wrong_value(f"write count_distinct(column), not count({inside})")
    return wrong_value(
        f"{function} takes one column, not {inside!r}; "
        "compute it with a map before, or put the column's name in double quotes"
    )


def _condition(call: str, rest: str) -> str | None:
    """The condition that stands behind a call."""
    if not rest.strip():
        return None
    found = _WHERE.fullmatch(rest)
    if found is None:
        raise wrong_value(
            f"behind {call.strip()} stands {rest.strip()!r}; a condition on its rows is written "
            f"{call.strip()} where value > 3"
        )
    return found[1].strip()


def _no_call(value: str) -> PydanticCustomError:
    if value.strip() in AGGREGATE_FUNCTIONS:
        call = "count()" if value.strip() == "count" else f"{value.strip()}(column)"
        suggestion = f"; did you mean {call}?"
    else:
        suggestion = "; write function(column), like sum(value)."
    return wrong_value(f"{value!r} is no aggregate{suggestion} {_choice()}")


def _written(column: str) -> str:
    if _PLAIN_COLUMN.fullmatch(column) is not None:
        return column
    quoted = column.replace('"', '""')
    return f'"{quoted}"'


def _choice() -> str:
    return f"Functions: {listed(AGGREGATE_FUNCTIONS, len(AGGREGATE_FUNCTIONS))}"


AggregateField = Annotated[
    AggregateCall,
    PlainValidator(AggregateCall.parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^\s*({'|'.join(AGGREGATE_FUNCTIONS)})\s*\(.*\)\s*(where\s+.*)?$",
            "examples": [
                "count()",
                "sum(value)",
                "quantile(value, 0.95)",
                "arg_max(plug_id, value)",
                "mean(value) where property = 1",
            ],
        }
    ),
]
