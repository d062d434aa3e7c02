"""Stores: whole blobs or none, and errors that say what would help."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from streammine.model.contracts import Store
from streammine.model.errors import OutputError
from streammine.runtime.output import clean
from streammine.runtime.stores import ArrowStore, LocalStore, open_store


@pytest.fixture(params=["folder", "durable", "file_url", "arrow"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "arrow":
        return ArrowStore("test", pa.fs.LocalFileSystem(), str(tmp_path / "out"))
    if request.param == "file_url":
        return open_store(f"file://{tmp_path}/out")
    return open_store(tmp_path / "out", durable=request.param == "durable")


def test_what_is_put_is_got_listed_replaced_and_deleted(store: Store) -> None:
    assert store.list("") == []
    assert store.list("seals/") == []
    store.put("b", b"one")
    store.put("seals/1.json", pa.py_buffer(b"two"))
    store.put("seals/2.json", b"")
    store.put("b", b"three")
    assert bytes(store.get("b")) == b"three"
    assert bytes(store.get("seals/2.json")) == b""
    assert store.list("") == ["b", "seals/1.json", "seals/2.json"]
    assert store.list("seals/") == ["seals/1.json", "seals/2.json"]
    assert store.list("seals/2") == ["seals/2.json"]
    store.delete("b")
    store.delete("b")
    assert store.list("b") == []


def test_a_removed_store_leaves_no_folder(tmp_path: Path, store: Store) -> None:
    assert isinstance(store, (LocalStore, ArrowStore))
    store.remove()
    store.put("seals/1.json", b"one")
    store.put("b", b"two")
    store.remove()
    assert store.list("") == []
    assert list(tmp_path.iterdir()) == []


def test_a_missing_blob_is_named(store: Store) -> None:
    with pytest.raises(OutputError, match=r"can't read nothing\.parquet in"):
        store.get("nothing.parquet")


def test_a_full_disk_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "out")
    store.put("old", b"old")
    written = os.write

    def full(descriptor: int, data: Any) -> int:
        if len(data) < 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(descriptor, data[:6])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OutputError) as caught:
        store.put("old", b"longer than six")
    assert str(tmp_path / "out") in str(caught.value)
    assert "the disk is full: free some space" in str(caught.value)
    assert os.listdir(tmp_path / "out") == ["old"]
    assert bytes(store.get("old")) == b"old"


def test_a_really_full_disk_is_named() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this machine has no /dev/full")
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="No space left") as caught:
            os.write(descriptor, b"x")
    finally:
        os.close(descriptor)
    failure = LocalStore(Path("/data"))._failure("write", "x", caught.value)
    assert "the disk is full" in str(failure)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EACCES, "no permission: change the folder's owner or mode"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EDQUOT, "your quota on this disk is used up"),
    ],
)
def test_each_fault_of_the_disk_comes_with_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OutputError, match=advice) as caught:
        LocalStore(tmp_path).put("x", b"")
    assert str(tmp_path) in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_forbidden_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="no permission: change the folder's owner or mode"):
        LocalStore(tmp_path / "out").put("x", b"")


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="a file"):
        LocalStore(tmp_path / "out").put("seals/x", b"")


def test_a_folder_that_was_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "out")
    store.put("x", b"1")
    (tmp_path / "out" / "x").unlink()
    (tmp_path / "out").rmdir()
    with pytest.raises(OutputError):
        store.put("x", b"2")
    store.put("x", b"3")
    assert bytes(store.get("x")) == b"3"


def test_what_a_killed_process_left_half_written_is_invisible_and_goes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / ".part-r000001-x.parquet.4711.0.tmp").write_bytes(b"half")
    (tmp_path / ".mine.tmp").write_bytes(b"")
    assert store.list("") == []
    clean(store)
    assert os.listdir(tmp_path) == [".mine.tmp"]


def test_an_unknown_kind_of_url_is_refused() -> None:
    with pytest.raises(OutputError, match=r"can't open the store gopher://x.*give a folder"):
        open_store("gopher://x/y")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x"])
def test_names_stay_inside_the_store(store: Store, name: str) -> None:
    with pytest.raises(AssertionError):
        store.put(name, b"")


def test_a_late_writer_does_not_bring_a_removed_folder_back(tmp_path: Path) -> None:
    store = open_store(tmp_path / "run", durable=True)
    store.put("snapshots/a", b"one")
    shutil.rmtree(tmp_path / "run")
    for name in ("snapshots/b", "b", "snapshots/a"):
        with pytest.raises(OutputError, match="can't write"):
            store.put(name, b"two")
    assert not (tmp_path / "run").exists()
