"""Batches that outgrow memory wait in unnamed files."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from streammine.model.errors import OutputError
from streammine.runtime import spill as module
from streammine.runtime.spill import FileSpill


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"n": [number, None], "text": [f"row {number}", "ü"]})


def take(spill: FileSpill, ticket: int) -> pa.RecordBatch:
    found = spill.read(ticket)
    spill.free(ticket)
    return found


def free(spill: FileSpill, *tickets: int) -> None:
    for ticket in tickets:
        spill.free(ticket)


def open_files(folder: Path) -> int:
    """Unnamed files of `folder` that this process holds open."""
    held = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            held += os.readlink(f"/proc/self/fd/{name}").startswith(f"{folder}/")
        except FileNotFoundError:
            continue
    return held


def test_batches_are_read_back_as_they_were_in_any_order_and_often(tmp_path: Path) -> None:
    spill = FileSpill(tmp_path / "made" / "on demand")
    tickets = [spill.put(batch(number)) for number in range(5)]
    for number in (3, 0, 3, 4):
        assert spill.read(tickets[number]) == batch(number)
    assert take(spill, tickets[3]) == batch(3)
    with pytest.raises(KeyError):
        spill.read(tickets[3])
    assert spill.read(tickets[1]) == batch(1)
    free(spill, *tickets[:3], tickets[4])
    spill.close()


def test_a_slice_of_a_batch_is_kept_alone(tmp_path: Path) -> None:
    spill = FileSpill(tmp_path)
    part = pa.record_batch({"n": list(range(100))}).slice(40, 3)
    assert take(spill, spill.put(part)).to_pydict() == {"n": [40, 41, 42]}
    spill.close()


def test_nothing_is_made_before_the_first_batch_and_nothing_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    spill = FileSpill(folder)
    assert not folder.exists()
    ticket = spill.put(batch(1))
    assert list(folder.iterdir()) == [], "its files have no names"
    spill.free(ticket)
    spill.close()
    assert open_files(folder) == 0


def test_a_file_is_given_back_with_its_last_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1)
    spill = FileSpill(tmp_path)
    tickets = [spill.put(batch(number)) for number in range(4)]
    assert open_files(tmp_path) == 4
    for ticket in tickets[:3]:
        spill.free(ticket)
    assert open_files(tmp_path) == 1
    assert take(spill, tickets[3]) == batch(3)
    spill.close()
    assert open_files(tmp_path) == 0


def test_the_file_in_use_starts_over_when_it_holds_nothing(tmp_path: Path) -> None:
    spill = FileSpill(tmp_path)
    for number in range(50):
        assert take(spill, spill.put(batch(number))) == batch(number)
    assert open_files(tmp_path) == 1
    kept = spill.put(batch(7))
    others = [spill.put(batch(number)) for number in range(3)]
    for ticket in others:
        spill.free(ticket)
    assert take(spill, kept) == batch(7)
    spill.close()


def test_what_is_there_at_the_close_can_be_read_until_it_is_forgotten(tmp_path: Path) -> None:
    spill = FileSpill(tmp_path)
    one, two = spill.put(batch(1)), spill.put(batch(2))
    spill.free(one)
    spill.close()
    assert open_files(tmp_path) == 1
    assert spill.read(two) == batch(2)
    spill.free(two)
    assert open_files(tmp_path) == 0


def test_a_folder_that_can_not_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "taken"
    folder.write_text("a file")
    with pytest.raises(
        OutputError, match=r"cannot keep waiting events in .*taken.*free some space"
    ):
        FileSpill(folder).put(batch(1))


def test_a_full_disk_leaves_what_was_written_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spill = FileSpill(tmp_path)
    first = spill.put(batch(1))
    write = os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputError, match="No space left on device"):
        spill.put(batch(2))
    monkeypatch.setattr(os, "pwrite", write)
    assert spill.read(first) == batch(1)
    assert take(spill, spill.put(batch(3))) == batch(3)
    assert take(spill, first) == batch(1)
    spill.close()


def test_threads_may_share_it(tmp_path: Path) -> None:
    spill = FileSpill(tmp_path)
    wrong: list[int] = []

    def work(first: int) -> None:
        for number in range(first, first + 50):
            if take(spill, spill.put(batch(number))) != batch(number):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    spill.close()
