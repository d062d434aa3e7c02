"""The classes that users derive their operators from.

A `Mapper` makes events from an event and remembers nothing. A `Reducer` folds the events of an
epoch by key, in the manner of MapReduce, so that it can run partially before the shuffle. An
`Operator` keeps state per key from epoch to epoch. Each is written event by event or batch by
batch. This is the programming interface of Martin (2015), chapter 3, on columns.

Events
    An event is a named tuple of its columns: ``event.word``, or ``event[0]`` for a column whose
    name is no identifier. Null is None, a decimal is a `decimal.Decimal`. Timestamps, dates, times
    and durations are integers, in the unit of their column (dates: days since 1970-01-01), which is
    quick and knows no time zone; integers are taken back for such columns, and `datetime` objects
    too.
Keys
    The value of the key column, or a tuple of them where there are several. -0.0 counts as 0.0 and
    all NaNs as one. Without a key, everything belongs to the key ``()``.
What a method returns or yields
    None: no rows. A tuple: one row, in the order of `output`. A dict: one row by column names. For
    an output of one column, the bare value: one row. A list, generator or other iterable of such
    rows: many rows. Values must fit the declared types; numbers are not read from text and
    fractions are not cut.
State and snapshots
    What an Operator keeps between epochs (and a Reducer in windows of several epochs) is saved in
    snapshots and restored elsewhere after a crash. Cells and plain accumulators are saved as plain data,
    never pickled; other structures by `serialize` and `deserialize`. Raise `state_version` when what is
    saved changes its meaning: a snapshot of another version is refused with StateVersionError, unless
    the class has `migrate`.
Determinism
    Code is called on whatever batches come, on several slices and again after a crash. So it must
    not read clocks, random numbers other than `Context.random`, the order of a set or `hash()` of a
    string, and keep what it remembers in its state only. `streammine.testing.check_operator` looks for
    offences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from streammine.operators.draws import Draws
from streammine.operators.plain_data import encode_canonical
from streammine.operators.state import Cell, KeyState

Columns: TypeAlias = Mapping[str, str] | pa.Schema
"""Column names and types: names of types as in a topology's schemas, or an Arrow schema."""


@dataclass(slots=True)
class Context:
    """Where user code runs: ``self.context``.

    `epoch` is the epoch of the rows. `window` is its [start, end) in microseconds of event time, or row
    numbers where epochs are counted, and `watermark` is in microseconds; both are None where the epoch is
    not being closed (Mapper, Reducer.add). `round` counts the rounds of an epoch inside a loop, from 0; the
    last one, in which windows and `end_epoch` have their turn, is always 1,048,575. It is 0 outside of
    loops. `random` gives random numbers.
    """

    operator: str
    slice_index: int | None = None
    epoch: int | None = None
    window: tuple[int, int] | None = None
    watermark: int | None = None
    round: int = 0
    job: str = ""
    _draws: dict[bytes, Draws] = field(default_factory=dict, repr=False)
    _drawn_epoch: int | None = field(default=None, repr=False)

    @property
    def place(self) -> tuple[int | None, int | None]:
        """Slice and epoch, for messages about user code that has not asked for them."""
        return self.slice_index, self.epoch

    def random(self, *names: Any) -> Draws:
        """Random numbers for this epoch: the same whenever and wherever it is processed.

        They follow from the job's name, the operator, the epoch and `names`, plain data that tells
        sequences apart: give the key, or what one key draws depends on which other keys its slice has.
        Asked again in the same epoch, it goes on with the sequence. Raises RuntimeError where no epoch is
        being closed: there, rows are looked at as they come, in batches and an order that nobody promises.
        """
        if self.epoch is None or self.window is None:
            raise RuntimeError(
                "random numbers belong to an epoch that is being closed, and here rows are looked at as they "
                "come; draw them in an Operator, or in Reducer.finish"
            )
        if self._drawn_epoch != self.epoch:
            self._draws.clear()
            self._drawn_epoch = self.epoch
        # by their bytes: 1, True and 1.0 are one key of a dict, and other seeds
        encoded = encode_canonical(names)
        found = self._draws.get(encoded)
        if found is None:
            found = self._draws[encoded] = Draws(self.job, self.operator, self.epoch, *names)
        return found


