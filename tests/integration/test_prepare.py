"""`prepare` on real Spark: what the log holds, and that its bytes depend on the input alone."""

import gzip
import hashlib
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from streammine.model.epoch_log import MANIFEST_NAME, Manifest, SegmentReader
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import ClusterError, InputError
from streammine.model.preparation import FormatSettings, PrepareRequest, RawFile, request_for
from streammine.model.spark_job import SparkProgress
from streammine.runtime.prepared_logs import ensure_log, is_current, run_prepare

pytestmark = pytest.mark.slow

COLUMNS = pa.schema([("ts", pa.int64()), ("plug", pa.int32()), ("value", pa.float64())])
PARTITIONS = 3
EPOCH_SECONDS = 60
WIKIPEDIA = Path(__file__).parents[2].parent / "shared" / "data" / "wikipedia" / "wiki-0.txt.gz"


def raw(path: Path) -> RawFile:
    stat = path.stat()
    return RawFile(path=str(path), size_bytes=stat.st_size, modified_nanoseconds=stat.st_mtime_ns)


def csv_request(files: list[Path], **changes: object) -> PrepareRequest:
    request = request_for(
        [raw(path) for path in files],
        FormatSettings(kind="csv"),
        COLUMNS,
        EpochDefinition("time", EPOCH_SECONDS * 1_000_000, "ts"),
        partitions=PARTITIONS,
        master="local[2]",
    )
    return request.model_copy(update=changes)


