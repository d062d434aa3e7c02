"""Code of the user's own on real nodes: by module path, by value, with state, and when it is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, deque
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streammine
from streammine import Mapper, Operator, Reducer, Topology, Value
from streammine.model.errors import UserCodeError
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.signed_code import pickled, signed_message, value_loader

OWN_MODULE = '''
import numpy as np
import streammine


class Words(streammine.Mapper):
    output = {"word": "string"}
    needs = ("line",)

    def __init__(self, shortest=1):
        self.shortest = shortest

    def map(self, event):
        return [word for word in event.line.lower().split() if len(word) >= self.shortest]


class Count(streammine.Reducer):
    output = {"count": "int64"}

    def create(self):
        return 0

    def add(self, count, event):
        return count + 1

    def merge(self, left, right):
        return left + right

    def finish(self, key, count):
        return count


class Smoothed(streammine.Operator):
    """The mean of a plug's last three values: floats added up in the order of their events."""

    output = {"plug": "int64", "ts": "int64", "mean": "float64", "seen": "int64"}
    state = {"last": streammine.Queue(3), "seen": streammine.Value(0)}

    def process(self, key, event, state):
        state.last.append(event.value)
        state.seen += 1
        return key, event.ts, sum(state.last) / len(state.last), state.seen


class Fussy(streammine.Mapper):
    output = {"word": "string"}

    def map(self, event):
        if event.line.startswith("x"):
            raise ValueError("I don't like x")
        return event.line


class Favourite(streammine.Mapper):
    """A word of each line: which one depends on the order of a set."""

    output = {"word": "string"}

    def map(self, event):
        return next(iter(set(event.line.split())))


class ByFirstLetter:
    broadcast = False

    def targets(self, keys, slices):
        letters = [ord(word[0]) for word in keys[0].to_pylist()]
        return np.array(letters, dtype=np.int32) % np.int32(slices)
