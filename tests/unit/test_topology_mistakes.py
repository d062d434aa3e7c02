"""Mistakes that users make: the message has line, column, the wrong word and the right one."""

import pyarrow as pa
import pytest

from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.model.topology.keyed import MOST_KEY_COLUMNS
from streammine.operators.kernels.group_index import GroupIndex

RIGHT = """\
name: plugs
epoch: {time: 60s, column: ts}
sources:
  plugs:
    files: data/*.csv
    schema: {ts: int64, plug: int64, value: float64}
  limits:
    generator: readings
    rows: 1000
operators:
  high:
    input: plugs
    filter: "value > 3"
  means:
    input: high
    key: [plug]
    aggregate: {mean: mean(value)}
    window: 5m
    slices: 4
  pairs:
    join: {left: high, right: limits, on: plug}
  mine:
    input: pairs
    operator: code:Mine
sinks:
  result: {input: means, format: parquet, path: out}
  other: {input: mine, format: json, path: other}
"""


def mistaken(wrong_line, line, *, text=RIGHT):
    """The message for the right document with one line (counted from 1) written wrongly."""
    lines = text.splitlines()
    lines[line - 1 : line] = wrong_line.split("\n")
    with pytest.raises(TopologyError) as caught:
        parse_topology("\n".join(lines), "t.yaml")
    assert caught.value.location is not None
    return str(caught.value)


def test_the_right_document_is_right():
    assert parse_topology(RIGHT, "t.yaml").warnings() == []


