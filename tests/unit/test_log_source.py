"""A prepared epoch log as a source."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from streammine.model.epochs import INFINITY
from streammine.model.errors import InputError, TopologyError
from streammine.model.topology.sources import LogSource
from streammine.runtime.sources import open_reader, resolve_source
from tests.unit.epoch_logs import write_log
from tests.unit.source_reading import COUNT, TIME, Read, assert_independent, read_all


class TestLog:
    def test_partitions_are_read_in_step_by_epoch(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", partitions=3, epochs={0: 10, 1: 4, 5: 7})
        source = LogSource.model_validate({"log": "log"})
        read = assert_independent(source, COUNT, tmp_path)
        assert Counter(row[0] for row in read.rows) == {0: 10, 1: 4, 5: 7}
        assert read.dead == [("raw.csv", 3, "bad"), ("raw.csv", 9, "worse")]
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        reader = open_reader(resolved, source, COUNT, 1, 2, ["v"])
        seen = [reader.read(1000, 0.0) for _ in range(3)]
        assert [each.open_epoch for each in seen] == [1, 5, INFINITY]
        assert seen[0].pieces[0].batch.schema.names == ["v"]

    def test_a_paced_log_is_read_in_its_order(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", partitions=2, epochs={0: 10, 1: 4}, dead=False)
        source = LogSource.model_validate({"log": "log", "rate": "1/s"})
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        due = []
        for index in range(2):
            reader = open_reader(resolved, source, COUNT, index, 2, None)
            rows = 0
            while not (delivery := reader.read(1000, 6.5)).wake_after_seconds:
                rows += delivery.rows_read
                if delivery.exhausted:
                    break
            due.append(rows + delivery.rows_read)
        assert due == [5, 2], "rows 0 to 4 lie in partition 0, 5 and 6 in partition 1"

    @pytest.mark.parametrize("columns", [["v"], []])
    def test_times_come_with_the_rows_though_no_operator_reads_their_column(
        self, tmp_path: Path, columns: list[str]
    ) -> None:
        write_log(tmp_path / "log", partitions=2, epochs={-1: 10, 3: 4}, definition=TIME)
        source = LogSource.model_validate({"log": "log"})
        resolved = resolve_source("s", source, TIME, str(tmp_path))
        times: dict[tuple[int, int], int] = {}
        epochs: Counter[int] = Counter()
        for index in range(3):
            read = Read()
            read_all(open_reader(resolved, source, TIME, index, 3, columns), 4, read)
            for piece in (piece for each in read.deliveries for piece in each.pieces):
                assert len(piece.batch.schema.names) == 1, "the time is not handed out as a column"
                assert piece.batch.schema.names == columns or not columns
                assert piece.times is not None
                assert piece.rows is not None
                assert (TIME.of_time(piece.times) == piece.epoch).all()
                places = zip([piece.epoch] * len(piece.rows), piece.rows.tolist(), strict=True)
                times |= zip(places, piece.times.tolist(), strict=True)
                epochs[piece.epoch] += piece.batch.num_rows
        assert epochs == {-1: 10, 3: 4}
        first = {(-1, row): (row - 10) * 1_000_000 for row in range(10)}
        assert times == first | {(3, 10 + row): (30 + row) * 1_000_000 for row in range(4)}

    def test_a_log_of_other_epochs_is_refused(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", partitions=1, epochs={0: 10})
        source = LogSource.model_validate({"log": "log"})
        with pytest.raises(TopologyError, match="70 rows, the topology has 10 s of 'ts'"):
            resolve_source("s", source, TIME, str(tmp_path))
        with pytest.raises(InputError, match=r"manifest\.json"):
            resolve_source("s", LogSource.model_validate({"log": "gone"}), COUNT, str(tmp_path))
