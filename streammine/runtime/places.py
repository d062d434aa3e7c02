"""Files that outlive a command: where they go, and who has them to himself."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import IO

from streammine.model.errors import OutputError

_WHOLE_FILE = struct.Struct("hhqqi")
"""Linux's `struct flock`: kind, whence, start, length (0: to the end), process."""


def kept_folder(base: Path, name: str, what: str) -> Path:
    """A folder `name` for `what`: beside the topology in `base`, else in the user's cache folder.

    Raises OutputError when neither can be written.
    """
    places = kept_folders(base, name)
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK | os.X_OK):
            return place
    raise OutputError(
        f"there is no folder for {what}: neither {places[0]} nor {places[1]} can be written"
    )


def kept_folders(base: Path, name: str) -> tuple[Path, Path]:
    """Where `kept_folder` looks, the better place first."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (
        (base / ".streammine" / name).absolute(),
        Path(cache, "streammine", name).absolute(),
    )


def try_lock(file: IO[str]) -> bool:
    """Lock a file that is open for writing, until it is closed; False when another has it locked.

    The lock belongs to the open file (fcntl(2), "open file description locks"): it goes with the
    process, however that ends, and opening and closing the file elsewhere does not lose it.
    """
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _WHOLE_FILE.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_locked(file: IO[str]) -> bool:
    """Whether someone has the file locked. Looking takes no lock, so it is in nobody's way."""
    asked = _WHOLE_FILE.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked)
    kind: int = _WHOLE_FILE.unpack(answer)[0]
    return kind != fcntl.F_UNLCK
