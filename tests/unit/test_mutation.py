"""The tool that breaks protocols on purpose: what it finds to break, and that it breaks just that."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
TABLE = {"a": 1, "b": 2}

class Machine:
    @property
    def ready(self):
        assert self.count > 0, "never"
        return self.count >= 1 and not self.busy

    def handle(self, stimulus):
        match stimulus:
            case int(number) if number < 3:
                self.count = number
            case str():
                for letter in stimulus:
                    if letter == "x":
                        continue
                    self.count += 1
            case _:
                return
        if not self.ready:
            raise ValueError("not ready" if self.busy else "ready")

def even(numbers):
    return [number for number in numbers if number % 2 == 0]
"""


@pytest.fixture(scope="module", autouse=True)
def _scripts() -> Iterator[None]:
    sys.path.insert(0, str(ROOT / "scripts"))
    yield
    sys.path.remove(str(ROOT / "scripts"))


def broken(number: int) -> str:
    """The program with one site broken, as text."""
    from mutation.sites import find_sites

    tree = ast.parse(PROGRAM)
    find_sites(tree)[number].edit()
    return ast.unparse(ast.fix_missing_locations(tree))


def test_every_rule_of_a_program_is_found_once() -> None:
    from mutation.sites import find_sites, keys

    assert keys(find_sites(ast.parse(PROGRAM))) == [
        "TABLE: row: 'a': 1 -> no row",
        "TABLE: row: 'b': 2 -> no row",
        "Machine.ready: part: in self.count >= 1 and (not self.busy): self.count >= 1"
        " -> in self.count >= 1 and (not self.busy): self.count < 1",
        "Machine.ready: part: in self.count >= 1 and (not self.busy): not self.busy"
        " -> in self.count >= 1 and (not self.busy): self.busy",
        "Machine.ready: boundary: self.count >= 1 -> self.count > 1",
        "Machine.handle: guard: case int(number) if number < 3 -> case int(number) if number >= 3",
        "Machine.handle: boundary: number < 3 -> number <= 3",
        "Machine.handle: row: case int(number) -> no arm",
        "Machine.handle: guard: if letter == 'x' -> if letter != 'x'",
        "Machine.handle: exit: if letter == 'x': continue -> no exit",
        "Machine.handle: row: case str() -> no arm",
        "Machine.handle: guard: if not self.ready -> if self.ready",
        "even: guard: for … if number % 2 == 0 -> for … if number % 2 != 0",
    ]


def test_each_site_changes_the_program_in_a_way_of_its_own() -> None:
    from mutation.sites import Kind, find_sites

    sites = find_sites(ast.parse(PROGRAM))
    whole = ast.unparse(ast.parse(PROGRAM))
    texts = [broken(number) for number, site in enumerate(sites) if site.row is None]
    assert len(set(texts)) == len(texts)
    assert whole not in texts
    assert sum(site.kind is Kind.ROW for site in sites) == 4


def test_a_site_is_named_alike_wherever_it_stands() -> None:
    from mutation.sites import find_sites, keys

    moved = ast.parse("import ast\n\n\n" + PROGRAM.replace("class", "\n\nclass"))
    assert keys(find_sites(moved)) == keys(find_sites(ast.parse(PROGRAM)))


def test_the_same_change_twice_in_a_function_gives_two_names() -> None:
    from mutation.sites import find_sites, keys

    program = "def f(a):\n    if a:\n        a = 1\n    if a:\n        a = 2\n"
    assert keys(find_sites(ast.parse(program))) == [
        "f: guard: if a -> if not a",
        "f: guard: if a -> if not a (2)",
    ]


def test_a_mutant_is_in_force_for_all_who_have_imported_the_module_and_then_no_more() -> None:
    from mutation.mutants import in_force, list_mutants

    from streammine.engine.frontier import Frontier

    frontier = Frontier()
    frontier.touch(3)
    frontier.advance([3])
    (mutant,) = [
        each
        for each in list_mutants("frontier")
        if each.function == "Frontier.next_to_close" and each.kind == "boundary"
    ]
    assert mutant.change == "candidate < self.complete_below  ->  candidate <= self.complete_below"
    assert frontier.next_to_close() is None
    with in_force(mutant):
        assert frontier.next_to_close() == 3
    assert frontier.next_to_close() is None


def test_a_row_that_is_removed_comes_back_in_its_place() -> None:
    from mutation.mutants import in_force, list_mutants

    from streammine.engine import slice as machine

    rows = list(machine._HANDLERS.items())
    mutants = [each for each in list_mutants("slice") if each.function == "_HANDLERS"]
    assert len(mutants) == len(rows)
    for mutant, row in zip(mutants, rows, strict=True):
        with in_force(mutant):
            assert list(machine._HANDLERS.items()) == [each for each in rows if each != row]
    assert list(machine._HANDLERS.items()) == rows


def test_every_mutant_of_the_machines_is_another_program() -> None:
    from mutation.mutants import MODULES, in_force, list_mutants

    for name in ("waiting", "kept", "placement", "recovery_line"):
        mutants = list_mutants(name)
        assert len({each.key for each in mutants}) == len(mutants)
        for mutant in mutants:
            with in_force(mutant):
                pass
    assert len(MODULES) == 45


def test_what_survives_and_why_is_known_of_mutants_that_there_are() -> None:
    from mutation.explained import read_explained
    from mutation.mutants import MODULES, list_mutants

    mutants = [mutant for name in MODULES for mutant in list_mutants(name)]
    assert read_explained().unknown(mutants, MODULES) == []


def test_a_reason_must_be_given(tmp_path: Path) -> None:
    from mutation.explained import read_explained

    path = tmp_path / "survivors.yaml"
    path.write_text("- mutants: [a]\n  reason: ''\n")
    with pytest.raises(ValueError, match="without a reason"):
        read_explained(path)


def test_work_in_forks_tells_dies_or_is_stopped_by_its_limit() -> None:
    from mutation.forks import Limit, each_in_a_fork

    def work(task: str, tell: Any) -> None:
        if task == "dies":
            raise MemoryError
        if task == "hangs":
            Limit(lambda: tell("too long")).begin(0.05)
            for _ in itertools.count():
                pass
        tell(task * 100_000)

    found = dict(each_in_a_fork(["dies", "hangs", "tells"], work, 2))
    assert found == {"dies": None, "hangs": "too long", "tells": "tells" * 100_000}


def test_only_checks_that_come_to_the_line_are_tried_until_one_fails() -> None:
    from mutation.check import Check
    from mutation.mutants import list_mutants
    from mutation.reach import Reach
    from mutation.trials import Judge, Verdict

    from streammine.engine.frontier import Frontier

    mutant = next(each for each in list_mutants("frontier") if each.kind == "boundary")

    def right() -> bool:
        frontier = Frontier()
        frontier.touch(3)
        frontier.advance([3])
        return frontier.next_to_close() is None

    there = {mutant.path: frozenset([mutant.line])}
    elsewhere = {mutant.path: frozenset([mutant.line + 1000])}
    checks = [
        Check("never comes there", "unit", lambda: False),
        Check("sees nothing", "unit", lambda: True),
        Check("sees it", "property", right),
    ]
    reach = {
        "never comes there": Reach(0.01, elsewhere),
        "sees nothing": Reach(0.01, there),
        "sees it": Reach(1.0, there),
    }
    found = list(Judge(checks, reach).try_all([mutant], 1))
    assert found == [(mutant, Verdict("sees it", "property", 2))]
    found = list(Judge(checks[:2], reach).try_all([mutant], 1))
    assert found == [(mutant, Verdict(None, None, 1))]
