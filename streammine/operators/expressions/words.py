"""The words of an expression: its text cut into tokens, each known for what it is.

What a text may be made of is listed here, so that nothing else can be written; and what SQL would read in
another sense than people who know other languages (``a == b``, ``a < b < c``) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import pyarrow as pa

from streammine.model.suggestions import did_you_mean, listed
from streammine.model.topology.parts import LONGEST_TEXT
from streammine.operators.expressions.functions import OWN_FUNCTIONS


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = words_of(
    """abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 log1p pow power mod div
    sin cos tan asin acos atan atan2 degrees radians pi
    greatest least coalesce ifnull nullif if
    length char_length character_length octet_length bit_length lower upper initcap trim ltrim rtrim
    left right substr substring replace reverse starts_with ends_with position concat concat_ws
    split_part regexp_like
    cast try_cast extract date_part year month day hour minute second
    bit_and bit_or bit_xor bit_not bitand bitor bitxor xor
    array_length array_contains array_get"""
) | frozenset(OWN_FUNCTIONS)
"""Functions that give one value per row and depend on that row only."""

KEYWORDS = words_of(
    """and or not is null true false case when then else end in between like ilike distinct from as
    for interval both leading trailing"""
)
"""Words of the language; a column of such a name is written in double quotes."""

_TYPES = words_of(
    """tinyint smallint int int2 int4 int8 integer bigint unsigned utinyint usmallint uinteger
    ubigint float float4 float8 real double precision decimal numeric boolean bool char varchar text
    string bytea date timestamp"""
)
_ARROW_TYPES = {
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "utinyint",
    "uint16": "usmallint",
    "uint32": "uinteger",
    "uint64": "ubigint",
    "float32": "real",
    "float64": "double",
    "bool_": "boolean",
    "utf8": "text",
    "str": "text",
    "date32": "date",
    "datetime": "timestamp",
    "decimal128": "decimal(10, 2)",
    "binary": "bytea",
}
"""What types of columns are called in a schema, or elsewhere, and what in a cast."""
_DATE_PARTS = words_of(
    """year quarter month week day hour minute second millisecond microsecond dow isodow doy isoyear
    decade century"""
)
_WITHOUT_ARGUMENTS = frozenset(["pi"])

_COMPARISONS = frozenset(["=", "<>", "!=", "<", "<=", ">", ">=", "<=>"])
_MISSPELT = {
    ("=", "="): "=",
    ("&", "&"): "and",
    ("*", "*"): "pow(x, y)",
    ("<", "<"): "x * pow(2, y)",
    (">", ">"): "x // pow(2, y)",
}
"""Pairs of operators as other languages have them, and what is written here."""

_MOST_OPERATIONS = 200
"""Each may make the tree one or two levels deeper: at 900 levels Polars' walks overflow the stack of a
thread, and at 200 it takes some 0.1 s to plan them, for every batch."""
_CHAINED = frozenset(["+", "-", "*", "/", "//", "%", "||", "::", "&", "|", "^"])
_CHAINED_WORDS = frozenset(["and", "or", "not", "when", "between"])

_BESIDE_OPERANDS = frozenset(["", "(", ")", ","])
"""Operators beside an operand of a comparison; "" for words and for the text's ends."""

_TIME_LITERAL = {False: "timestamp '2024-02-29 12:30:00'", True: "date '2024-02-29'"}

_MOST_DIGITS = 38
"""Of a decimal."""
_LARGEST = 2**63 - 1
_LARGEST_UNSIGNED = 2**64 - 1

_OF_MANY_ROWS = words_of(
    """count sum avg mean min max median quantile stddev variance first last count_distinct arg_min
    arg_max collect row_number rank lag lead"""
)

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<operator>\|\||<=>|!~\*?|~\*?|<=|>=|<>|!=|::|//|[-+*/%<>=(),&|^~])""",
    re.VERBOSE,
)


