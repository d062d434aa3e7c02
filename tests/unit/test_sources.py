"""Sources give the same rows, epochs and positions however they are sliced and portioned."""

from __future__ import annotations

import bz2
import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine.model.durations import Rate
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.errors import InputError, TopologyError
from streammine.model.source_contracts import Delivery, SourceReader
from streammine.model.topology.sources import FilesSource, GeneratorSource, LogSource
from streammine.operators.generators import Keys, Readings, Words, word_of_rank
from streammine.runtime.sources import open_reader, resolve_source
from streammine.runtime.sources.pace import LINGER_SECONDS, Pace
from tests.unit.epoch_logs import write_log
from tests.unit.source_reading import COUNT, SCHEMA, TIME, assert_independent, read_source


def files(pattern: str, **settings: Any) -> FilesSource:
    return FilesSource.model_validate({"files": pattern, "prepare": "none", **settings})


def write_parquet(path: Path, ts: list[int | None], group: int = 30) -> None:
    table = pa.table({"ts": pa.array(ts, pa.int64()), "v": np.arange(len(ts)) / 4})
    pq.write_table(table, path, row_group_size=group)


def jittered(first: int, count: int, jitter: int = 0, seed: int = 3) -> list[int | None]:
    random = np.random.default_rng(seed)
    times: list[int | None] = (
        first + np.arange(count) // 3 + random.integers(-jitter, jitter + 1, count)
    ).tolist()
    return times


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


def generator(name: str, rows: int, rate: str | None = None, **settings: Any) -> GeneratorSource:
    document = {"generator": name, "rows": rows, "with": settings}
    return GeneratorSource.model_validate(document if rate is None else document | {"rate": rate})


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


def together(readers: list[SourceReader]) -> Iterator[tuple[float, list[int], int]]:
    """Reads in the slices' own time. Gives, after each read, when it was, the open epochs of the slices that
    are not exhausted, and how many rows it gave."""
    wakes = dict.fromkeys(range(len(readers)), 0.0)
    open_epochs = dict.fromkeys(wakes, 0)
    while wakes:
        index = min(wakes, key=wakes.__getitem__)
        now = wakes[index]
        delivery = readers[index].read(65_536, now)
        if delivery.open_epoch > BEGINNING:
            open_epochs[index] = delivery.open_epoch
        if delivery.exhausted:
            del wakes[index], open_epochs[index]
        elif delivery.wake_after_seconds is not None:
            wakes[index] += delivery.wake_after_seconds + 1e-4
        yield now, list(open_epochs.values()), delivery.rows_read


