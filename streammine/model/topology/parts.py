"""What every part of a topology has in common: the base model and the small typed values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import InitErrorDetails

from streammine.model.durations import MOST_SPEED, Duration, Rate, parse_speed
from streammine.model.ids import HIDDEN_PREFIX
from streammine.model.schemes import Scheme
from streammine.model.suggestions import hint, listed
from streammine.model.topology.problems import explained, shown, without_echoes, wrong_value
from streammine.model.types import TYPE_PATTERN, arrow_type, type_name

LONGEST_NAME = 100
LONGEST_TEXT = 4_096
MOST_ENTRIES = 10_000
MOST_SLICES = 1_024
MOST_NODES = 1_000
MOST_REPLICAS = 5

OUTPUT_MARK = "."
"""Stands between the name of a split and that of one of its outputs."""

BY_VALUE_PREFIX = "value:"
"""An operator whose code travels beside the topology is named ``value:NAME`` in it."""

NOT_READING = dict.fromkeys(
    ("input", "inputs"),
    "a source's rows come from outside; an operator may read from it and from others",
)
"""What all sources say of fields that make a reader."""

_DEEPEST_SETTINGS = 32

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_CODE_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class Part(BaseModel):
    """A part of a topology. Unknown fields are errors, and every error says what would be right.

    Parts don't change once made. Where a field's name is taken in Python, its attribute has a
    trailing underscore (`schema_`, `with_`); both names may be used to make the part.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )

    label: ClassVar[str] = "this part"
    elsewhere: ClassVar[dict[str, str]] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, data: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        try:
            return handler(data)
        except ValidationError as error:
            fields = cls.field_descriptions()
            examples = cls._mapping_examples()
            details = [
                InitErrorDetails(
                    type=explained(one, cls.label, fields, cls.elsewhere, examples),
                    loc=one["loc"],
                    input=one["input"],
                )
                for one in without_echoes(error.errors(include_url=False))
            ]
            raise ValidationError.from_exception_data(cls.label, details) from None

    @classmethod
    def field_descriptions(cls) -> dict[str, str]:
        """Names, as they stand in a document, and descriptions of the fields."""
        return {
            field.alias or name: field.description or "" for name, field in cls.model_fields.items()
        }

    @classmethod
    def _mapping_examples(cls) -> dict[str, list[Mapping[str, object]]]:
        """Names of the fields that have mappings for examples, and these."""
        return {
            field.alias or name: mappings
            for name, field in cls.model_fields.items()
            if (mappings := [each for each in field.examples or () if isinstance(each, Mapping)])
        }


def _name(text: str) -> str:
    if len(text) > LONGEST_NAME or _NAME.fullmatch(text) is None:
        raise wrong_value(
            f"'{text[:LONGEST_NAME]}' can't be a name: letters, digits, _ and - after a letter "
            f"or _, at most {LONGEST_NAME}"
        )
    return text


def _stream_name(text: str) -> str:
    name, mark, output = text.partition(OUTPUT_MARK)
    _name(name)
    if mark:
        _name(output)
    return text


def _column(text: str) -> str:
    if not text or len(text) > LONGEST_NAME:
        raise wrong_value(f"a column name has 1 to {LONGEST_NAME} characters")
    if text.startswith(HIDDEN_PREFIX):
        raise wrong_value(
            f"column '{text}' starts with {HIDDEN_PREFIX}, which is for the engine's own columns; "
            f"call it '{text.lstrip('_') or 'column'}'"
        )
    return text


def _whole(value: object) -> object:
    """Whole numbers are not booleans, whatever Python thinks."""
    if isinstance(value, bool):
        raise wrong_value(f"must be a whole number, not {shown(value)}")
    return value


def _one_or_many(value: object) -> object:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | tuple):
        raise wrong_value(f"must be a text or a list of texts, not {shown(value)}")
    return value


def _distinct(columns: tuple[str, ...]) -> tuple[str, ...]:
    for column in columns:
        if columns.count(column) > 1:
            raise wrong_value(f"'{column}' stands there twice; name each once")
    return columns


