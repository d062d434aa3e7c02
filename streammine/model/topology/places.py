"""Where the parts of a topology stand in its file: mistakes that only show later name it, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from streammine.model.errors import Location, PlacedError


@dataclass(frozen=True)
class Places:
    """By the parts' names; none where it was made in Python. Topologies are equal wherever their parts
    stand."""

    parts: Mapping[str, Location] = field(default_factory=dict, compare=False)

    @contextmanager
    def of(self, part: str | None = None) -> Iterator[None]:
        """What is found to be wrong meanwhile is wrong with this part, or with the one that it names."""
        try:
            yield
        except PlacedError as error:
            name = part or error.part
            if error.location is None and name is not None:
                error.location = self.parts.get(name)
            raise
