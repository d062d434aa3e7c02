"""Plans on their way to the coordination service: what builds on a refused one is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from streammine.assembly import Declaring
from streammine.engine.node_stimuli import DeclarePlan
from streammine.model.coordination import CoordinationService
from streammine.model.errors import ClusterError, StalePlanError
from streammine.model.job import Plan
from streammine.model.job_codec import decode_plan

PLAN = Plan(1, 1, "deploy", {})


class Service:
    """Counts versions, as the real one does. `failures`: calls that come to nothing before one does."""

    def __init__(self) -> None:
        self.stands: list[Plan] = []
        self.failures = 0

    def publish_plan(self, job: int, version: int, blob: bytes) -> None:
        if self.failures:
            self.failures -= 1
            raise ClusterError("no answer")
        standing = [plan for plan in self.stands if plan.job == job]
        if version != len(standing) + 1:
            raise StalePlanError(f"{len(standing)} stands")
        self.stands.append(decode_plan(blob))


def declared(
    service: Service, declaring: Declaring, version: int, series: int = 0, job: int = 1
) -> bool:
    plan = replace(PLAN, job=job, version=version, reached=series)
    try:
        declaring.publish(cast(CoordinationService, service), DeclarePlan(plan, series))
    except StalePlanError:
        return False
    return True


def test_behind_a_refused_plan_none_of_its_series_stands() -> None:
    service, declaring = Service(), Declaring()
    assert declared(service, declaring, 1)
    service.stands.append(replace(PLAN, version=2, reached=99))
    assert not declared(service, declaring, 2), "another one stands"
    assert not declared(service, declaring, 3), "though that is the next version"
    assert declared(service, declaring, 3, series=1)
    assert not declared(service, declaring, 4), "an old series"
    assert declared(service, declaring, 4, series=1)
    assert [plan.reached for plan in service.stands] == [0, 99, 1, 1]


def test_jobs_have_series_of_their_own() -> None:
    service, declaring = Service(), Declaring()
    assert not declared(service, declaring, 2)
    assert declared(service, declaring, 1, job=2)
    assert not declared(service, declaring, 1)


def test_a_plan_that_got_no_answer_is_declared_again_and_holds_up_those_behind_it() -> None:
    service, declaring = Service(), Declaring()
    service.failures = 1
    with pytest.raises(ClusterError, match="no answer"):
        declared(service, declaring, 1)
    assert not declared(service, declaring, 2)
    assert declared(service, declaring, 1)
    assert declared(service, declaring, 2)
