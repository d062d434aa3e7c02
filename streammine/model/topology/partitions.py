"""How an operator's keys are shared among its slices, as a topology says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from streammine.model.suggestions import hint
from streammine.model.topology.parts import MOST_SLICES, code_path
from streammine.model.topology.problems import shown, wrong_key, wrong_value

Boundary = int | float | str


@dataclass(frozen=True)
class HashPartition:
    """By a stable hash of the key columns: the default."""

    def __str__(self) -> str:
        return "hash"


@dataclass(frozen=True)
class BroadcastPartition:
    """Every slice gets every row."""

    def __str__(self) -> str:
        return "broadcast"


@dataclass(frozen=True)
class KeyRangePartition:
    """By ranges of the one key column: slice i gets the keys from boundary i-1 (or the lowest key)
    up to, not including, boundary i. `boundaries` ascend; there is one fewer than slices."""

    boundaries: tuple[Boundary, ...]

    def __str__(self) -> str:
        return "key_range"


@dataclass(frozen=True)
class UserPartition:
    """By a partitioner of the user's own: `path` is package.module:Class."""

    path: str

    def __str__(self) -> str:
        return self.path


Partition = HashPartition | BroadcastPartition | KeyRangePartition | UserPartition

_NAMES = ("hash", "broadcast", "key_range")


def parsed_partition(value: object) -> Partition:
    """From ``hash``, ``broadcast``, ``{key_range: {boundaries: [...]}}`` or a class's path."""
    if isinstance(value, HashPartition | BroadcastPartition | KeyRangePartition | UserPartition):
        return value
    if value == "hash":
        return HashPartition()
    if value == "broadcast":
        return BroadcastPartition()
    if value == "key_range":
        raise wrong_value("key_range needs boundaries: {key_range: {boundaries: [100, 200]}}")
    if isinstance(value, str) and ":" in value:
        return UserPartition(code_path(value))
    if isinstance(value, str):
        suggestion = hint(value, _NAMES)
        raise wrong_value(f"there is no partition '{value}'{suggestion} Allowed: {_choice()}")
    if not isinstance(value, Mapping) or len(value) != 1:
        raise wrong_value(f"must be one of {_choice()}; not {shown(value)}")
    ((name, settings),) = value.items()
    if name != "key_range":
        suggestion = hint(str(name), _NAMES)
        raise wrong_key(f"unknown field '{name}'{suggestion} Allowed: {_choice()}")
    if not isinstance(settings, Mapping) or set(settings) != {"boundaries"}:
        raise wrong_value("key_range takes boundaries and nothing else: {boundaries: [100, 200]}")
    return KeyRangePartition(_boundaries(settings["boundaries"]))


def _boundaries(value: object) -> tuple[Boundary, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) < MOST_SLICES:
        raise wrong_value(
            f"boundaries are a list of 1 to {MOST_SLICES - 1} keys, like [100, 200], "
            f"not {shown(value)}"
        )
    for boundary in value:
        if not isinstance(boundary, int | float | str) or isinstance(boundary, bool):
            raise wrong_value(f"a boundary is a number or a text, not {shown(boundary)}")
    if len({isinstance(boundary, str) for boundary in value}) > 1:
        raise wrong_value("boundaries are all numbers or all texts; these are mixed")
    for low, high in pairwise(value):
        # Texts as keys are ordered by their UTF-8 bytes, which is the order of code points.
        if not low < high:
            raise wrong_value(f"boundaries must ascend, but {high!r} stands after {low!r}")
    return tuple(value)


def _choice() -> str:
    return "hash, broadcast, {key_range: {boundaries: [...]}} or module:Class"


def _document_form(partition: Partition) -> Any:
    if isinstance(partition, KeyRangePartition):
        return {"key_range": {"boundaries": list(partition.boundaries)}}
    return str(partition)


PartitionField = Annotated[
    Partition,
    PlainValidator(parsed_partition),
    PlainSerializer(_document_form),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["hash", "broadcast"]},
                {"type": "string", "pattern": "^[^:]+:[^:]+$"},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["key_range"],
                    "properties": {
                        "key_range": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["boundaries"],
                            "properties": {
                                "boundaries": {
                                    "type": "array",
                                    "minItems": 1,
                                    "items": {"type": ["number", "string"]},
                                }
                            },
                        }
                    },
                },
            ]
        }
    ),
]
