"""Opening one slice of a replay source: take its log over, listen, and read."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from streammine.model.contracts import Position
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StreammineError
from streammine.model.ingest_chain import Link, find_end
from streammine.model.source_contracts import SourceReader
from streammine.model.topology.replay_source import ReplaySource
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.files import absolute
from streammine.runtime.sources.live.addresses import Address
from streammine.runtime.sources.live.handover import Handover
from streammine.runtime.sources.live.log_folder import open_log_folder
from streammine.runtime.sources.live.log_writer import LogWriter, refuse_another_kind
from streammine.runtime.sources.live.opening import HANDOVER_BYTES, slice_log, tell_of_torn_end
from streammine.runtime.sources.live.reader import SourceRows, logged_entries
from streammine.runtime.sources.live.receiver import Receiver
from streammine.runtime.sources.live.replay_intake import ReplayIntake
from streammine.runtime.sources.live.replay_port import ReplayPort
from streammine.runtime.sources.live.replay_reader import ReplayReader

logger = logging.getLogger(__name__)


def open_replay_reader(
    name: str,
    settings: ReplaySource,
    epoch: EpochDefinition,
    base: str,
    slice_index: int,
    columns: Sequence[str] | None,
    position: Position | None = None,
) -> SourceReader:
    """The reader of slice `slice_index`; it takes replays in until `close`. As `open_live_reader`."""
    schema = settings.arrow_schema
    location = slice_log(settings.ingest_log, base, slice_index)
    folder = open_log_folder(location)
    handover = Handover(HANDOVER_BYTES)

    def reader(newest: Link | None, receiver: Receiver | None) -> ReplayReader:
        return ReplayReader(
            f"{name}/{slice_index}",
            logged_entries(folder, newest, position),
            position,
            SourceRows(schema, epoch, columns),
            handover,
            receiver,
        )

    end = find_end(folder)
    if end is not None and end.state.ended:
        refuse_another_kind(folder.location, end.link.opening, "replay")
        return reader(end.link, None)
    address = None
    keys = None
    if settings.address is not None:
        host, port = settings.address
        address = Address(host, port + slice_index)
        assert settings.keys is not None, "the topology was checked"
        keys = ClusterKeys.load(absolute(settings.keys, base))
    writer = LogWriter(folder, schema, epoch, 0, 0, kind="replay")
    tell_of_torn_end(folder.location, writer)

    def publish(about: bytes) -> None:
        # the writer goes on with the file that it made last, so this is made through another hold
        beside = open_log_folder(location)
        try:
            beside.create(writer.generation.address, about)
        finally:
            beside.close()

    listening = ReplayPort(name, schema, epoch, writer.state, publish, address, keys)
    receiver = Receiver(writer, ReplayIntake(), listening, handover)
    try:
        opened = reader(writer.newest, receiver)
        receiver.start()
    except StreammineError:
        receiver.close()
        raise
    return opened
