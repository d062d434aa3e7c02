"""Folders of runs: nobody gets another's, and they are found again."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streammine.model.errors import ClusterError, OutputError
from streammine.model.job import JobOutcome
from streammine.model.job_codec import encode_outcome
from streammine.runtime.detached import leave_run, remove_finished
from streammine.runtime.places import is_locked, try_lock
from streammine.runtime.run_folders import known_run, new_run

TAKE = """
import sys
from pathlib import Path
from streammine.runtime.run_folders import new_run
run = new_run("words", Path(sys.argv[1]), None)
print(run.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The user's cache folder, to be away from the real one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "topologies"
    folder.mkdir()
    return folder


@pytest.fixture
def begin(base):
    """Begins a run, which ends with the test."""
    runs = []

    def begun(job="words", store=None):
        runs.append(new_run(job, base, store))
        return runs[-1]

    yield begun
    for run in runs:
        run.close()


def test_runs_are_numbered_by_their_job(base, begin):
    names = [begin(job).name for job in ("words", "words", "word", "words")]
    assert names == ["words-1", "words-2", "word-1", "words-3"]
    assert (base / ".streammine" / "runs" / "words-3").is_dir()


def test_runs_that_begin_at_the_same_moment_differ(begin):
    with ThreadPoolExecutor(16) as threads:
        runs = list(threads.map(lambda _: begin(), range(64)))
    assert len({run.location for run in runs}) == 64


def test_a_store_of_ones_own_holds_a_folder_for_each_run(base, begin):
    assert begin(store="../kept").location == str(base.parent / "kept" / "words-1")
    first, second = (begin(store="s3://bucket/runs/") for _ in range(2))
    assert first.location.startswith("s3://bucket/runs/words-")
    assert first.location != second.location
    assert known_run(first.name, base, "s3://bucket/runs").location == first.location


def test_without_permission_beside_the_topology_runs_go_into_the_cache(base, begin, cache):
    (base / ".streammine").write_text("a file stands where the folder should be")
    run = begin()
    assert Path(run.location).parent == cache / "streammine" / "runs"
    run.close()
    found = known_run("words-1", base, None)
    assert found.location == run.location
    found.close()


def test_a_store_that_can_t_be_written_is_refused(base):
    (base / "file").write_text("")
    with pytest.raises(OutputError, match=r"no run can be kept in .*file"):
        new_run("words", base, "file")


def test_a_run_is_found_by_its_name_and_by_its_folder(base, begin):
    run = begin()
    run.close()
    for wanted in ("words-1", run.location, f"{run.location}/"):
        found = known_run(wanted, base, None)
        assert (found.location, found.name) == (run.location, "words-1")
        found.close()


def test_a_run_that_is_not_there_is_refused_with_those_that_are(base, begin):
    begin()
    with pytest.raises(ClusterError, match=r"no run 'words-7'.*runs in .*: words-1\."):
        known_run("words-7", base, None)
    with pytest.raises(ClusterError, match=r"no run './elsewhere'"):
        known_run("./elsewhere", base, None)


def test_a_run_belongs_to_one_process_until_that_ends_even_by_force(base, begin):
    with subprocess.Popen(
        [sys.executable, "-c", TAKE, str(base)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        with pytest.raises(ClusterError, match=f"run {name} is going on"):
            known_run(name, base, None)
        assert begin().name == "words-2"
        process.kill()
        process.wait()
    known_run(name, base, None).close()


def test_a_removed_run_is_gone(base, begin):
    run = begin()
    run.store.put("snapshots/lines/000000/x.json", b"{}")
    run.remove()
    assert not Path(run.location).exists()
    with pytest.raises(ClusterError, match="no run"):
        known_run("words-1", base, None)


def test_options_of_a_url_stay_at_its_end(base):
    store = "s3://bucket/runs/?region=eu-west-1&scheme=http"
    run = new_run("words", base, store)
    assert re.fullmatch("words-[0-9a-f]{12}", run.name)
    assert run.location == f"s3://bucket/runs/{run.name}?region=eu-west-1&scheme=http"
    assert run.sinks == f"s3://bucket/runs/{run.name}/sinks?region=eu-west-1&scheme=http"
    assert known_run(run.name, base, store).location == run.location
    assert known_run(run.location, base, None).name == run.name


def test_runs_left_to_a_cluster_are_removed_when_their_jobs_have_finished(base, begin, tmp_path):
    names = ("finished", "failed", "savepoint", "running", "unreachable")
    runs = {name: begin(name) for name in names}
    for number, run in enumerate(runs.values()):
        leave_run(tmp_path, number, run)
        run.close()

    def outcome_of(job):
        if names[job] == "unreachable":
            raise ClusterError("ZooKeeper is away")
        return None if names[job] == "running" else encode_outcome(JobOutcome(names[job], None))

    for late in (True, False):
        remove_finished(tmp_path, outcome_of)
        there = [name for name, run in runs.items() if Path(run.location).exists()]
        assert there == ["failed", "savepoint", "running", "unreachable"]
        if late:
            # a node was still writing
            Path(runs["finished"].location).mkdir()
    remove_finished(tmp_path, outcome_of)
    left = sorted(each.name for each in (tmp_path / "detached").iterdir())
    assert left == ["3", "4"], "those of which the end is not known yet"
    remove_finished(tmp_path, lambda job: encode_outcome(JobOutcome("finished", None)))
    assert not Path(runs["running"].location).exists()


def test_looking_at_a_lock_does_not_take_or_lose_it(tmp_path):
    path = tmp_path / "lock"
    with open(path, "a") as owner, open(path, "a") as other:
        assert not is_locked(other)
        assert try_lock(owner)
        for _ in range(2):
            with open(path) as looking:
                assert is_locked(looking)
            assert not try_lock(other)
    with open(path) as looking:
        assert not is_locked(looking)
