"""The slices of a running source, as a replay finds them: where each listens, and what it holds."""

from __future__ import annotations

import json
import os
import socket
import stat
from dataclasses import dataclass

import zmq
from zmq.utils import z85

from streammine.model.cluster_secret import derived, secret_of
from streammine.model.errors import InputError
from streammine.model.ingest_chain import find_end
from streammine.model.ingest_log import ADDRESSES, SEALS, LogState, WriterGeneration
from streammine.pipeline.ingest_log_parcels import SliceLog

_LONGEST_KEY_FILE_BYTES = 4096


@dataclass(frozen=True)
class SliceAddress:
    """Where the newest copy of a slice said that it listens."""

    writer: WriterGeneration
    endpoint: str


def find_slice(log: SliceLog) -> SliceAddress | None:
    """The slice's newest address; None while there is none.

    Raises InputError where only processes of another machine reach it, or the log can't be read.
    """
    names = log.list(ADDRESSES)
    seals = [f"{SEALS}{name.removeprefix(ADDRESSES)}" for name in names]
    writers = [each for seal in seals if (each := WriterGeneration.of_seal(seal)) is not None]
    if not writers:
        return None
    newest = max(writers)
    try:
        about = json.loads(log.read(newest.address).to_pybytes())
        endpoint, host = str(about["endpoint"]), str(about["host"])
    except (ValueError, KeyError, TypeError):
        # it is being written now
        return None
    if endpoint.startswith("ipc://") and host != socket.gethostname():
        raise InputError(
            f"the source's slice of {log.location} runs on {host}, at a socket that only processes "
            f"of that machine reach, and the replay runs on {socket.gethostname()}: replay there, "
            "or give the source `bind`, `keys` and `allow_remote: true`"
        )
    return SliceAddress(newest, endpoint)


def state_of(log: SliceLog) -> LogState:
    """What stands in the slice's own log."""
    end = find_end(log)
    return LogState() if end is None else end.state


@dataclass(frozen=True)
class CurveKeys:
    """What a client needs to connect with CURVE: keys in Z85."""

    server: bytes
    public: bytes
    secret: bytes

    @classmethod
    def load(cls, path: str) -> CurveKeys:
        """Out of a source's key file. Raises InputError when others could have read it."""
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                text = file.read(_LONGEST_KEY_FILE_BYTES)
        except OSError as error:
            raise InputError(f"the source's key file {path}: {error.strerror}") from None
        if mode & 0o077:
            raise InputError(f"key file {path} may be read by others; make new keys: chmod 600")
        try:
            secret = secret_of(text)
        except ValueError as error:
            raise InputError(f"{path} is no key file of streammine: {error}") from None
        server = zmq.curve_public(z85.encode(derived(secret, "curve server")))
        own = z85.encode(derived(secret, "curve client"))
        return cls(server, zmq.curve_public(own), own)

    def apply(self, connecting: zmq.Socket[bytes]) -> None:
        connecting.curve_serverkey = self.server
        connecting.curve_publickey = self.public
        connecting.curve_secretkey = self.secret