_WORD = re.compile(r"\w+")


class Token(NamedTuple):
    kind: str
    text: str


class Reading:
    """Reads one expression over the columns of a schema. `fail` is told what is wrong, and raises."""

    def __init__(self, text: str, schema: pa.Schema, fail: Callable[[str], NoReturn]) -> None:
        self._text = text
        self._schema = schema
        self._fail = fail

    def tokens(self) -> list[Token]:
        """Every word known for what it is: a column, function, keyword, text, number or operator."""
        tokens = self._resolved(self._cut())
        self._check_size(tokens)
        self._check_operators(tokens)
        self._check_times(tokens)
        self._check_numbers(tokens)
        return tokens

    def _cut(self) -> list[Token]:
        if len(self._text) > LONGEST_TEXT:
            # Its tree could be too deep for the stacks of those who walk it.
            self._fail(f"it has {len(self._text)} characters; {LONGEST_TEXT} are the limit")
        if not self._text.strip():
            self._fail("it is empty; write a column, a constant or a computation")
        tokens = []
        position = 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                self._fail(
                    f"can't read {self._text[position:][:12]!r} at character {position + 1}; texts "
                    "stand in single quotes, column names with special characters in double ones"
                )
            position = match.end()
            kind = str(match.lastgroup)
            if kind == "number" and (word := _WORD.match(self._text, position)):
                self._fail(
                    f"{match.group() + word.group()!r} is no number; numbers are written like 16, 3.5 or 1e6"
                )
            if kind != "space":
                tokens.append(Token(kind, match.group()))
        return tokens

    def _resolved(self, tokens: list[Token]) -> list[Token]:
        resolved = []
        for index, token in enumerate(tokens):
            kind, text = token
            word = text.lower()
            if kind == "quoted":
                text = text[1:-1].replace('""', '"')
                kind = "column"
            elif kind == "word":
                before = tokens[index - 1].text.lower() if index else ""
                after = tokens[index + 1] if index + 1 < len(tokens) else Token("end", "")
                if (
                    word in KEYWORDS
                    or (word in _TYPES and (before in ("as", "::") or before in _TYPES))
                    or (word in ("date", "timestamp") and after.kind == "text")
                    or (word in _DATE_PARTS and after.text.lower() == "from")
                ):
                    kind = "keyword"
                    if word in ("decimal", "numeric") and after.text == "(":
                        self._check_decimal(tokens[index + 2 : index + 5])
                elif before in ("as", "::") and after.kind != "text":
                    meant = _ARROW_TYPES.get(word)
                    advice = f"; write {meant};" if meant else did_you_mean(text, _TYPES) or ";"
                    self._fail(
                        f"there is no type {text!r}{advice} types: {', '.join(sorted(_TYPES))}"
                    )
                elif after.text == "(":
                    kind = "function"
                    self._check_function(text, tokens[index + 2 : index + 3])
                    if word in ("extract", "date_part"):
                        self._check_date_part(word, tokens[index + 2 : index + 3])
                else:
                    kind = "column"
            if kind == "column":
                self._check_column(text)
            resolved.append(Token(kind, text))
        return resolved

    def _check_column(self, name: str) -> None:
        count = self._schema.names.count(name)
        if count > 1:
            self._fail(f"column {name!r} occurs {count} times in the input")
        if count == 0:
            self._fail(unknown_column(name, self._schema))

    def _check_numbers(self, tokens: Sequence[Token]) -> None:
        """Refuse integers of which Polars would make decimals, where none are read."""
        types = [self._schema.field(token.text).type for token in tokens if token.kind == "column"]
        if any(map(pa.types.is_decimal, types)):
            return
        largest = _LARGEST_UNSIGNED if pa.uint64() in types else _LARGEST
        for kind, text in tokens:
            if kind == "number" and text.isdigit() and int(text) > largest:
                self._fail(
                    f"{text} is no int64: the largest is {_LARGEST}, the smallest -{_LARGEST} - 1. "
                    f"Write {text}.0 for a float64"
                )

    def _check_function(self, name: str, inside: Sequence[Token]) -> None:
        """`inside`: what stands behind the opening bracket, if anything."""
        if name.lower() in _OF_MANY_ROWS:
            self._fail(
                f"{name!r} takes many rows, and an expression one; compute it with an operator before. In "
                "`having`, write the name of its output column"
            )
        nothing = [operator_of(token) for token in inside] == [")"]
        if nothing and name.lower() in FUNCTIONS - _WITHOUT_ARGUMENTS:
            self._fail(f"{name} takes arguments, and has none")
        if name.lower() not in FUNCTIONS:
            self._fail(
                f"function {name!r} can't be used here{did_you_mean(name, FUNCTIONS) or ';'} "
                f"functions that take one row at a time: {listed(sorted(FUNCTIONS), 100)}."
            )

    def _check_decimal(self, inside: Sequence[Token]) -> None:
        """`inside`: what stands behind the opening bracket: precision, comma, scale."""
        numbers = [int(token.text) for token in inside if token.text.isdigit()]
        if (numbers and not numbers[-1] <= numbers[0] <= _MOST_DIGITS) or numbers[:1] == [0]:
            self._fail(
                f"a decimal has 1 to {_MOST_DIGITS} digits, and no more than those behind the point: "
                "decimal(10, 2)"
            )

    def _check_size(self, tokens: Sequence[Token]) -> None:
        operations = sum(
            operator_of(token) in _CHAINED
            or (token.kind == "keyword" and token.text.lower() in _CHAINED_WORDS)
            for token in tokens
        )
        if operations > _MOST_OPERATIONS:
            self._fail(
                f"it has {operations} operations; {_MOST_OPERATIONS} are the limit. Compute a part of it "
                "in a `map` before; in (a, b, ...) and concat(a, b, ...) count for none"
            )

    def _check_operators(self, tokens: Sequence[Token]) -> None:
        """Refuse ``a == b`` and ``a < b < c``, which would compare a truth with c."""
        compared = [False]
        for token, after in zip(tokens, [*tokens[1:], Token("end", "")], strict=True):
            operator = operator_of(token)
            right = _MISSPELT.get((operator, operator_of(after)))
            if right is not None:
                self._fail(f"write {right} for {operator}{after.text}")
            if operator == "(":
                compared.append(False)
            elif operator == ")" and len(compared) > 1:
                compared.pop()
            elif operator == "," or (token.kind == "keyword" and token.text.lower() != "not"):
                compared[-1] = False
            elif operator in _COMPARISONS:
                if compared[-1]:
                    self._fail(
                        "two comparisons stand in a row; write a < b and b < c, or put one in brackets"
                    )
                compared[-1] = True

    def _check_times(self, tokens: Sequence[Token]) -> None:
        """Refuse ``ts > 5``, for which five of the column's units would be taken."""
        said = [each for each in tokens if each.kind != "keyword" or each.text.lower() != "not"]
        for place, token in enumerate(said):
            word = token.text.lower() if token.kind == "keyword" else ""
            if operator_of(token) not in _COMPARISONS and word not in ("between", "in"):
                continue
            left = _single_operand(said[:place][::-1])
            right = _single_operand(said[place + 1 :], listed=word == "in")
            if left is None or right is None:
                continue
            if {self._sense(left), self._sense(right)} == {"time", "number"}:
                time, number = sorted((left, right), key=lambda each: self._sense(each) == "number")
                kind = self._schema.field(time.text).type
                self._fail(
                    f"column {time.text!r} has type {kind} and is compared with the number "
                    f"{number.text}; write {_TIME_LITERAL[pa.types.is_date(kind)]}, or "
                    f"epoch_s({time.text}) for its seconds since 1970"
                )

    def _sense(self, token: Token) -> str:
        """What a token stands for by itself: a time, a number, or something else."""
        if token.kind != "column":
            return token.kind
        kind = self._schema.field(token.text).type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return "time"
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        return "number" if numeric or pa.types.is_decimal(kind) else "other"

    def _check_date_part(self, function: str, argument: list[Token]) -> None:
        part = argument[0].text.strip("'").lower() if argument else ""
        if part not in _DATE_PARTS:
            advice = "; write epoch_s(time)" if part == "epoch" else ""
            self._fail(
                f"{function} knows no {part!r}{advice}; parts of a time: "
                f"{', '.join(sorted(_DATE_PARTS))}"
            )


