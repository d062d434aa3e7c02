"""Clusters that are up: where they are written down, and how a client gets at one.

A cluster has a folder that only its user can enter, by default under $XDG_RUNTIME_DIR/streammine or
~/.streammine/clusters with the cluster's name. In it lie `state.json`, the key file, logs, sockets and
scratch space. Its supervisor holds a lock on `lock` as long as it lives, so nobody has to guess from
process numbers whether a cluster is up.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from streammine.model.errors import ClusterError
from streammine.runtime.cluster import KEY_FILE, ClusterAddress
from streammine.runtime.identities import is_name
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.places import is_locked, try_lock

DEFAULT_NAME = "default"
STATE_FILE = "state.json"
LOCK_FILE = "lock"
LOG_FILE = "supervisor.log"
JOBS_FOLDER = "jobs"


@dataclass(frozen=True)
class ClusterSettings:
    """What `streammine up` was asked for."""

    nodes: int
    zookeeper: str | None = None
    threads: int | None = None
    listen: str | None = None


@dataclass(frozen=True)
class ClusterState:
    """What stands in `state.json`: enough for a client to find the cluster. No secret."""

    cluster: str
    zookeeper: str
    nodes: int
    supervisor: int


def cluster_folder(name: str | None, folder: Path | None) -> Path:
    """The folder of a cluster by its name, or the one that is given. Raises ClusterError."""
    if folder is not None:
        return folder.absolute()
    name = name or DEFAULT_NAME
    if not is_name(name):
        raise ClusterError(
            f"a cluster's name has letters, digits and _.- only, at most 64: not {name!r}"
        )
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime):
        return Path(runtime, "streammine", name)
    return Path.home() / ".streammine" / "clusters" / name


def claim_folder(folder: Path) -> None:
    """Make the folder ready for a new cluster, removing what a killed one left behind.

    Raises ClusterError when a cluster is up there, or it holds anything that isn't a cluster's.
    """
    if is_up(folder):
        raise ClusterError(
            f"a cluster is up already in {folder}: use it with `streammine submit`, end it with "
            "`streammine down`, or give the new one another --name"
        )
    try:
        if folder.is_dir() and any(folder.iterdir()):
            if not (folder / LOCK_FILE).is_file():
                raise ClusterError(
                    f"{folder} is not empty, and what is in it belongs to no cluster; "
                    "choose an empty or a new folder"
                )
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.lstat()
        if status.st_uid != os.geteuid():
            raise ClusterError(f"{folder} belongs to user {status.st_uid}; choose another folder")
        if stat.S_IMODE(status.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise ClusterError(
            f"cannot make the cluster's folder {folder}: {error.strerror}; choose another --folder"
        ) from None


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the cluster's lock. Raises ClusterError when someone else does."""
    with open(folder / LOCK_FILE, "a") as file:
        if not try_lock(file):
            raise ClusterError(f"another cluster was started in {folder} at the same moment")
        yield


def is_up(folder: Path) -> bool:
    """Whether a cluster's supervisor lives in this folder."""
    try:
        with open(folder / LOCK_FILE) as file:
            return is_locked(file)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ClusterError(f"cannot look into {folder}: {error.strerror}") from None


def write_state(folder: Path, state: ClusterState) -> None:
    """Clients that read meanwhile see all of it or nothing."""
    temporary = folder / f"{STATE_FILE}.tmp"
    temporary.write_text(json.dumps(asdict(state)), encoding="utf-8")
    temporary.replace(folder / STATE_FILE)


def read_state(folder: Path) -> ClusterState:
    """Raises ClusterError when no cluster is up in this folder."""
    if not is_up(folder):
        raise ClusterError(f"no cluster is up in {folder}; start one with `streammine up`")
    try:
        return ClusterState(**json.loads((folder / STATE_FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ClusterError(f"the cluster in {folder} is still starting, or ending") from None
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(f"{folder / STATE_FILE} can't be read: {error}") from None


class JobScratch:
    """A job's folder inside the cluster's: it goes with the job, with the cluster at the latest."""

    def __init__(self, cluster: Path) -> None:
        self.path = cluster / JOBS_FOLDER / secrets.token_hex(6)
        self.path.mkdir(parents=True, mode=0o700)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class StandingCluster:
    """A cluster that is up, as a client sees it. Raises ClusterError when there is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = read_state(folder)
        self._keys = ClusterKeys.load(folder / KEY_FILE)

    @property
    def nodes(self) -> int:
        """Nodes that must have joined before a job is submitted: one can place it."""
        return 1

    @property
    def address(self) -> ClusterAddress:
        return ClusterAddress(self.state.zookeeper, self.state.cluster, self.folder / KEY_FILE)

    @property
    def greeting(self) -> str:
        return f"submitting to the cluster in {self.folder}"

    def sign(self, data: bytes) -> bytes:
        return self._keys.sign(data)

    def new_scratch(self) -> JobScratch:
        return JobScratch(self.folder)

    def require_parts(self) -> None:
        """All is there, or it would not be up."""

    def start(self) -> None:
        """It is up."""

    def check(self) -> None:
        """Raises ClusterError when it is up no more."""
        if not is_up(self.folder):
            raise ClusterError(
                f"the cluster in {self.folder} ended while the job ran; start one with "
                "`streammine up` and submit the job again"
            )

    def tend(self) -> list[str]:
        """Its supervisor does that. Raises as `check`."""
        self.check()
        return []

    def warnings(self, lines: int = 20) -> str:
        """The end of what the supervisor has to tell, most often nothing."""
        try:
            text = (self.folder / LOG_FILE).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def close(self) -> None:
        """It stays up."""
