"""What is told of an error that ended something on a node."""

from __future__ import annotations

import traceback

from streammine.model.errors import StreammineError

LONGEST_FAILURE = 16_384
"""Characters of an error's text that are told to others."""


def printable(text: str) -> str:
    """An error's text as it may travel: of bounded length, and nothing in it that UTF-8 can't say."""
    if len(text) > LONGEST_FAILURE:
        half = LONGEST_FAILURE // 2
        text = f"{text[:half]} … {text[-half:]}"
    return text.encode(errors="backslashreplace").decode()


def failure_text(node: str, error: BaseException) -> str:
    """An error's text for the user; our own bugs come with their traceback, and the node's name."""
    if isinstance(error, StreammineError):
        return printable(str(error))
    if not isinstance(error, Exception):
        where = "".join(traceback.format_tb(error.__traceback__)[-3:])
        text = f"user code tried to end its process ({error!r}); let it raise an error\n{where}"
        return printable(text)
    where = "".join(traceback.format_exception(error))
    return printable(f"internal error on node {node}: {error!r}\n{where}")