class UserCode:
    """What Mapper, Reducer and Operator have in common.

    output: columns that leave (for a Reducer: those of `finish`, behind the epoch and the key).
    needs: the input columns it reads; None for all. Others are neither read nor sent.
    deterministic: False when the same events may give something else when it runs again. Neither it nor
        anything that takes from it can have replicas then, nor can what a Mapper runs in; and what it made of
        the epochs after the newest checkpoint may be made anew, and be something else, after a loss.
    """

    output: ClassVar[Columns] = {}
    needs: ClassVar[Sequence[str] | None] = None
    deterministic: ClassVar[bool] = True
    context: Context

    def output_schema(self, *inputs: pa.Schema) -> Columns:
        """The columns that leave; override it where they depend on the input or the settings."""
        return self.output

    def prepare(self) -> None:
        """Called once per process before the first event: load a table, compile a pattern."""


class Mapper(UserCode):
    """Makes any number of events from each event. Override `map` or `map_batch`, not both.

    >>> class Words(Mapper):
    ...     output = {"word": "string"}
    ...
    ...     def map(self, event):
    ...         return event.line.split()
    """

    def map(self, event: Any) -> Any:
        """The rows that the event becomes (see the module's text)."""
        raise NotImplementedError

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        """A batch of `output`, one row per input row in order, or ``(batch, parents)``.

        `parents` are ascending: output row i came from input row ``parents[i]``. The result must
        not depend on how rows are cut into batches.
        """
        raise NotImplementedError


class Reducer(UserCode):
    """Folds the events of an epoch (or window) by key.

    With `merge`, and unless `commutative` is False, it is combined before the shuffle: then any
    order and any grouping of an epoch's events must give the same result, bit for bit. Adding
    floats up does not: ``(a + b) + c`` differs from ``a + (b + c)``; use integers,
    `fractions.Fraction` with serialize, the built-in aggregates, or set ``commutative = False`` to
    get the events in their order, at a cost.

    An accumulator of plain data (None, bool, int, float, str, bytes and lists, tuples, dicts, sets
    of them) travels as it is. For any other, write `serialize` and `deserialize`. Both may be called
    on another thread while `add` goes on with other accumulators, to save a snapshot.

    >>> class Count(Reducer):
    ...     output = {"count": "int64"}
    ...
    ...     def create(self):
    ...         return 0
    ...
    ...     def add(self, accumulator, event):
    ...         return accumulator + 1
    ...
    ...     def merge(self, left, right):
    ...         return left + right
    ...
    ...     def finish(self, key, accumulator):
    ...         return accumulator
    """

    commutative: ClassVar[bool] = True
    state_version: ClassVar[int] = 1
    """Version of what accumulators hold, as snapshots of windows save them."""

    def create(self) -> Any:
        """The accumulator of a key that no event has come for."""
        raise NotImplementedError

    def add(self, accumulator: Any, event: Any) -> Any:
        """The accumulator with one event more. It may change and return the one it got."""
        raise NotImplementedError

    def add_batch(self, accumulator: Any, batch: pa.RecordBatch) -> Any:
        """Instead of `add`: the accumulator with the rows of one key out of one batch.

        Pays where a key has many rows per batch (a thousand, say). Columns: `needs`, or all.
        """
        raise NotImplementedError

    def merge(self, left: Any, right: Any) -> Any:
        """One accumulator from two of one key. It may change and return either."""
        raise NotImplementedError

    def finish(self, key: Any, accumulator: Any) -> Any:
        """The rows that leave for a key (see the module's text); keys come in ascending order."""
        raise NotImplementedError

    def serialize(self, accumulator: Any) -> bytes:
        """The accumulator as bytes, where it isn't plain data."""
        raise NotImplementedError

    def deserialize(self, data: bytes) -> Any:
        """The inverse of `serialize`."""
        raise NotImplementedError

    def migrate(self, state: Any, version: int) -> Any:
        """The accumulator `state` of a snapshot of another `state_version`, in this version.

        Where there is `serialize`, `state` and the result are its bytes. Without this method such a
        snapshot is refused.
        """
        raise NotImplementedError


