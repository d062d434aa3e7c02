"""Mutants of live modules: listed from their source, and put in force by exchanging code."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from mutation.sites import Kind, Site, find_sites, keys

ROOT = Path(__file__).resolve().parents[2]

_ENGINE = (
    "frontier",
    "input_channel",
    "output_channel",
    "slice",
    "linked_replica",
    "loop_ends",
    "loop_head",
    "loop_slice",
    "agreeing_slice",
    "feed_bags",
    "standing_replica",
    "snapshot_chain",
    "waiting",
    "kept",
    "hosted_job",
    "node",
    "manager",
    "managed_job",
    "plans",
    "rebuilding",
    "ladder",
    "crowding",
    "scheme_control",
    "slice_meter",
    "placement",
)
_REPLICATION = (
    "checkpoints",
    "checkpointing",
    "recovery_line",
    "collection",
    "snapshots",
    "consensus",
    "ballots",
    "learning",
    "quorums",
    "terms",
    "peers",
    "fetching",
    "chain",
    "decisions",
    "slice_controller",
    "slice_history",
    "scheme_choice",
    "recovery_history",
    "estimates",
    "costs",
)
MODULES = {
    **{name: f"streammine.engine.{name}" for name in _ENGINE},
    **{name: f"replication.{name}" for name in _REPLICATION},
}
"""The pure machines and what they decide by, under the names that the command knows."""


@dataclass(frozen=True)
class Mutant:
    """One broken program. `key` names it among all; `number` is its place among its module's sites."""

    key: str
    module: str
    path: str
    line: int
    kind: Kind
    function: str
    before: str
    after: str
    reached: range | None
    number: int

    @property
    def change(self) -> str:
        return f"{self.before}  ->  {self.after}"


def list_mutants(name: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its text."""
    module = importlib.import_module(MODULES[name])
    sites = find_sites(_tree(module))
    functions = _functions(module)
    return [
        Mutant(
            f"{name}: {key}",
            name,
            str(_path(module).relative_to(ROOT)),
            site.line,
            site.kind,
            site.function,
            site.before,
            site.after,
            _handler_lines(module, site, functions) if site.row is not None else site.reached,
            number,
        )
        for number, (key, site) in enumerate(zip(keys(sites), sites, strict=True))
    ]


def source_digest(name: str) -> str:
    """Tells whether a module is the one that verdicts were found for."""
    return hashlib.sha256(_path(importlib.import_module(MODULES[name])).read_bytes()).hexdigest()


@contextlib.contextmanager
def in_force(mutant: Mutant) -> Iterator[None]:
    """The module is the mutant inside, for everybody who has imported anything from it."""
    module = importlib.import_module(MODULES[mutant.module])
    tree = _tree(module)
    site = find_sites(tree)[mutant.number]
    if site.row is not None:
        table = vars(module)[site.function]
        rows = dict(table)
        del table[list(table)[site.row]]
        try:
            yield
        finally:
            table.clear()
            table.update(rows)
        return
    site.edit()
    broken = dict(_codes(compile(ast.fix_missing_locations(tree), str(_path(module)), "exec")))
    exchanged = []
    for function in _functions(module):
        code = function.__code__
        new = broken[code.co_qualname, code.co_firstlineno]
        if new != code:
            exchanged.append((function, code))
            function.__code__ = new
    assert exchanged, f"{mutant.key} changes nothing"
    try:
        yield
    finally:
        for function, code in exchanged:
            function.__code__ = code


def _path(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__)


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _functions(module: ModuleType) -> list[FunctionType]:
    """The functions and methods that a module defines."""
    found: list[FunctionType] = []
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for each in vars(value).values() if isinstance(value, type) else (value,):
            found += [
                one for one in _underlying(each) if one.__code__.co_filename == module.__file__
            ]
    return found


def _underlying(value: object) -> Iterator[FunctionType]:
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, property):
        yield from (each for each in (value.fget, value.fset) if isinstance(each, FunctionType))
    elif isinstance(value, staticmethod | classmethod):
        yield from _underlying(value.__func__)


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield (constant.co_qualname, constant.co_firstlineno), constant
            yield from _codes(constant)


def _handler_lines(module: ModuleType, site: Site, functions: list[FunctionType]) -> range | None:
    """Where a row of a table names a function: its lines, for who never comes there never used the row."""
    assert site.row is not None
    table = vars(module)[site.function]
    value = list(table.values())[site.row]
    for function in functions:
        if function is value:
            lines = [line for _, _, line in function.__code__.co_lines() if line is not None]
            return range(min(lines), max(lines) + 1)
    return None
