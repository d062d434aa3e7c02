"""Partitioners by what a topology says: a name, a mapping with settings, or a module path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from partitioners.broadcast import Broadcast
from partitioners.hashing import Hash
from partitioners.key_range import KeyRange
from streammine.model.contracts import Partitioner
from streammine.model.errors import TopologyError, UserCodeError
from streammine.model.modules import load_object
from streammine.model.suggestions import did_you_mean

_NAMES = ("hash", "key_range", "broadcast")


def partitioner_named(
    spec: str | Mapping[str, Any], base: str | Path, settings: Mapping[str, Any] | None = None
) -> Partitioner:
    """The partitioner of a `partition:` entry.

    "hash", "broadcast", ``{"key_range": {"boundaries": [...]}}``, or ``package.module:Class`` found
    from the folder `base` and made with `settings` as keyword arguments (also as a mapping,
    ``{"package.module:Class": {...}}``). Raises TopologyError, or UserCodeError for a user's own.
    """
    if isinstance(spec, Mapping):
        if len(spec) != 1:
            raise TopologyError(f"partition: one partitioner is needed, not {len(spec)}")
        name, given = next(iter(spec.items()))
        settings = {} if given is None else given
        if not isinstance(settings, Mapping):
            raise TopologyError(f"partition: settings of {name} must be a mapping, not {given!r}")
    else:
        name, settings = spec, settings or {}
    if ":" in name:
        return _users_own(name, base, settings)
    kind = {"hash": Hash, "key_range": KeyRange, "broadcast": Broadcast}.get(name)
    if kind is None:
        raise TopologyError(
            f"partition: there is no partitioner '{name}'{did_you_mean(name, _NAMES)}. There are "
            f"{', '.join(_NAMES)}, and package.module:Class"
        )
    wanted = {"boundaries"} if kind is KeyRange else set()
    if set(settings) != wanted:
        raise TopologyError(
            f"partition: {name} takes {', '.join(wanted) or 'no settings'}, "
            f"not {', '.join(settings) or 'none'}"
        )
    made: Partitioner = kind(**settings)
    return made


def _users_own(spec: str, base: str | Path, settings: Mapping[str, Any]) -> Partitioner:
    kind = load_object(spec, base)
    try:
        made = kind(**settings) if isinstance(kind, type) else kind
    except Exception as error:
        raise UserCodeError(
            f"partitioner '{spec}' can't be made with settings {dict(settings)!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Partitioner):
        raise UserCodeError(
            f"'{spec}' is no partitioner; it needs the attribute broadcast and the method "
            "targets(keys, slices), which gives the slice of each row as an int32 array"
        )
    return made
