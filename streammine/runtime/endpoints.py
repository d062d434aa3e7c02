"""Where a node's sockets are bound: Unix sockets in a private folder, or TCP (DESIGN §7).

Nodes of one machine talk over `ipc://` in a folder that only their user can enter; that needs no
keys. TCP beyond loopback is refused without keys.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from streammine.model.errors import ClusterError
from streammine.runtime.keys import ClusterKeys

_LONGEST_SOCKET_PATH_BYTES = 107
"""Size of `sun_path` in the kernel's address of a Unix socket, less the final zero."""

_SOCKET_NAME_BYTES = len("/0123456789abcdef.control")


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The two addresses that a node binds: data, and control (which is never queued behind data).

    A TCP port of `*` is chosen by the kernel at binding. `advertised_host` replaces the host in
    what other nodes are told; needed where the bound host is a wildcard.
    """

    data: str
    control: str
    advertised_host: str | None = None

    def advertised(self, bound: str) -> str:
        """What others are told of an address that was bound, in ZeroMQ's words of it."""
        if self.advertised_host is None or not bound.startswith("tcp://"):
            return bound
        return f"tcp://{_bracketed(self.advertised_host)}:{bound.rpartition(':')[2]}"


class SocketFolder:
    """A folder for Unix sockets with mode 0700, removed by `close`.

    It lies under `parent` where the sockets' paths are short enough for the kernel there, otherwise
    under the system's folder for temporary files.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self.path = self._made(parent)

    @staticmethod
    def _made(parent: str | os.PathLike[str] | None) -> Path:
        # mkdtemp gives mode 0700 and a name that no one else has.
        places = [tempfile.gettempdir(), "/tmp"]
        if parent is not None:
            places.insert(0, os.path.abspath(parent))
        for place in places:
            spare_bytes = _LONGEST_SOCKET_PATH_BYTES - _SOCKET_NAME_BYTES
            if len(os.fsencode(place)) + len("/sm-01234567") > spare_bytes:
                continue
            try:
                return Path(tempfile.mkdtemp(prefix="sm-", dir=place))
            except OSError as error:
                raise ClusterError(
                    f"cannot make a folder for sockets in {place}: {error.strerror}"
                ) from None
        raise ClusterError(
            f"no folder with a path short enough for Unix sockets among {', '.join(places)};"
            f" set TMPDIR to a shorter one"
        )

    def close(self) -> None:
        """Remove the folder with what is left in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> SocketFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def ipc_endpoints(folder: str | os.PathLike[str]) -> Endpoints:
    """New Unix socket addresses in `folder`, which must be its user's alone.

    Each process gets names of its own, so that what was queued for a node that died never reaches
    the one started in its place. Raises ClusterError for a folder that others may enter, or too
    long a path.
    """
    check_private(Path(folder))
    stem = f"{folder}/{secrets.token_hex(8)}"
    if len(os.fsencode(stem)) + len(".control") > _LONGEST_SOCKET_PATH_BYTES:
        raise ClusterError(
            f"folder {folder} has too long a path for Unix sockets, whose whole path has at most"
            f" {_LONGEST_SOCKET_PATH_BYTES} bytes; use a folder with a shorter path"
        )
    return Endpoints(f"ipc://{stem}.data", f"ipc://{stem}.control")


def tcp_endpoints(
    host: str,
    keys: ClusterKeys | None,
    data_port: int | None = None,
    control_port: int | None = None,
    advertised_host: str | None = None,
) -> Endpoints:
    """TCP addresses on `host`; ports that are not given are chosen at binding.

    Raises ClusterError beyond loopback without keys, or for a wildcard host that is not advertised
    as a real one.
    """
    if keys is None and not is_loopback(host):
        raise ClusterError(
            f"refusing to bind TCP on {host} without keys: anyone who reaches it could take part;"
            f" give the cluster's key file, or bind 127.0.0.1"
        )
    if advertised_host is None and host in ("0.0.0.0", "::", "*"):
        raise ClusterError(
            f"host {host} means every address of this machine; say which one other nodes shall use"
        )
    where = f"tcp://{_bracketed(host)}:"
    return Endpoints(
        where + ("*" if data_port is None else str(data_port)),
        where + ("*" if control_port is None else str(control_port)),
        advertised_host,
    )


def check_private(folder: Path) -> None:
    """Raises ClusterError unless `folder` is one that this process's user alone can enter."""
    try:
        status = folder.lstat()
    except OSError as error:
        raise ClusterError(f"socket folder {folder}: {error.strerror}") from None
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or mode & 0o077:
        raise ClusterError(
            f"socket folder {folder} must be a folder of user {os.geteuid()} with mode 0700; it has"
            f" mode {mode:04o} and belongs to user {status.st_uid}"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; names are looked up, all addresses must be."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(address[4][0]).is_loopback for address in found)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
