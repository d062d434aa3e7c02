"""From messages to a log entry: ids, parsing, dead rows, lateness, and the clock of a silent source.

Whatever is decided here stands in the entry, so nothing is decided twice. What becomes of a row
depends on its own bytes and on the rows logged before it, never on how they were grouped; only
which epoch's dead letters a dead row is written with, before any event time is known, does.
"""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.formats import RawFormat, parse
from streammine.model.formats.blocks import BYTE_ORDER_MARK
from streammine.model.formats.rejection import TEXT_LIMIT_CHARACTERS, row_text
from streammine.model.ingest_log import DeadRow, Events, Idle, LogState, Receipt, row_schema
from streammine.model.readable_rows import readable_rows
from streammine.model.source_order import running_maximum, usable_event_times
from streammine.runtime.sources.live.messages import Message


@dataclass(frozen=True)
class IntakeRules:
    """How rows are read and judged.

    `lateness_microseconds`: how far a row's time may lie behind the highest one before it in the
    log. `ahead_microseconds`: how far it may lie ahead of the time of day (None: any distance).
    `idle_microseconds`: silence after which the clock is moved on (None: never). `most_ids`: how
    many ids are remembered.
    """

    name: str
    format: RawFormat
    schema: pa.Schema
    epoch: EpochDefinition
    lateness_microseconds: int = 0
    ahead_microseconds: int | None = None
    idle_microseconds: int | None = None
    most_ids: int = 100_000


@dataclass
class _Unit:
    """Messages, or lines of one, whose bodies are parsed in one go; `counts` are their row
    counts."""

    body: bytes
    counts: list[tuple[int, int]]
    """(message, its lines in this unit)."""


