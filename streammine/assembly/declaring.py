"""Bringing a manager's plans to the coordination service, on whatever thread talks to it."""

from __future__ import annotations

from dataclasses import dataclass

from streammine.engine.node_stimuli import DeclarePlan
from streammine.model.coordination import CoordinationService
from streammine.model.errors import StalePlanError
from streammine.model.job_codec import encode_plan


@dataclass
class _Series:
    """`pending`: the version that was on its way to the service last, None once it stands."""

    number: int
    pending: int | None = None


class Declaring:
    """Publishes plans in the order in which they were made.

    Each of a series builds on the one before it. The service only counts versions: behind one that was
    refused, the next might have the right number by chance, where another plan stands.
    """

    def __init__(self) -> None:
        self._series: dict[int, _Series] = {}

    def publish(self, service: CoordinationService, effect: DeclarePlan) -> None:
        """Raises StalePlanError, also where what the plan builds on does not stand, and ClusterError: then
        the same may be tried again."""
        plan = effect.plan
        series = self._series.get(plan.job)
        if series is None or series.number < effect.series:
            series = self._series[plan.job] = _Series(effect.series)
        if series.number > effect.series or series.pending not in (None, plan.version):
            raise StalePlanError(
                f"plan {plan.version} of job {plan.job} builds on one that does not stand"
            )
        series.pending = plan.version
        service.publish_plan(plan.job, plan.version, encode_plan(plan))
        series.pending = None
