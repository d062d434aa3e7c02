"""Where a module can be broken, found in its syntax tree.

What is looked at: the bodies of functions and methods, and tables (dictionaries) at module level. What is
not: assertions and the texts of errors, which decide nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What is done to a program."""

    ROW = "row"
    """A row of a table, or an arm of a `match`, is removed."""
    GUARD = "guard"
    """A condition is negated: of `if`, `while`, `case … if`, `x if … else y`, a comprehension."""
    PART = "part"
    """One operand of an `and` or `or` is negated."""
    BOUNDARY = "boundary"
    """`<` becomes `<=`, `>=` becomes `>`, and so on."""
    EXIT = "exit"
    """An early `return`, `continue` or `break` is removed."""


@dataclass(frozen=True)
class Site:
    """One way to break a module. `edit` does it to the tree that the site was found in.

    `function` is qualified; for a row of a table it is the table's name, and `row` its number. `reached`:
    a program that comes to none of these lines is not changed by it; None: nothing is known.
    """

    function: str
    kind: Kind
    line: int
    before: str
    after: str
    reached: range | None
    row: int | None = None
    edit: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)


def find_sites(tree: ast.Module) -> list[Site]:
    """All of a module, always in the same order."""
    finder = _Finder()
    for statement in tree.body:
        finder.top(statement)
    return finder.found


def keys(sites: list[Site]) -> list[str]:
    """A name for each site, the same wherever in the file its function stands."""
    names = [f"{each.function}: {each.kind}: {each.before} -> {each.after}" for each in sites]
    count: Counter[str] = Counter()
    found = []
    for name in names:
        count[name] += 1
        found.append(name if count[name] == 1 else f"{name} ({count[name]})")
    return found


_SHIFTED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_DECIDES_NOTHING = (ast.Assert, ast.Raise, ast.JoinedStr)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPOUND = (
    *_FUNCTIONS,
    ast.ClassDef,
    ast.If,
    ast.While,
    ast.For,
    ast.With,
    ast.Try,
    ast.Match,
)


