"""User code by module path: ``package.module:Name``, importable from the topology's folder."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from streammine.model.errors import UserCodeError
from streammine.model.suggestions import did_you_mean

_TRACEBACK_LINES = 6


def load_object(spec: str, base: str | Path) -> Any:
    """The object that ``package.module:Name`` names; the folder `base` is searched first.

    Raises UserCodeError when the text has another form, the module is missing or raises while it is
    imported, or has no such name.
    """
    module_name, colon, attribute = spec.partition(":")
    if not colon or not attribute or not all(map(str.isidentifier, module_name.split("."))):
        raise UserCodeError(f"'{spec}' names no user code; write it as package.module:Class")
    module = load_module(module_name, base)
    if not hasattr(module, attribute):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise UserCodeError(
            f"module '{module_name}' ({module.__file__}) has no '{attribute}'"
            f"{did_you_mean(attribute, public)}"
        )
    return getattr(module, attribute)


def load_module(name: str, base: str | Path) -> ModuleType:
    """Import a module; the folder `base` is searched before everything else.

    Raises UserCodeError.
    """
    folder = Path(base).resolve()
    _forget_other_folders(name, folder)
    path = str(folder)
    added = path not in sys.path
    if added or sys.path[0] != path:
        sys.path.insert(0, path)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _import_failed(name, error) from error
        raise _module_missing(name, error.name, folder) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error
    finally:
        if not added:
            _remove_first(path)


def _remove_first(path: str) -> None:
    """Undo the insertion of a path that stands further back in `sys.path` as well."""
    if sys.path.count(path) > 1:
        sys.path.remove(path)


def _forget_other_folders(name: str, folder: Path) -> None:
    """Make place for the folder's module where another job's module of the same name is loaded.

    Python knows a module by its name alone, and a node can serve several jobs whose folders hold
    modules of one name. Classes loaded before keep their own module's globals.
    """
    top = name.partition(".")[0]
    loaded = sys.modules.get(top)
    mine = [path for path in (folder / f"{top}.py", folder / top / "__init__.py") if path.exists()]
    if loaded is None or not mine:
        return
    origin = getattr(loaded, "__file__", None)
    if origin is not None and Path(origin).resolve() in mine:
        return
    if top in sys.builtin_module_names or top in sys.stdlib_module_names or origin is None:
        raise UserCodeError(
            f"the module name '{top}' ({mine[0]}) is taken by Python's own module; rename the file"
        )
    for known in [key for key in sys.modules if key == top or key.startswith(f"{top}.")]:
        del sys.modules[known]


def _module_missing(name: str, missing: str, folder: Path) -> UserCodeError:
    beside = folder.joinpath(*missing.split(".")[:-1])
    present = [path.stem for path in sorted(beside.glob("*.py"))]
    present += [path.parent.name for path in sorted(beside.glob("*/__init__.py"))]
    hint = did_you_mean(missing.rpartition(".")[2], present)
    return UserCodeError(
        f"there is no module '{missing}'{'' if missing == name else f' (for {name!r})'}: looked in "
        f"{folder} and in the installed packages{hint}"
    )


def _import_failed(name: str, error: BaseException) -> UserCodeError:
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    shown = "\n".join(f"  {line}" for line in lines[-_TRACEBACK_LINES:])
    return UserCodeError(f"module '{name}' can't be imported:\n{shown}")
