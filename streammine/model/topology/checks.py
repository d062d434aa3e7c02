"""What must hold between the parts of a topology. Each check yields the problems that it finds.

The parts' own models have checked every field by itself before; here it is about references, names,
schemas, windows and promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from streammine.model.disciplines import Discipline
from streammine.model.schemes import Scheme
from streammine.model.suggestions import hint, listed
from streammine.model.topology.aggregating import AggregateOperator
from streammine.model.topology.either import EitherOperator, choice_of, either_problems
from streammine.model.topology.graph import topology_graph
from streammine.model.topology.joining import JoinOperator
from streammine.model.topology.keyed import MOST_KEY_COLUMNS, KeyedFields, RowWindowed, Windowed
from streammine.model.topology.leading import LeadersOperator
from streammine.model.topology.loop_checks import loop_problems
from streammine.model.topology.merging import SplitOperator, UnionOperator
from streammine.model.topology.own_code import UserOperator
from streammine.model.topology.partitions import KeyRangePartition
from streammine.model.topology.parts import OUTPUT_MARK
from streammine.model.topology.patterning import PatternOperator
from streammine.model.topology.problems import Path, Problem
from streammine.model.topology.quantile import QuantileOperator
from streammine.model.topology.redundancy import contradiction, without_state
from streammine.model.topology.sinks import Sink
from streammine.model.topology.sources import FilesSource, SourceBase
from streammine.model.topology.windows import window_problem

if TYPE_CHECKING:
    from streammine.model.topology.definition import Topology

Problems = Iterator[Problem]


def problems_in(topology: Topology) -> list[Problem]:
    """Everything that keeps a topology from running, in no particular order."""
    local = [problem for check in _CHECKS for problem in check(topology)]
    # What follows the graph needs one whose inputs exist and whose loops have heads.
    return local or list(_promises(topology))


def _sinks(topology: Topology) -> Problems:
    if not topology.sources:
        yield Problem((), "topology needs sources: sources: {lines: {files: 'data/*.txt'}}")
    if not topology.sinks:
        yield Problem(
            (), "topology needs sinks: sinks: {result: {input: NAME, format: parquet, path: out}}"
        )
    places: dict[str, str] = {}
    for name, sink in topology.sinks.items():
        if sink.path is None:
            continue
        place = sink.path.rstrip("/").removeprefix("./")
        if place in places:
            yield Problem(
                ("sinks", name, "path"),
                f"sink '{places[place]}' writes to '{sink.path}', too; each needs its own folder",
            )
        places.setdefault(place, name)


def _names(topology: Topology) -> Problems:
    seen: dict[str, str] = {}
    for section in ("sources", "operators", "sinks"):
        for name in getattr(topology, section):
            if name in seen:
                yield Problem(
                    (section, name),
                    f"the name '{name}' stands under {seen[name]} already; "
                    "sources, operators and sinks need different names",
                    at_key=True,
                )
            seen.setdefault(name, section)


def _inputs(topology: Topology) -> Problems:
    readable = _readable(topology)
    for name, operator in topology.operators.items():
        for port, one in enumerate(operator.input_names):
            if one not in readable:
                path = ("operators", name, *operator.input_place(port))
                yield _unknown_input(path, one, topology)
    for name, sink in topology.sinks.items():
        if sink.input not in readable:
            yield _unknown_input(("sinks", name, "input"), sink.input, topology)


def _readable(topology: Topology) -> list[str]:
    """What can be read from; of a split these are its outputs."""
    operators = topology.every_operator.items()
    return [
        *topology.sources,
        *(name for name, operator in operators if not isinstance(operator, SplitOperator)),
    ]


def _unknown_input(path: Path, name: str, topology: Topology) -> Problem:
    itself = path[1] if path[0] == "operators" else None
    readable = [each for each in _readable(topology) if each != itself]
    split, _, output = name.partition(OUTPUT_MARK)
    operator = topology.operators.get(split)
    if isinstance(operator, SplitOperator):
        outputs = list(operator.outputs(split))
        if not output:
            return Problem(path, f"'{name}' is a split; read one of its outputs: {listed(outputs)}")
        suggestion = hint(name, outputs)
        return Problem(
            path, f"split '{split}' has no output '{output}'{suggestion} It has: {listed(outputs)}"
        )
    if output and (split in topology.sources or split in topology.operators):
        return Problem(path, f"'{split}' is no split, it has no outputs; read from '{split}'")
    if name in topology.sinks:
        return Problem(
            path,
            f"'{name}' is a sink; nothing can be read from it, read from its input "
            f"'{topology.sinks[name].input}'",
        )
    suggestion = hint(name, readable)
    return Problem(
        path,
        f"there is no source or operator '{name}'{suggestion} "
        f"There are: {listed(sorted(readable))}",
    )


def _windows(topology: Topology) -> Problems:
    for name, operator in topology.operators.items():
        wrong: str | None = None
        if isinstance(operator, AggregateOperator | RowWindowed | Windowed) and operator.window:
            wrong = window_problem(operator.window, topology.epoch)
        if isinstance(wrong, str):
            yield Problem(("operators", name, "window"), wrong)
        if isinstance(operator, QuantileOperator):
            lengths = operator.quantile.lengths(topology.epoch)
            if isinstance(lengths, str):
                yield Problem(("operators", name, "quantile"), lengths)


def _event_times(topology: Topology) -> Problems:
    if topology.epoch.time is not None:
        return
    for name, operator in topology.operators.items():
        if isinstance(operator, PatternOperator):
            yield Problem(
                ("operators", name, "pattern"),
                "a pattern needs time epochs, whose ends say what has come; write epoch: {time: 10s, "
                "column: ts}",
                at_key=True,
            )
        if not isinstance(operator, JoinOperator):
            continue
        for field in ("when", "as_of"):
            if getattr(operator.join, field) is not None:
                yield Problem(
                    ("operators", name, "join", field),
                    f"{field} looks at event time, which epochs of rows do not have; write epoch: "
                    "{time: 60s, column: ts}",
                    at_key=True,
                )


def _redundancies(topology: Topology) -> Problems:
    said: list[tuple[Path, int | None, Scheme | None]] = [
        (("scheme",), topology.replicas, topology.scheme)
    ]
    said += [
        ((section, name, "scheme"), part.replicas, part.scheme)
        for section in ("sources", "operators", "sinks")
        for name, part in getattr(topology, section).items()
        if isinstance(part, SourceBase | KeyedFields | Sink)
    ]
    for path, replicas, scheme in said:
        wrong = contradiction(replicas, scheme) or without_state(scheme, topology.snapshot.mode)
        if wrong is not None:
            yield Problem(path, wrong)


def _partitions(topology: Topology) -> Problems:
    for name, operator in topology.operators.items():
        if not isinstance(operator, KeyedFields):
            continue
        columns = operator.key_columns[0]
        if isinstance(operator.partition, KeyRangePartition) and len(columns) != 1:
            yield Problem(
                ("operators", name, "partition"),
                f"key_range needs exactly one key column, and there are {len(columns)}; "
                "use hash, or write one key column",
            )


def _keys(topology: Topology) -> Problems:
    for name, operator in topology.operators.items():
        if not isinstance(operator, KeyedFields) or isinstance(operator, UserOperator):
            continue
        most = max(map(len, operator.key_columns))
        if most > MOST_KEY_COLUMNS:
            yield Problem(
                ("operators", name),
                f"a key has at most {MOST_KEY_COLUMNS} columns, not {most}; put some of them together with a "
                "map before",
            )


def _code(topology: Topology) -> Problems:
    for name, operator in topology.operators.items():
        if isinstance(operator, UserOperator) and operator.by_value is not None:
            if operator.by_value in topology.code:
                continue
            yield Problem(
                ("operators", name, "operator"),
                f"'{operator.operator}' is for operators that Python hands over by value, and "
                "there is no such code; name the class as module:Class",
            )


def _paces(topology: Topology) -> Problems:
    for name, source in topology.sources.items():
        if not isinstance(source, SourceBase) or source.speed is None:
            continue
        path = ("sources", name, "speed")
        if source.rate is not None:
            yield Problem(
                path,
                "rate and speed are two paces; keep rate for so many rows a second, or speed for event "
                "time that runs so many times as fast as the clock",
                at_key=True,
            )
        if topology.epoch.time is None:
            yield Problem(
                path,
                "speed needs event time, which epochs of rows do not have; write epoch: "
                "{time: 60s, column: ts}, or give the source a rate like 50000/s",
                at_key=True,
            )


def _source_files(topology: Topology) -> Problems:
    for name, source in topology.sources.items():
        if isinstance(source, FilesSource):
            yield from _source_of_files(("sources", name), source, topology)


def _source_of_files(path: Path, source: FilesSource, topology: Topology) -> Problems:
    format_ = source.resolved_format
    if format_ is None:
        yield Problem(
            (*path, "files"),
            f"the suffix of {listed(repr(one) for one in source.files)} doesn't tell the format; "
            "add format: text, csv, json or parquet",
        )
        return
    if format_ in ("csv", "json") and source.schema_ is None:
        yield Problem(
            path,
            f"a source of {format_} needs 'schema': its columns and their types, "
            "like schema: {ts: int64, value: float64}",
        )
    if format_ == "text" and source.schema_ is not None:
        yield Problem(
            (*path, "schema"),
            "text has always the schema {line: string}; take it out, or use format: csv",
            at_key=True,
        )
    if format_ == "text" and source.merge_by is not None:
        yield Problem(
            (*path, "merge_by"),
            "text has no columns to merge by; take it out: the files are read one after the other",
            at_key=True,
        )
    if format_ != "csv" and source.csv is not None:
        yield Problem((*path, "csv"), f"these files are {format_}, not csv", at_key=True)
    if source.lateness.microseconds and topology.epoch.time is None:
        yield Problem(
            (*path, "lateness"), "lateness needs time epochs: epoch: {time: 60s, column: ts}"
        )
    if format_ == "csv" and source.schema_ is not None:
        yield from _csv_columns(path, source)
    schema = source.arrow_schema
    if schema is not None and source.merge_by is not None and format_ != "text":
        yield from _column((*path, "merge_by"), source.merge_by, schema, f"source '{path[1]}'")


def _csv_columns(path: Path, source: FilesSource) -> Problems:
    settings, columns = source.csv_settings, source.schema_ or {}
    if settings.header:
        if settings.columns is not None:
            yield Problem(
                (*path, "csv", "columns"),
                "the files' first lines name the columns already; "
                "take this out, or write header: false",
                at_key=True,
            )
        return
    for name in columns:
        if settings.columns is not None and name not in settings.columns:
            suggestion = hint(name, settings.columns)
            yield Problem(
                (*path, "schema", name),
                f"csv has no column '{name}'{suggestion} Columns: {listed(settings.columns)}",
                at_key=True,
            )
    if settings.quote == settings.delimiter:
        yield Problem((*path, "csv"), f"quote and delimiter are both {settings.quote!r}")


def _column(path: Path, column: str, schema: pa.Schema, owner: str) -> Problems:
    if column not in schema.names:
        suggestion = hint(column, schema.names)
        yield Problem(
            path, f"{owner} has no column '{column}'{suggestion} Columns: {listed(schema.names)}"
        )


def _epoch_column(topology: Topology) -> Problems:
    epoch = topology.epoch
    if epoch.column is None:
        return
    path = ("epoch", "column")
    for name, source in topology.sources.items():
        schema = source.arrow_schema if isinstance(source, FilesSource) else None
        if schema is None or (isinstance(source, FilesSource) and source.static):
            continue
        missing = list(_column(path, epoch.column, schema, f"source '{name}'"))
        yield from missing
        if missing:
            continue
        kind = schema.field(epoch.column).type
        if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            yield Problem(
                path,
                f"column '{epoch.column}' of source '{name}' has type {kind}; "
                "event time is an integer, a timestamp or a date",
            )
        elif epoch.unit is not None and not pa.types.is_integer(kind):
            yield Problem(
                ("epoch", "unit"),
                f"column '{epoch.column}' of source '{name}' has type {kind}, which knows its "
                "unit; take unit out",
                at_key=True,
            )


def _recovery(topology: Topology) -> Problems:
    if topology.recovery is not None and topology.snapshot.mode == "none":
        yield Problem(
            ("recovery",),
            "what is chosen from rests on checkpoints, and snapshot: none makes none; write snapshot: "
            "{every: 1s}, or take recovery out",
        )
    if topology.recovery is None:
        return
    for path in _schemes_said(topology):
        yield Problem(
            path,
            "recovery chooses the schemes; take scheme or recovery out (replicas may stay, and `streammine "
            "scheme` sets one by hand while the job runs)",
            at_key=True,
        )


def _schemes_said(topology: Topology) -> Iterator[tuple[str, ...]]:
    """Where a scheme is said."""
    if topology.scheme is not None:
        yield ("scheme",)
    for section in ("sources", "operators", "sinks"):
        for name, part in getattr(topology, section).items():
            if getattr(part, "scheme", None) is not None:
                yield (section, name, "scheme")


def _promises(topology: Topology) -> Problems:
    yield from _one_source(topology)
    graph = topology_graph(topology)
    for name, sink in topology.sinks.items():
        if not sink.exactly_once:
            continue
        above = sorted(graph.upstream(name))
        loose = [each for each in above if _discipline_of(topology, each) is Discipline.NONE]
        alone = [each for each in above if _discipline_of(topology, each) is Discipline.MERGE]
        for each in alone:
            if either := choice_of(topology, each):
                yield Problem(
                    ("operators", each, "discipline"),
                    f"'{either}' gives what one of its receivers has, and under merge each replica takes "
                    f"what it has first, so results of '{name}' can't be exactly-once; write discipline: "
                    "consensus, or exactly_once: false there",
                )
        if loose:
            yield Problem(
                ("sinks", name),
                f"operator '{loose[0]}' upstream has discipline: none, so results can't be "
                "exactly-once; write exactly_once: false here, or discipline: epoch there",
            )


def _one_source(topology: Topology) -> Problems:
    """Places in different sources can be equal, and rows of one place are taken for one event."""
    for name, operator in topology.operators.items():
        if not isinstance(operator, LeadersOperator):
            continue
        origins = [_origin(topology, each) for each in operator.input_names]
        for port, origin in enumerate(origins):
            if origin == origins[0]:
                continue
            yield Problem(
                ("operators", name, *operator.input_place(port)),
                f"'{operator.input_names[0]}' stems from '{origins[0]}' and '{operator.input_names[port]}' "
                f"from '{origin}', so no event changes both; leaders rank what stems from one source. For "
                "rows of several, put the sources together with a union before",
            )
            break


def _origin(topology: Topology, name: str) -> str:
    """Where the places of a stream's rows come from: a source, or what puts several streams together."""
    operators = topology.every_operator
    seen = set()
    while name in operators and name not in seen:
        if isinstance(operators[name], UnionOperator | EitherOperator):
            break
        seen.add(name)
        name = operators[name].input_names[0]
    return name


def _discipline_of(topology: Topology, name: str) -> Discipline | None:
    operator = topology.operators.get(name)
    return operator.discipline if isinstance(operator, KeyedFields) else None


_CHECKS: Iterable[Callable[[Topology], Problems]] = (
    _sinks,
    _names,
    _inputs,
    loop_problems,
    either_problems,
    _windows,
    _event_times,
    _partitions,
    _keys,
    _redundancies,
    _code,
    _paces,
    _source_files,
    _epoch_column,
    _recovery,
)
