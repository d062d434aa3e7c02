"""What is wrong with a topology, in words: one `Problem` per mistake, all of them reported at once.

pydantic finds out *that* a value is wrong; `explained` says *what* would be right. The place of a
mistake is a path into the document (``("operators", "counts", "slices")``), which `model.document`
turns into line and column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import ErrorDetails, PydanticCustomError

from streammine.model.errors import Location, TopologyError
from streammine.model.suggestions import hint, listed

Path = tuple[str | int, ...]

AT_VALUE = "wrong_value"
AT_KEY = "wrong_key"
"""Error types that our validators raise: the mistake is a field's value, or its name."""

TAG_MARK = "@"
"""Starts the segments of an error's path that name a member of a union instead of a field."""


@dataclass(frozen=True)
class Problem:
    """One mistake. `path` leads to it from the document's root; `at_key`: the name is wrong."""

    path: Path
    text: str
    at_key: bool = False

    def __str__(self) -> str:
        where = ".".join(str(segment) for segment in self.path)
        return f"{where}: {self.text}" if where else self.text


class InvalidTopologyError(TopologyError):
    """A topology with mistakes; `problems` has every one of them."""

    def __init__(
        self, problems: Sequence[Problem], locations: Sequence[Location | None] | None = None
    ) -> None:
        assert problems, "an invalid topology has a problem"
        self.problems = tuple(problems)
        places = list(locations) if locations is not None else [None] * len(problems)
        lines = [str(problems[0])]
        for problem, place in zip(problems[1:], places[1:], strict=True):
            lines.append(f"{place}: {problem}" if place else str(problem))
        super().__init__("\n".join(lines), places[0])


def wrong_value(text: str) -> PydanticCustomError:
    """For validators to raise: the value is wrong; `text` says why and what would be right."""
    return PydanticCustomError(AT_VALUE, "{text}", {"text": text})


def wrong_key(text: str) -> PydanticCustomError:
    """For validators to raise: the name of a field or entry is wrong."""
    return PydanticCustomError(AT_KEY, "{text}", {"text": text})


def problems_of(errors: Iterable[ErrorDetails]) -> list[Problem]:
    """pydantic's errors, already explained, as problems."""
    return [
        Problem(
            field_path(error["loc"]),
            error["msg"],
            at_key=error["type"] == AT_KEY or "[key]" in error["loc"],
        )
        for error in errors
    ]


def without_echoes(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Without those that call a list too short from which only wrong entries were taken out."""
    around = {error["loc"][:depth] for error in errors for depth in range(len(error["loc"]))}
    return [error for error in errors if error["type"] != "too_short" or error["loc"] not in around]


def field_path(location: Sequence[str | int]) -> Path:
    """An error's path without the segments that stand for members of unions and for keys."""
    return tuple(
        segment
        for segment in location
        if not (isinstance(segment, str) and (segment.startswith(TAG_MARK) or segment == "[key]"))
    )


def shown(value: object) -> str:
    """A wrong value as a message shows it: short, and in the words of YAML."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


_EXPECTED = {
    "string_type": "text",
    "string_sub_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of at most 64 bits",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}

_SHORT = 45
"""Characters of an example that a message has room for beside another one."""


def explained(
    error: ErrorDetails,
    label: str,
    fields: Mapping[str, str],
    elsewhere: Mapping[str, str],
    examples: Mapping[str, Sequence[Mapping[str, object]]],
) -> PydanticCustomError:
    """An error of pydantic's in our words.

    `label` names the part of the topology ("filter"), `fields` its fields with their descriptions,
    `elsewhere` what to say of fields that belong to other parts, `examples` what mappings look like.
    """
    kind = error["type"]
    value = error["input"]
    context: dict[str, Any] = error.get("ctx", {})
    if kind in (AT_VALUE, AT_KEY):
        return PydanticCustomError(AT_VALUE if kind == AT_VALUE else AT_KEY, "{text}", context)
    name = str(error["loc"][-1]) if error["loc"] else ""
    if kind == "extra_forbidden":
        return wrong_key(_unknown_field(name, label, fields, elsewhere))
    if kind == "missing":
        about = fields.get(name, "").split(". ")[0].rstrip(".")
        return wrong_key(f"{label} needs '{name}'" + (f": {about}" if about else ""))
    if kind == "value_error":
        return wrong_value(str(context["error"]))
    if kind == "literal_error":
        allowed = [word.strip(" '") for word in _words(str(context["expected"]))]
        suggestion = hint(value, allowed) if isinstance(value, str) else "."
        return wrong_value(
            f"{shown(value)} can't be used here{suggestion} Allowed: {listed(allowed)}"
        )
    if kind in _EXPECTED:
        quote = ""
        if kind == "string_type" and isinstance(value, int | float):
            quote = f"; put quotes around it: '{str(value).lower()}'"
        elif name == "input" and isinstance(value, list | tuple) and value:
            several = ", ".join(map(str, value))
            quote = f"; to read several as one, put an operator before: union: [{several}]"
        expected = _EXPECTED[kind]
        if expected == "a mapping":
            expected += _like(_examples_of(error["loc"], examples))
            if not name:
                # a part of something else, which knows what it looks like
                return PydanticCustomError("model_type", f"must be {expected}, not {shown(value)}")
        return wrong_value(f"must be {expected}, not {shown(value)}{quote}")
    if kind in ("greater_than_equal", "less_than_equal", "greater_than", "less_than"):
        words = {"ge": "at least", "le": "at most", "gt": "more than", "lt": "less than"}
        bound = next(key for key in words if key in context)
        return wrong_value(f"must be {words[bound]} {context[bound]}, not {shown(value)}")
    if kind == "string_too_long":
        return wrong_value(f"is longer than {context['max_length']} characters")
    if kind == "too_long":
        return wrong_value(f"has more than {context['max_length']} entries")
    if kind in ("too_short", "string_too_short"):
        return wrong_value("must not be empty")
    return wrong_value(f"{error['msg'][:1].lower()}{error['msg'][1:]} (it is {shown(value)})")


def _examples_of(
    location: Sequence[str | int], examples: Mapping[str, Sequence[Mapping[str, object]]]
) -> Sequence[Mapping[str, object]]:
    """Of a field, or of what a field has by names."""
    if len(location) == 2:
        named = examples.get(str(location[0]), ())
        return [part for each in named for part in each.values() if isinstance(part, Mapping)]
    return examples.get(str(location[-1]), ()) if location else ()


def _like(examples: Sequence[Mapping[str, object]]) -> str:
    """What a mapping looks like: the first example, and where they are short the others, too."""
    if not examples:
        return " (name: value)"
    first, *others = map(_in_one_line, examples)
    return " like " + " or ".join([first, *(each for each in others if len(each) <= _SHORT)])


def _in_one_line(example: object) -> str:
    """An example as a document has it; none has texts that need quotes."""
    if isinstance(example, Mapping):
        entries = (f"{name}: {_in_one_line(value)}" for name, value in example.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(example, list):
        return f"[{', '.join(map(_in_one_line, example))}]"
    return str(example).lower() if isinstance(example, bool) else str(example)


def _words(expected: str) -> list[str]:
    return expected.replace(" or ", ", ").split(", ")


def _unknown_field(
    name: str, label: str, fields: Mapping[str, str], elsewhere: Mapping[str, str]
) -> str:
    if name in elsewhere:
        return f"{label} has no '{name}': {elsewhere[name]}. Fields: {listed(fields)}"
    suggestion = hint(name, fields)
    return f"unknown field '{name}'{suggestion} Fields of {label}: {listed(fields)}"