def unknown_column(name: str, schema: pa.Schema) -> str:
    """What to say of a column that `schema` does not have."""
    hint = did_you_mean(name, schema.names) or "."
    return f"unknown column {name!r}{hint} Its input has: {listed(schema.names, 50) or 'none'}."


def operator_of(token: Token) -> str:
    return token.text if token.kind == "operator" else ""


def closing_bracket(tokens: Sequence[Token], opening: int) -> int | None:
    """Where the bracket that opens there is closed; None where none opens, or it is not closed."""
    open_brackets = 0
    for index in range(opening, len(tokens)):
        open_brackets += {"(": 1, ")": -1}.get(operator_of(tokens[index]), 0)
        if open_brackets == 0:
            return index if index > opening else None
    return None


def split(tokens: Sequence[Token], separator: str) -> list[list[Token]]:
    """The tokens between separators that stand in no bracket; no tokens: none."""
    parts: list[list[Token]] = [[]] if tokens else []
    open_brackets = 0
    for token in tokens:
        open_brackets += {"(": 1, ")": -1}.get(operator_of(token), 0)
        separates = token.kind in ("operator", "keyword") and token.text.lower() == separator
        if separates and open_brackets == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def arguments_of(function: str, inside: Sequence[Token]) -> list[list[Token]]:
    """The arguments between the brackets of a call; those of SQL's ``substring(s from 2 for 3)`` too."""
    arguments = split(inside, ",")
    if function != "substring" or len(arguments) != 1:
        return arguments
    text, *places = split(inside, "from")
    if not places:
        text, *counts = split(inside, "for")
        return [text, [Token("number", "1")], *counts] if counts else arguments
    return [text, *split(places[0], "for")] if len(places) == 1 else arguments


