"""Files at paths, globs and URLs: finding them in path order, and opening them."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from streammine.model.errors import InputError
from streammine.model.formats import ByteStream
from streammine.model.locations import without_options
from streammine.model.preparation import RawFile
from streammine.runtime.sources.compression import decompressed

_GLOB_CHARACTERS = "*?["


def expand(patterns: Iterable[str], base: str) -> tuple[str, ...]:
    """Absolute paths and URLs of all files that the patterns name, each once, sorted as strings.

    Relative paths start from `base`. `**` in a glob stands for any folders. Raises InputError for a
    path that is not there or not a file, and for a glob that nothing matches.
    """
    found: set[str] = set()
    for pattern in patterns:
        found.update(_remote(pattern) if "://" in pattern else _local(pattern, base))
    return tuple(sorted(found, key=without_options))


def absolute(location: str, base: str) -> str:
    """A URL as it is, a path absolute, from `base` where it is relative."""
    if "://" in location:
        return location
    return os.path.normpath(os.path.join(os.path.abspath(base), location))


def _local(pattern: str, base: str) -> list[str]:
    path = absolute(pattern, base)
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; name its files, as in '{pattern.rstrip('/')}/*'")
    if not any(character in pattern for character in _GLOB_CHARACTERS):
        raise InputError(f"{path}: no such file{_nearest_folder(path)}")
    root = glob.escape(os.path.abspath(base))
    matches = glob.glob(os.path.join(root, pattern), recursive=True)
    files = [os.path.normpath(match) for match in matches if os.path.isfile(match)]
    if not files:
        raise InputError(f"'{pattern}' matches no file under {os.path.abspath(base)}")
    return files


def _nearest_folder(path: str) -> str:
    folder = Path(path).parent
    return "" if folder.is_dir() else f"; there is no folder {folder}"


def _remote(pattern: str) -> list[str]:
    location, options = without_options(pattern)
    scheme, _, rest = location.partition("://")
    cut = min((rest.find(each) for each in _GLOB_CHARACTERS if each in rest), default=-1)
    plain = rest if cut < 0 else rest[:cut].rpartition("/")[0]
    try:
        system, folder = pa.fs.FileSystem.from_uri(f"{scheme}://{plain}{options}")
        if cut < 0:
            if system.get_file_info(folder).type != pa.fs.FileType.File:
                raise InputError(f"{pattern}: no such file")
            return [pattern]
        infos = system.get_file_info(pa.fs.FileSelector(folder, recursive=True))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{pattern}: can't be looked up: {error}") from error
    prefix = f"{scheme}://{plain}"
    wanted = rest[len(plain) :]
    files = [
        prefix + info.path[len(folder) :] + options
        for info in infos
        if info.type == pa.fs.FileType.File and _matches(info.path[len(folder) :], wanted)
    ]
    if not files:
        raise InputError(f"'{pattern}' matches no file")
    return files


def _matches(path: str, pattern: str) -> bool:
    """Folder by folder, as globs of local paths are matched; `**` is any number of folders."""
    parts, wanted = path.strip("/").split("/"), pattern.strip("/").split("/")
    return _parts_match(parts, wanted)


def _parts_match(parts: list[str], wanted: list[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_parts_match(parts[skipped:], wanted[1:]) for skipped in range(len(parts) + 1))
    if not parts or not fnmatch.fnmatchcase(parts[0], wanted[0]):
        return False
    return _parts_match(parts[1:], wanted[1:])


def _system(location: str) -> tuple[pa.fs.FileSystem, str]:
    if "://" in location:
        system, path = pa.fs.FileSystem.from_uri(location)
        return system, path
    return pa.fs.LocalFileSystem(), location


class OpenFile:
    """A file's decompressed bytes, and the means to close it."""

    def __init__(self, location: str, offset_bytes: int = 0) -> None:
        """An offset only into a file that is not compressed. Raises InputError naming the file."""
        try:
            system, path = _system(location)
            if offset_bytes:
                self._raw = system.open_input_file(path)
                self._raw.seek(offset_bytes)
            else:
                self._raw = system.open_input_stream(path, compression=None)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{location}: can't be opened: {error}") from error
        self._stream: ByteStream = decompressed(self._raw, location)

    def read(self, size: int, /) -> bytes:
        return self._stream.read(size)

    def close(self) -> None:
        self._raw.close()


def open_random(location: str) -> pa.NativeFile:
    """A file for random access, memory-mapped where it is local. Raises InputError naming it."""
    try:
        system, path = _system(location)
        if isinstance(system, pa.fs.LocalFileSystem) and os.path.getsize(path):
            return pa.memory_map(path)
        return system.open_input_file(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{location}: can't be opened: {error}") from error


def read_whole(location: str) -> pa.Buffer:
    """All bytes of a file, memory-mapped where it is local. Raises InputError naming it."""
    file = open_random(location)
    try:
        return file.read_buffer()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{location}: can't be read: {error}") from error


def raw_files(locations: Iterable[str]) -> tuple[RawFile, ...]:
    """Size and time of change of each file, by which a prepared log is known again."""
    found = []
    for location in locations:
        try:
            system, path = _system(location)
            info = system.get_file_info(path)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{location}: can't be looked up: {error}") from error
        if info.type != pa.fs.FileType.File:
            raise InputError(f"{location}: no such file")
        found.append(
            RawFile(path=location, size_bytes=info.size, modified_nanoseconds=info.mtime_ns or 0)
        )
    return tuple(found)