def _negated(test: ast.expr) -> ast.expr:
    """The opposite condition. It shares no node with `test` that an edit would exchange."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        opposite = _OPPOSITE[type(test.ops[0])]()
        return ast.copy_location(ast.Compare(test.left, [opposite], test.comparators), test)
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


class _Finder:
    """Walks a tree in the order of the text."""

    def __init__(self) -> None:
        self.found: list[Site] = []

    def top(self, statement: ast.stmt, within: str = "") -> None:
        """A statement of a module or of a class."""
        if isinstance(statement, _FUNCTIONS):
            self._block(statement.body, within + statement.name)
        elif isinstance(statement, ast.ClassDef):
            for each in statement.body:
                self.top(each, f"{within}{statement.name}.")
        elif not within and isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and isinstance(statement.value, ast.Dict):
                self._table(target.id, statement.value)

    def _table(self, name: str, table: ast.Dict) -> None:
        for number, (key, value) in enumerate(zip(table.keys, table.values, strict=True)):
            assert key is not None, f"{name} takes rows from another table"
            row = f"{ast.unparse(key)}: {ast.unparse(value)}"
            self.found.append(Site(name, Kind.ROW, key.lineno, row, "no row", None, number))

    def _add(
        self,
        function: str,
        kind: Kind,
        node: ast.AST,
        change: tuple[str, str],
        edit: Callable[[], None],
        reached: range | None = None,
    ) -> None:
        line = getattr(node, "lineno", 0)
        self.found.append(Site(function, kind, line, *change, reached or _lines(node), None, edit))

    # --- statements -----------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt], function: str, head: str | None = None) -> None:
        """Statements; `head`: what they depend on, where they are not the whole of a function."""
        for statement in body:
            if not isinstance(statement, _DECIDES_NOTHING):
                self._statement(statement, function)
        last = body[-1]
        if head is not None and isinstance(last, ast.Return | ast.Continue | ast.Break):
            change = (f"{head}: {ast.unparse(last)}", "no exit")
            spot = ast.copy_location(ast.Pass(), last)
            self._add(function, Kind.EXIT, last, change, _replace(body, len(body) - 1, spot))

    def _statement(self, statement: ast.stmt, function: str) -> None:
        if not isinstance(statement, _COMPOUND):
            self._expressions(statement, function, _lines(statement))
            return
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self._guard(statement, "test", function, "if")
                self._block(body, function, f"if {ast.unparse(test)}")
                if orelse:
                    # an `else` does what its `if` does not
                    self._block(orelse, function, f"if not ({ast.unparse(test)})")
            case ast.While(test=test, body=body):
                self._guard(statement, "test", function, "while")
                self._block(body, function, f"while {ast.unparse(test)}")
            case ast.For(target=target, iter=iterator, body=body, orelse=orelse):
                self._expressions(iterator, function, _lines(iterator))
                over = f"for {ast.unparse(target)} in {ast.unparse(iterator)}"
                self._block(body, function, over)
                if orelse:
                    self._block(orelse, function, f"after {over}")
            case ast.With(body=body):
                self._block(body, function)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                self._block(body, function)
                for handler in handlers:
                    self._block(handler.body, function, "except")
                for block in (orelse, final):
                    if block:
                        self._block(block, function)
            case ast.Match():
                self._arms(statement, function)
            case ast.FunctionDef(name=name, body=body):
                self._block(body, f"{function}.{name}")
            case _:
                raise NotImplementedError(f"line {statement.lineno}: {type(statement).__name__}")

    def _arms(self, match: ast.Match, function: str) -> None:
        self._expressions(match.subject, function, _lines(match.subject))
        for arm in match.cases:
            name = f"case {ast.unparse(arm.pattern)}"
            if arm.guard is not None:
                self._guard(arm, "guard", function, name + " if")
            if (
                isinstance(arm.body[0], ast.Pass | ast.Continue)
                or ast.unparse(arm.body[0]) == "return"
            ):
                # it does nothing, and says so
                continue
            self._block(arm.body, function, name)
            never = ast.copy_location(ast.Constant(False), arm.pattern)
            change = (name, "no arm")
            edit = _set(arm, "guard", never)
            self._add(function, Kind.ROW, arm.pattern, change, edit, _lines(arm.body[0]))

    # --- expressions ----------------------------------------------------------------------------

    def _guard(self, owner: ast.AST, name: str, function: str, word: str) -> None:
        """The condition of a statement or arm, and what stands in it."""
        test: ast.expr = getattr(owner, name)
        self._negation(test, _set(owner, name, _negated(test)), function, word, _lines(test))
        self._expressions(test, function, _lines(test))

    def _negation(
        self,
        test: ast.expr,
        edit: Callable[[], None],
        function: str,
        word: str,
        reached: range,
        kind: Kind = Kind.GUARD,
    ) -> None:
        change = (f"{word} {ast.unparse(test)}", f"{word} {ast.unparse(_negated(test))}")
        self._add(function, kind, test, change, edit, reached)

    def _expressions(self, root: ast.AST, function: str, reached: range) -> None:
        """Conditions inside an expression or a simple statement. Its lines count as one place."""
        for node in _walk(root):
            match node:
                case ast.Compare(ops=ops):
                    for number, operator in enumerate(ops):
                        if type(operator) in _SHIFTED:
                            self._boundary(node, number, function, reached)
                case ast.BoolOp(values=values, op=op):
                    word = "and" if isinstance(op, ast.And) else "or"
                    whole = ast.unparse(node)
                    for number, value in enumerate(values):
                        edit = _replace(values, number, _negated(value))
                        self._negation(value, edit, function, f"in {whole}:", reached, Kind.PART)
                    assert word in whole
                case ast.IfExp(test=test):
                    edit = _set(node, "test", _negated(test))
                    self._negation(test, edit, function, "… if", reached)
                case ast.comprehension(ifs=ifs):
                    for number, test in enumerate(ifs):
                        edit = _replace(ifs, number, _negated(test))
                        self._negation(test, edit, function, "for … if", reached)

    def _boundary(self, node: ast.Compare, number: int, function: str, reached: range) -> None:
        operator = node.ops[number]
        shifted = _SHIFTED[type(operator)]()
        before = ast.unparse(node)
        node.ops[number] = shifted
        after = ast.unparse(node)
        node.ops[number] = operator
        edit = _replace(node.ops, number, shifted)
        self._add(function, Kind.BOUNDARY, node, (before, after), edit, reached)


def _walk(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes that decide something, in the order of the text."""
    if isinstance(root, _DECIDES_NOTHING):
        return
    yield root
    for child in ast.iter_child_nodes(root):
        yield from _walk(child)


def _lines(node: ast.AST) -> range:
    begin = getattr(node, "lineno", 0)
    return range(begin, (getattr(node, "end_lineno", None) or begin) + 1)


def _set(owner: ast.AST, name: str, new: ast.AST) -> Callable[[], None]:
    return lambda: setattr(owner, name, new)


def _replace(items: list, number: int, new: ast.AST) -> Callable[[], None]:  # type: ignore[type-arg]
    def edit() -> None:
        items[number] = new

    return edit
