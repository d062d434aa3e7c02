"""Replaying a log into a running source: what travels, what is held, and where it goes on.

A *replay* reads an epoch log or an ingest log and pushes its rows into the slices of a running
source (DESIGN §6). Partition p of the log goes to slice p modulo the slices, as when the log is
read directly, and each slice gets its partitions as one stream of *parcels*, epochs ascending. A
parcel has a `Mark`: epoch, partition, and its number among the parcels of that epoch and partition.
Log and marks follow from the log's bytes alone, so a second attempt makes the same parcels, and a
slice drops those up to the mark that it holds.

::

    replay                              source slice
    Hello(log, schema, epochs)     →
                                   ←    Welcome(session, window; what is held)   or Refused
    ParcelHead(session, 0) + rows  →
    ParcelHead(session, 1) + rows  →
                                   ←    Held(session, 0): durable in the ingest log
    Alive                          →
                                   ←    Held(session, 1)
    Bye, or Finish                 →
                                   ←    Done: all is durable, or the source is over, durably

At most `Welcome.window_bytes` may be under way unacknowledged (a single parcel always may), and a
source that lags acknowledges nothing: that is the back-pressure. A slice has one session at a time. A newer
attempt of the same replay ends the older one's; another replay is refused while one is alive.
Sequence numbers count within a session without a gap, since ZeroMQ loses silently.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.errors import InputError
from streammine.model.vocabulary import Vocabulary

PROTOCOL_VERSION = 1
"""Grows when messages change, or when the same log would give other parcels."""

MAXIMUM_HEAD_BYTES = 16 << 20
"""Longest message, a parcel's rows left out."""

MAXIMUM_BODY_BYTES = 64 << 20
"""Longest rows of a parcel, as Arrow writes them."""

PARCEL_BYTES = 2 << 20
"""Rows of about so much memory make a parcel; more are cut, down to single rows."""

PARCEL_LETTERS = 1000
"""Most dead rows of a parcel; with their texts they stay far below the longest message."""

WINDOW_BYTES = 8 << 20
"""Sent to one slice and not yet acknowledged."""

LETTERS_PARTITION = -1
"""Stands for an epoch log's dead letters: within an epoch they come first, and go to slice 0."""

END_PARTITION = 2**31
"""Stands for the end of what is replayed: behind all rows of the last epoch."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Place of a parcel in the stream of its slice."""

    epoch: int
    partition: int
    part: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row of the log that can't be used: raw file (or source slice) and row in it, and why."""

    file: str
    row: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class HeldLog:
    """What a source slice has of the log that was last replayed into it: all parcels of epochs from
    `since` on, up to `mark`."""

    log: str
    since: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class Hello:
    """A replay wants to push `log` (its identity) from `from_epoch` on.

    `replay` is a name that no other run of the command has; of its attempts the highest wins. `schema` is the
    visible columns' Arrow IPC message and `epoch` the definition as `epoch_text` writes it.
    """

    version: int
    replay: str
    attempt: int
    log: str
    schema: bytes
    epoch: str
    from_epoch: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """The session begins. `held` says what of this log need not be sent again; None: nothing. It
    counts as taken, and as durable when `Done` is answered."""

    session: int
    window_bytes: int
    held: Mark | None


@dataclass(frozen=True, slots=True)
class ParcelHead:
    """A parcel; its rows follow as an Arrow IPC message in `epoch_log.log_schema` (no bytes: no rows).

    `open_epoch`: every epoch below it is complete in this slice with this parcel.
    """

    session: int
    sequence: int
    mark: Mark
    open_epoch: int
    dead: tuple[DeadLetter, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """The replay still runs; answered with `Held`."""

    session: int


@dataclass(frozen=True, slots=True)
class Held:
    """All parcels of the session below number `sequence` are durable."""

    session: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The source is over; nothing comes after what was replayed."""

    session: int


@dataclass(frozen=True, slots=True)
class Bye:
    """The session is over, the source is not."""

    session: int


@dataclass(frozen=True, slots=True)
class Done:
    """Answers Bye and Finish, once all that the slice was sent, or its end, is durable."""

    session: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Not so. `again`: a new Hello may do better, perhaps later."""

    reason: str
    again: bool


FromReplay = Hello | ParcelHead | Alive | Finish | Bye
FromSource = Welcome | Held | Done | Refused

REPLAY_WORDS: Vocabulary[FromReplay] = Vocabulary(
    "replay message", (Hello, ParcelHead, Alive, Finish, Bye), MAXIMUM_HEAD_BYTES
)
SOURCE_WORDS: Vocabulary[FromSource] = Vocabulary(
    "source's answer", (Welcome, Held, Done, Refused), MAXIMUM_HEAD_BYTES
)


def epoch_text(epoch: EpochDefinition) -> str:
    """An epoch definition for people and for comparing."""
    if epoch.kind == "count":
        return f"{epoch.length:,} rows"
    return f"{epoch.length / 1e6:g} s of '{epoch.column}' (unit {epoch.unit})"


def columns_text(schema: pa.Schema) -> str:
    """Columns with their types for people."""
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def unfit(
    source: str, columns: pa.Schema, epoch: EpochDefinition, log_columns: pa.Schema, log_epoch: str
) -> str | None:
    """Why a log of those columns and epochs can't be replayed into the source; None: it can."""
    if not log_columns.equals(columns):
        return (
            f"the log has the columns {columns_text(log_columns)}, and source '{source}' has "
            f"{columns_text(columns)}; they must be the same in the same order"
        )
    if log_epoch != epoch_text(epoch):
        return (
            f"the log has epochs of {log_epoch}, and the topology of source '{source}' has "
            f"{epoch_text(epoch)}; a log keeps its epochs, so they must be the same"
        )
    return None


def going_on(
    held: HeldLog | None, open_epoch: int, log: str, from_epoch: int
) -> tuple[int, Mark | None]:
    """(epoch from which on the slice will have all of the log, last parcel that it has of it).

    `open_epoch`: the slice's epochs below it are over. Raises InputError when some of those are
    asked for that it did not get from this log.
    """
    if held is not None and held.log == log and held.since <= from_epoch <= open_epoch:
        return held.since, held.mark
    if from_epoch < open_epoch:
        had = ""
        if held is not None and held.log == log:
            had = f"; of this log it has the epochs from {held.since} on"
        raise InputError(
            f"its epochs below {open_epoch} are over already{had}, and the replay would begin at "
            f"epoch {from_epoch}: begin later (--from-epoch {open_epoch}), or start the job anew "
            "with another ingest_log"
        )
    return from_epoch, None


def lowest_from(from_epoch: int | None, first_epoch: int | None) -> int:
    """The epoch where a replay begins: as asked for, else the log's first."""
    if from_epoch is not None:
        return from_epoch
    return BEGINNING if first_epoch is None else first_epoch
