"""Every operator that a topology can name is tried by a property test of 200 examples or more.

What a test tries is read off its text: the names that it uses, and those that the functions, classes and
values of its file use which it names, and so on.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

PROPERTY_TESTS = Path(__file__).resolve().parent / "property"
FEWEST_EXAMPLES = 200
BUILDERS = ("streammine.operators.catalog", "streammine.operators.aggregate_windows")
"""The modules that make operators of a topology's settings."""
WITHOUT_EXAMPLES = {"EitherOperator"}
"""It hands its rows on as they are; what it promises is promised by the replicas that agree."""

BY_SETTINGS = {"PatternMatch": "PatternOperator"}
"""Those that their tests make of the settings of a topology, by which they are named there."""


def operators() -> set[str]:
    found = {"adapted"}
    for name in BUILDERS:
        module = importlib.import_module(name)
        members = [*vars(module).values()]
        members += [
            each for part in members if inspect.ismodule(part) for each in vars(part).values()
        ]
        found |= {
            each.__name__
            for each in members
            if inspect.isclass(each)
            and each.__module__.startswith("streammine.operators.")
            and any(
                inspect.isfunction(vars(base).get(method))
                for base in each.__mro__
                for method in ("apply", "close", "run")
            )
        }
    return found


def tried() -> dict[str, int]:
    """By name, the most examples of a test that uses it."""
    most: dict[str, int] = {}
    for path in sorted(PROPERTY_TESTS.glob("test_*.py")):
        tree = ast.parse(path.read_text())
        parts = _parts(tree)
        for test in tree.body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                for name in _reached(test, parts):
                    most[name] = max(most.get(name, 0), _examples(test, parts))
    return most


def _parts(tree: ast.Module) -> dict[str, ast.stmt]:
    return {name: part for part in tree.body for name in _named_by(part)}


def _named_by(part: ast.stmt) -> Iterator[str]:
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        yield part.name
    elif isinstance(part, ast.Assign):
        yield from (target.id for target in part.targets if isinstance(target, ast.Name))
    elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
        yield part.target.id


def _reached(test: ast.stmt, parts: dict[str, ast.stmt]) -> set[str]:
    reached: set[str] = set()
    waiting = [test]
    while waiting:
        names = {node.id for node in ast.walk(waiting.pop()) if isinstance(node, ast.Name)}
        waiting += [parts[name] for name in names - reached if name in parts]
        reached |= names
    return reached


def _examples(test: ast.FunctionDef, parts: dict[str, ast.stmt]) -> int:
    """What `settings` says, at the test or under the name of a decorator; 100 by default."""
    for decorator in test.decorator_list:
        said: ast.AST = decorator
        if isinstance(decorator, ast.Name) and decorator.id in parts:
            said = parts[decorator.id]
        for node in ast.walk(said):
            if isinstance(node, ast.keyword) and node.arg == "max_examples":
                assert isinstance(node.value, ast.Constant)
                return int(node.value.value)
    given = any("given" in ast.unparse(decorator) for decorator in test.decorator_list)
    return 100 if given else 1


def test_every_operator_is_tried_with_200_examples() -> None:
    examples = tried()
    few = {
        name: examples.get(BY_SETTINGS.get(name, name), 0)
        for name in operators() - WITHOUT_EXAMPLES
    }
    assert len(few) > 20, sorted(few)
    assert {name: count for name, count in few.items() if count < FEWEST_EXAMPLES} == {}