FIELDS = [
    # line, what stands there, line:column of the message, wrong word, right word
    (1, "nme: plugs", "1:1", "'nme'", "did you mean 'name'?"),
    (1, "name: my plugs", "1:7", "'my plugs'", "letters, digits, _ and -"),
    (1, "nodes: 0", "1:8", "not 0", "at least 1"),
    (1, "nodes: 1001", "1:8", "not 1001", "at most 1000"),
    (1, "nodes: two", "1:8", "'two'", "a whole number"),
    (1, "nodes: true", "1:8", "true", "a whole number"),
    (2, "epoch: {tme: 60s, column: ts}", "2:9", "'tme'", "did you mean 'time'?"),
    (2, "epoch: {time: 60, column: ts}", "2:15", "60 has no unit", "write 60s"),
    (2, "epoch: {time: 60s}", "2:1", "epoch", "needs the event-time column"),
    (2, "epoch: {time: 0s, column: ts}", "2:1", "time 0", "{time: 60s"),
    (2, "epoch: {count: 5, time: 60s, column: ts}", "2:1", "both count and time", "{count: 1"),
    (2, "epoch: {count: 5, column: ts}", "2:1", "column", "belong to time epochs"),
    (2, "epoch: 60s", "2:8", "'60s'", "a mapping"),
    (2, "epoch: {time: 60s, column: tss}", "2:28", "'tss'", "did you mean 'ts'?"),
    (2, "epoch: {time: 60s, column: value}", "2:28", "double", "an integer, a timestamp"),
    (2, "epoch: {time: 60s, column: ts, unit: ns}", "2:38", "'ns'", "Allowed: s, ms, us"),
    (2, "epoch: 60s", "2:8", "'60s'", "{count: 100000} or {time: 60s, column: ts, unit: s},"),
    (3, "surces:", "3:1", "'surces'", "did you mean 'sources'?"),
    (4, "  __my plugs:", "4:3", "'__my plugs'", "letters, digits"),
    (5, "    file: data/*.csv", "4:3", "'file'", "did you mean 'files'?"),
    (5, "    stream: data", "4:3", "where its rows come from", "files (paths), generator"),
    (5, "    files: 3", "5:12", "not 3", "a text or a list"),
    (5, "    files: []", "5:12", "empty", "must not be"),
    (5, "    files: data/*", "5:12", "'data/*'", "add format: text, csv, json"),
    (5, "    path: data/a.csv", "4:3", "'path'", "did you mean 'files'?"),
    (5, "    path: a.csv\n    type: csv", "4:3", "type", "files: PATHS, format: csv"),
    (5, "    files: a.csv\n    formt: csv", "6:5", "'formt'", "did you mean 'format'?"),
    (5, "    files: a.csv\n    format: cvs", "6:13", "'cvs'", "did you mean 'csv'?"),
    (5, "    files: a.csv\n    seed: 3", "6:5", "'seed'", "only a generator"),
    (5, "    files: a.csv\n    generator: keys", "4:3", "files, generator", "several sources"),
    (5, "    files: a.csv\n    rate: 5", "6:11", "5 has no unit", "write 5/s"),
    (5, "    files: a.csv\n    speed: 0", "6:12", "not 0", "leave it out for full speed"),
    (5, "    files: a.csv\n    speed: -60", "6:12", "not -60", "above 0"),
    (5, "    files: a.csv\n    speed: 10000001", "6:12", "not 10000001", "at most 1,000,000"),
    (5, "    files: a.csv\n    speed: 60x", "6:12", "'60x'", "a number"),
    (5, "    files: a.csv\n    speed: true", "6:12", "not True", "a number"),
    (5, "    files: a.csv\n    speed: 60\n    rate: 5/s", "6:5", "two paces", "keep rate"),
    (5, "    files: a.csv\n    slices: 2000", "6:13", "not 2000", "at most 1024"),
    (5, "    files: a.csv\n    prepare: sprk", "6:14", "'sprk'", "did you mean 'spark'?"),
    (5, "    files: a.csv\n    prepare: {partition: 3}", "6:15", "'partition'", "'partitions'?"),
    (5, "    files: a.csv\n    merge_by: tss", "6:15", "'tss'", "did you mean 'ts'?"),
    (5, "    files: a.csv\n    csv: {delimiter: ';;'}", "6:22", "1 char", "longer than"),
    (5, "    files: a.csv\n    csv: {columns: [a]}", "6:11", "name the columns", "header: false"),
    (
        5,
        "    files: a.csv\n    csv: {header: false, columns: [tss, plug, value]}",
        "7:14",
        "'ts'",
        "did you mean 'tss'?",
    ),
    (6, "    rate: 5/s", "4:3", "'schema'", "like schema: {ts: int64"),
    (6, "    schema: {ts: int46, plug: int64}", "6:18", "'int46'", "did you mean 'int64'?"),
    (6, "    schema: {ts: int64, __plug: int64}", "6:25", "'__plug'", "call it 'plug'"),
    (6, "    schema: {ts: timestamp, plug: int64}", "6:18", "'timestamp'", "timestamp[us]"),
    (8, "    generator: raedings", "8:16", "'raedings'", "did you mean 'readings'?"),
    (8, "    generator: my.Readings", "8:16", "'my.Readings'", "did you mean 'my:Readings'?"),
    (9, "    seed: 3", "7:3", "a generator source", "needs 'rows'"),
    (9, "    rows: -3", "9:11", "not -3", "at least 1"),
    (12, "    inputs: plugs", "12:5", "'inputs'", "write input: NAME"),
    (12, "    input: plug", "12:12", "'plug'", "did you mean 'plugs'?"),
    (12, "    input: rows", "12:12", "'rows'", "There are: limits, means, mine, pairs, plugs"),
    (12, "    input: [plugs, limits]", "12:12", "must be", "before: union: [plugs, limits]"),
    (12, "    input: result", "12:12", "'result' is a sink", "its input 'means'"),
    (13, '    filtr: "value > 3"', "11:3", "'filtr'", "did you mean 'filter'?"),
    (13, "    where: v > 3", "11:3", "'where'", "did you mean 'filter'?"),
    (13, "    with: {a: 1}", "11:3", "says not what it does", "exactly one of map, filter"),
    (13, "    map: v + 1", "13:10", "'v + 1'", "like {plug: plug_id, watts: value * 1000}, not"),
    (13, "    filter: a\n    map: {a: b}", "11:3", "both map and filter", "exactly one of map"),
    (13, "    slices: 3", "11:3", "says not what it does", "exactly one of map, filter"),
    (13, "    filter: a\n    slices: 3", "14:5", "'slices'", "runs in the slices of its input"),
    (13, "    map: {__a: b}", "13:11", "'__a'", "call it 'a'"),
    (13, "    map: {}", "13:5", "empty", "must not be"),
    (13, "    flat_map: {split: line}", "13:5", "flat_map", "needs 'into'"),
    (13, "    flat_map: {split: a, into: b, on: leters}", "13:39", "'leters'", "'letters'?"),
    (13, "    flat_map: {split: a, into: b, lower: 1}", "13:42", "not 1", "true or false"),
    (16, "    key: [plug, plug]", "16:10", "'plug' stands there twice", "name each once"),
    (16, "    kye: [plug]", "16:5", "'kye'", "did you mean 'key'?"),
    (17, "    aggregate: {mean: maen(value)}", "17:23", "'maen'", "did you mean 'mean'?"),
    (17, "    aggregate: {mean: avg(value)}", "17:23", "'avg'", "write mean"),
    (17, "    aggregate: {mean: mean()}", "17:23", "mean needs a column", "mean(value)"),
    (17, "    aggregate: {mean: mean}", "17:23", "'mean'", "did you mean mean(column)?"),
    (17, "    aggregate: {mean: mean(a + 1)}", "17:23", "'a + 1'", "with a map before"),
    (17, "    aggregate: {plug: mean(value)}", "14:3", "'plug'", "rename it"),
    (17, "    aggregate: {epoch: mean(value)}", "14:3", "'epoch'", "use another name"),
    (18, "    window: 90s", "18:13", "window 90s", "write 1m or 2m"),
    (18, "    window: 5min", "18:13", "'min'", "like 10ms, 30s, 5m"),
    (18, "    window: 600", "18:13", "600 has no unit", "{session: 30s} or global"),
    (18, "    window: 0 epochs", "18:13", "0 epochs", "at least 1 epoch"),
    (18, "    window: {length: 10m, slied: 1m}", "18:5", "'slied'", "did you mean 'slide'?"),
    (18, "    window: {slide: 1m}", "18:5", "needs a length", "{length: 10m, slide: 1s}"),
    (18, "    window: {length: 10m, slide: 90s}", "18:5", "slide 90s", "write 1m or 2m"),
    (18, "    window: {length: 1m, slide: 2m}", "18:5", "longer than the window", "at most the"),
    (18, "    window: {length: 1m, slide: 1 epoch}", "18:5", "slide 1 epoch", "both in epochs"),
    (18, "    window: {session: 30s, slide: 1m}", "18:5", "no length or slide", "{session: 30s}"),
    (18, "    window: {session: 0s}", "18:5", "more than 0s", "{session: 30s}"),
    (18, "    window: 5m\n    time: ts", "14:3", "time is for sessions", "{session: 30s}"),
    (
        17,
        "    aggregate: {window_end: count()}",
        "14:3",
        "'window_end' already",
        "use another name",
    ),
    (18, "    discipline: epochs", "18:17", "'epochs'", "did you mean 'epoch'?"),
    (18, "    discipline: none", "26:3", "'means'", "exactly_once: false"),
    (18, "    partition: hsh", "18:16", "'hsh'", "did you mean 'hash'?"),
    (18, "    partition: key_range", "18:16", "key_range", "boundaries: [100, 200]"),
    (18, "    partition: {hash: 1}", "18:5", "'hash'", "Allowed: hash, broadcast"),
    (18, "    partition: {key_range: {boundaries: [5, 3]}}", "18:5", "3 stands after 5", "ascend"),
    (18, "    partition: {key_range: {boundaries: [3]}}", "18:5", "slices is 4", "slices: 2"),
    (18, "    partition: broadcast", "18:16", "come out 4 times", "use hash"),
    (18, "    on_error: fail", "18:5", "'on_error'", "code of your own"),
    (19, "    slices: 0", "19:13", "not 0", "at least 1"),
    (19, "    slices:", "19:12", "nothing", "a whole number"),
    (19, "    slises: 3", "19:5", "'slises'", "did you mean 'slices'?"),
    (17, "    top: 3", "17:10", "not 3", "must be a mapping like {count: 10, by: count desc},"),
    (17, "    aggregate:", "17:15", "not nothing", "mapping like {count: count(), mean: mean("),
    (21, "    join: plug", "21:11", "'plug'", "{left: orders, right: payments, on: [id]}, not"),
    (21, "    join: {left: high, on: plug}", "21:5", "join", "needs 'right'"),
    (21, "    join: {left: high, right: limts, on: a}", "21:31", "'limts'", "'limits'?"),
    (21, "    join: {left: high, right: limits, on: a, kind: iner}", "21:52", "'iner'", "'inner'?"),
    (
        21,
        "    join: {left: high, right: limits}\n    on: a",
        "22:5",
        "'on'",
        "stands inside of join",
    ),
    (
        21,
        "    join: {left: high, right: limits, on: {left: [a, b], right: [a]}}",
        "21:39",
        "2 columns and right 1",
        "in pairs",
    ),
    (
        21,
        "    join: {left: high, right: limits, table: means, on: a}",
        "21:5",
        "'right'",
        "'table'",
    ),
    (
        21,
        "    join: {left: high, right: limits, on: plug}\n    window: {session: 5m}",
        "22:5",
        "sessions and global windows are those of an aggregate",
        "10 epochs or {length: 10m, slide: 1s}",
    ),
    (
        21,
        "    input: high\n    top: {count: 3, by: value * 2}",
        "22:25",
        "'value * 2' is no column",
        "made a column by a map before",
    ),
    (21, "    join: {left: high, right: limits}", "21:5", "needs 'on'", "like on: id"),
    (
        21,
        "    join: {left: high, table: limits, on: a, kind: full}",
        "21:5",
        "full",
        "use inner, left",
    ),
    (21, "    join: {left: high, table: limts, on: a}", "21:31", "'limts'", "'limits'?"),
    (
        21,
        "    join: {left: high, right: limits, on: a, delete: gone}",
        "21:5",
        "delete",
        "table: limits",
    ),
    (
        21,
        "    join: {left: high, right: limits, on: a, as_of: ts}",
        "21:5",
        "as_of",
        "table: limits",
    ),
    (
        21,
        "    join: {left: high, right: limits, when: ts}",
        "21:45",
        "'ts'",
        "like 'clicks.ts between",
    ),
    (
        21,
        "    join: {left: high, right: limits, when: high.ts between plugs.ts and plugs.ts + 5s}",
        "21:5",
        "plugs.ts",
        "the inputs are high (left) and limits (right)",
    ),
    (
        21,
        "    join: {left: high, right: limits, when: high.ts between limits.ts + 5s and limits.ts}",
        "21:45",
        "nothing lies between",
        "the earlier bound comes first",
    ),
    (
        21,
        "    join: {left: high, right: limits, when: high.ts between limits.ts and limits.at + 5s}",
        "21:45",
        "limits.ts and limits.at",
        "around one column",
    ),
    (
        21,
        "    join: {left: high, right: limits, when: high.ts between limits.ts and limits.ts + 5x}",
        "21:45",
        "'x'",
        "5m",
    ),
    (
        21,
        "    join: {left: high, right: limits, when: left.ts between right.ts and right.ts}\n    window: 5m",
        "20:3",
        "both window and when",
        "near each other",
    ),
    (
        21,
        "    join: {left: high, table: limits, on: a}\n    window: 5m",
        "20:3",
        "no window",
        "take window out",
    ),
    (
        5,
        "    files: data/*.csv\n    static: true\n    prepare: spark",
        "4:3",
        "static",
        "take prepare out",
    ),
    (
        5,
        "    files: data/*.csv\n    static: true\n    rate: 5/s",
        "4:3",
        "static",
        "take rate or speed out",
    ),
    (
        5,
        "    files: data/*.csv\n    static: true\n    lateness: 5s",
        "4:3",
        "static",
        "take lateness out",
    ),
    (
        8,
        "    generator: readings\n    static: true",
        "9:5",
        "'static'",
        "belongs to a source of files",
    ),
    (23, "    inputs: [pairs, hihg]", "23:21", "'hihg'", "did you mean 'high'?"),
    (23, "    key: plug", "22:3", "no input", "input: NAME"),
    (24, "    operator: code.Mine", "24:15", "'code.Mine'", "did you mean 'code:Mine'?"),
    (24, "    operator: value:mine", "24:15", "'value:mine'", "module:Class"),
    (
        24,
        "    operator: code:Mine\n    window: global",
        "25:13",
        "tumbling windows only",
        "10 epochs",
    ),
    (24, "    operator: c:M\n    on_error: ignore", "25:15", "'ignore'", "fail, dead_letter"),
    (
        26,
        "  result: 3",
        "26:11",
        "not 3",
        "mapping like {input: high, format: parquet, path: out},",
    ),
    (26, "  result: {input: means, format: csv, to: a}", "26:39", "'to'", "write path: FOLDER"),
    (26, "  result: {input: mean, format: csv, path: out}", "26:19", "'mean'", "'means'?"),
    (26, "  result: {input: means, format: parqet, path: a}", "26:34", "'parqet'", "'parquet'?"),
    (26, "  result: {input: means, format: csv}", "26:3", "a csv sink", "needs a path"),
    (26, "  result: {input: means, path: out}", "26:3", "a sink", "needs 'format'"),
    (26, "  result: {input: means, format: console, path: a}", "26:3", "path", "take it out"),
    (
        26,
        "  result: {input: means, format: csv, path: ./other/}",
        "27:44",
        "'result'",
        "own folder",
    ),
    (26, "  means: {input: means, format: csv, path: a}", "26:3", "'means'", "different names"),
    (26, "  result: {input: means, format: csv, path: 5}", "26:45", "5", "quotes around it: '5'"),
    (
        26,
        "  result: {input: means, format: csv, path: a, commit: {evry: 2}}",
        "26:57",
        "'evry'",
        "did you mean 'every'?",
    ),
]


