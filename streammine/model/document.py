"""Topology documents: YAML text, with placeholders and overrides, to a checked `Topology`.

``${name}`` and ``${name:default}`` in a value are filled in from the overrides ``name=value``
before the value is understood; ``$${`` stands for ``${``. Any other override is a path into the
document,
``operators.counts.slices=4``, and its value is read as YAML. Errors name file, line and column, or
the override that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from streammine.model.credentials import refuse_credentials
from streammine.model.errors import Location, TopologyError
from streammine.model.suggestions import hint, listed
from streammine.model.topology import InvalidTopologyError, Problem, Topology
from streammine.model.topology.places import Places
from streammine.model.yaml_tree import Path, YamlTree, plain_value, read_yaml

_PLACEHOLDER = re.compile(r"(\$)?\$\{([^}:]*)(?::([^}]*))?\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_SECTIONS = ("sources", "operators", "sinks")


def parse_topology(text: str, file: str, overrides: Sequence[str] = ()) -> Topology:
    """The topology that a YAML document describes.

    `file` names the document in errors and, by its stem, the topology if it doesn't name itself.
    `overrides` are ``name=value`` for placeholders and ``path.to.field=value`` for fields. Raises
    TopologyError with everything that is wrong, one line each.
    """
    given = _split_overrides(overrides)
    placeholders = _Placeholders(given)
    tree = read_yaml(text, file, placeholders.fill)
    if not isinstance(tree.data, dict):
        raise TopologyError(
            "a topology is a mapping: epoch, sources, operators, sinks", Location(file, 1, 1)
        )
    changed: dict[Path, str] = {}
    for name, value in given.items():
        if name not in placeholders.names:
            changed[_override(tree, name, value, placeholders.names)] = name
    tree.data.setdefault("name", _name_of(file))
    try:
        topology = refuse_credentials(Topology.model_validate(tree.data)).check()
    except InvalidTopologyError as error:
        raise _located(error.problems, tree, changed) from None
    return topology.placed(_places(topology, tree, changed))


def _split_overrides(overrides: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        name = name.strip()
        if not equals or not name:
            raise TopologyError(
                f"--set {override}: must be name=value, like --set nodes=4 or "
                "--set operators.counts.slices=8"
            )
        given[name] = value
    return given


@dataclass
class _Placeholders:
    """Fills placeholders in and remembers their names."""

    given: Mapping[str, str]
    names: set[str] = field(default_factory=set)

    def fill(self, text: str, location: Location) -> str:
        def value(found: re.Match[str]) -> str:
            escape, name, default = found.groups()
            if escape:
                return found[0][1:]
            if _NAME.fullmatch(name) is None:
                raise TopologyError(
                    f"'{found[0]}' is no placeholder; write ${{name}} or ${{name:default}}, "
                    f"and $${{ for the characters themselves",
                    location,
                )
            self.names.add(name)
            if name in self.given:
                return self.given[name]
            if default is None:
                raise TopologyError(
                    f"${{{name}}} has no value{hint(name, self.given)} "
                    f"Give it one: --set {name}=VALUE, or a default: ${{{name}:VALUE}}",
                    location,
                )
            return str(default)

        return _PLACEHOLDER.sub(value, text)


def _override(tree: YamlTree, name: str, value: str, placeholders: set[str]) -> Path:
    """Put an override's value into the tree; the path that it was put at."""
    segments = name.split(".")
    fields = list(Topology.field_descriptions())
    if segments[0] not in fields:
        raise TopologyError(
            f"--set {name}: there is neither a placeholder nor a field '{segments[0]}'"
            f"{hint(segments[0], [*sorted(placeholders), *fields])} "
            f"Placeholders: {listed(sorted(placeholders)) or 'none'}. Fields: {listed(fields)}"
        )
    path: list[str | int] = []
    here: Any = tree.data
    for depth, segment in enumerate(segments):
        last = depth == len(segments) - 1
        if isinstance(here, list):
            if not segment.isascii() or not segment.isdigit() or int(segment) >= len(here):
                raise TopologyError(
                    f"--set {name}: '{segment}' is no entry of a list of {len(here)}; "
                    f"they count from 0"
                )
            key: str | int = int(segment)
        else:
            if depth == 1 and segments[0] in _SECTIONS and segment not in here and not last:
                raise TopologyError(
                    f"--set {name}: {segments[0]} has no '{segment}'"
                    f"{hint(segment, here)} There are: {listed(here) or 'none'}"
                )
            key = segment
            if not last and not isinstance(here.get(key), dict | list):
                here[key] = {}
        path.append(key)
        if last:
            here[key] = _override_value(name, value)
        else:
            here = here[key]
    changed = tuple(path)
    tree.places = {
        place: where for place, where in tree.places.items() if place[: len(changed)] != changed
    }
    return changed


def _override_value(name: str, value: str) -> Any:
    """An override's value: YAML, so that lists and mappings can be given, too."""
    if not value.lstrip().startswith(("[", "{", '"', "'")):
        return plain_value(value.strip())
    try:
        return read_yaml(value, f"--set {name}").data
    except TopologyError as error:
        raise TopologyError(f"--set {name}: {error.message}") from None


def _name_of(file: str) -> str:
    """A name out of a file's: its stem, with _ for what a name can't have."""
    stem = re.sub(r"[^A-Za-z0-9_-]", "_", PurePath(file).name.split(".")[0])[:100]
    return stem if _NAME.fullmatch(stem) else f"_{stem}"[:100]


def _places(topology: Topology, tree: YamlTree, changed: Mapping[Path, str]) -> Places:
    """Where the parts stand that no override has changed."""
    elsewhere = {path[:2] for path in changed}
    paths = [(section, name) for section in _SECTIONS for name in getattr(topology, section)]
    return Places(
        {
            path[1]: tree.places[path].key
            for path in paths
            if path in tree.places and path not in elsewhere and path[:1] not in elsewhere
        }
    )


def _located(
    problems: Sequence[Problem], tree: YamlTree, changed: Mapping[Path, str]
) -> InvalidTopologyError:
    """The problems with their places, in the order of the document; overrides come first."""
    found: list[tuple[Problem, Location | None]] = []
    for problem in problems:
        override = next(
            (name for path, name in changed.items() if problem.path[: len(path)] == path), None
        )
        if override is not None:
            inner = Problem(problem.path, f"(--set {override}) {problem.text}", problem.at_key)
            found.append((inner, None))
        else:
            found.append((problem, _location_of(problem, tree)))
    found.sort(key=lambda one: (one[1].line, one[1].column) if one[1] else (0, 0))
    return InvalidTopologyError([one[0] for one in found], [one[1] for one in found])


def _location_of(problem: Problem, tree: YamlTree) -> Location:
    """Where a problem stands: its value or key, or the key of the nearest part around it."""
    path = problem.path
    while path not in tree.places:
        path = path[:-1]
    # A part that lacks something, or is wrong as a whole, is found by its name.
    place = tree.places[path]
    named = problem.at_key if path == problem.path else False
    return place.key if named or isinstance(_entry(tree.data, path), dict) else place.value


def _entry(data: Any, path: Path) -> Any:
    for segment in path:
        data = data[segment]
    return data
