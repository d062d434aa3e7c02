"""From an operator's `operator:` entry to an instance of the user's class."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streammine.model.errors import UserCodeError
from streammine.model.modules import load_object
from streammine.model.suggestions import did_you_mean
from streammine.operators.api import Mapper, Operator, Reducer, UserCode
from streammine.operators.user.errors import user_frames

Loader = Callable[[str], object]
"""Gives the object that was submitted by value under a name.

Signatures are the loader's business.
"""

BY_VALUE_PREFIX = "value:"
"""``value:name`` names an operator that came with the job instead of by module path."""


def load_user_code(
    spec: str, base: str | Path, settings: Mapping[str, Any], loader: Loader | None = None
) -> UserCode:
    """An instance of the Mapper, Reducer or Operator that `spec` names.

    `spec` is ``package.module:Class``, found from the folder `base`, or ``value:name``, given by
    `loader`. A class is called with `settings` as keyword arguments; by value an instance may come,
    which takes none. Raises UserCodeError.
    """
    if spec.startswith(BY_VALUE_PREFIX):
        if loader is None:
            raise UserCodeError(f"'{spec}' names code submitted by value, and none was submitted")
        found = loader(spec.removeprefix(BY_VALUE_PREFIX))
    else:
        found = load_object(spec, base)
    return instance_of(found, spec, settings)


def instance_of(found: object, spec: str, settings: Mapping[str, Any]) -> UserCode:
    """An operator from a class, or a copy of an instance, as each slice needs one of its own.

    Raises UserCodeError when it is neither.
    """
    if isinstance(found, (Mapper, Reducer, Operator)):
        if settings:
            raise UserCodeError(f"'{spec}' is an instance already and takes no settings (`with`)")
        return copy.deepcopy(found)
    if not (isinstance(found, type) and issubclass(found, (Mapper, Reducer, Operator))):
        shown = "a class" if isinstance(found, type) else f"of type {type(found).__name__}"
        raise UserCodeError(
            f"'{spec}' is {shown}, not a subclass of streammine.Mapper, Reducer or Operator"
        )
    _check_settings(found, spec, settings)
    try:
        return found(**settings)
    except Exception as error:
        raise UserCodeError(
            f"'{spec}' can't be made with settings {dict(settings)!r}: "
            f"{type(error).__name__}: {error}{user_frames(error)}"
        ) from error


def _check_settings(kind: type, spec: str, settings: Mapping[str, Any]) -> None:
    signature = inspect.signature(kind)
    try:
        signature.bind(**settings)
    except TypeError as error:
        names = [name for name in signature.parameters if name != "self"]
        wrong = [name for name in settings if name not in names]
        hint = did_you_mean(wrong[0], names) if wrong else ""
        raise UserCodeError(
            f"'{spec}' doesn't take the settings (`with`) it was given: {error}{hint}; "
            f"its settings are {', '.join(names) or 'none'}"
        ) from error