@pytest.mark.parametrize(("line", "wrong_line", "place", "wrong", "right"), FIELDS)
def test_a_mistake_is_told_with_its_place_and_what_would_be_right(
    line, wrong_line, place, wrong, right
):
    message = mistaken(wrong_line, line)
    of_place = [one for one in message.splitlines() if one.startswith(f"t.yaml:{place}: ")]
    assert of_place, message
    assert wrong in of_place[0]
    assert right in of_place[0]


TEXT = """\
epoch: {count: 100}
sources:
  lines: {files: "*.txt"}
operators:
  counts:
    input: lines
    aggregate: {n: count()}
sinks:
  result: {input: counts, format: csv, path: out}
"""

TEXT_MISTAKES = [
    (1, "epoch: {time: 60s, column: ts}", "1:28", "source 'lines'", "Columns: line"),
    (3, '  lines: {files: "*.txt", merge_by: line}', "3:27", "merge by", "take it out"),
    (3, '  lines: {files: "*.txt", schema: {a: int64}}', "3:27", "{line: string}", "format: csv"),
    (3, '  lines: {files: "*.txt", csv: {quote: "`"}}', "3:27", "text", "not csv"),
    (3, '  lines: {files: "*.txt", lateness: 5s}', "3:37", "lateness", "epoch: {time: 60s"),
    (3, '  lines: {files: "*.txt", speed: 60}', "3:27", "event time", "epoch: {time: 60s"),
    (6, "    input: lines\n    window: 5m", "7:13", "this topology counts", "epoch: {time: 60s"),
    (
        6,
        "    input: lines\n    window: {session: 5s}",
        "7:5",
        "epochs of rows know none",
        "a window in epochs",
    ),
    (
        6,
        "    input: lines\n    partition: {key_range: {boundaries: [a]}}",
        "7:5",
        "there are 0",
        "one key column",
    ),
    (
        7,
        "    pattern: {sequence: [a], within: 5s, output: {line: a.line}}",
        "7:5",
        "needs time epochs",
        "epoch: {time: 10s",
    ),
]