class TestPace:
    def test_rows_come_when_they_are_due(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("".join(f"{row}\n" for row in range(100)))
        source = files("a.txt", rate="10/s")
        epoch = EpochDefinition("count", 5)
        resolved = resolve_source("s", source, epoch, str(tmp_path))
        reader = open_reader(resolved, source, epoch, 0, 1, None)

        def rows(delivery: Delivery) -> int:
            return sum(piece.batch.num_rows for piece in delivery.pieces)

        first = reader.read(1000, 0.0)
        assert (rows(first), first.open_epoch) == (1, 0)
        assert first.wake_after_seconds == pytest.approx(0.1)
        assert rows(reader.read(1000, 0.05)) == 0
        fourth = reader.read(1000, 0.4)
        assert (rows(fourth), fourth.open_epoch) == (4, 1), "the epoch end does not wait for row 5"
        assert rows(reader.read(3, 5.0)) == 3, "no more than was asked for"
        last = reader.read(1000, 60.0)
        assert rows(last) == 92
        assert reader.read(1000, 60.0).exhausted

    @pytest.mark.parametrize("kind", ["count", "time", "log"])
    def test_an_epoch_that_ends_soon_leaves_as_a_whole(
        self, kind: Literal["count", "time", "log"], tmp_path: Path
    ) -> None:
        """Three rows a millisecond apart are an epoch."""
        epoch = EpochDefinition("count", 3)
        if kind == "time":
            epoch = EpochDefinition("time", 3_000_000, "ts")
        source: Any = files("a.parquet", rate="1000/s")
        write_parquet(tmp_path / "a.parquet", [*range(30)], 30)
        if kind == "log":
            rows = dict.fromkeys(range(10), 3)
            write_log(tmp_path / "log", 1, rows, dead=False, definition=epoch)
            source = LogSource.model_validate({"log": "log", "rate": "1000/s"})
        resolved = resolve_source("s", source, epoch, str(tmp_path))
        reader = open_reader(resolved, source, epoch, 0, 1, None)

        def read(now: float) -> tuple[int, int, float]:
            rows, told = 0, BEGINNING
            while True:
                delivery = reader.read(1000, now)
                rows += delivery.rows_read
                told = max(told, delivery.open_epoch)
                if delivery.wake_after_seconds is not None:
                    return rows, told, delivery.wake_after_seconds

        assert read(0.0041) == (3, 1, pytest.approx(LINGER_SECONDS)), "rows 3 and 4 wait for row 5"
        assert read(0.0045) == (0, 1, pytest.approx(LINGER_SECONDS))
        assert read(0.0055) == (3, 2, pytest.approx(0.0025))

    def test_slices_keep_one_pace_together(self, tmp_path: Path) -> None:
        write_parquet(tmp_path / "a.parquet", jittered(0, 100), group=10)
        source = files("a.parquet", rate="600/min")
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        total = 0
        for index in range(2):
            reader = open_reader(resolved, source, COUNT, index, 2, None)
            while not (delivery := reader.read(1000, 4.45)).wake_after_seconds:
                total += delivery.rows_read
            total += delivery.rows_read
        assert total == 45

    @pytest.mark.parametrize(
        ("rate", "rows"),
        [
            ((1, 1), 1),
            ((100, 1), 5),
            ((1, 60), 1),
            ((9600, 1), 480),
            ((600_000, 60), 500),
            ((10**9, 1), 50_000_000),
        ],
    )
    def test_a_turn_is_of_about_50_milliseconds(self, rate: tuple[int, int], rows: int) -> None:
        assert Pace.of_rows(Rate(*rate)).turn_rows == rows

    def test_blocks_are_never_longer_than_without_a_pace(self, tmp_path: Path) -> None:
        for rate, rows in ((None, 65_536), ("9600/s", 480), ("1000000000/s", 65_536)):
            source = generator("keys", 200_000, rate)
            resolved = resolve_source("s", source, COUNT, str(tmp_path))
            reader = open_reader(resolved, source, COUNT, 0, 2, None)
            assert reader.read(200_000, 1e6).rows_read == rows
            second = open_reader(resolved, source, COUNT, 1, 2, None).read(1, 1e6)
            assert second.pieces[0].row == rows

    @pytest.mark.parametrize("rate", [None, "1000/s", "300/s"])
    @pytest.mark.parametrize("late_seconds", [0.0, 0.1, 100.0])
    def test_no_slice_of_a_generator_tells_of_epochs_behind_the_last_row(
        self, rate: str | None, late_seconds: float, tmp_path: Path
    ) -> None:
        # or what leaves at the end of the input left in an epoch that depends on the pace and the clock
        source = generator("keys", 100, rate)
        epoch = EpochDefinition("count", 10)
        resolved = resolve_source("s", source, epoch, str(tmp_path))
        for index in range(2):
            reader = open_reader(resolved, source, epoch, index, 2, None)
            told, now = BEGINNING, 0.0
            while not (delivery := reader.read(65_536, now)).exhausted:
                told = max(told, delivery.open_epoch)
                now += late_seconds + (delivery.wake_after_seconds or 0.0)
            assert told <= 9

    @pytest.mark.parametrize("slices", [2, 3])
    @pytest.mark.parametrize("per_second", [3, 100, 9600])
    @pytest.mark.parametrize("kind", ["count", "time"])
    def test_slices_of_a_generator_stay_together(
        self, kind: Literal["count", "time"], per_second: int, slices: int, tmp_path: Path
    ) -> None:
        epoch = EpochDefinition("count", 1)  # each row is one
        if kind == "time":
            epoch = EpochDefinition("time", 1_000_000, "ts")
        source = generator("keys", 10 * per_second, f"{per_second}/s", per_second=1)
        resolved = resolve_source("s", source, epoch, str(tmp_path))
        readers = [
            open_reader(resolved, source, epoch, each, slices, None) for each in range(slices)
        ]
        block = Pace.of_rows(Rate(per_second)).turn_rows
        apart = 0 if kind == "count" else (slices + 1) * block
        rows = calls = 0
        for now, open_epochs, rows_read in together(readers):
            calls += 1
            rows += rows_read
            due = int(now * per_second)
            assert all(due - block - 1 <= each <= due + 1 + apart for each in open_epochs)
        assert rows == 10 * per_second
        # a wake for each row, or each linger, and a look at each block when the one before is over
        wakes = min(rows, 10 / LINGER_SECONDS) * (slices if kind == "count" else 1)
        assert calls <= wakes + 2 * (rows // block + slices)

    @pytest.mark.parametrize("slices", [2, 3])
    @pytest.mark.parametrize("kind", ["count", "time"])
    @pytest.mark.parametrize("stored", ["one file", "files", "log"])
    def test_slices_of_files_stay_together(
        self, stored: str, kind: Literal["count", "time"], slices: int, tmp_path: Path
    ) -> None:
        count, per_second = 600, 100
        # epochs of time are shorter and shorter
        times = [row * row // 200 for row in range(count)]
        epochs = [row // 10 for row in range(count)]
        epoch = EpochDefinition("count", 10)
        if kind == "time":
            epoch = EpochDefinition("time", 50_000_000, "ts")
            epochs = [time // 50 for time in times]
        if stored == "log":
            # of most epochs the second partition has nothing
            rows = {each: 40 if each % 20 == 0 else 1 for each in range(200)}
            write_log(tmp_path / "log", 2, rows, dead=False, definition=epoch)
            epochs = [each for each, number in rows.items() for _ in range(number)]
            source: Any = LogSource.model_validate({"log": "log", "rate": f"{per_second}/s"})
        else:
            cut = count if stored == "one file" else 250
            write_parquet(tmp_path / "a.parquet", times[:cut], 60)
            if times[cut:]:
                write_parquet(tmp_path / "b.parquet", times[cut:], 60)
            source = files("*.parquet", rate=f"{per_second}/s")
        resolved = resolve_source("s", source, epoch, str(tmp_path))
        readers = [
            open_reader(resolved, source, epoch, each, slices, None) for each in range(slices)
        ]
        total = 0
        for now, open_epochs, rows_read in together(readers):
            total += rows_read
            for each in open_epochs:
                late, early = now - LINGER_SECONDS - 1e-3, now + 1e-3
                first, last = (int(when * per_second) + 1 for when in (late, early))
                assert each >= epochs[max(0, min(first, len(epochs) - 1))]
                assert each <= epochs[min(last, len(epochs) - 1)]
        assert total == len(epochs)

    @pytest.mark.parametrize("per_second", [1, 100, 9600, 200_000])
    def test_a_slice_that_is_behind_reads_few_times_a_block(
        self, per_second: int, tmp_path: Path
    ) -> None:
        source = generator("keys", 4 * per_second, f"{per_second}/s")
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        reader = open_reader(resolved, source, COUNT, 1, 2, None)
        blocks = -(-2 * per_second // Pace.of_rows(Rate(per_second)).turn_rows)
        calls = 1
        while not reader.read(65_536, 0.0, INFINITY).exhausted:
            calls += 1
        assert calls <= blocks + 1

    @pytest.mark.parametrize("kind", ["count", "time"])
    def test_rows_of_epochs_that_were_given_already_do_not_wait(
        self, kind: Literal["count", "time"], tmp_path: Path
    ) -> None:
        epoch = COUNT if kind == "count" else EpochDefinition("time", 2_000_000, "ts")
        write_parquet(tmp_path / "a.parquet", jittered(0, 600, 0 if kind == "count" else 1), 10)
        source = files("a.parquet", rate="10/s", lateness="5s")
        expected = read_source(source, epoch, tmp_path, 2, now=1e9)
        given: dict[int, Counter[int]] = {0: Counter(), 1: Counter()}
        resolved = resolve_source("s", source, epoch, str(tmp_path))
        for index, of_slice in given.items():
            reader = open_reader(resolved, source, epoch, index, 2, None)
            while not (delivery := reader.read(7, 0.01, 3)).wake_after_seconds:
                assert delivery.open_epoch <= 3
                for piece in delivery.pieces:
                    of_slice[piece.epoch] += piece.batch.num_rows
            assert delivery.open_epoch <= 3
            assert delivery.wake_after_seconds > 0.3, "what was not given waits for its time"
        epochs = Counter(row[0] for row in expected.rows)
        for each in range(3):
            assert sum(of_slice[each] for of_slice in given.values()) == epochs[each]
