"""Columns that are lined up with blanks: any run of them is one delimiter."""

from __future__ import annotations

import re

_BLANKS_AROUND_QUOTES = re.compile(
    rb'(?P<quoted>(?:^|(?<= ))"(?:[^"]|"")*")|(?P<edge>^ +| +(?=\r?$))| +', re.MULTILINE
)


def single_blanks(data: bytes, quote: str | None) -> bytes:
    """Whole records with one blank for each run of them, and none at their starts and ends.

    What is quoted keeps its blanks.
    """
    if quote is not None and quote.encode() in data:
        pattern = _BLANKS_AROUND_QUOTES
        if quote != '"':
            mark = re.escape(quote.encode())
            pattern = re.compile(pattern.pattern.replace(b'"', mark), re.MULTILINE)
        return pattern.sub(_single, data)
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    # the last one could put a carriage return before a line feed, where the one before it is done
    data = data.replace(b"\n ", b"\n").replace(b" \r\n", b"\r\n").replace(b" \n", b"\n")
    return data.removeprefix(b" ").removesuffix(b" ")


def _single(match: re.Match[bytes]) -> bytes:
    if match["quoted"] is not None:
        return match["quoted"]
    return b"" if match["edge"] is not None else b" "
