"""The list of mutants that nothing notices, each with the reason why that is right.

A survivor is equivalent (no run can tell it from the program), or what it breaks is a matter of speed or
of a message's words. The list names a mutant by its module, function and change, so that code may move.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from mutation.mutants import Mutant

PATH = Path(__file__).with_name("survivors.yaml")


@dataclass(frozen=True)
class Explained:
    """Reasons by the key of the mutant."""

    reasons: dict[str, str]

    def unknown(self, mutants: Iterable[Mutant], modules: Iterable[str]) -> list[str]:
        """Entries for these modules that name no mutant: the code has changed."""
        keys = {mutant.key for mutant in mutants}
        names = set(modules)
        return [key for key in self.reasons if key not in keys and key.split(":")[0] in names]


def read_explained(path: Path = PATH) -> Explained:
    """The list. Raises ValueError for an entry without a reason."""
    document = yaml.safe_load(path.read_text(encoding="utf-8")) or []
    reasons: dict[str, str] = {}
    for entry in document:
        for key in entry["mutants"]:
            reason = " ".join(str(entry["reason"]).split())
            if not reason or key in reasons:
                raise ValueError(f"{path.name}: {key!r} stands there twice or without a reason")
            reasons[key] = reason
    return Explained(reasons)
