"""Sources give the same rows, epochs and positions however they are sliced and portioned."""

from __future__ import annotations

import bz2
import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine.model.epochs import INFINITY, EpochDefinition
from streammine.model.errors import InputError, TopologyError
from streammine.model.topology.sources import FilesSource
from streammine.operators.generators import Keys, Readings, Words, word_of_rank
from streammine.runtime.sources import open_reader, resolve_source
from tests.unit.source_reading import (
    COUNT,
    SCHEMA,
    TIME,
    assert_independent,
    files,
    generator,
    jittered,
    read_source,
    write_parquet,
)


class TestParquet:
    def test_count_epochs_run_over_all_files_in_path_order(self, tmp_path: Path) -> None:
        write_parquet(tmp_path / "b.parquet", jittered(0, 100))
        write_parquet(tmp_path / "a.parquet", jittered(0, 155))
        read = assert_independent(files("*.parquet"), COUNT, tmp_path)
        assert [row[:3] for row in read.rows] == [
            ((155 * file + row) // 70, file, row)
            for file, count in ((0, 155), (1, 100))
            for row in range(count)
        ]

    @pytest.mark.parametrize("statistics", [True, False])
    def test_lateness_is_judged_over_the_whole_file(self, tmp_path: Path, statistics: bool) -> None:
        times = jittered(100, 200, jitter=12)
        times[50] = None
        table = pa.table({"ts": pa.array(times, pa.int64()), "v": np.arange(200) / 4})
        path = tmp_path / "a.parquet"
        pq.write_table(table, path, row_group_size=30, write_statistics=statistics)
        read = assert_independent(files("a.parquet", lateness="5s"), TIME, tmp_path)
        latest = -(10**9)
        late = []
        for row, time in enumerate(times):
            if time is None:
                continue
            if time // 10 < (latest - 5) // 10:
                late.append(row)
            latest = max(latest, time)
        assert late
        assert [number for _, number, _ in read.dead] == sorted([*late, 50])
        reasons = {number: reason for _, number, reason in read.dead}
        assert reasons[50] == "event time column 'ts' is missing"
        assert reasons[late[0]].startswith("late: ")
        assert {row[2]: row[0] for row in read.rows} == {
            row: time // 10
            for row, time in enumerate(times)
            if time is not None and row not in late
        }

    def test_epoch_ends_are_known_before_the_next_row_group_is_read(self, tmp_path: Path) -> None:
        # Row groups of 30 rows at 3 rows a second: each covers 10 s, one epoch.
        write_parquet(tmp_path / "a.parquet", jittered(0, 120))
        source = files("a.parquet")
        resolved = resolve_source("s", source, TIME, str(tmp_path))
        reader = open_reader(resolved, source, TIME, 0, 2, None)
        first = reader.read(1000, 0.0)
        assert [piece.epoch for piece in first.pieces] == [0]
        assert first.open_epoch == 2, "the slice's next row group is the third"
        second = reader.read(1000, 0.0)
        assert second.exhausted
        assert second.open_epoch == INFINITY

    def test_columns_are_selected_and_cast(self, tmp_path: Path) -> None:
        write_parquet(tmp_path / "a.parquet", [1, 2, 3_000_000_000])
        source = files("a.parquet", schema={"v": "float32", "ts": "int32"})
        read = read_source(source, COUNT, tmp_path, columns=["ts"])
        assert [row[3] for row in read.rows] == [(1,), (2,)]
        assert [(number, "int32" in reason) for _, number, reason in read.dead] == [(2, True)]
        assert len(read_source(source, COUNT, tmp_path, columns=[]).rows) == 2

    def test_files_are_interleaved_by_a_column(self, tmp_path: Path) -> None:
        assert_merged(tmp_path, "parquet")


def assert_merged(base: Path, kind: str) -> None:
    contents: list[list[int]] = [[1, 2, 2, 9, 9], [2, 2, 1, 3, 10], [0, 9, 9, 9]]
    for number, times in enumerate(contents):
        if kind == "parquet":
            write_parquet(base / f"{number}.parquet", list(times), group=2)
        else:
            lines = [f"{time},{number}.5" for time in times]
            (base / f"{number}.csv").write_text("ts,v\n" + "\n".join(lines))
    # A row out of order (the 1 behind two 2) comes right behind the one before it.
    keys = [
        (max(times[: row + 1]), file, row)
        for file, times in enumerate(contents)
        for row in range(len(times))
    ]
    # Where a row stands in the merged order is its position.
    expected = [
        (place // 3, 0, place, contents[file][row])
        for place, (_, file, row) in enumerate(sorted(keys))
    ]
    source = files(f"*.{kind}", merge_by="ts", **({} if kind == "parquet" else {"schema": SCHEMA}))
    read = assert_independent(source, EpochDefinition("count", 3), base)
    assert [(*row[:3], row[3][0]) for row in read.rows] == expected


class TestDelimited:
    def test_text_lines_of_several_files_are_numbered_through(self, tmp_path: Path) -> None:
        for name, count in (("a.txt", 100), ("b.txt.gz", 50)):
            data = "".join(f"line {number}\n" for number in range(count)).encode()
            (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        read = assert_independent(files("*.txt*", format="text"), COUNT, tmp_path)
        assert [row[:3] for row in read.rows[99:101]] == [(1, 0, 99), (1, 1, 0)]
        assert read.rows[149][3] == ("line 49",)

    def test_a_malformed_row_keeps_its_number_and_is_dead(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("ts,v\n1,1\nx,2\n3\n4,4\n")
        source = files("a.csv", schema=SCHEMA)
        read = assert_independent(source, EpochDefinition("count", 2), tmp_path)
        assert [row[:3] for row in read.rows] == [(0, 0, 0), (1, 0, 3)]
        assert [number for _, number, _ in read.dead] == [1, 2]

    def test_dead_rows_count_in_the_merged_order(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("ts,v\nx,1\n5,1\nx,1\n,1\n7,1\n")
        (tmp_path / "b.csv").write_text("ts,v\n5,1\n6,1\n")
        read = assert_independent(
            files("*.csv", schema=SCHEMA, merge_by="ts"), EpochDefinition("count", 1), tmp_path
        )
        # a0 first, then all of 5 by position: a1, its dead a2 and a3, b0; then b1, a4.
        assert [row[:3] for row in read.rows] == [(1, 0, 1), (4, 0, 4), (5, 0, 5), (6, 0, 6)]
        assert [row[3][0] for row in read.rows] == [5, 5, 6, 7]
        path = str(tmp_path / "a.csv")
        assert read.dead_epochs == [(path, 0, 0), (path, 2, 2), (path, 3, 3)]

    def test_files_are_interleaved_by_a_column(self, tmp_path: Path) -> None:
        assert_merged(tmp_path, "csv")

    @pytest.mark.parametrize("overlapping", [True, False])
    def test_time_epochs_close_when_every_file_has_passed(
        self, tmp_path: Path, overlapping: bool
    ) -> None:
        for number in range(3):
            times = jittered(0 if overlapping else 100 * number, 300, jitter=3, seed=number)
            rows = "\n".join(f'{{"ts": {time}, "v": 1}}' for time in times)
            (tmp_path / f"{number}.json").write_text(rows)
        read = assert_independent(files("*.json", schema=SCHEMA), TIME, tmp_path)
        assert len(read.rows) + len(read.dead) == 900
        assert read.dead
        assert all(reason.startswith("late: ") for _, _, reason in read.dead)

    def test_truncated_gzip_names_the_file_and_the_rows_before(self, tmp_path: Path) -> None:
        random = np.random.default_rng(1)
        lines = [f"{number}" for number in random.integers(0, 10**9, 20_000)]
        whole = gzip.compress("\n".join(lines).encode())
        (tmp_path / "a.txt.gz").write_bytes(whole[: len(whole) // 2])
        source = files("a.txt.gz")
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        reader = open_reader(resolved, source, COUNT, 0, 1, None)
        seen: list[str] = []

        def read_on() -> None:
            while True:
                for piece in reader.read(5000, 0.0).pieces:
                    seen.extend(piece.batch.column(0).to_pylist())

        with pytest.raises(InputError, match=r"a\.txt\.gz: .* after ([\d,]+) whole rows") as raised:
            read_on()
        assert f"{len(seen):,} whole rows" in str(raised.value)
        assert len(seen) > 5000
        assert seen == lines[: len(seen)]

    def test_damaged_gzip_is_an_input_error(self, tmp_path: Path) -> None:
        data = bytearray(gzip.compress(b"some text\n" * 1000))
        data[len(data) // 2] ^= 0xFF
        (tmp_path / "a.txt.gz").write_bytes(data)
        with pytest.raises(InputError, match=r"a\.txt\.gz"):
            read_source(files("a.txt.gz"), COUNT, tmp_path)

    @pytest.mark.parametrize("suffix", ["gz", "bz2", "zst"])
    def test_compressed_files_of_several_members(self, tmp_path: Path, suffix: str) -> None:
        compress = {
            "gz": gzip.compress,
            "bz2": bz2.compress,
            "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
        }[suffix]
        (tmp_path / f"a.txt.{suffix}").write_bytes(compress(b"a\nb") + compress(b"c\nd\n"))
        read = read_source(files(f"a.txt.{suffix}"), COUNT, tmp_path)
        assert [row[3][0] for row in read.rows] == ["a", "bc", "d"]


class TestFinding:
    def test_an_empty_glob_and_a_missing_file_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"'\*\.txt' matches no file"):
            resolve_source("s", files("*.txt"), COUNT, str(tmp_path))
        with pytest.raises(InputError, match=r"gone\.txt: no such file"):
            resolve_source("s", files("gone.txt"), COUNT, str(tmp_path))
        (tmp_path / "folder.txt").mkdir()
        with pytest.raises(InputError, match="is a folder"):
            resolve_source("s", files("folder.txt"), COUNT, str(tmp_path))

    @pytest.mark.parametrize("kind", ["csv", "json", "text"])
    @pytest.mark.parametrize(
        ("suffix", "compress"),
        [
            ("gz", gzip.compress),
            ("bz2", bz2.compress),
            ("zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
        ],
    )
    def test_a_compressed_file_must_be_named_so(
        self, tmp_path: Path, kind: Any, suffix: str, compress: Any
    ) -> None:
        (tmp_path / "a.part").write_bytes(compress(b"line\nx\n"))
        schema = {} if kind == "text" else {"schema": {"line": "string"}}
        source = files("a.part", format=kind, **schema)
        with pytest.raises(
            InputError, match=rf"a\.part: is compressed .+ let it end in \.{suffix}"
        ):
            resolve_source("s", source, COUNT, str(tmp_path))

    def test_of_several_csv_files_some_may_be_empty(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_bytes(b"")
        (tmp_path / "b.csv").write_bytes(b"ts,v\n1,2\n3,4\n")
        (tmp_path / "c.csv").write_bytes(b"\n")
        settings: dict[str, Any] = {"schema": {"ts": "int64", "v": "int64"}}
        read = read_source(files("*.csv", **settings), COUNT, tmp_path)
        assert [row[3] for row in read.rows] == [(1, 2), (3, 4)]
        for name in "ac":
            with pytest.raises(InputError, match=rf"{name}\.csv: empty, expected a line"):
                resolve_source("s", files(f"{name}.csv", **settings), COUNT, str(tmp_path))

    def test_a_file_named_twice_is_read_once(self, tmp_path: Path) -> None:
        for name in "ba":
            (tmp_path / f"{name}.txt").write_text("x\n")
        source = FilesSource.model_validate({"files": ["b.txt", "*.txt"], "prepare": "none"})
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        assert [Path(path).name for path in resolved.files] == ["a.txt", "b.txt"]

    def test_urls_are_globbed_like_paths(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        for name in ("a.txt", "sub/b.txt", "c.csv"):
            (tmp_path / name).write_text("x\n")
        flat = read_source(files(f"file://{tmp_path}/*.txt"), COUNT, tmp_path)
        deep = read_source(files(f"file://{tmp_path}/**/*.txt"), COUNT, tmp_path)
        assert (len(flat.rows), len(deep.rows)) == (1, 2)

    def test_wrong_columns_are_refused_before_anything_starts(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("time,v\n1,2\n")
        base = str(tmp_path)
        with pytest.raises(TopologyError, match=r"no column 'ts'.*its columns are time, v"):
            resolve_source("s", files("a.csv", schema=SCHEMA), COUNT, base)
        (tmp_path / "b.csv").write_text('{"time": 1, "v": 2}\n')
        with pytest.raises(TopologyError, match=r"looks like JSON: is `format: json` meant\?"):
            resolve_source("s", files("b.csv", schema={"time": "int64"}), COUNT, base)
        with pytest.raises(TopologyError, match="no column 'ts', which is the epoch's time"):
            resolve_source("s", files("a.csv", schema={"time": "int64"}), TIME, base)
        wrong = files("a.csv", schema={"time": "string"}, merge_by="time")
        with pytest.raises(TopologyError, match="which is merge_by, has type string"):
            resolve_source("s", wrong, COUNT, base)


class TestGenerated:
    @pytest.mark.parametrize("name", ["words", "readings", "keys"])
    def test_slices_and_portions_change_nothing(self, name: str, tmp_path: Path) -> None:
        source = generator(name, 150_000)
        epoch = EpochDefinition("count", 40_000)
        expected = read_source(source, epoch, tmp_path, 1, 65_536)
        for slices, portion in ((2, 65_536), (3, 9999)):
            assert read_source(source, epoch, tmp_path, slices, portion).rows == expected.rows
        assert Counter(row[0] for row in expected.rows) == {
            0: 40_000,
            1: 40_000,
            2: 40_000,
            3: 30_000,
        }

    def test_time_epochs_of_generated_rows(self, tmp_path: Path) -> None:
        source = generator("keys", 140_000, per_second=1000)
        read = read_source(source, TIME, tmp_path, 2)
        assert Counter(row[0] for row in read.rows) == dict.fromkeys(range(14), 10_000)

    @pytest.mark.parametrize("epoch", [COUNT, TIME], ids=["count", "time"])
    def test_the_length_of_blocks_changes_nothing(
        self, epoch: EpochDefinition, tmp_path: Path
    ) -> None:
        settings = {"per_second": 7}
        expected = read_source(generator("keys", 600, **settings), epoch, tmp_path)
        for rate in ("1/s", "130/s", "2000/s", "1000000/s"):
            source = generator("keys", 600, rate, **settings)
            for slices, portion in ((1, 1000), (3, 7)):
                read = read_source(source, epoch, tmp_path, slices, portion, now=1e9)
                assert read.rows == expected.rows, (rate, slices)

    def test_any_stretch_of_rows_can_be_made_alone(self) -> None:
        for made in (Words(7, 500, 1.2), Readings(), Readings(properties=1), Keys(100, 1.0)):
            whole = made.rows(0, 1000, 5)
            assert made.rows(300, 450, 5).equals(whole.slice(300, 450))
            assert not made.rows(0, 1000, 6).equals(whole)
            assert whole.schema == made.schema

    def test_words_are_as_frequent_as_zipf_says(self) -> None:
        lines = Words(10, 100, 1.0).rows(0, 20_000, 1).column(0).to_pylist()
        words = Counter(word for line in lines for word in line.split(" "))
        assert sum(words.values()) == 200_000
        assert "" not in words
        harmonic = sum(1 / rank for rank in range(1, 101))
        for rank in (0, 1, 9, 99):
            share = words[word_of_rank(rank)] / 200_000
            assert share == pytest.approx(1 / (rank + 1) / harmonic, rel=0.1)

    def test_a_generator_of_the_users_own(self, tmp_path: Path) -> None:
        (tmp_path / "mine_source.py").write_text(
            "import pyarrow as pa\n"
            "class Orders:\n"
            "    schema = pa.schema([('ts', pa.int64())])\n"
            "    def __init__(self, step): self.step = step\n"
            "    def rows(self, first, count, seed):\n"
            "        values = [row * self.step + seed for row in range(first, first + count)]\n"
            "        return pa.record_batch([pa.array(values)], schema=self.schema)\n"
        )
        read = read_source(generator("mine_source:Orders", 100, step=2), TIME, tmp_path, 3)
        assert [row[3][0] for row in read.rows] == list(range(0, 200, 2))
        with pytest.raises(TopologyError, match="stride"):
            read_source(generator("mine_source:Orders", 100, stride=2), TIME, tmp_path)
