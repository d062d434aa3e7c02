"""Opening one slice of a live source: take its log over, listen, and read."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from streammine.model.contracts import Position
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StreammineError, TopologyError
from streammine.model.formats import RawFormat
from streammine.model.ingest_chain import Link, find_end
from streammine.model.locations import below
from streammine.model.source_contracts import SourceReader
from streammine.model.topology.live_sources import AnyLiveSource, HttpSource, TcpSource
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live.addresses import Address, Token
from streammine.runtime.sources.live.handover import Handover
from streammine.runtime.sources.live.http_post import HttpPost
from streammine.runtime.sources.live.intake import Intake, IntakeRules
from streammine.runtime.sources.live.log_folder import open_log_folder
from streammine.runtime.sources.live.log_writer import LogWriter, refuse_another_kind
from streammine.runtime.sources.live.reader import LiveReader, SourceRows, logged_entries
from streammine.runtime.sources.live.receiver import Endpoint, Receiver
from streammine.runtime.sources.live.tcp_lines import TcpLines
from streammine.runtime.sources.live.zeromq import ZeroMq

logger = logging.getLogger(__name__)

HANDOVER_BYTES = 16 << 20
"""Logged but not yet read by the engine: with more, the receiver takes nothing in."""


def open_live_reader(
    name: str,
    settings: AnyLiveSource,
    epoch: EpochDefinition,
    base: str,
    slice_index: int,
    columns: Sequence[str] | None,
    position: Position | None = None,
) -> SourceReader:
    """The reader of slice `slice_index`; its receiver listens until `close`.

    `base` is the folder that relative paths start from. A source whose log says that it is over is
    only read. Raises InputError when the log is damaged, of another source, or the address can't
    be had, and OutputError when the log can't be written.
    """
    schema = settings.arrow_schema
    folder = open_log_folder(slice_log(settings.ingest_log, base, slice_index))
    handover = Handover(HANDOVER_BYTES)

    def reader(newest: Link | None, receiver: Receiver | None) -> LiveReader:
        return LiveReader(
            f"{name}/{slice_index}",
            slice_index,
            logged_entries(folder, newest, position),
            position,
            SourceRows(schema, epoch, columns),
            handover,
            receiver,
        )

    end = find_end(folder)
    if end is not None and end.state.ended:
        refuse_another_kind(folder.location, end.link.opening, "clients")
        return reader(end.link, None)
    rules = intake_rules(f"{name}/{slice_index}", settings, epoch)
    endpoint = _endpoint(settings, base, slice_index)
    writer = LogWriter(folder, schema, epoch, settings.lateness.microseconds, settings.remember_ids)
    tell_of_torn_end(folder.location, writer)
    receiver = Receiver(writer, Intake(rules, writer.ids), endpoint, handover)
    try:
        opened = reader(writer.newest, receiver)
        receiver.start()
    except StreammineError:
        receiver.close()
        raise
    return opened


def refuse_impossible(name: str, settings: AnyLiveSource, epoch: EpochDefinition) -> None:
    """Raise TopologyError for a live source that does not go with the topology's epochs."""
    if epoch.kind == "time":
        return
    if settings.slices > 1:
        raise TopologyError(
            f"source '{name}': {settings.slices} slices have an ingest log each, so nobody counts "
            "the rows of all; write slices: 1, or epochs by time"
        )
    for setting in ("idle", "ahead"):
        if getattr(settings, setting) is not None:
            raise TopologyError(
                f"source '{name}': {setting} is about event time, and the topology's epochs go by "
                "count; take it out, or write epochs by time"
            )


def tell_of_torn_end(location: str, writer: LogWriter) -> None:
    """Say what a writer cut off, if anything."""
    if writer.torn_bytes:
        assert writer.newest is not None
        logger.warning(
            "ingest log: %s: the last %d bytes of %s were torn by a crash and cut off; nothing of "
            "them had been acknowledged",
            location,
            writer.torn_bytes,
            writer.newest.name,
        )


def slice_log(ingest_log: str, base: str, slice_index: int) -> str:
    """Folder or URL of one slice's log."""
    location = ingest_log
    if "://" not in location:
        location = _absolute(location, base)
    return below(location, f"slice-{slice_index:05d}")


def intake_rules(name: str, settings: AnyLiveSource, epoch: EpochDefinition) -> IntakeRules:
    """How the source's rows are read and judged."""
    schema = settings.arrow_schema
    written = RawFormat(
        settings.format, settings.delimiter, header=False, columns=tuple(schema.names)
    )
    return IntakeRules(
        name,
        written,
        schema,
        epoch,
        settings.lateness.microseconds,
        None if settings.ahead is None else settings.ahead.microseconds,
        None if settings.idle is None else settings.idle.microseconds,
        settings.remember_ids,
    )


def _absolute(path: str, base: str) -> str:
    return os.path.normpath(os.path.join(os.path.abspath(base), path))


def _endpoint(settings: AnyLiveSource, base: str, slice_index: int) -> Endpoint:
    host, port = settings.address
    address = Address(host, port + slice_index)
    may_end = settings.end == "on_request"
    largest = settings.largest.bytes
    if isinstance(settings, TcpSource | HttpSource):
        token = None if settings.token is None else Token.load(_absolute(settings.token, base))
        if isinstance(settings, TcpSource):
            return TcpLines(address, largest, settings.ids, may_end, token)
        return HttpPost(address, largest, may_end, token)
    keys = None if settings.keys is None else ClusterKeys.load(_absolute(settings.keys, base))
    return ZeroMq(address, largest, may_end, keys)