class Operator(UserCode):
    """Keeps state per key; takes the events of an epoch one after the other.

    `state` declares what is kept for each key, in cells: Value, List, Queue, Map, Window, Timers, History.
    Unless `commutative` is True, events come in (time, position) order, whatever the number of slices.
    Rows leave in the order of the events they were made of, those of `end_epoch` behind them in
    ascending order of the keys.

    With several inputs, name them: ``ports = ("orders", "payments")``, and write `process_orders`
    and `process_payments` in place of `process`.

    >>> class Steps(Operator):
    ...     output = {"plug": "int64", "step": "float64"}
    ...     state = {"last": Value(None)}
    ...
    ...     def process(self, key, event, state):
    ...         before, state.last = state.last, event.value
    ...         if before is not None:
    ...             return key, event.value - before
    """

    commutative: ClassVar[bool] = False
    state: ClassVar[Mapping[str, Cell]] = {}
    state_version: ClassVar[int] = 1
    """Version of what the cells, or the bytes of `serialize`, hold."""
    ports: ClassVar[Sequence[str]] = ()
    every_key: ClassVar[bool] = False
    """True: `end_epoch` is called for all keys with state, not only those of the epoch's events.

    Such an operator runs in one slice, whatever `slices` says: an epoch ends for a key even where no
    event of the epoch came to the slice that would hold it, so the whole operator must see it end.
    """

    def process(self, key: Any, event: Any, state: KeyState) -> Any:
        """The rows that the event gives rise to (see the module's text)."""
        raise NotImplementedError

    def process_batch(self, key: Any, batch: pa.RecordBatch, state: KeyState) -> Any:
        """Instead of `process`: all rows of one key in an epoch, in their order, as one batch.

        Returns a batch of `output`, one row per input row, or ``(batch, parents)`` as
        `Mapper.map_batch` does, or None. One input only.
        """
        raise NotImplementedError

    def on_timer(self, key: Any, time: int, state: KeyState) -> Any:
        """The rows that leave when a timer of the key fires, for ``Timers()`` in `state`.

        Called at the end of the first epoch whose watermark has reached `time` (microseconds), behind all
        of its events and before `end_epoch`. It may set timers, which must be later. When the input is
        over those that are left fire in epochs of their own; an operator that always sets the next one
        has no end, so set it only where something has happened since the last.
        """
        raise NotImplementedError

    def process_slice(self, batch: pa.RecordBatch, state: KeyState) -> Any:
        """Instead of `process`: all rows of an epoch, of all keys that the slice holds, as one batch.

        For code that works on columns, where a call for each key would cost most of the time. `state` holds
        the declared cells once for all keys of the slice. Called once per epoch (in a loop: per round) in
        which a row comes to the slice. Returns a batch of `output` of any length, or None.

        Needs `commutative`: rows come in any order, and leave sorted by all columns. What leaves for a key
        must depend on rows of this key alone, and not on what other keys lie in the same slice or on whether
        one of them has rows: then the number of slices can't be seen. One input only; `end_epoch`,
        `end_input` and timers are called for keys, so there are none here.
        """
        raise NotImplementedError

    def end_epoch(self, key: Any, state: KeyState) -> Any:
        """The rows that leave for a key when the epoch is over."""
        raise NotImplementedError

    def end_input(self, key: Any, state: KeyState) -> Any:
        """The rows that leave for each key with state when the input is over.

        They leave in an epoch of their own, behind the last one that had data.
        """
        raise NotImplementedError

    def serialize(self) -> bytes:
        """What the operator keeps in attributes of its own, instead of in cells.

        For structures that cells can't hold: a sketch, a model, a tree over all keys of the slice.
        Called between two epochs, and events wait for it, so it should be quick. Equal state should
        give equal bytes. Don't pickle: what is unpickled can run anything.
        """
        raise NotImplementedError

    def deserialize(self, data: bytes, version: int) -> None:
        """Replace the operator's own structures by what `serialize` gave.

        Called on a new operator before its first event, perhaps several times, of which the last
        counts. `version` is the class's `state_version`; bytes of another one go through `migrate`.
        """
        raise NotImplementedError

    def migrate(self, state: Any, version: int) -> Any:
        """State out of a snapshot of another `state_version`, as this version has it.

        Called once for each key with a dict of what its cells held, by their names then, as plain
        data (a Queue is a list, a Window a list of [time, value]); returns such a dict for the cells
        declared now. Where the class has `serialize`, also called with its bytes; returns bytes that
        `deserialize` reads. Raise StateVersionError for a version too old. Without this method a
        snapshot of another version is refused.
        """
        raise NotImplementedError


def overrides(code: UserCode, method: str) -> bool:
    """Whether the user wrote this method."""
    for base in (Mapper, Reducer, Operator, UserCode):
        if hasattr(base, method) and isinstance(code, base):
            return getattr(type(code), method) is not getattr(base, method)
    return hasattr(code, method)
