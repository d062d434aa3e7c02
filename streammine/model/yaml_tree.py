"""YAML text as plain data, with the line and column of every key and value.

Only data: no tags but those of plain values, so nothing is ever constructed. Booleans are ``true``
and ``false`` alone, as in YAML 1.2 (otherwise the key ``on`` of a join would read as true), dates
stay texts, and a key is the text that was written. Duplicate keys are errors, and size, depth and
number of values are bounded, with aliases counted as often as they are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from streammine.model.errors import Location, TopologyError

LARGEST_DOCUMENT_BYTES = 1 << 20
DEEPEST_LEVEL = 32
MOST_VALUES = 100_000

Path = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*(_[0-9]+)*)")
_FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    ".inf": float("inf"),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}
_TEXT_TAG = "tag:yaml.org,2002:str"
_PLAIN_TAG = "!plain"
"""Given by the resolver below to scalars without quotes; what they are is decided here."""


@dataclass(frozen=True)
class Place:
    """Where a value stands and where its key does (the same for list entries)."""

    value: Location
    key: Location


@dataclass
class YamlTree:
    """Plain data (dict, list, str, int, float, bool, None) and the place of each path into it."""

    data: Any
    places: dict[Path, Place] = field(default_factory=dict)


class _Loader(yaml.SafeLoader):
    """Composes nodes only, to a bounded depth, and leaves plain scalars to us."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (declared so by PyYAML)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN_TAG
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > DEEPEST_LEVEL:
            raise yaml.MarkedYAMLError(
                problem=f"is nested deeper than {DEEPEST_LEVEL} levels",
                problem_mark=self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def plain_value(text: str) -> Any:
    """What a scalar without quotes means: null, a boolean, a number, or its text."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 40:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


Substitution = Callable[[str, Location], str]


def read_yaml(text: str, file: str, substitute: Substitution | None = None) -> YamlTree:
    """Read a document. `substitute` may change each scalar's text before it is understood.

    Raises TopologyError with the place of what is wrong.
    """
    size = len(text.encode("utf-8", errors="surrogatepass"))
    if size > LARGEST_DOCUMENT_BYTES:
        raise TopologyError(
            f"{file}: has {size} bytes; a topology has at most {LARGEST_DOCUMENT_BYTES}"
        )
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, file) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        raise TopologyError(
            f"the character with code {error.character!r} can't stand in YAML; "
            "is the file UTF-8 text?",
            Location(file, line, column),
        ) from None
    finally:
        if loader is not None:
            loader.dispose()
    if root is None:
        raise TopologyError(
            "is empty; a topology starts with epoch: {count: 100000}", Location(file, 1, 1)
        )
    reader = _Reader(file, substitute)
    tree = YamlTree(None)
    tree.data = reader.value(root, (), tree.places, _location(root, file))
    return tree


@dataclass
class _Reader:
    """Turns nodes into data; counts values, so that aliases can't multiply without bound."""

    file: str
    substitute: Substitution | None
    values: int = 0
    open_nodes: list[int] = field(default_factory=list)

    def value(self, node: yaml.Node, path: Path, places: dict[Path, Place], key: Location) -> Any:
        here = _location(node, self.file)
        self.values += 1
        if self.values > MOST_VALUES:
            raise TopologyError(f"has more than {MOST_VALUES} values, aliases counted", here)
        if id(node) in self.open_nodes:
            raise TopologyError("an alias can't stand inside of what it names", here)
        places[path] = Place(here, key)
        self.open_nodes.append(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path, places)
            if isinstance(node, yaml.SequenceNode):
                self._refuse_tag(node, "tag:yaml.org,2002:seq")
                return [
                    self.value(child, (*path, index), places, _location(child, self.file))
                    for index, child in enumerate(node.value)
                ]
            return self._scalar(node, here)
        finally:
            self.open_nodes.pop()

    def _mapping(
        self, node: yaml.MappingNode, path: Path, places: dict[Path, Place]
    ) -> dict[str, Any]:
        self._refuse_tag(node, "tag:yaml.org,2002:map")
        found: dict[str, Any] = {}
        first: dict[str, Location] = {}
        for key_node, value_node in node.value:
            here = _location(key_node, self.file)
            if not isinstance(key_node, yaml.ScalarNode):
                raise TopologyError("a key is a name, not a list or mapping", here)
            key = key_node.value
            if key in first:
                raise TopologyError(
                    f"'{key}' stands there twice; it was first at line {first[key].line}, "
                    f"column {first[key].column}: keep one",
                    here,
                )
            if key == "<<":
                raise TopologyError("merge keys (<<) are not read; write the fields out", here)
            first[key] = here
            found[key] = self.value(value_node, (*path, key), places, here)
        return found

    def _scalar(self, node: yaml.Node, here: Location) -> Any:
        text: str = node.value
        if self.substitute is not None and "$" in text:
            text = self.substitute(text, here)
        if node.tag == _PLAIN_TAG:
            return plain_value(text)
        self._refuse_tag(node, _TEXT_TAG)
        return text

    def _refuse_tag(self, node: yaml.Node, expected: str) -> None:
        if node.tag != expected:
            raise TopologyError(
                f"the tag {node.tag} is not read; write the plain value",
                _location(node, self.file),
            )


def _location(node: yaml.Node, file: str) -> Location:
    return Location(file, node.start_mark.line + 1, node.start_mark.column + 1)


def _syntax_error(error: yaml.MarkedYAMLError, file: str) -> TopologyError:
    mark = error.problem_mark or error.context_mark
    text = error.problem or error.context or "is no YAML"
    hint = ""
    if "'\\t'" in text:
        hint = "; indent with spaces, not tabs"
    elif "mapping values are not allowed" in text:
        hint = "; put quotes around a text that has a colon, and check the indentation"
    elif "expected <block end>" in text:
        hint = "; check the indentation: entries of one level start in one column"
    elif error.context and error.context_mark is not None:
        hint = f" ({error.context} at line {error.context_mark.line + 1})"
    if mark is None:
        return TopologyError(f"{file}: is no YAML: {text}{hint}")
    return TopologyError(
        f"is no YAML: {text}{hint}", Location(file, mark.line + 1, mark.column + 1)
    )
