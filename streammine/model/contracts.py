"""The contracts between the rooms: who calls what, when, and what must hold.

`engine`, `operators`, `partitioners` and `replication` never import each other; they meet here, and
`assembly` wires them.

Life of an operator's slice
---------------------------
1. `prepare` once per process, before the job starts: import user code, load kernels.
2. For each open epoch and each input channel: `accumulator(port)`, then `add(batch)` per batch.
   Accumulators of different epochs and channels are apart from each other and from committed state,
   so that one can be thrown away (its sender died) without a trace.
3. When the epoch is complete on all channels: accumulators of one port are merged in channel order,
   and `close(epoch, accumulators)` folds them into the committed state and returns what leaves.
   Epochs are closed in ascending order, each at most once.
4. All calls for one slice come one at a time, though from changing threads.

An operator whose accumulators can't `merge` (`Traits.mergeable` is false) is given one accumulator
for the whole epoch, filled when the epoch is complete. So is one that isn't commutative.
Operators are pure: no I/O, no clock, no threads, no randomness of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.epochs import BEGINNING, EpochDefinition

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Traits:
    """What an operator says of itself; the planner chooses the discipline from it.

    commutative: any order of an epoch's events gives the same bytes, results and state alike.
    mergeable: accumulators of parts of an epoch can be merged.
    combinable: accumulators hand out partials, so that the sending side can combine before the shuffle.
    deterministic: the same events give the same bytes whenever it runs.
    """

    commutative: bool = True
    mergeable: bool = True
    combinable: bool = False
    deterministic: bool = True


@dataclass(frozen=True)
class DeadRows:
    """Rows that could not be used, with the reason for each.

    `rows` are their texts (what a person needs to find them), `reasons` as many. `file` and `row` say
    where they came from, or None.
    """

    reasons: tuple[str, ...]
    rows: tuple[str, ...]
    files: tuple[str | None, ...]
    numbers: tuple[int | None, ...]

    def __len__(self) -> int:
        return len(self.reasons)


DEAD_SCHEMA = pa.schema(
    [
        pa.field("origin", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("file", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("text", pa.string()),
    ]
)
"""Schema of the dead-letter output: which source or operator, why, where from, and the row's text."""


def dead_batch(origin: str, dead: DeadRows) -> pa.RecordBatch:
    """The dead rows as a batch of DEAD_SCHEMA."""
    columns = [[origin] * len(dead), dead.reasons, dead.files, dead.numbers, dead.rows]
    return pa.record_batch(
        [
            pa.array(list(values), field.type)
            for values, field in zip(columns, DEAD_SCHEMA, strict=True)
        ],
        schema=DEAD_SCHEMA,
    )


@dataclass(frozen=True)
class Derived:
    """What a stateless operator made of a batch.

    `parents[i]` (int64) is the input row that output row i came from, ascending; None means one output
    row per input row, in order. `one_to_many` stages add an output index to the position.
    """

    batch: pa.RecordBatch
    parents: IntArray | None = None
    dead: DeadRows | None = None


class StatelessOperator(Protocol):
    """Events in, events out, nothing remembered. Fused into its upstream's slice."""

    name: str
    output: pa.Schema
    one_to_many: bool
    needs: frozenset[str] | None
    """Input columns that it reads or passes on; None for all. Used to read no more than that."""
    deterministic: bool

    def prepare(self) -> None: ...

    def apply(self, batch: pa.RecordBatch) -> Derived:
        """`batch` holds the visible columns only, in the schema that the operator was built with."""
        ...


@dataclass(frozen=True)
class EpochClose:
    """An epoch that is complete, or in a loop one of its rounds.

    `watermark` is event time in microseconds (see model.epochs). Whatever happens once per epoch happens in
    the `last` round only; outside of loops each epoch has one round, the last. `lost`: ranges (first, last)
    of the epochs up to this one that gap recovery lost, each named once; told to committers alone.
    """

    epoch: int
    watermark: int
    definition: EpochDefinition
    round: int = 0
    last: bool = True
    lost: tuple[tuple[int, int], ...] = ()


class Accumulator(Protocol):
    """What an open epoch has collected on one port from one channel."""

    @property
    def nbytes(self) -> int: ...

    def add(self, batch: pa.RecordBatch) -> None:
        """Visible columns in the port's schema; for a combining edge, rows of `partial_schema`."""
        ...

    def merge(self, other: Any) -> None:
        """Fold another accumulator of the same port and epoch in; the other is not used again."""
        ...


class Combiner(Protocol):
    """The sending side's share of a combinable operator, one per slice, edge and open epoch."""

    @property
    def nbytes(self) -> int: ...

    def add(self, batch: pa.RecordBatch) -> None: ...

    def partials(self) -> pa.RecordBatch:
        """Exact, unrounded partials in `partial_schema`, in canonical key order; empties the combiner."""
        ...


