"""Long files past the page cache: the same bytes whatever their length, the file system and the kernel."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streammine.model.errors import OutputError
from streammine.runtime import direct_io
from streammine.runtime.direct_io import DIRECT_BYTES
from streammine.runtime.stores import LocalStore

LENGTHS = [
    DIRECT_BYTES - 1,
    DIRECT_BYTES,
    DIRECT_BYTES + 1,
    DIRECT_BYTES + 4096,
    3 * DIRECT_BYTES + 4095,
]
MEMORY = Path("/dev/shm")


def bytes_of(length: int) -> bytes:
    block = os.urandom(65_537)
    return (block * (length // len(block) + 1))[:length]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store", durable=True)


def kept(store: LocalStore, data: bytes) -> None:
    store.put("a/blob", data)
    assert (store.folder / "a/blob").read_bytes() == data
    assert store.get("a/blob").to_pybytes() == data


@pytest.mark.parametrize("length", LENGTHS)
def test_what_is_put_is_in_the_file_and_comes_back(store: LocalStore, length: int) -> None:
    kept(store, bytes_of(length))


@pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason="there is no folder in memory")
def test_file_systems_without_it_do_as_always() -> None:
    store = LocalStore(MEMORY / f"streammine-test-{os.getpid()}", durable=True)
    try:
        kept(store, bytes_of(LENGTHS[-1]))
    finally:
        store.remove()


def test_the_page_cache_is_passed_by(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[int] = []
    write, readv = os.write, os.readv

    def note(descriptor: int, count: int) -> int:
        if direct_io.fcntl.fcntl(descriptor, direct_io.fcntl.F_GETFL) & os.O_DIRECT:
            went.append(count)
        return count

    monkeypatch.setattr(os, "write", lambda to, data: note(to, write(to, data)))
    monkeypatch.setattr(os, "readv", lambda of, into: note(of, readv(of, into)))
    store.put("blob", bytes_of(2 * DIRECT_BYTES + 5000))
    if not went:
        pytest.skip("this file system can't")
    assert went == [DIRECT_BYTES, DIRECT_BYTES, 4096]
    went.clear()
    store.get("blob")
    assert went == [DIRECT_BYTES, DIRECT_BYTES, 4096]


def failing_at(number: int, code: int) -> Callable[[int, memoryview], int]:
    """os.write that fails once, at its n-th call."""
    calls = iter(range(1000))
    write = os.write

    def stand_in(descriptor: int, data: memoryview) -> int:
        if next(calls) == number:
            raise OSError(code, os.strerror(code))
        return write(descriptor, data)

    return stand_in


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_refusal_in_the_middle_is_made_up_for(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "write", failing_at(number, errno.EINVAL))
    kept(store, bytes_of(3 * DIRECT_BYTES + 100))


def test_a_full_disk_is_told(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", failing_at(1, errno.ENOSPC))
    with pytest.raises(OutputError, match="the disk is full"):
        store.put("blob", bytes_of(3 * DIRECT_BYTES))
    assert [path.name for path in store.folder.iterdir()] == []


def test_short_writes_and_reads_are_made_up_for(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, readv = os.write, os.readv
    monkeypatch.setattr(os, "write", lambda to, data: write(to, data[: len(data) // 2 + 1]))
    data = bytes_of(DIRECT_BYTES + 12_345)
    store.put("a/blob", data)
    monkeypatch.setattr(os, "readv", lambda of, into: readv(of, [into[0][: len(into[0]) // 2 + 1]]))
    assert store.get("a/blob").to_pybytes() == data


def test_a_file_that_shrinks_gives_what_is_left(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytes_of(2 * DIRECT_BYTES)
    store.put("blob", data)
    fstat = os.fstat

    def before(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        os.truncate(store.folder / "blob", DIRECT_BYTES + 10)
        return found

    monkeypatch.setattr("streammine.runtime.stores.os.fstat", before)
    assert store.get("blob").to_pybytes() == data[: DIRECT_BYTES + 10]


def test_systems_that_know_nothing_of_it(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_io, "_FLAG", 0)
    kept(store, bytes_of(LENGTHS[-1]))
