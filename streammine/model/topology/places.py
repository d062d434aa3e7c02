"""Where the parts of a topology stand in its file: mistakes that only show later name it, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from streammine.model.errors import InputError, Location, TopologyError, UserCodeError


@dataclass(frozen=True)
class Places:
    """By the parts' names; none where it was made in Python. Topologies are equal wherever their parts
    stand."""

    parts: Mapping[str, Location] = field(default_factory=dict, compare=False)

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """What is found to be wrong meanwhile is wrong with this part."""
        try:
            yield
        except TopologyError as error:
            place = self.parts.get(part)
            if place is None or error.location is not None:
                raise
            raise TopologyError(error.message, place) from error
        except (InputError, UserCodeError) as error:
            place = self.parts.get(part)
            if place is not None:
                error.args = (f"{place}: {error}",)
            raise