class Intake:
    """One log's next entries. `state` is the log's; it is moved on by whoever writes them."""

    def __init__(self, rules: IntakeRules, ids: Iterable[tuple[str, Receipt]] = ()) -> None:
        self._rules = rules
        self._ids: OrderedDict[str, Receipt] = OrderedDict(ids)

    def take(
        self, messages: Sequence[Message], state: LogState, time_of_day: int
    ) -> tuple[Events | None, list[Receipt]]:
        """(the entry, None where nothing is new; a receipt for each message).

        `time_of_day` is in microseconds since the Unix epoch.
        """
        fresh, repeated = self._without_repeats(messages)
        new = [messages[index] for index in fresh]
        batch, dead, spans = self._parsed(new, state.next_row)
        raw_rows = sum(count for _, count in spans)
        batch, times = self._judged(batch, dead, state, time_of_day)
        clock = state.clock
        open_epoch = state.open_epoch
        if self._rules.epoch.kind == "count":
            open_epoch = self._rules.epoch.lowest_open(state.next_row + raw_rows)
        elif len(times):
            clock = max(clock, int(times.max()))
            open_epoch = max(open_epoch, self._open_epoch(clock))
        letters = self._letters(dead, state)
        receipts = self._receipts(spans, letters)
        named = tuple(
            (message.id, receipt)
            for message, receipt in zip(new, receipts, strict=True)
            if message.id is not None
        )
        for client, receipt in named:
            self._remember(client, receipt)
        answers: list[Receipt | None] = [None] * len(messages)
        for index, receipt in zip(fresh, receipts, strict=True):
            answers[index] = receipt
        for index, first in repeated:
            answers[index] = first if isinstance(first, Receipt) else answers[first]
        answered = [each for each in answers if each is not None]
        assert len(answered) == len(messages), "every message is answered"
        if not raw_rows and not named:
            return None, answered
        body = batch.serialize() if batch.num_rows else pa.py_buffer(b"")
        entry = Events(state.next_row, raw_rows, body, letters, named, clock, open_epoch)
        return entry, answered

    def _without_repeats(
        self, messages: Sequence[Message]
    ) -> tuple[list[int], list[tuple[int, Receipt | int]]]:
        """(indices of new messages, (index, receipt or index of the first) of those that are
        not)."""
        fresh: list[int] = []
        repeated: list[tuple[int, Receipt | int]] = []
        among: dict[str, int] = {}
        for index, message in enumerate(messages):
            known: Receipt | int | None = None
            if message.id is not None:
                known = self._ids.get(message.id, among.get(message.id))
                among.setdefault(message.id, index)
            if known is None:
                fresh.append(index)
            else:
                repeated.append((index, known))
        return fresh, repeated

    def _remember(self, client: str, receipt: Receipt) -> None:
        self._ids[client] = receipt
        if len(self._ids) > self._rules.most_ids:
            self._ids.popitem(last=False)

    # --- rows -----------------------------------------------------------------------------------

    def _parsed(
        self, messages: list[Message], first_row: int
    ) -> tuple[pa.RecordBatch, dict[int, tuple[str, str]], list[tuple[int, int]]]:
        """(rows that could be parsed, with their numbers; dead rows by number: reason and text;
        (first row, rows) of each message)."""
        counts = [0] * len(messages)
        batches: list[pa.RecordBatch] = []
        dead: dict[int, tuple[str, str]] = {}
        row = first_row
        for unit in self._units(messages):
            refused = messages[unit.counts[0][0]].refused
            if refused is not None:
                dead[row] = (refused, row_text(unit.body))
                counts[unit.counts[0][0]] += 1
                row += 1
                continue
            parts = self._parse(unit, row, batches, dead)
            for message, rows in parts:
                counts[message] += rows
                row += rows
        spans = []
        at = first_row
        for count in counts:
            spans.append((at, count))
            at += count
        schema = row_schema(self._rules.schema)
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=schema), dead, spans
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        found = table.to_batches()
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        return (found[0] if found else empty), dead, spans

    def _parse(
        self,
        unit: _Unit,
        row: int,
        batches: list[pa.RecordBatch],
        dead: dict[int, tuple[str, str]],
    ) -> list[tuple[int, int]]:
        """Parse a unit into `batches` and `dead`; (message, rows) for its messages."""
        stream = io.BytesIO(BYTE_ORDER_MARK + unit.body)
        rules = self._rules
        raw_rows = 0
        blocks = list(parse(stream, rules.format, rules.schema, None, rules.name))
        raw_rows = sum(block.raw_rows for block in blocks)
        parts = unit.counts
        if len(parts) == 1:
            parts = [(parts[0][0], raw_rows)]
        assert raw_rows == sum(rows for _, rows in parts), "lines joined are rows each"
        for block in blocks:
            numbers = pa.array(block.rows + row)
            columns = [*block.batch.columns, numbers]
            batches.append(pa.record_batch(columns, schema=row_schema(rules.schema)))
            if block.dead is not None:
                found = zip(block.dead.numbers, block.dead.reasons, block.dead.rows, strict=True)
                for number, reason, text in found:
                    assert number is not None
                    dead[row + number] = (reason, text)
        return parts

    def _units(self, messages: list[Message]) -> Iterator[_Unit]:
        """What is parsed in one go: as much as can be, without one row's marks touching another."""
        bodies: list[bytes] = []
        counts: list[tuple[int, int]] = []
        for index, message in enumerate(messages):
            for body, joined in self._split(message):
                if joined:
                    bodies.append(body)
                    counts.append((index, body.count(b"\n")))
                    continue
                if counts:
                    yield _Unit(b"".join(bodies), counts)
                    bodies, counts = [], []
                yield _Unit(body, [(index, 1)])
        if counts:
            yield _Unit(b"".join(bodies), counts)

    def _split(self, message: Message) -> Iterator[tuple[bytes, bool]]:
        """The message's rows in parts, and whether a part's every line is a row for sure."""
        if message.refused is not None:
            yield message.body, False
            return
        body = message.body
        if body and not body.endswith(b"\n"):
            body += b"\n"
        written = self._rules.format
        if written.kind == "text":
            yield body, True
            return
        lines = [line for line in body.split(b"\n") if line.strip(b" \r")]
        body = b"".join(line + b"\n" for line in lines)
        quote = written.quote.encode() if written.kind == "csv" and written.quote else None
        if quote is None or quote not in body:
            yield body, True
        elif message.by_line:
            for line in lines:
                yield line + b"\n", quote not in line
        else:
            yield message.body, False

    # --- time -----------------------------------------------------------------------------------

    def _judged(
        self,
        batch: pa.RecordBatch,
        dead: dict[int, tuple[str, str]],
        state: LogState,
        time_of_day: int,
    ) -> tuple[pa.RecordBatch, IntArray]:
        """(rows whose event time can be used, their times); the others are added to `dead`."""
        epoch, rules = self._rules.epoch, self._rules
        if epoch.kind == "count":
            return batch, np.empty(0, np.int64)
        times, usable = usable_event_times(batch.column(epoch.column), epoch.unit)
        if not len(times):
            return batch, times
        good = np.ones(len(times), np.bool_) if usable is None else usable
        reasons = dict.fromkeys(
            np.flatnonzero(~good).tolist(), f"event time column '{epoch.column}' can't be used"
        )
        if rules.ahead_microseconds is not None:
            ahead = good & (times > time_of_day + rules.ahead_microseconds)
            for index in np.flatnonzero(ahead).tolist():
                reasons[index] = (
                    f"ahead: {(int(times[index]) - time_of_day) / 1e6:g} s ahead of the time of "
                    f"day; {rules.ahead_microseconds / 1e6:g} s are allowed"
                )
            good = good & ~ahead
        late, behind = self._late(times, good, state)
        for index in np.flatnonzero(late).tolist():
            reasons[index] = (
                f"late: {int(behind[index]) / 1e6:g} s behind the clock of its ingest log; "
                f"lateness allows {rules.lateness_microseconds / 1e6:g} s, and its epoch is closed"
            )
        good = good & ~late
        if not reasons:
            return batch, times
        self._set_aside(batch, reasons, dead)
        return batch.filter(pa.array(good)), times[good]

    def _late(
        self, times: IntArray, good: npt.NDArray[np.bool_], state: LogState
    ) -> tuple[npt.NDArray[np.bool_], IntArray]:
        """(which rows are late, by how many microseconds each lies behind the clock)."""
        reached = running_maximum(times, good, state.clock)
        lowest = BEGINNING + 1 + self._rules.lateness_microseconds
        bound = np.maximum(reached, lowest) - self._rules.lateness_microseconds
        epochs = self._rules.epoch.of_time(times)
        late = good & (epochs < self._rules.epoch.of_time(bound))
        # What was promised stays promised, should less lateness have been allowed then.
        late |= good & (epochs < state.open_epoch)
        return late, np.maximum(reached, times) - times

    def _set_aside(
        self,
        batch: pa.RecordBatch,
        reasons: dict[int, str],
        dead: dict[int, tuple[str, str]],
    ) -> None:
        indices = sorted(reasons)
        columns = self._rules.schema.names
        numbers = batch.column(len(columns)).to_numpy()
        rows = readable_rows(batch.select(columns).take(pa.array(indices, pa.int64())))
        for index, values in zip(indices, rows, strict=True):
            text = json.dumps(values, default=str, ensure_ascii=False)[:TEXT_LIMIT_CHARACTERS]
            dead[int(numbers[index])] = (reasons[index], text)

    def _open_epoch(self, clock: int) -> int:
        lateness = self._rules.lateness_microseconds
        bound = max(clock, BEGINNING + 1 + lateness) - lateness
        return self._rules.epoch.lowest_open(bound)

    def _letters(self, dead: dict[int, tuple[str, str]], state: LogState) -> tuple[DeadRow, ...]:
        """The dead rows by number; each with the epoch that was open when it came, if one is
        known."""
        if not dead:
            return ()
        epoch = None if state.open_epoch == BEGINNING else state.open_epoch
        counting = self._rules.epoch if self._rules.epoch.kind == "count" else None
        return tuple(
            DeadRow(row, epoch if counting is None else counting.lowest_open(row), *dead[row])
            for row in sorted(dead)
        )

    def _receipts(
        self, spans: list[tuple[int, int]], letters: tuple[DeadRow, ...]
    ) -> list[Receipt]:
        numbers = np.array([each.row for each in letters], np.int64)
        receipts = []
        for first, count in spans:
            start, stop = numbers.searchsorted([first, first + count]).tolist()
            dead = stop - start
            receipts.append(Receipt(count - dead, dead, first if count else None))
        return receipts

    # --- silence --------------------------------------------------------------------------------

    def reference(self, state: LogState, time_of_day: int) -> int:
        """The event time from which a silence that begins now is counted: the clock's, or the time
        of day where no event came yet and so no other clock is known."""
        return time_of_day if state.clock == BEGINNING else state.clock

    def idle(self, state: LogState, reference: int, silence: int) -> tuple[Idle | None, int | None]:
        """(the entry that moves the clock on, if one is due; the silence at which the next one is).

        `silence` is for how many microseconds no message came. A silent source's clock goes on as
        time does, `idle` behind: it stands at `reference`, plus the silence, minus `idle`.
        """
        patience, epoch = self._rules.idle_microseconds, self._rules.epoch
        if patience is None or epoch.kind == "count":
            return None, None
        if silence < patience:
            return None, patience
        clock = reference + silence - patience
        open_epoch = self._open_epoch(clock)
        due = open_epoch > state.open_epoch
        boundary = ((open_epoch if due else state.open_epoch) + 1) * epoch.length
        next_due = boundary + self._rules.lateness_microseconds - reference + patience
        return (Idle(clock, open_epoch) if due else None), next_due
