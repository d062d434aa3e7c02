"""Files at paths and URLs: opening raw input, writing with a digest, moving into place.

Everything goes through `pyarrow.fs`, so that a log can lie wherever the tasks of a Spark job can
write.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Protocol

import pyarrow as pa
import pyarrow.fs

from streammine.model.errors import InputError
from streammine.model.locations import below

_MOVES_AT_ONCE = 16


class Digest(Protocol):
    """What hashlib and xxhash objects have in common."""

    def update(self, data: bytes, /) -> object: ...

    def hexdigest(self) -> str: ...


def file_system(location: str) -> tuple[pa.fs.FileSystem, str]:
    """The file system that a path or URL lies on, and the path within it."""
    if "://" in location:
        system, path = pa.fs.FileSystem.from_uri(location)
        return system, path
    return pa.fs.LocalFileSystem(), os.path.abspath(location)


class Folder:
    """A folder at a path or URL; names inside it are relative, with '/'."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/") or "/"
        self._system, self._path = file_system(self.location)

    def _full(self, name: str) -> str:
        return f"{self._path}/{name}"

    def below(self, name: str) -> Folder:
        return Folder(below(self.location, name))

    def make(self) -> None:
        self._system.create_dir(self._path, recursive=True)

    def remove(self) -> None:
        """Delete the folder with all that it holds; nothing happens where there is none."""
        self._system.delete_dir_contents(self._path, missing_dir_ok=True)
        if self._system.get_file_info(self._path).type == pa.fs.FileType.Directory:
            self._system.delete_dir(self._path)

    def remove_file(self, name: str) -> None:
        if self._system.get_file_info(self._full(name)).type == pa.fs.FileType.File:
            self._system.delete_file(self._full(name))

    def names(self) -> list[str]:
        """Names of the files and folders directly inside, sorted."""
        selector = pa.fs.FileSelector(self._path, allow_not_found=True)
        return sorted(info.base_name for info in self._system.get_file_info(selector))

    def read(self, name: str) -> pa.Buffer:
        """All bytes of a file: memory-mapped where it is local. Raises InputError naming it."""
        try:
            if self._system.get_file_info(self._full(name)).size == 0:
                return pa.py_buffer(b"")
            with self.open_input(name) as file:
                return file.read_buffer()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{below(self.location, name)}: can't be read: {error}") from None

    def open_input(self, name: str) -> pa.NativeFile:
        """For random access: memory-mapped where the file is local."""
        if isinstance(self._system, pa.fs.LocalFileSystem):
            return pa.memory_map(self._full(name))
        return self._system.open_input_file(self._full(name))

    def open_stream(self, name: str) -> pa.NativeFile:
        """For reading from front to back."""
        return self._system.open_input_stream(self._full(name))

    def create(self, name: str, digest: Digest) -> HashedFile:
        return HashedFile(self._system.open_output_stream(self._full(name)), digest)

    def write(self, name: str, pieces: Iterable[bytes]) -> str:
        """Write a file whole, then move it into place; returns its sha256 in hex."""
        digest = hashlib.sha256()
        with self.create(f"{name}.part", digest) as file:
            for piece in pieces:
                file.write(piece)
        self._system.move(self._full(f"{name}.part"), self._full(name))
        return digest.hexdigest()

    def adopt(self, other: Folder, names: Iterable[tuple[str, str]]) -> None:
        """Move files (name there, name here) from a folder of the same file system."""
        moves = [(other._full(old), self._full(new)) for old, new in names]
        for parent in sorted({new.rpartition("/")[0] for _, new in moves}):
            self._system.create_dir(parent, recursive=True)
        with ThreadPoolExecutor(_MOVES_AT_ONCE) as pool:
            for _ in pool.map(lambda move: self._system.move(*move), moves):
                pass


class HashedFile(io.RawIOBase):
    """A file being written; `bytes` counts what went in and `digest` covers it."""

    def __init__(self, stream: pa.NativeFile, digest: Digest) -> None:
        super().__init__()
        self._stream = stream
        self._digest = digest
        self.bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self._digest.update(data)
        self._stream.write(data)
        self.bytes += len(data)
        return len(data)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream.close()

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
