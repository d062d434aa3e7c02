"""Where things stand in ZooKeeper, and how they are read there.

::

    /streammine/CLUSTER/members/member-SEQUENCE       ephemeral, one per node
                       /jobs/job-NUMBER/part-…        what was submitted, in parts
                                       /plan          [version, token, header]; parts in plan/TOKEN
                                       /complete      header of the parts; created last
                                       /outcome       the job is over
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace
from typing import Any

import msgpack
from kazoo.exceptions import NoNodeError

from streammine.model.coordination import Member, PlanPublished
from streammine.model.errors import ProtocolError
from streammine.runtime.identities import is_name
from streammine.runtime.znodes import BlobHeader, Znodes, read_blob, unpacked

ROOT = "/streammine"
_MEMBER_TYPES: tuple[type | tuple[type, ...], ...] = (
    str,
    str,
    str,
    str,
    int,
    (str, type(None)),
)
_READS = 8


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of one cluster."""

    cluster: str

    @property
    def base(self) -> str:
        return f"{ROOT}/{self.cluster}"

    @property
    def members(self) -> str:
        return f"{self.base}/members"

    def member(self, sequence: int) -> str:
        return f"{self.members}/member-{sequence:010}"

    @property
    def jobs(self) -> str:
        return f"{self.base}/jobs"

    def job(self, number: int) -> str:
        return f"{self.jobs}/job-{number:010}"

    def witness(self, job: int, name: str) -> str:
        return f"{self.job(job)}/witnesses/{name}"


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """What the znode of a plan holds. Version 0 stands before any plan. `token` names its parts."""

    version: int
    token: str
    header: BlobHeader

    def encode(self) -> bytes:
        data: bytes = msgpack.packb([self.version, self.token, self.header.tree()])
        return data

    @classmethod
    def decode(cls, data: bytes, path: str) -> PlanRecord:
        match unpacked(data, path):
            case [int(version), str(token), header]:
                return cls(version, token, BlobHeader.of(header))
        raise ProtocolError(f"znode {path} does not hold a plan's record")


NO_PLAN = PlanRecord(0, "", BlobHeader(0, 0, b""))


def number_of(name: str) -> int:
    """The number that ZooKeeper gave to a sequential znode."""
    return int(name.rpartition("-")[2])


def encode_member(member: Member) -> bytes:
    data: bytes = msgpack.packb(astuple(member)[: len(_MEMBER_TYPES)])
    return data


def decode_member(data: bytes, name: str, session: int) -> Member:
    """Raises ProtocolError when it is no member's record."""
    tree: Any = unpacked(data, name)
    if (
        not isinstance(tree, list)
        or len(tree) != len(_MEMBER_TYPES)
        or not all(isinstance(v, t) for v, t in zip(tree, _MEMBER_TYPES, strict=True))
        or not is_name(tree[0])
    ):
        expected = ", ".join(field.name for field in fields(Member)[: len(_MEMBER_TYPES)])
        raise ProtocolError(f"znode {name} should hold a member ({expected})")
    return replace(Member(*tree), sequence=number_of(name), session=session)


def read_member(znodes: Znodes, paths: Paths, name: str) -> Member:
    """The member in the znode `name`. Raises NoNodeError, ProtocolError."""
    znode = znodes.get(f"{paths.members}/{name}")
    return decode_member(znode.data, name, znode.session or 0)


def in_order(members: list[Member]) -> tuple[Member, ...]:
    """Members by sequence. Of two with one name the elder is left out: a process that died has been
    replaced before its session ran out."""
    newest = {member.name: member for member in sorted(members, key=lambda m: m.sequence)}
    return tuple(sorted(newest.values(), key=lambda m: m.sequence))


def read_job(znodes: Znodes, paths: Paths, number: int) -> bytes:
    """A complete job's blob. Raises NoNodeError, ProtocolError."""
    path = paths.job(number)
    complete = f"{path}/complete"
    header = BlobHeader.of(unpacked(znodes.get(complete).data, complete))
    return read_blob(znodes, path, header)


def read_plan(znodes: Znodes, path: str, record: PlanRecord, job: int) -> PlanPublished | None:
    """The newest plan, beginning with the record last seen. None before the first one.

    A newer plan may take the parts away while we read them; then that one is read.
    """
    for _ in range(_READS):
        if record.version == 0:
            return None
        try:
            blob = read_blob(znodes, f"{path}/{record.token}", record.header)
            return PlanPublished(job, record.version, blob)
        except NoNodeError:
            newer = PlanRecord.decode(znodes.get(path).data, path)
            if newer.version == record.version:
                raise ProtocolError(f"parts of the plan {path} are missing") from None
            record = newer
    raise ProtocolError(f"plan {path} changes faster than it can be read")
