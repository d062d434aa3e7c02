"""Jobs, plans and outcomes as bytes: JSON, checked against their types when it is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from streammine.model.errors import ProtocolError
from streammine.model.ids import SliceId
from streammine.model.job import AgreeingReplicas, JobOutcome, JobSpec, Placement, Plan
from streammine.model.schemes import Scheme

_T = TypeVar("_T")

_SPEC = TypeAdapter(JobSpec)
_OUTCOME = TypeAdapter(JobOutcome)

OUTCOME_BYTES = 512 * 1024
"""The most that an outcome takes: it is one record of the coordination service."""

_REASON_CHARACTERS = 20_000

_TOLD_COUNTERS = ("rows_in", "first_read_at", "last_commit_at", "epochs_lost")
"""What `run` and `status` tell of a job that is over."""

_Counters: TypeAlias = dict[str, dict[str, float]]


def encode_spec(spec: JobSpec) -> bytes:
    return _SPEC.dump_json(spec)


def decode_spec(data: bytes) -> JobSpec:
    """Raises ProtocolError when the bytes are no job of this version."""
    return _decoded(_SPEC, data, "job")


def encode_outcome(outcome: JobOutcome) -> bytes:
    """A reason that is too long, or holds what UTF-8 can't, is made to fit: the job must end.

    So are the counters of more slices than `OUTCOME_BYTES` hold: what is left of them is one entry
    per vertex, under its slice 0, and of very many vertices only what is told of an ended job.
    """
    reason = outcome.reason
    if reason is not None:
        cut = reason[:_REASON_CHARACTERS]
        outcome = replace(outcome, reason=cut.encode("utf-8", "backslashreplace").decode())
    data = _OUTCOME.dump_json(outcome)
    for shortened in (_by_vertex, _told, _forgotten):
        if len(data) > OUTCOME_BYTES:
            outcome = replace(outcome, counters=shortened(outcome.counters))
            data = _OUTCOME.dump_json(outcome)
    return data


def _by_vertex(counters: _Counters) -> _Counters:
    """Sums over each vertex's slices; of points in time the first or the last, of lost epochs the most."""
    folded: _Counters = {}
    for name, of_slice in counters.items():
        into = folded.setdefault(f"{name.rpartition('/')[0]}/0", {})
        for counter, value in of_slice.items():
            if counter not in into:
                into[counter] = value
            elif counter == "epochs_lost":
                into[counter] = max(into[counter], value)
            elif counter.endswith(("_at", "_after")):
                latest = counter.startswith("last_") or counter.endswith("_after")
                into[counter] = (max if latest else min)(into[counter], value)
            else:
                into[counter] += value
    return folded


def _told(counters: _Counters) -> _Counters:
    kept = {
        name: {counter: value for counter, value in each.items() if counter in _TOLD_COUNTERS}
        for name, each in counters.items()
    }
    return {name: each for name, each in kept.items() if each}


def _forgotten(counters: _Counters) -> _Counters:
    return {}


def decode_outcome(data: bytes) -> JobOutcome:
    return _decoded(_OUTCOME, data, "job outcome")


@dataclass(frozen=True)
class _PlanDocument:
    """A plan with its slices as text: JSON has no other keys."""

    job: int
    version: int
    phase: Literal["deploy", "run", "stop"]
    placements: dict[str, tuple[Placement, ...]]
    draining: tuple[str, ...]
    savepoint: bool
    rebuilt: int
    reached: int
    began_at: float
    schemes: dict[str, Scheme]
    crowded: tuple[str, ...]
    fixed: tuple[str, ...]
    agreeing: dict[str, AgreeingReplicas]


_PLAN = TypeAdapter(_PlanDocument)


def encode_plan(plan: Plan) -> bytes:
    placements = {str(slice_id): group for slice_id, group in plan.placements.items()}
    document = _PlanDocument(
        plan.job,
        plan.version,
        plan.phase,
        placements,
        plan.draining,
        plan.savepoint,
        plan.rebuilt,
        plan.reached,
        plan.began_at,
        {str(slice_id): scheme for slice_id, scheme in plan.schemes.items()},
        plan.crowded,
        tuple(map(str, plan.fixed)),
        {str(slice_id): replicas for slice_id, replicas in plan.agreeing.items()},
    )
    return _PLAN.dump_json(document)


def decode_plan(data: bytes) -> Plan:
    """Raises ProtocolError when the bytes are no plan of this version."""
    found = _decoded(_PLAN, data, "plan")
    try:
        placements = {SliceId.parse(name): group for name, group in found.placements.items()}
        schemes = {SliceId.parse(name): scheme for name, scheme in found.schemes.items()}
        fixed = tuple(map(SliceId.parse, found.fixed))
        agreeing = {SliceId.parse(name): replicas for name, replicas in found.agreeing.items()}
    except ValueError as error:
        raise ProtocolError(f"what was read is no plan of this version: {error}") from error
    return Plan(
        found.job,
        found.version,
        found.phase,
        placements,
        found.draining,
        found.savepoint,
        found.rebuilt,
        found.reached,
        found.began_at,
        schemes,
        found.crowded,
        fixed,
        agreeing,
    )


def _decoded(adapter: TypeAdapter[_T], data: bytes, what: str) -> _T:
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        raise ProtocolError(f"what was read is no {what} of this version: {error}") from error
