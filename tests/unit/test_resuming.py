"""From a run that was interrupted to the job that goes on with it."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from replication import Term, publish_checkpoint
from replication.naming import SnapshotName, checkpoint_name
from streammine.assembly import load_run, write_snapshot
from streammine.model.contracts import FrozenSlice
from streammine.model.document import parse_topology
from streammine.model.errors import OutputError, TopologyError
from streammine.model.ids import SliceId
from streammine.model.job_codec import decode_spec
from streammine.model.manifest import Seal, SinkDescription, encode_seal
from streammine.model.recovery import Checkpoint
from streammine.model.snapshots import Restore, SnapshotRecord
from streammine.model.topology import Topology
from streammine.runtime.resuming import keep_run, resumed_submission
from streammine.runtime.run_folders import known_run, new_run
from streammine.runtime.stores import open_store
from streammine.runtime.submission import prepare_submission
from tests.unit.user_code_samples import LINES, Words

DOCUMENT = """\
name: words
epoch: {count: 5}
sources: {lines: {files: "*.parquet", prepare: none}}
operators: {longer: {input: lines, filter: "line != 'one'"}}
sinks:
  result: {input: longer, format: csv, path: out}
  shown: {input: longer, format: console}
"""


def sign(data):
    return b"signed by " + bytes(str(len(data)), "ascii")


def write(path, *lines):
    pyarrow.parquet.write_table(pa.table({"line": lines}), path)


class Place:
    """A folder with a topology, its input and one run of it."""

    def __init__(self, base: Path, text: str = DOCUMENT) -> None:
        self.base = base
        write(base / "a.parquet", "one", "two", "three")
        self.topology = self.parsed(text=text)
        self.run = new_run("words", base, None)
        self.spec = self.submitted(self.topology)
        keep_run(self.run, self.spec)

    def parsed(self, *changes, text=DOCUMENT):
        return parse_topology(text, "words.yaml", changes)

    def submitted(self, topology):
        return prepare_submission(
            topology, self.base, self.run.sinks, sign=sign, store=self.run.location
        ).spec

    def resumed(self, topology=None, **settings):
        topology = topology or self.topology
        return resumed_submission(topology, self.run, sign=sign, **settings).spec


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.run.close()


def test_without_a_checkpoint_all_is_as_it_was_but_the_generations(place):
    assert place.spec.recovery.first_generation == 1
    first = place.resumed()
    assert first.recovery.first_generation == 65_537
    assert replace(first, recovery=place.spec.recovery) == place.spec
    assert place.resumed().recovery.first_generation == 131_073


def test_it_goes_on_from_the_newest_checkpoint(place):
    def checkpoint(epoch):
        restores = {}
        for each in place.spec.graph.slices:
            name = SnapshotName(each, epoch, 1).header
            restores[str(each)] = Restore(epoch, SnapshotRecord(epoch, 1, name, "x", 3))
        return Checkpoint(epoch, restores)

    for epoch in (3, 9):
        publish_checkpoint(place.run.store, checkpoint(epoch), Term())
    assert place.resumed().recovery.resume == checkpoint(9).slices


EITHER = """\
name: words
epoch: {time: 1s, column: ts}
sources:
  east: {files: east.parquet, prepare: none, slices: 1}
  west: {files: west.parquet, prepare: none, slices: 1}
operators:
  lines: {either: [east, west]}
  counts: {input: lines, key: ts, aggregate: {count: count()}}
sinks: {result: {input: counts, format: csv, path: out}}
"""


def test_what_was_agreed_on_before_a_checkpoint_that_can_not_be_read_is_not_guessed(tmp_path):
    for name in ("east", "west"):
        pyarrow.parquet.write_table(pa.table({"ts": [1]}), tmp_path / f"{name}.parquet")
    place = Place(tmp_path, EITHER)
    try:
        assert place.resumed().recovery.resume == {}, "all that was decided is in the store"
        place.run.store.put(checkpoint_name(3, Term()), b"rotten")
        with pytest.raises(OutputError, match="What counts took of its receivers"):
            place.resumed()
    finally:
        place.run.close()


def test_a_pace_begins_with_the_row_that_the_slice_that_was_furthest_had_come_to(tmp_path):
    text = DOCUMENT.replace("prepare: none}", "prepare: none, rate: 10/s, slices: 3}")
    place = Place(tmp_path, text)
    store = place.run.store
    restores = {str(each): Restore(4, None, True) for each in place.spec.graph.slices}
    for index, number in enumerate((17, 25)):
        position = {"reader": {"number": number}, "rows_in": 9, "rows_dead": 0}
        slice_id = SliceId("lines", index)
        record = write_snapshot(store, slice_id, 1, FrozenSlice(4, 4, None, position), None)
        restores[str(slice_id)] = Restore(4, record)
    publish_checkpoint(store, Checkpoint(4, restores), Term())
    assert place.resumed().recovery.pace_begins == {"lines": 25}
    record = restores["lines/1"].record
    store.put(record.name, b"damaged")
    assert place.resumed().recovery.pace_begins == {"lines": 17}
    place.run.close()


def test_event_time_goes_on_for_all_sources_where_the_one_was_that_was_furthest(tmp_path):
    text = """\
