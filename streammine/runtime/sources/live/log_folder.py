"""Where an ingest log lies: a local folder that is appended to, or a store of whole objects.

Locally a record is appended to its segment and synced with `fdatasync`, measured at 0.2 to 0.5 ms
on a virtual disk. An object store can't append: there every record is an object of its own, so each
segment holds one.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from streammine.model.contracts import Store
from streammine.model.errors import InputError, OutputError
from streammine.model.ingest_chain import LogFiles
from streammine.runtime.stores import LocalStore, open_store


class LogFolder(LogFiles, Protocol):
    """One slice's ingest log, to be written. Everything is durable on return.

    Raises InputError (reading) and OutputError (writing), naming the folder.
    """

    appends: bool
    """Whether a segment can be appended to; else it is written whole."""

    def create(self, name: str, data: bytes) -> None:
        """Make a new file of these bytes."""
        ...

    def append(self, data: bytes) -> None:
        """Add to the file that was created last."""
        ...

    def close(self) -> None: ...


def open_log_folder(location: str) -> LogFolder:
    """The log at a folder or URL. Raises OutputError when a URL can't be understood."""
    store = open_store(location, durable=True)
    if isinstance(store, LocalStore):
        return LocalLog(store.folder)
    return StoredLog(location, store)


class LocalLog:
    """A log in a folder of this machine, or one that it has mounted."""

    appends = True

    def __init__(self, folder: Path) -> None:
        self.location = str(folder)
        self._folder = folder
        self._descriptor: int | None = None

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(f"{folder}{name}" for name in os.listdir(self._folder / folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            where = self._folder / folder
            raise InputError(f"ingest log: {where} can't be listed: {error.strerror}") from error

    def read(self, name: str) -> pa.Buffer:
        path = self._folder / name
        try:
            # Not memory-mapped: the newest segment grows, and a truncated map would kill us.
            return pa.py_buffer(path.read_bytes())
        except OSError as error:
            raise InputError(f"ingest log: {path} can't be read: {error.strerror}") from error

    def create(self, name: str, data: bytes) -> None:
        self.close()
        path = self._folder / name
        try:
            _make_durable(path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
            self._write(data)
            _sync_folder(path.parent)
        except OSError as error:
            raise self._failure(error) from error

    def append(self, data: bytes) -> None:
        try:
            self._write(data)
        except OSError as error:
            raise self._failure(error) from error

    def _write(self, data: bytes) -> None:
        assert self._descriptor is not None, "a file was created"
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _failure(self, error: OSError) -> OutputError:
        return OutputError(
            f"ingest log: can't write in {self._folder}: {error.strerror}; what clients sent since "
            "then is not acknowledged: free some space or mend the folder, and resume the job"
        )


def _make_durable(folder: Path) -> None:
    """Make a folder and those above it, so that they survive a power failure."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=0o700)
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class StoredLog:
    """A log in a store of whole objects: each file is written once."""

    appends = False

    def __init__(self, location: str, store: Store) -> None:
        self.location = location
        self._store = store

    def list(self, folder: str) -> list[str]:
        try:
            return self._store.list(folder)
        except OutputError as error:
            raise InputError(f"ingest log: {error}") from error

    def read(self, name: str) -> pa.Buffer:
        try:
            return self._store.get(name)
        except OutputError as error:
            raise InputError(f"ingest log: {error}") from error

    def create(self, name: str, data: bytes) -> None:
        self._store.put(name, data)

    def append(self, data: bytes) -> None:
        raise AssertionError("a store of whole objects can't append")

    def close(self) -> None:
        """Nothing stays open."""