@pytest.mark.parametrize(("line", "wrong_line", "place", "wrong", "right"), TEXT_MISTAKES)
def test_a_mistake_in_a_topology_of_text_is_told(line, wrong_line, place, wrong, right):
    message = mistaken(wrong_line, line, text=TEXT)
    of_place = [one for one in message.splitlines() if one.startswith(f"t.yaml:{place}: ")]
    assert of_place, message
    assert wrong in of_place[0]
    assert right in of_place[0]


def test_a_cycle_is_named_in_the_direction_of_the_rows():
    #   means → high → means: high reads from means, which reads from high
    message = mistaken("    input: means", 12)
    assert "t.yaml:12:12: operators.high.input: nothing leads into the loop" in message
    assert "high → means → high" in message


def test_a_key_of_too_many_columns_is_refused():
    columns = ", ".join(f"c{number}" for number in range(MOST_KEY_COLUMNS + 1))
    message = mistaken(f"    key: [{columns}]", 16)
    assert "t.yaml:14:3: operators.means: a key has at most 63 columns, not 64" in message
    GroupIndex([pa.int64()] * MOST_KEY_COLUMNS)
    with pytest.raises(ValueError, match="use 1 to 63"):
        GroupIndex([pa.int64()] * (MOST_KEY_COLUMNS + 1))