def digests(log: Path) -> dict[str, str]:
    """Every file of the log by name."""
    return {
        str(path.relative_to(log)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(log.rglob("*"))
        if path.is_file()
    }


def partition_rows(log: Path, manifest: Manifest) -> list[pa.Table]:
    """Rows of each partition with their epochs, in the order of the log; batches are checked."""
    tables = []
    for partition in manifest.partitions:
        pieces = [pa.schema([*log_columns(manifest), ("epoch", pa.int64())]).empty_table()]
        for segment in partition.segments:
            reader = SegmentReader(pa.memory_map(str(log / segment.name)).read_buffer(), "s")
            assert reader.batches == segment.batches
            for index in range(reader.batches):
                epoch, batch = reader.read(index)
                assert 0 < batch.num_rows <= 65_536
                epochs = pa.array([epoch] * batch.num_rows, pa.int64())
                pieces.append(pa.Table.from_batches([batch.append_column("epoch", epochs)]))
        tables.append(pa.concat_tables([piece.cast(pieces[0].schema) for piece in pieces]))
    return tables


def log_columns(manifest: Manifest) -> pa.Schema:
    return pa.schema([*manifest.schema, ("__file", pa.int32()), ("__row", pa.int64())])


def manifest_of(log: Path) -> Manifest:
    return Manifest.decode((log / MANIFEST_NAME).read_bytes(), str(log))


def dead_letters(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (log / "dead-letters.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], pa.Table]:
    """Files out of time order, one compressed, with bad rows; and the good rows by file and row."""
    folder = tmp_path_factory.mktemp("readings")
    generator = np.random.default_rng(5)
    paths: list[Path] = []
    tables: list[pa.Table] = []
    for file, rows in enumerate((150_000, 20, 120_000)):
        times = 1_000 + np.sort(generator.integers(0, 1_200, rows))
        times += generator.integers(0, 90, rows)
        plugs = generator.integers(0, 50, rows)
        lines = [
            f"{ts},{plug},{'' if plug == 7 else plug / 8}"
            for ts, plug in zip(times.tolist(), plugs.tolist(), strict=True)
        ]
        lines[5] = "soon,1,1.0"
        lines[9] = ",1,1.0"
        text = "\n".join(["ts,plug,value", *lines, ""]).encode()
        path = folder / f"readings-{file}.csv{'.gz' if file == 2 else ''}"
        path.write_bytes(gzip.compress(text, mtime=0) if file == 2 else text)
        paths.append(path)
        values = pa.array(plugs / 8, mask=plugs == 7)
        position = [pa.array([file] * rows, pa.int32()), pa.array(range(rows), pa.int64())]
        arrays = [pa.array(times), pa.array(plugs, pa.int32()), values, *position]
        table = pa.table(arrays, names=[*COLUMNS.names, "__file", "__row"])
        tables.append(table.filter(pa.array([row not in (5, 9) for row in range(rows)])))
    return paths, pa.concat_tables(tables)


@pytest.fixture(scope="module")
def log(readings: tuple[list[Path], pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("logs") / "local2"
    run_prepare(csv_request(readings[0], output=str(output)))
    return output


def test_rows_lie_in_their_epochs_and_partitions_by_time_then_position(
    readings: tuple[list[Path], pa.Table], log: Path
) -> None:
    ordered = readings[1].sort_by(
        [("ts", "ascending"), ("__file", "ascending"), ("__row", "ascending")]
    )
    epochs = ordered.column("ts").to_numpy() // EPOCH_SECONDS
    numbers, starts, sizes = np.unique(epochs, return_index=True, return_counts=True)
    manifest = manifest_of(log)
    found = partition_rows(log, manifest)
    with_epochs = ordered.append_column("epoch", pa.array(epochs))
    for partition in range(PARTITIONS):
        runs = [
            with_epochs.slice(
                start + size * partition // PARTITIONS,
                size * (partition + 1) // PARTITIONS - size * partition // PARTITIONS,
            )
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ]
        assert found[partition].equals(pa.concat_tables(runs).cast(found[partition].schema))
    assert (manifest.first_epoch, manifest.last_epoch) == (numbers[0], numbers[-1])
    assert manifest.epochs == len(numbers)
    table = pa.ipc.open_file(pa.memory_map(str(log / "epochs.arrow"))).read_all()
    assert table.column("epoch").to_pylist() == numbers.tolist()
    assert [sum(rows) for rows in table.column("rows").to_pylist()] == sizes.tolist()


def test_bad_rows_are_dead_letters_with_file_row_and_reason(
    readings: tuple[list[Path], pa.Table], log: Path
) -> None:
    manifest = manifest_of(log)
    assert (manifest.rows_read, manifest.rows_used, manifest.rows_dead) == (270_020, 270_014, 6)
    letters = dead_letters(log)
    epochs = [int(str(letter["epoch"])) for letter in letters]
    assert epochs == sorted(epochs)
    letters.sort(key=lambda letter: (str(letter["file"]), int(str(letter["row"]))))
    expected = [(str(path), row) for path in readings[0] for row in (5, 9)]
    assert [(letter["file"], letter["row"]) for letter in letters] == expected
    assert letters[0]["text"] == "soon,1,1.0"
    assert "ts" in str(letters[0]["reason"])
    assert letters[1]["reason"] == "event time column 'ts' is missing"
    assert [file.rows for file in manifest.files] == [150_000, 20, 120_000]


@pytest.mark.parametrize("master", ["local[1]", "local[4]"])
def test_another_master_and_a_shuffled_listing_give_the_same_bytes(
    readings: tuple[list[Path], pa.Table], log: Path, tmp_path: Path, master: str
) -> None:
    files = [readings[0][2], readings[0][0], readings[0][1]]
    report = run_prepare(csv_request(files, output=str(tmp_path / "log"), master=master))
    assert digests(tmp_path / "log") == digests(log)
    assert report.digest == manifest_of(log).digest


def workers() -> list[psutil.Process]:
    """Spark's Python workers, which are children of its Python daemon."""

    def is_daemon(process: psutil.Process | None) -> bool:
        return process is not None and "pyspark.daemon" in process.cmdline()

    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if is_daemon(process) and is_daemon(process.parent()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def test_killed_tasks_are_repeated_and_leave_the_same_bytes(
    readings: tuple[list[Path], pa.Table], log: Path, tmp_path: Path
) -> None:
    output = tmp_path / "log"
    killed: list[str] = []
    attempts: dict[str, int] = {}

    def kill_midway(progress: SparkProgress) -> None:
        prefix = {"parse": "parsed-", "write": "segment-"}.get(progress.step)
        if progress.step == "write":
            attempts["parsed"] = len(list(output.glob(".staging-*/parsed-*")))
        if prefix is None or progress.done:
            return
        deadline = time.monotonic() + 60
        while not list(output.glob(f".staging-*/{prefix}*")):
            assert time.monotonic() < deadline, "no task has begun to write"
            time.sleep(0.002)
        for process in workers():
            os.kill(process.pid, signal.SIGKILL)
            killed.append(progress.step)

    run_prepare(csv_request(readings[0], output=str(output)), kill_midway)
    assert "parse" in killed
    assert attempts["parsed"] > 2, "a task of the first step was run again"
    assert digests(output) == digests(log)


def test_two_thousand_json_files_interleaved_by_a_column_are_numbered_in_its_order(
    tmp_path: Path,
) -> None:
    files, per_file, length = 2_000, 5, 3_000
    generator = np.random.default_rng(9)
    times = generator.integers(0, 500, (files, per_file))
    (tmp_path / "raw").mkdir()
    paths = []
    for number, row in enumerate(times.tolist()):
        path = tmp_path / "raw" / f"{number:05d}.jsonl"
        lines = [json.dumps({"ts": ts, "plug": number, "value": 0.5}) for ts in row]
        if number == 17:
            lines[2] = "{not json"
        path.write_text("\n".join(lines) + "\n")
        paths.append(path)
    request = csv_request(
        paths,
        format=FormatSettings(kind="json"),
        merge_by="ts",
        epoch=csv_request([]).epoch.model_copy(
            update={"kind": "count", "length": length, "column": None}
        ),
        output=str(tmp_path / "log"),
    )
    report = run_prepare(request)
    assert (report.rows_read, report.rows_dead) == (files * per_file, 1)
    # Merging the files by their heads sorts them by each file's running maximum; the dead row
    # has its place.
    times[17, 2] = 0
    keys = np.maximum.accumulate(times, axis=1).ravel()
    order = np.argsort(keys, kind="stable")
    found = pa.concat_tables(partition_rows(tmp_path / "log", manifest_of(tmp_path / "log")))
    found = found.sort_by([("epoch", "ascending"), ("__file", "ascending"), ("__row", "ascending")])
    expected = sorted(
        (rank // length, 0, rank, position // per_file)
        for rank, position in enumerate(order.tolist())
        if position != 17 * per_file + 2
    )
    columns = [found.column(name).to_pylist() for name in ("epoch", "__file", "__row", "plug")]
    [letter] = dead_letters(tmp_path / "log")
    assert (letter["file"], letter["row"]) == (str(paths[17]), 2)
    assert letter["epoch"] == order.tolist().index(17 * per_file + 2) // length
    assert list(zip(*columns, strict=True)) == expected


def test_a_half_written_gzip_is_an_input_error_that_names_file_and_rows(
    tmp_path: Path,
) -> None:
    lines = "\n".join(f"{ts},1,{ts / 7}" for ts in range(300_000))
    data = gzip.compress(f"ts,plug,value\n{lines}\n".encode())
    path = tmp_path / "half.csv.gz"
    path.write_bytes(data[: len(data) * 2 // 3])
    whole = tmp_path / "whole.csv"
    whole.write_text("ts,plug,value\n1,1,1\n")
    with pytest.raises(InputError, match=r"half\.csv\.gz.*after [1-9][0-9,]* whole rows"):
        ensure_log("halves", csv_request([path, whole]), tmp_path)
    assert [each.suffix for each in (tmp_path / ".streammine" / "logs").iterdir()] == [".lock"]


def test_a_log_is_reused_until_its_input_changes(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("ts,plug,value\n1,2,3\n")
    steps: list[SparkProgress] = []
    first = ensure_log("few", csv_request([path]), tmp_path, steps.append)
    assert steps
    assert first.parent == tmp_path / ".streammine" / "logs"
    assert not list(first.glob(".staging-*"))
    steps.clear()
    assert ensure_log("few", csv_request([path]), tmp_path, steps.append) == first
    assert not steps
    path.write_text("ts,plug,value\n1,2,3\n4,5,6\n")
    assert not is_current(first, csv_request([path]))
    segment = next(first.glob("partition-*/*.arrow"))
    segment.write_bytes(segment.read_bytes()[:-8])
    assert not is_current(first, csv_request([path]))


@pytest.fixture
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_an_interrupted_prepare_leaves_no_process_and_no_file(
    readings: tuple[list[Path], pa.Table], tmp_path: Path, temporary_folder: Path
) -> None:
    family: list[psutil.Process] = []

    def interrupt(progress: SparkProgress) -> None:
        if progress.step == "parse":
            family.extend(psutil.Process().children(recursive=True))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_log("cut", csv_request(readings[0]), tmp_path, interrupt)
    assert len(family) >= 2, "the job and its Java"
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert [each.suffix for each in (tmp_path / ".streammine" / "logs").iterdir()] == [".lock"]
    assert list(temporary_folder.iterdir()) == []


def test_missing_java_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ClusterError, match=r"need Java 17 or newer.*default-jre-headless"):
        run_prepare(csv_request([]))


@pytest.mark.skipif(not WIKIPEDIA.exists(), reason=f"{WIKIPEDIA} is not on this machine")
def test_a_real_text_is_in_the_log_line_by_line(tmp_path: Path) -> None:
    request = request_for(
        [raw(WIKIPEDIA)],
        FormatSettings(kind="text"),
        pa.schema([("line", pa.string())]),
        EpochDefinition("count", 10_000),
        partitions=2,
        master="local[2]",
    )
    log = tmp_path / "log"
    run_prepare(request.model_copy(update={"output": str(log)}))
    with gzip.open(WIKIPEDIA, "rt", encoding="utf-8", newline="\n") as file:
        lines = [line.removesuffix("\n").removesuffix("\r") for line in file]
    manifest = manifest_of(log)
    found = pa.concat_tables(partition_rows(log, manifest)).sort_by("__row")
    assert manifest.rows_read == len(lines)
    assert manifest.rows_dead == 0
    assert found.column("line").to_pylist() == lines
    assert found.column("epoch").to_pylist() == [row // 10_000 for row in range(len(lines))]