name: words
epoch: {time: 10s, column: ts}
sources:
  slow: {files: times.parquet, prepare: none, speed: 2}
  fast: {files: times.parquet, prepare: none, speed: 5}
  quiet: {files: times.parquet, prepare: none, speed: 1}
sinks:
  a: {input: slow, format: console}
  b: {input: fast, format: console}
  c: {input: quiet, format: console}
"""
    pyarrow.parquet.write_table(pa.table({"ts": [50, 60, 70]}), tmp_path / "times.parquet")
    place = Place(tmp_path, text)
    first = dict.fromkeys(("slow", "fast", "quiet"), 50_000_000)
    assert place.spec.recovery.pace_begins == first
    restores = {str(each): Restore(4, None, True) for each in place.spec.graph.slices}
    for name, number in (("slow", 56_000_000), ("fast", 70_000_000)):
        position = {"reader": {"number": number}, "rows_in": 9, "rows_dead": 0}
        frozen = FrozenSlice(4, 4, None, position)
        record = write_snapshot(place.run.store, SliceId(name, 1), 1, frozen, None)
        restores[f"{name}/1"] = Restore(4, record)
    publish_checkpoint(place.run.store, Checkpoint(4, restores), Term())
    # `fast` has played 20 s in four seconds, more than the three of `slow`
    begins = {"slow": 58_000_000, "fast": 70_000_000, "quiet": 54_000_000}
    assert place.resumed().recovery.pace_begins == begins
    for name in ("slow/1", "fast/1"):
        place.run.store.put(restores[name].record.name, b"damaged")
    assert place.resumed().recovery.pace_begins == first
    place.run.close()


def test_a_manager_of_the_attempt_before_can_publish_nothing_more(place):
    made = Checkpoint(7, dict.fromkeys(map(str, place.spec.graph.slices), Restore(7, None, True)))
    publish_checkpoint(place.run.store, made, Term(0, 3))
    assert place.resumed().recovery.resume == made.slices
    with pytest.raises(OutputError, match="was replaced by manager 0 of attempt 1"):
        publish_checkpoint(place.run.store, replace(made, epoch=9), Term(0, 3))
    assert place.resumed().recovery.resume == made.slices


def test_files_that_came_later_are_no_part_of_it(place):
    write(place.base / "b.parquet", "four")
    assert place.resumed().sources == place.spec.sources


def test_the_number_of_nodes_may_be_another(place):
    assert place.resumed(nodes=5).nodes == 5
    assert place.resumed(place.parsed("nodes=7")).nodes == 7


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("epoch.count=6", "epoch.count"),
        ("operators.longer.filter=line != 'two'", "operators.longer"),
        ("snapshot.every=9s", "snapshot.every"),
    ],
)
def test_another_change_of_the_topology_is_refused_by_its_name(place, change, named):
    with pytest.raises(TopologyError) as caught:
        place.resumed(place.parsed(change))
    assert f"not that of run words-1: {named} changed" in str(caught.value)


def test_a_run_that_never_began_says_that_nothing_is_lost(place):
    place.run.store.delete("run.json")
    with pytest.raises(OutputError, match=r"run words-1 can't be resumed: .*nothing is lost"):
        place.resumed()


def test_a_sink_that_a_later_run_has_written_is_refused(place):
    store = open_store(place.spec.targets["result"].location)

    def seal(run):
        described = SinkDescription(job="words", sink="result", format="csv", schema=LINES)
        written = Seal(run, 1, None, described)
        store.put(written.name, encode_seal(written))

    seal(place.spec.targets["result"].run)
    place.resumed()
    seal(place.spec.targets["result"].run + 1)
    with pytest.raises(OutputError, match="sink 'result': a later run has written"):
        place.resumed()


def test_a_folder_that_was_moved_takes_its_console_output_along(place):
    moved = place.base / "elsewhere"
    place.run.close()
    Path(place.run.location).rename(moved)
    place.run = known_run(str(moved), place.base, None)
    resumed = place.resumed()
    assert resumed.recovery.store == str(moved)
    assert resumed.targets["shown"].location == str(moved / "sinks" / "shown")
    assert resumed.targets["result"] == place.spec.targets["result"]


def test_code_is_not_kept_and_comes_from_the_topology_again(tmp_path):
    write(tmp_path / "a.parquet", "one")
    topology = (
        Topology(name="mine", epoch={"count": 5})
        .source("lines", files="*.parquet", prepare="none")
        .operator("words", input="lines", operator=Words)
        .sink("result", input="words", format="csv", path="out")
    )
    run = new_run("mine", tmp_path, None)
    spec = prepare_submission(topology, tmp_path, run.sinks, sign=sign, store=run.location).spec
    assert set(spec.code) == {"words"}
    keep_run(run, spec)
    saved = decode_spec(load_run(run.store))
    assert (saved.code, saved.code_signature) == ({}, b"")
    resumed = resumed_submission(topology, run, sign=sign).spec
    assert (resumed.code, resumed.code_signature) == (spec.code, spec.code_signature)
    run.close()