@runtime_checkable
class StatefulOperator(Protocol):
    """An operator with a slice, keys and state of its own (aggregate, join, reducer, user operator).

    `keys[port]` names the columns by which the input is partitioned; () sends everything to slice 0.
    The output leaves in canonical key order and `output_order` names the columns that order it (a join's,
    only where it is built to).
    """

    name: str
    traits: Traits
    output: pa.Schema
    output_order: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    needs: tuple[frozenset[str] | None, ...]
    partial_schema: pa.Schema | None
    partial_keys: tuple[str, ...]

    def prepare(self) -> None: ...

    def combiner(self) -> Combiner: ...

    def accumulator(self, port: int) -> Accumulator: ...

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]:
        """`accumulators[port]`; may be empty ones. Changes committed state and returns the output."""
        ...

    @property
    def state_nbytes(self) -> int: ...


@runtime_checkable
class TellsTogether(Protocol):
    """A StatefulOperator that can close some epochs and tell their results in one go, which costs less where
    epochs are small. In loops each is closed as of any other operator.

    The results are told by the end of the run of work that closed the epochs, and before rows that are set
    aside; so no state is saved, and no other taken, while there are any that are not.
    """

    def close_untold(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> None:
        """Like `close`, but the results are told later. Which epoch is due next is known at once."""
        ...

    @property
    def untold_nbytes(self) -> int:
        """About what the results that are not told yet will take."""
        ...

    def tell(self) -> Sequence[tuple[pa.RecordBatch, IntArray]]:
        """The results not told yet, and the epoch of each row (int64), ascending over all batches."""
        ...


@runtime_checkable
class SequentialOperator(Protocol):
    """A stateful operator that takes an epoch's events one after the other, over all ports.

    Used for the general `Operator` with per-key state. `run` gets the bag in the order that the
    discipline promises: (port, batch) segments. Under strict they are in (time, position) order, under merge
    in the order of the channels; how a channel's rows are cut into batches is chance. One with a true
    `merges_ports` gets each port as one segment under strict, and brings these into one order itself.
    """

    name: str
    traits: Traits
    output: pa.Schema
    output_order: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    needs: tuple[frozenset[str] | None, ...]

    def prepare(self) -> None: ...

    def run(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> Sequence[pa.RecordBatch]: ...

    @property
    def state_nbytes(self) -> int: ...


@runtime_checkable
class GoesByTime(Protocol):
    """A SequentialOperator to which epochs are stretches of event time and no more: given the events of many
    in strict order, it makes what it makes of one after the other."""

    def run_through(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> Sequence[tuple[pa.RecordBatch, IntArray]]:
        """Like `run`, of every epoch up to this one that was not run yet, those that are due, too.

        Also gives the epoch of each row (int64), ascending over all batches.
        """
        ...


@runtime_checkable
class HoldsWindows(Protocol):
    """A stateful or sequential operator that holds results back until a window is over."""

    @property
    def due_epoch(self) -> int | None:
        """The next epoch that must be closed even if it gets no data: a window ends with it.

        None when nothing is held back. When the input is over every due epoch is closed in turn, so
        whatever a window still holds leaves in that window's own last epoch.
        """
        ...


@runtime_checkable
class Forgets(Protocol):
    """A stateful operator whose results depend on nothing before a window of whole epochs. Windows tumble,
    unless it has an attribute `slide_epochs`, too: how far apart they begin."""

    @property
    def window_epochs(self) -> int:
        """How many epochs the window has; windows are aligned as epochs are."""
        ...


@runtime_checkable
class Flushes(Protocol):
    """A stateful or sequential operator that has something to say when the input is over."""

    def flush(self, epoch: EpochClose) -> Sequence[pa.RecordBatch]:
        """Every epoch is closed. What leaves now is in the final epoch, one more than the last one
        that held data anywhere upstream. Called once."""
        ...


@runtime_checkable
class Commits(Protocol):
    """An operator that decides what is output."""

    epochs_lost: int
    """Of those committed so far, how many gap recovery has lost."""


Position = dict[str, Any]
"""Where a reader goes on from: plain data that JSON can hold, the reader's own business."""


class FrozenState(Protocol):
    """Committed state as it stood when it was frozen. `full`: all of it, not only what had changed."""

    @property
    def full(self) -> bool: ...

    def pieces(self) -> Iterator[pa.Buffer]:
        """The state in pieces of at most some megabytes. Taken once, on another thread, while the
        operator goes on: what it changes meanwhile is not seen here."""
        ...


@runtime_checkable
class KeepsState(Protocol):
    """An operator with committed state that a snapshot must hold.

    Operators without it keep nothing from one epoch to the next.
    """

    @property
    def state_version(self) -> int:
        """Version of the format of the operator's own state."""
        ...

    def freeze(self, full: bool) -> FrozenState:
        """Hand over the state as it stands between two epochs, in little time (copy on write).

        Not `full`: only what changed since the last freeze is needed; all of it may be given. The one
        before has been written or given up by then.
        """
        ...

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """Take in what a freeze gave: a full one first, then the later ones in their order.

        Raises StateVersionError for a version that it can neither read nor migrate.
        """
        ...


@dataclass(frozen=True)
class Carried:
    """What the head of a loop keeps between two epochs: the next epoch that can hold anything, and the
    rows, by port, that are carried into the epoch after the last one."""

    next_epoch: int
    rows: tuple[tuple[int, pa.RecordBatch], ...] = ()


@dataclass(frozen=True)
class FrozenSlice:
    """All of a slice's committed state after `epoch`, ready to be written.

    `last_epoch` is the highest epoch that held data so far and `due` the next that the operator wants
    closed; `position` is a source's, `carried` that of a loop's head. `state` is None where the operator
    keeps none. `lost_until`: what is made up to that epoch lacks events that gap recovery has lost;
    BEGINNING, as a rule, where nothing does.
    """

    epoch: int
    last_epoch: int
    due: int | None = None
    position: Position | None = None
    state_version: int = 0
    state: FrozenState | None = None
    carried: Carried | None = None
    lost_until: int = BEGINNING


@runtime_checkable
class RunsUserCode(Protocol):
    """An operator whose errors should say where they happened."""

    def locate(self, slice_index: int, epoch: int) -> None:
        """The slice that it runs in and the epoch of what it is given next."""
        ...


@runtime_checkable
class MayAskForEpoch(RunsUserCode, Protocol):
    """A StatelessOperator whose code can ask for the epoch of its rows."""

    @property
    def asked_for_epoch(self) -> bool:
        """Whether it has since it was located: then what it gave is right for rows of that epoch alone."""
        ...


@runtime_checkable
class SetsAside(Protocol):
    """An operator or combiner in which user code may fail on single events."""

    def take_dead(self) -> DeadRows | None:
        """The events it failed on since the last call."""
        ...


@runtime_checkable
class Partitioner(Protocol):
    """Which slice a row belongs to. Equal keys give equal slices on every machine, for ever."""

    broadcast: bool
    """True: every slice gets every row, and `targets` is never called."""

    def targets(self, keys: Sequence[pa.Array], slices: int) -> npt.NDArray[np.int32]:
        """Slice of each row, in [0, slices), from the key columns (all of one length)."""
        ...


@runtime_checkable
class Prepares(Partitioner, Protocol):
    """A Partitioner that must load something before its first rows."""

    def prepare(self) -> None:
        """Called once in every slice that sends through it, before it gets any rows."""
        ...


class Store(Protocol):
    """Named immutable blobs: output files, manifests, snapshots. Names are relative paths with '/'.

    `put` is atomic: a reader sees the whole blob or none; putting an existing name replaces it whole.
    Raises OutputError, naming the store and what failed (a full disk, no permission).
    """

    def put(self, name: str, data: pa.Buffer | bytes) -> None: ...

    def get(self, name: str) -> pa.Buffer: ...

    def list(self, prefix: str) -> list[str]: ...

    def delete(self, name: str) -> None: ...


StoreOpener = Callable[[str], Store]
"""Opens the store at a URL or folder path."""


class BatchSpill(Protocol):
    """Where batches wait that outgrow memory. Safe to call from any thread."""

    def put(self, batch: pa.RecordBatch) -> int:
        """Store a batch, return a ticket. Raises OutputError when the disk is full."""
        ...

    def read(self, ticket: int) -> pa.RecordBatch: ...

    def free(self, ticket: int) -> None:
        """Forget a batch."""
        ...

    def close(self) -> None:
        """Nothing more is put. What is there can be read until it is forgotten."""
        ...


@dataclass
class Counters:
    """What a slice has done; sums over slices are what people see. `rows_in` and `batches_in`: what has come
    of an epoch, and was not discarded for another replica's bag; an operator's `rows_in` are those of epochs
    above `counted_after`, for what is in the snapshot that it goes on from was counted elsewhere.
    `buffered_bytes` wait in the operator, in memory, for the end of their epochs. Of an operator that
    GoesByTime, `epochs` leaves out those that became due between others of one run."""

    rows_in: int = 0
    counted_after: int = BEGINNING
    rows_out: int = 0
    rows_dead: int = 0
    batches_in: int = 0
    epochs: int = 0
    state_bytes: int = 0
    buffered_bytes: int = 0
    spilled_bytes: int = 0
    busy_seconds: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)