def test_no_sinks_and_no_sources_are_told_with_an_example():
    with pytest.raises(TopologyError) as caught:
        parse_topology("epoch: {count: 5}", "t.yaml")
    assert "needs sources: sources: {lines:" in str(caught.value)
    assert "needs sinks: sinks: {result:" in str(caught.value)
    assert str(caught.value).startswith("t.yaml:1:1: ")


def test_discipline_none_is_allowed_where_the_sink_promises_nothing():
    text = RIGHT.replace("window: 5m", "discipline: none")
    text = text.replace("path: out}", "path: out, exactly_once: false}")
    assert parse_topology(text, "t.yaml").sinks["result"].exactly_once is False


@pytest.mark.parametrize(
    "join",
    [
        "right: limits, when: high.ts between limits.ts and limits.ts + 5s",
        "table: limits, on: plug, as_of: ts",
    ],
)
def test_event_time_in_a_join_needs_time_epochs(join):
    text = RIGHT.replace("right: limits, on: plug", join).replace("    window: 5m\n", "")
    message = mistaken("epoch: {count: 100}", 2, text=text)
    assert "looks at event time, which epochs of rows do not have" in message
    assert "write epoch: {time: 60s, column: ts}" in message


def test_a_static_source_needs_no_event_time():
    text = RIGHT.replace("schema: {ts: int64, plug", "static: true\n    schema: {plug")
    parse_topology(text, "t.yaml")
