"""Runs: each has a folder or URL of its own, with all that it takes to go on after everything was lost.

In it lie the job as it was submitted, snapshots and checkpoints (`replication` says how), and under
`SINKS_FOLDER` the output of sinks that have no path. A run is called ``NAME-NUMBER``. It is kept unless its
job finished well.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import IO

from streammine.model.contracts import Store
from streammine.model.credentials import credentials_text, holds_credentials
from streammine.model.errors import ClusterError, OutputError
from streammine.model.locations import below, without_options
from streammine.model.suggestions import listed
from streammine.runtime.places import kept_folder, kept_folders, try_lock
from streammine.runtime.stores import ArrowStore, LocalStore, open_store

RUNS_FOLDER = "runs"
LOCK_FILE = "lock"
SINKS_FOLDER = "sinks"
_SHOWN_RUNS = 10


class Run:
    """A run that this process has to itself until `close`, as far as its files are on this machine.

    `location` is an absolute folder or a URL. Raises ClusterError when another process has the run,
    OutputError when its folder can't be written.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self.name = without_options(location)[0].rstrip("/").rpartition("/")[2]
        self._lock: IO[str] | None = None
        if "://" in location:
            return
        try:
            lock = open(Path(location, LOCK_FILE), "a")  # noqa: SIM115 - held until `close`
        except OSError as error:
            raise OutputError(f"run {location} can't be written: {error.strerror}") from None
        if not try_lock(lock):
            lock.close()
            raise ClusterError(
                f"run {self.name} is going on: another command works in {location}; wait until it "
                "ends, or end it"
            )
        self._lock = lock

    @property
    def store(self) -> Store:
        return open_store(self.location)

    @property
    def sinks(self) -> str:
        """Folder or URL for the output of sinks without a path."""
        return below(self.location, SINKS_FOLDER)

    def remove(self) -> None:
        """Remove the run with all that is in it.

        What a node writes at this moment may stay in an object store, so look again (`is_there`).
        """
        if "://" in self.location:
            store = self.store
            assert isinstance(store, (LocalStore, ArrowStore)), store
            store.remove()
        else:
            folder = Path(self.location)
            # out of the way at once: a node may still be writing the last snapshot
            away = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.removed")
            try:
                folder.rename(away)
            except OSError:
                away = folder
            shutil.rmtree(away, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Let others have it. May be called more than once."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def is_there(location: str) -> bool:
    """Whether anything is left of a run. Raises OutputError."""
    if "://" in location:
        return bool(open_store(location).list(""))
    return Path(location).is_dir()


def new_run(job: str, base: Path, store: str | None) -> Run:
    """A run that no one else has: of job `job`, whose topology lies in `base`.

    `store` is the folder or URL for runs, None for the usual one. Raises OutputError.
    """
    if store is not None and "://" in store:
        # No store of objects can be asked to make a folder only if it is not there.
        return Run(below(store, f"{job}-{secrets.token_hex(6)}"))
    if store is None:
        parent = kept_folder(base, RUNS_FOLDER, "what a run needs to survive a crash")
    else:
        parent = Path(os.path.abspath(base / store))
    try:
        parent.mkdir(parents=True, exist_ok=True)
        first = 1 + max((_number(name, job) for name in _names(parent)), default=0)
        for number in itertools.count(first):
            folder = parent / f"{job}-{number}"
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return Run(str(folder))
    except OSError as error:
        raise OutputError(f"no run can be kept in {parent}: {error.strerror}") from None
    raise AssertionError("numbers have no end")


def known_run(wanted: str, base: Path, store: str | None) -> Run:
    """The run that a person means: by its name, or by its folder or URL.

    `base` and `store` as in `new_run`. Raises ClusterError when there is none, or another process has it.
    """
    if holds_credentials(wanted):
        raise ClusterError(f"no run can be resumed from there: {credentials_text(wanted)}")
    if "://" in wanted:
        return Run(wanted.rstrip("/"))
    if store is not None and "://" in store and "/" not in wanted:
        return Run(below(store, wanted))
    parents = (
        kept_folders(base, RUNS_FOLDER) if store is None else (Path(os.path.abspath(base / store)),)
    )
    places = (
        [Path(os.path.abspath(wanted))] if "/" in wanted else [each / wanted for each in parents]
    )
    for place in places:
        if (place / LOCK_FILE).is_file():
            return Run(str(place))
    names = sorted({name for parent in parents for name in _names(parent)})
    there = listed(names[-_SHOWN_RUNS:]) if names else "none"
    raise ClusterError(
        f"there is no run {wanted!r} to resume; runs in {parents[0]}: {there}. A run is removed when "
        "its job has finished"
    )


def _names(parent: Path) -> list[str]:
    if not parent.is_dir():
        return []
    return [each.name for each in parent.iterdir() if each.is_dir()]


def _number(name: str, job: str) -> int:
    """The number of a run of this job; 0 for other names."""
    found = re.fullmatch(rf"{re.escape(job)}-([0-9]{{1,9}})", name, re.ASCII)
    return 0 if found is None else int(found[1])
