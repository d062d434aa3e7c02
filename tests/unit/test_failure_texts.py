"""What user code raises may be huge or hold what UTF-8 can't: a job must end and tell of it all the same."""

from __future__ import annotations

import logging
import threading

import pytest

from streammine.model import control
from streammine.model.job import JobOutcome
from streammine.model.job_codec import OUTCOME_BYTES, decode_outcome, encode_outcome
from streammine.operators.user.errors import DeadLetters, shortened
from streammine.runtime.results import run_seconds
from streammine.runtime.workers import Workers
from streammine.runtime.znodes import PART_BYTES

LONE_SURROGATE = "file \udcff"


def test_an_outcome_with_a_lone_surrogate_is_written_and_read() -> None:
    read = decode_outcome(encode_outcome(JobOutcome("failed", LONE_SURROGATE)))
    assert read.reason == "file \\udcff"


def test_an_outcome_with_a_huge_reason_keeps_its_beginning() -> None:
    reason = decode_outcome(encode_outcome(JobOutcome("failed", "x" * 10_000_000))).reason
    assert reason is not None
    assert 1_000 < len(reason) < 100_000


def test_a_report_of_a_failure_with_a_lone_surrogate_is_sent() -> None:
    report = control.JobReport(1, 1, True, LONE_SURROGATE, (), ())
    read = control.decode(control.encode(control.Heartbeat("node-1", 1, {}, (report,))))
    assert isinstance(read, control.Heartbeat)
    assert read.jobs[0].failed == "file \\udcff"


def test_dead_letters_can_be_written() -> None:
    letters = DeadLetters()
    letters.add(LONE_SURROGATE, shortened(LONE_SURROGATE, 100))
    dead = letters.take()
    assert dead is not None
    assert [each.encode() for each in (*dead.reasons, *dead.rows)] == [b"file \\udcff"] * 2


def test_a_worker_lives_on_when_a_task_fails(caplog: pytest.LogCaptureFixture) -> None:
    workers = Workers(1, "node-1")
    done = threading.Event()

    def fail() -> None:
        raise OSError("closing failed")

    with caplog.at_level(logging.ERROR):
        workers.submit(0, fail)
        workers.submit(0, done.set)
        assert done.wait(5.0)
    workers.close()
    assert "closing failed" in caplog.text


def test_counters_of_very_many_slices_are_summed_by_vertex_to_be_kept() -> None:
    slices = 20_000
    counters = {
        f"counts/{index}": {"rows_in": 2.0, "rows_dead": 0.0, "first_read_at": 10.0 + index}
        for index in range(slices)
    }
    counters |= {f"source/{index}": {"rows_in": 1.0} for index in range(3)}
    counters |= {f"gaps.committer/{each}": {"epochs_lost": 7.0 + each} for each in range(2)}
    counters |= {f"moved/{each}": {"counted_after": 5.0 + each % 2} for each in range(3)}
    counters |= {f"result.committer/{each}": {"last_commit_at": 20.0 + each} for each in range(2)}
    data = encode_outcome(JobOutcome("finished", None, counters))
    assert len(data) <= OUTCOME_BYTES <= PART_BYTES
    read = decode_outcome(data)
    assert read.counters == {
        "counts/0": {"rows_in": 2.0 * slices, "rows_dead": 0.0, "first_read_at": 10.0},
        "source/0": {"rows_in": 3.0},
        "gaps.committer/0": {"epochs_lost": 8.0},
        "moved/0": {"counted_after": 6.0},
        "result.committer/0": {"last_commit_at": 21.0},
    }
    assert run_seconds(read) == run_seconds(JobOutcome("finished", None, counters)) == 11.0


def test_of_very_many_vertices_only_what_is_told_is_kept() -> None:
    counters = {
        f"counts_{index}/0": {"rows_in": 2.0, "rows_out": 3.0, "a_long_name_of_a_counter": 4.0}
        for index in range(8_000)
    }
    counters["result.committer/0"] = {"last_commit_at": 20.0, "epochs_lost": 3.0, "commits": 5.0}
    counters["tap/0"] = {"state_nbytes": 100.0}
    data = encode_outcome(JobOutcome("finished", None, counters))
    assert len(data) <= OUTCOME_BYTES
    expected = {f"counts_{index}/0": {"rows_in": 2.0} for index in range(8_000)}
    expected["result.committer/0"] = {"last_commit_at": 20.0, "epochs_lost": 3.0}
    assert decode_outcome(data).counters == expected


def test_a_job_ends_however_many_vertices_it_has() -> None:
    counters = {f"counts_{index}/0": {"rows_in": 2.0} for index in range(40_000)}
    data = encode_outcome(JobOutcome("finished", "as it should", counters))
    assert len(data) <= OUTCOME_BYTES
    assert decode_outcome(data) == JobOutcome("finished", "as it should", {})


def test_counters_that_can_be_kept_stay_by_slice() -> None:
    counters = {f"counts/{index}": {"rows_in": 2.0} for index in range(3)}
    assert (
        decode_outcome(encode_outcome(JobOutcome("finished", None, counters))).counters == counters
    )
