"""What endpoints hand to the log, and what clients are answered."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_ID = 128
"""Characters of a client's id."""


@dataclass(frozen=True)
class Message:
    """Rows that are logged and acknowledged together.

    `body` is whole rows in the source's format. `id` is the client's name for the message: a second
    one with the same id is answered as the first was and is otherwise dropped. `by_line`: every line
    is a row of its own, whatever is quoted. `refused` says why the body can't be used at all; then
    it is one dead row.
    """

    body: bytes
    id: str | None = None
    by_line: bool = False
    refused: str | None = None


def checked_id(data: bytes) -> str | None:
    """A client's id; None when it is none: 1 to 128 visible ASCII characters."""
    if not 0 < len(data) <= LONGEST_ID or not all(33 <= code <= 126 for code in data):
        return None
    return data.decode("ascii")
