"""What the tasks of `prepare` do, without Spark: splitting, ordering, cutting, canonical bytes."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError
from streammine.model.preparation import FormatSettings, PrepareRequest, RawFile, request_for
from streammine.pipeline import raw_files
from streammine.pipeline.cells import EpochTable
from streammine.pipeline.chunk_index import ChunkIndex
from streammine.pipeline.merging import RangeMerge
from streammine.pipeline.ordering import (
    SortKey,
    SortKeys,
    event_times,
    merge_keys,
    running_maximum,
)
from streammine.pipeline.raw_files import blocks_of, tasks_of, units_of
from streammine.pipeline.row_numbers import RowNumbers
from streammine.pipeline.segments import canonical_batches
from streammine.pipeline.staging import sort_keys, stage
from streammine.pipeline.storage import Folder

TEXT = pa.schema([("line", pa.string())])
READINGS = pa.schema([("ts", pa.int64()), ("value", pa.float64())])


def request(
    paths: list[Path], kind: str, schema: pa.Schema, epoch: EpochDefinition, **changes: object
) -> PrepareRequest:
    files = [
        RawFile(path=str(path), size_bytes=path.stat().st_size, modified_nanoseconds=0)
        for path in paths
    ]
    made = request_for(files, FormatSettings(kind=kind), schema, epoch)  # type: ignore[arg-type]
    return made.model_copy(update=changes)


def read_units(made: PrepareRequest, column: str) -> tuple[list[object], list[int]]:
    """All values by unit, and the row numbers that they get after correction."""
    values: list[object] = []
    provisional: list[int] = []
    read: list[int] = []
    units = units_of(made)
    for unit in units:
        read.append(0)
        for block in blocks_of(unit, made.format, made.schema):
            values.extend(block.batch.column(column).to_pylist())
            provisional.extend((unit.first_row + block.rows).tolist())
            read[-1] += block.raw_rows
    numbers = RowNumbers.of(units, read)
    files = np.zeros(len(provisional), dtype=np.int32)
    return values, numbers.corrected(files, np.array(provisional, dtype=np.int64)).tolist()


@pytest.mark.parametrize("split", [1, 2, 7, 64, 10_000])
def test_a_text_that_is_read_in_stretches_gives_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: int
) -> None:
    monkeypatch.setattr(raw_files, "SPLIT_BYTES", split)
    monkeypatch.setattr(raw_files, "BLOCK_BYTES", 5)
    path = tmp_path / "a.txt"
    lines = ["", "a", "", "a longer line than the others", "b" * 40, "", "x", "end"]
    path.write_bytes("\n".join(lines).encode())
    made = request([path], "text", TEXT, EpochDefinition("count", 10))
    assert read_units(made, "line") == (lines, list(range(len(lines))))


@pytest.mark.parametrize("split", [3, 50])
def test_json_lines_that_are_read_in_stretches_keep_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: int
) -> None:
    monkeypatch.setattr(raw_files, "SPLIT_BYTES", split)
    path = tmp_path / "a.json"
    path.write_text("".join(f'{{"ts": {ts}, "value": 1.5}}\n\n' for ts in range(20)))
    made = request([path], "json", READINGS, EpochDefinition("count", 10))
    assert read_units(made, "ts") == (list(range(20)), list(range(20)))


def test_a_parquet_file_is_split_at_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_files, "SPLIT_BYTES", 100)
    path = tmp_path / "a.parquet"
    table = pa.table({"extra": ["x"] * 50, "ts": range(50)})
    pq.write_table(table, path, row_group_size=7)
    schema = pa.schema([("ts", pa.int32())])
    made = request([path], "parquet", schema, EpochDefinition("count", 10))
    assert len(units_of(made)) > 3
    assert read_units(made, "ts") == (list(range(50)), list(range(50)))


def test_compressed_and_csv_files_are_never_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_files, "SPLIT_BYTES", 1)
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(b"a\nb\n"))
    made = request([packed], "text", TEXT, EpochDefinition("count", 10))
    assert len(units_of(made)) == 1
    assert read_units(made, "line")[0] == ["a", "b"]
    csv = tmp_path / "a.csv"
    csv.write_text("ts,value\n1,2\n")
    assert len(units_of(request([csv], "csv", READINGS, EpochDefinition("count", 10)))) == 1


def test_a_parquet_column_that_is_missing_or_of_another_kind_is_an_input_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"ts": ["noon"], "v": [1]}), path)
    missing = request([path], "parquet", READINGS, EpochDefinition("count", 10))
    with pytest.raises(InputError, match=r"a\.parquet: has no column 'value'.*ts, v"):
        list(blocks_of(units_of(missing)[0], missing.format, missing.schema))
    schema = pa.schema([("ts", pa.int64())])
    with pytest.raises(InputError, match=r"column 'ts' is string and can't be read as int64"):
        list(blocks_of(units_of(missing)[0], missing.format, schema))
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(InputError, match=r"a\.parquet: can't be read as Parquet"):
        list(blocks_of(units_of(missing)[0], missing.format, schema))


def test_small_files_share_a_task_and_a_task_is_bounded(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:04d}.txt" for number in range(600)]
    for path in paths:
        path.write_text("a\n")
    made = request(paths, "text", TEXT, EpochDefinition("count", 10))
    tasks = tasks_of(units_of(made), made)
    assert [len(task) for task in tasks] == [256, 256, 88]
    assert [unit.file for task in tasks for unit in task] == list(range(600))


def test_lower_bounds_agree_with_counting() -> None:
    generator = np.random.default_rng(2)
    rows = sorted({tuple(row) for row in generator.integers(0, 6, (150, 3)).tolist()})
    columns = np.array(rows, dtype=np.int64).T
    keys = SortKeys(columns[0], columns[1], columns[2])
    for bound in generator.integers(-1, 7, (60, 3)).tolist():
        expected = sum(row < tuple(bound) for row in rows)
        assert keys.lower_bound(SortKey(*bound)) == expected


def test_keys_to_merge_by_are_in_the_order_of_the_values() -> None:
    floats = [float("-inf"), -2.5, -1e-300, -0.0, 0.0, 1e-300, 3.0, float("inf")]
    keys, usable = merge_keys(pa.array([*floats, None, float("nan")]), "v")
    assert usable.tolist() == [True] * 8 + [False] * 2
    assert sorted(keys[:8].tolist()) == keys[:8].tolist()
    assert keys[3] == keys[4]
    assert len(set(keys[:8].tolist())) == 7
    unsigned, _ = merge_keys(pa.array([0, 2**63, 2**64 - 1], pa.uint64()), "v")
    assert sorted(unsigned.tolist()) == unsigned.tolist()
    with pytest.raises(InputError, match="merge_by column 'v' has type string"):
        merge_keys(pa.array(["a"]), "v")


def test_rows_out_of_order_and_dead_ones_follow_the_row_before() -> None:
    keys = np.array([0, 5, 3, 9, 7])
    usable = np.array([False, True, True, False, True])
    assert running_maximum(keys, usable, 4).tolist() == [4, 5, 5, 5, 7]


def test_times_that_are_missing_or_beyond_all_clocks_are_unusable() -> None:
    times, usable = event_times(pa.array([1, None, 2**62, -(2**62)]), "s")
    assert usable.tolist() == [True, False, False, False]
    assert times[0] == 1_000_000
    stamps = pa.array([1, None], pa.timestamp("ms"))
    times, usable = event_times(stamps, "us")
    assert (times[0], usable.tolist()) == (1000, [True, False])


@pytest.mark.parametrize("step", [1, 3, 10, 1000])
def test_cells_share_each_epoch_evenly_however_ranks_are_cut(step: int) -> None:
    by_count = EpochTable.of_count(3, 25, 10)
    by_time = EpochTable.of_time(3, np.array([-4, 0, 9]), np.array([10, 10, 5]))
    for table, numbers in ((by_count, [0, 1, 2]), (by_time, [-4, 0, 9])):
        found = [
            (run.epoch, run.partition)
            for rank in range(0, 25, step)
            for run in table.runs(rank, min(step, 25 - rank))
            for _ in range(run.start, run.stop)
        ]
        share = [0] * 3 + [1] * 3 + [2] * 4
        expected = [(epoch, part) for epoch in numbers[:2] for part in share]
        assert found == expected + [(numbers[2], part) for part in (0, 1, 1, 2, 2)]


def test_overlapping_chunks_are_merged_into_ranges_that_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streammine.pipeline.staging.CHUNK_ROWS", 50)
    monkeypatch.setattr("streammine.pipeline.staging.RUN_BYTES", 10_000)
    monkeypatch.setattr("streammine.pipeline.merging.GATHER_BYTES", 3_000)
    monkeypatch.setattr("streammine.pipeline.chunk_index.RANGE_ROWS", 700)
    monkeypatch.setattr(raw_files, "BLOCK_BYTES", 2_000)
    generator = np.random.default_rng(3)
    times = generator.integers(0, 900, (3, 1_000))
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    for path, row in zip(paths, times.tolist(), strict=True):
        path.write_text("".join(json.dumps({"ts": ts, "value": ts / 3}) + "\n" for ts in row))
    made = request(paths, "json", READINGS, EpochDefinition("time", 60_000_000, "ts"))
    folder = Folder(str(tmp_path))
    staged = [
        stage((unit,), made, folder, f"staged-{unit.file}", f"dead-{unit.file}")
        for unit in units_of(made)
    ]
    index = ChunkIndex.of([each.chunks for each in staged])
    bounds = [None, *index.bounds(), None]
    assert len(bounds) > 4
    rows = []
    for lower, upper in pairwise(bounds):
        merge = RangeMerge(index, folder, ("staged-0", "staged-1", "staged-2"), lower, upper)
        assert merge.first_rank() == len(rows)
        for table in merge.tables():
            keys = sort_keys(table)
            rows.extend(zip(keys.key.tolist(), keys.file.tolist(), keys.row.tolist(), strict=True))
    expected = sorted(
        (ts * 1_000_000, file, row)
        for file, line in enumerate(times.tolist())
        for row, ts in enumerate(line)
    )
    assert rows == expected
    assert sum(int(each.rows.sum()) for each in staged) == 3_000


def test_equal_rows_have_equal_bytes_whatever_lies_under_their_nulls() -> None:
    schema = pa.schema(
        [("number", pa.int64()), ("flag", pa.bool_()), ("word", pa.string()), ("all", pa.int32())]
    )

    def batch(garbage: int, before: int) -> pa.RecordBatch:
        valid = [*[True] * before, True, False, True]
        mask = pa.array(np.packbits(valid, bitorder="little")).buffers()[1]
        numbers = np.array([*[9] * before, 1, garbage, 3])
        number = pa.Array.from_buffers(pa.int64(), 3 + before, [mask, pa.py_buffer(numbers)])
        flag = pa.array([*[True] * before, True, None, False])
        word = pa.array([*["x"] * before, "a", None, "ccc"])
        nothing = pa.array([None] * (3 + before), pa.int32())
        columns = [number[before:], flag[before:], word[before:], nothing[before:]]
        table = pa.table(columns, schema=schema)
        [made] = canonical_batches(table, schema)
        assert made.to_pydict() == table.to_pydict()
        return made

    def digest(made: pa.RecordBatch) -> str:
        return xxhash.xxh3_64(made.serialize().to_pybytes()).hexdigest()

    assert digest(batch(0, 0)) == digest(batch(77, 0)) == digest(batch(-1, 5))
