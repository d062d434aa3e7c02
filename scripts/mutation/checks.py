"""What may notice a mutant: a test, or a seed of the simulation with all faults."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings

from mutation.check import Check
from mutation.forks import each_in_a_fork
from mutation.mutants import ROOT
from streammine.model.schemes import Scheme
from streammine.model.topology import Recovery
from streammine.simulation.faults import FaultKind
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from tests.simulation import loops, test_seeds_either, workloads

SEEDS = 300
FOLDERS = ("tests/unit", "tests/property")
"""Those of the simulation are left out: its seeds stand for them."""


class TestRunner:
    """A plugin of pytest: it collects, hands the tests over instead of running them, and runs one at a
    time when it is asked to."""

    __test__ = False

    def __init__(self, work: Callable[[list[Check]], None]) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._failed = False

    def pytest_configure(self) -> None:
        # examples are not made smaller: that they fail is all that is asked
        settings.register_profile(
            "mutants",
            phases=[Phase.explicit, Phase.generate],
            database=None,
            derandomize=True,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        try:
            if session.testsfailed:
                raise SystemExit(f"{session.testsfailed} test files can't be read; run pytest")
            self._work([self._check(item) for item in session.items])
        except BaseException as error:
            # pytest would make a report of it
            self.error = error
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def _check(self, item: pytest.Item) -> Check:
        def run() -> bool:
            self._failed = False
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            return not self._failed

        return Check(item.nodeid, item.nodeid.split("/")[1], run)


def run_with_tests(work: Callable[[list[Check]], None]) -> None:
    """Collect the tests that concern the machines and hand them to `work`."""
    runner = TestRunner(work)
    options = ["-o", "addopts=", "--import-mode=importlib", "-s", "-p", "no:terminal"]
    options += ["-p", "no:cacheprovider", "-p", "no:faulthandler"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, *map(str, _files())], plugins=[runner])
    if runner.error is not None:
        raise runner.error
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"the tests could not be collected: {code!r}")


def _files() -> list[Path]:
    """Test files that import a machine, or something of the tests' own that does."""
    helpers = {
        path: path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((ROOT / folder).glob("*.py"))
    }
    concerned = {path for path, text in helpers.items() if _names_machine(text)}
    while True:
        modules = {f"{path.parent.name}.{path.stem}" for path in concerned}
        names = {f"import {path.stem}" for path in concerned}
        more = {
            path
            for path, text in helpers.items()
            if path not in concerned and any(each in text for each in modules | names)
        }
        if not more:
            break
        concerned |= more
    return sorted(path for path in concerned if path.stem.startswith("test_"))


_MACHINES = re.compile(
    r"^(?:from|import) (?:streammine\.(?:engine|simulation)|replication)\b", re.MULTILINE
)


def _names_machine(text: str) -> bool:
    return _MACHINES.search(text) is not None


def _word_count() -> Workload:
    return Workload(workloads.word_count(3), {"lines": _LINES})


def _join() -> Workload:
    return Workload(workloads.equi_join(2), workloads.orders_and_payments(80))


def _loop() -> Workload:
    numbers = {"numbers": loops.numbers(25, largest=8)}
    return Workload(loops.halving(2, 2, sources=2), numbers)


def _standby() -> Workload:
    """Replicas that stand behind others, with a state that outlives its epoch."""
    changed = {"scheme": Scheme.ACTIVE_STANDBY}
    topology = workloads.braid(discipline="merge", replicas=2).model_copy(update=changed)
    rows = {name: workloads.keyed_values(120, seed) for seed, name in enumerate(("left", "right"))}
    return Workload(topology, rows)


def _controller() -> Workload:
    """Schemes change for the time that a recovery may take; seconds pass quickly for machines."""
    recovery = Recovery.model_validate({"max_time": "20s", "cool_down": "1s"})
    topology = workloads.word_count(2).model_copy(update={"recovery": recovery})
    return Workload(topology, {"lines": _LINES})


def _receivers() -> Workload:
    """Replicas that agree on whose rows of one feed they process."""
    return Workload(test_seeds_either.counted(2, slices=1), test_seeds_either.INPUTS)


_LINES = pa.table({"line": workloads.text(160)})
_WORKLOADS = {
    "word count": _word_count,
    "join": _join,
    "loop": _loop,
    "standby": _standby,
    "controller": _controller,
    "receivers": _receivers,
}


@functools.cache
def _trials(workload: str) -> Trials:
    return Trials(_WORKLOADS[workload](), tuple(FaultKind))


def seeds(count: int) -> list[Check]:
    """So many seeds of the simulation, in turn over its workloads."""
    names = tuple(_WORKLOADS)
    # the parent runs nothing itself: threads that it had started would be missing in its forks
    right = dict(each_in_a_fork(names, lambda name, tell: tell(_trials(name).digest), len(names)))

    def run(name: str, seed: int) -> bool:
        trials = _trials(name)
        return trials.digest == right[name] and trials.run(seed).problem is None

    return [
        Check(
            f"{names[number % len(names)]}, seed {number // len(names)}",
            "simulation",
            functools.partial(run, names[number % len(names)], number // len(names)),
        )
        for number in range(count)
    ]