def code_path(text: str) -> str:
    if _CODE_PATH.fullmatch(text) is None:
        suggestion = "."
        if ":" not in text and "." in text:
            module, _, name = text.rpartition(".")
            suggestion = f"; did you mean '{module}:{name}'?"
        raise wrong_value(
            f"'{text}' is no path of a class{suggestion} Write module:Class or package.module:Class"
        )
    return text


def _plain_settings(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return {name: _plain(one, str(name), 1) for name, one in value.items()}


def _plain(value: object, where: str, depth: int) -> object:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if depth < _DEEPEST_SETTINGS and isinstance(value, list | tuple):
        return [_plain(one, where, depth + 1) for one in value]
    if depth < _DEEPEST_SETTINGS and isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise wrong_value(f"'{where}' has names that are not texts; write them as texts")
        return {name: _plain(one, where, depth + 1) for name, one in value.items()}
    raise wrong_value(
        f"'{where}' is {type(value).__name__}; settings are numbers, texts, lists and mappings. "
        "In Python, pass an instance instead of the class"
    )


def _column_type(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be the name of a column type, like int64, not {shown(value)}")
    return type_name(arrow_type(value))


Name = Annotated[
    str,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_-]*$"}),
]
"""Name of a source, operator or sink."""

StreamName = Annotated[
    str,
    AfterValidator(_stream_name),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)?$",
        }
    ),
]
"""Name of what can be read from: a source, an operator, or an output of a split, SPLIT.OUTPUT."""

Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
Column = Annotated[str, AfterValidator(_column)]


def _scheme(value: object) -> object:
    if not isinstance(value, str) or value not in Scheme.__members__.values():
        suggestion = hint(str(value), tuple(Scheme))
        raise wrong_value(
            f"there is no scheme '{value}'{suggestion} Allowed: {listed(tuple(Scheme))}"
        )
    return value


SchemeField = Annotated[
    Scheme, BeforeValidator(_scheme), WithJsonSchema({"enum": [str(each) for each in Scheme]})
]

NO_BOOLEAN = BeforeValidator(_whole)
"""For whole numbers; stands behind their bounds."""

Slices = Annotated[int, Field(ge=1, le=MOST_SLICES), NO_BOOLEAN]

Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS), NO_BOOLEAN]

StrictBoolean = Annotated[bool, Field(strict=True)]
"""true or false, not a text that could mean it."""

_ONE_OR_MANY_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    ]
}

Columns = Annotated[
    tuple[Column, ...],
    BeforeValidator(_one_or_many),
    AfterValidator(_distinct),
    Field(max_length=MOST_ENTRIES),
    WithJsonSchema(_ONE_OR_MANY_SCHEMA),
]
"""One column name or a list of them; kept as a tuple."""

Texts = Annotated[
    tuple[Text, ...],
    BeforeValidator(_one_or_many),
    Field(min_length=1, max_length=MOST_ENTRIES),
    WithJsonSchema(_ONE_OR_MANY_SCHEMA),
]
"""One text or a list of them; kept as a tuple."""

TextsOrNone = Annotated[
    tuple[Text, ...],
    BeforeValidator(_one_or_many),
    Field(max_length=MOST_ENTRIES),
    WithJsonSchema(_ONE_OR_MANY_SCHEMA),
]

PlainSettings = Annotated[
    dict[str, Any],
    BeforeValidator(_plain_settings),
    WithJsonSchema({"type": "object"}),
]
"""Settings for code of the user's own: what a document can hold, lists for tuples."""

ColumnType = Annotated[
    str,
    PlainValidator(_column_type),
    WithJsonSchema({"type": "string", "pattern": TYPE_PATTERN}),
]
"""Name of a column type, in its canonical spelling."""

DurationField = Annotated[
    Duration,
    PlainValidator(Duration.parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*(us|ms|s|m|h|d)$"}),
]

RateField = Annotated[
    Rate,
    PlainValidator(Rate.parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+\s*/\s*(s|min|h)$"}),
]

SpeedField = Annotated[
    float,
    PlainValidator(parse_speed),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MOST_SPEED}),
]