'''

LINES = [
    f"the quick fox {number % 7} jumps over The lazy dog {number % 11}" for number in range(500)
]
EPOCH_LINES = 100
READINGS = 3_000
EPOCH_READINGS = 500


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A topology's folder: own code beside two input files."""
    (tmp_path / "own.py").write_text(OWN_MODULE)
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    table = pa.table(
        {
            "ts": pa.array([1_000 + number // 4 for number in range(READINGS)], pa.int64()),
            "plug": pa.array([number * 7 % 13 for number in range(READINGS)], pa.int64()),
            "value": pa.array(
                [0.1 * (number % 97) + 1e10 * (number % 3) for number in range(READINGS)]
            ),
        }
    )
    pq.write_table(table, tmp_path / "readings.parquet")
    return tmp_path


def of_lines(name: str) -> Topology:
    return Topology(name=name, epoch={"count": EPOCH_LINES}).source(
        "lines", files="lines.txt", prepare="none"
    )


def counted(shortest: int = 1) -> Counter[tuple[int, str]]:
    counts: Counter[tuple[int, str]] = Counter()
    for number, line in enumerate(LINES):
        words = [word for word in line.lower().split() if len(word) >= shortest]
        counts.update((number // EPOCH_LINES, word) for word in words)
    return counts


def found(result: streammine.Result) -> dict[tuple[int, str], int]:
    rows = result.table("result").to_pylist()
    counts = {(row["epoch"], row["word"]): row["count"] for row in rows}
    assert len(counts) == len(rows)
    return counts


@pytest.mark.slow
def test_a_mapper_and_a_reducer_by_module_path_with_a_partitioner_of_the_users_own(
    folder: Path,
) -> None:
    topology = (
        of_lines("paths")
        .operator("words", input="lines", operator="own:Words", with_={"shortest": 4})
        .operator(
            "counts",
            input="words",
            key="word",
            operator="own:Count",
            partition="own:ByFirstLetter",
            slices=3,
        )
        .sink("result", input="counts", format="parquet", path="out")
    )
    before = psutil.Process().children(recursive=True)
    assert found(streammine.run(topology, base=folder)) == counted(shortest=4)
    assert set(psutil.Process().children(recursive=True)) <= set(before)


@pytest.mark.slow
def test_the_order_of_a_set_is_the_same_on_all_nodes_in_every_run(folder: Path) -> None:
    program = (
        "import json, sys; "
        "print(json.dumps([next(iter(set(line.split()))) for line in json.load(sys.stdin)]))"
    )
    alike = {**os.environ, "PYTHONHASHSEED": "0"}
    arguments: dict[str, Any] = {"capture_output": True, "check": True, "text": True}
    answer = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(LINES), env=alike, **arguments
    )
    expected = Counter(json.loads(answer.stdout))
    assert len(expected) > 1
    topology = of_lines("sets").operator("words", input="lines", operator="own:Favourite")
    topology = topology.sink("result", input="words", format="parquet", path="api")
    result = streammine.run(topology, base=folder)
    assert Counter(result.table("result")["word"].to_pylist()) == expected
    (folder / "sets.yaml").write_text(
        "epoch: {count: 100}\n"
        "sources: {lines: {files: lines.txt, prepare: none}}\n"
        "operators: {words: {input: lines, operator: 'own:Favourite'}}\n"
        "sinks: {result: {input: words, format: parquet, path: cli}}\n"
    )
    differently = {**os.environ, "PYTHONHASHSEED": "5"}
    command = [sys.executable, "-m", "streammine", "run", "sets.yaml", "--json"]
    told = subprocess.run(command, cwd=folder, env=differently, **arguments)
    assert json.loads(told.stdout)["output_digest"] == result.digest


@pytest.mark.slow
def test_classes_travel_by_value_and_combining_them_changes_nothing(folder: Path) -> None:
    shortest = 4

    class Words(Mapper):
        output: ClassVar[Any] = {"word": "string"}

        def map(self, event: Any) -> Any:
            return [word for word in event.line.lower().split() if len(word) >= shortest]

    class Count(Reducer):
        output: ClassVar[Any] = {"count": "int64"}

        def create(self) -> int:
            return 0

        def add(self, accumulator: int, event: Any) -> int:
            return accumulator + 1

        def merge(self, left: int, right: int) -> int:
            return left + right

        def finish(self, key: Any, accumulator: int) -> int:
            return accumulator

    digests = set()
    for combine in (None, False):
        topology = (
            of_lines("values")
            .operator("words", input="lines", operator=Words)
            .operator("counts", input="words", key="word", operator=Count, combine=combine)
            .sink("result", input="counts", format="parquet", path="out")
        )
        result = streammine.run(topology, base=folder)
        assert found(result) == counted(shortest=4)
        digests.add(result.digest)
    assert len(digests) == 1


@pytest.mark.slow
def test_an_instance_by_value_keeps_its_settings_and_its_state(folder: Path) -> None:
    class Changes(Operator):
        output: ClassVar[Any] = {"plug": "int64", "step": "float64"}
        state: ClassVar[Any] = {"last": Value(None)}

        def __init__(self, least: float) -> None:
            self.least = least

        def process(self, key: Any, event: Any, state: Any) -> Any:
            before, state.last = state.last, event.value
            if before is None or abs(event.value - before) < self.least:
                return None
            return key, event.value - before

    topology = (
        Topology(name="changes", epoch={"count": EPOCH_READINGS})
        .source("readings", files="readings.parquet", prepare="none")
        .operator("steps", input="readings", key="plug", operator=Changes(least=1e9))
        .sink("result", input="steps", format="parquet", path="out")
    )
    last: dict[int, float] = {}
    expected: Counter[tuple[int, float]] = Counter()
    for row in pq.read_table(folder / "readings.parquet").to_pylist():
        before = last.get(row["plug"])
        last[row["plug"]] = row["value"]
        if before is not None and abs(row["value"] - before) >= 1e9:
            expected[row["plug"], row["value"] - before] += 1
    rows = streammine.run(topology, base=folder).table("result").to_pylist()
    assert Counter((row["plug"], row["step"]) for row in rows) == expected


@pytest.mark.slow
def test_a_strict_operator_gives_one_digest_on_any_nodes_and_slices(folder: Path) -> None:
    last: dict[int, deque[float]] = {}
    seen: Counter[int] = Counter()
    expected = []
    for row in pq.read_table(folder / "readings.parquet").to_pylist():
        values = last.setdefault(row["plug"], deque(maxlen=3))
        values.append(row["value"])
        seen[row["plug"]] += 1
        mean = sum(values) / len(values)
        expected.append((row["plug"], row["ts"], mean, seen[row["plug"]]))

    digests = set()
    for nodes, source_slices, slices in ((1, 1, 1), (2, 2, 3), (3, 4, 2)):
        topology = (
            Topology(name="smoothed", epoch={"count": EPOCH_READINGS})
            .source("readings", files="readings.parquet", prepare="none", slices=source_slices)
            .operator(
                "means",
                input="readings",
                key="plug",
                operator="own:Smoothed",
                discipline="strict",
                slices=slices,
            )
            .sink("result", input="means", format="parquet", path="out", ordered=True)
        )
        result = streammine.run(topology, base=folder, nodes=nodes)
        rows = [tuple(row.values()) for row in result.table("result").to_pylist()]
        assert rows == expected
        digests.add(result.digest)
    assert len(digests) == 1


def fussy(on_error: str) -> Topology:
    return (
        of_lines("fussy")
        .operator("picked", input="lines", operator="own:Fussy", on_error=on_error)
        .sink("result", input="picked", format="parquet", path="out")
    )


@pytest.mark.slow
def test_an_exception_in_user_code_names_operator_epoch_event_and_line(folder: Path) -> None:
    lines = list(LINES)
    lines[250] = "x marks the spot"
    (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(streammine.JobFailedError) as failed:
        streammine.run(fussy("fail"), base=folder)
    message = str(failed.value)
    for part in ("picked", "Fussy.map", "I don't like x", "x marks the spot", "own.py"):
        assert part in message, message


@pytest.mark.slow
def test_events_that_user_code_fails_on_become_dead_letters_where_the_topology_says_so(
    folder: Path,
) -> None:
    lines = list(LINES)
    lines[250] = "x marks the spot"
    (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    result = streammine.run(fussy("dead_letter"), base=folder)
    assert result.table("result")["word"].to_pylist().count("x marks the spot") == 0
    assert result.table("result").num_rows == len(lines) - 1
    assert result.summary.events_dead == 1
    (letter,) = [
        json.loads(line)
        for file in streammine.output_files(folder / "out" / "dead-letters")
        for line in Path(file).read_text().splitlines()
    ]
    assert "I don't like x" in json.dumps(letter)
    assert "x marks the spot" in json.dumps(letter)


class Harmless(Mapper):
    output: ClassVar[Any] = {"line": "string"}

    def map(self, event: Any) -> Any:
        return event.line


def test_code_by_value_loads_with_the_clusters_signature() -> None:
    keys = ClusterKeys.create()
    code = pickled({"own": Harmless})
    load = value_loader(code, keys.sign(signed_message(code)), keys.verify)
    assert load("own") is Harmless


@pytest.mark.parametrize("attack", ["changed code", "renamed", "other key", "no signature"])
def test_code_that_is_not_as_the_client_signed_it_is_never_unpickled(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ClusterKeys.create()
    code = pickled({"own": Harmless})
    signature = keys.sign(signed_message(code))
    name = "own"
    if attack == "changed code":
        code["own"] = code["own"].replace(b"Harmless", b"Harmful!")
    elif attack == "renamed":
        code, name = {"other": code["own"]}, "other"
    elif attack == "other key":
        signature = ClusterKeys.create().sign(signed_message(code))
    else:
        signature = b""

    def unpickled(data: bytes) -> object:
        raise AssertionError("unsigned code was unpickled")

    monkeypatch.setattr("cloudpickle.loads", unpickled)
    with pytest.raises(UserCodeError, match="not signed with this cluster's key"):
        value_loader(code, signature, keys.verify)(name)