def literal_of(token: Token) -> str:
    """What a text or number in an expression stands for, as text."""
    return token.text[1:-1].replace("''", "'") if token.kind == "text" else token.text


def text_of(tokens: Sequence[Token]) -> str:
    """The tokens as they are told to people, with blanks between."""
    return " ".join(token.text for token in tokens)


def _single_operand(tokens: Sequence[Token], listed: bool = False) -> Token | None:
    """The token that is all of the operand of a comparison, which these tokens lead away from, in either
    direction: it may have a sign and stand in brackets. With `listed` it is the first one of a list."""
    rest = [*tokens, Token("end", ""), Token("end", "")]
    brackets = 0
    while operator_of(rest[0]) in ("(", ")") or (
        operator_of(rest[0]) in ("-", "+") and len(rest) > 3
    ):
        brackets += operator_of(rest[0]) in ("(", ")")
        rest = rest[1:]
    operand, *rest = rest
    if listed:
        return operand if operator_of(rest[0]) in (",", ")") else None
    while brackets and operator_of(rest[0]) in ("(", ")"):
        brackets -= 1
        rest = rest[1:]
    if operator_of(rest[0]) in ("-", "+") and operator_of(rest[1]) in _BESIDE_OPERANDS:
        # read from its end, a number comes before its sign
        rest = rest[1:]
    function = rest[0].kind == "function"
    return None if brackets or function or operator_of(rest[0]) not in _BESIDE_OPERANDS else operand
