"""Saying where an error of user code happened."""

from __future__ import annotations

from streammine.model.errors import StreammineError, UserCodeError
from streammine.model.ids import SliceId


class Blame:
    """Context that names slice and epoch in whatever an operator raises that is not our own error."""

    def __init__(self, slice_id: SliceId, epoch: int, last: int | None = None) -> None:
        """`last`: it may as well have been a later epoch, up to that one."""
        self.slice_id = slice_id
        self.epochs = f"epoch {epoch}" if last in (None, epoch) else f"epochs {epoch} to {last}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(
            error, (StreammineError, AssertionError)
        ):
            raise UserCodeError(
                f"operator {self.slice_id.vertex!r}, slice {self.slice_id}, {self.epochs}: "
                f"{type(error).__name__}: {error}"
            ) from error
