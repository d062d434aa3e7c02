"""Which lines each check comes to, and how long it takes, when nothing is broken.

The tests and the simulation are deterministic, so a check that never comes to a line is not changed by a
mutant of that line and need not be run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from mutation.check import Check
from mutation.forks import each_in_a_fork
from mutation.mutants import ROOT, Mutant

_CHUNK = 12


@dataclass(frozen=True)
class Reach:
    """What one check does: processor seconds, and by path the lines that it comes to."""

    seconds: float
    lines: dict[str, frozenset[int]]

    def concerns(self, mutant: Mutant) -> bool:
        lines = self.lines.get(mutant.path)
        if lines is None:
            return False
        return mutant.reached is None or not lines.isdisjoint(mutant.reached)


def measure(
    checks: Sequence[Check], paths: Sequence[str], jobs: int, cache: Path
) -> dict[str, Reach]:
    """The reach of every check by its name. Raises SystemExit when one fails as things are.

    What was measured before is taken from the file `cache` if nothing has changed since.
    """
    digests = _Digests(paths)
    wanted = {check.name: digests.of(check) for check in checks}
    known = {name: one for name, one in _read(cache).items() if wanted.get(name) == one[0]}
    missing = [check for check in checks if check.name not in known]
    chunks = [missing[start : start + _CHUNK] for start in range(0, len(missing), _CHUNK)]

    def work(chunk: Sequence[Check], tell: Callable[[Any], None]) -> None:
        tell([_measured(check, paths) for check in chunk])

    for chunk, told in each_in_a_fork(chunks, work, jobs):
        if told is None:
            raise SystemExit(f"the process that ran {chunk[0].name} and others died")
        for check, (well, seconds, lines) in zip(chunk, told, strict=True):
            if not well:
                raise SystemExit(f"{check.name} fails though nothing is broken")
            found = {path: frozenset(each) for path, each in lines.items()}
            known[check.name] = (wanted[check.name], Reach(seconds, found))
        _write(cache, known)
    return {check.name: known[check.name][1] for check in checks}


def _measured(check: Check, paths: Sequence[str]) -> tuple[bool, float, dict[str, list[int]]]:
    """Whether it ended well, how long it took while its lines were noted, and those."""
    begin = time.process_time()
    with _noting({str(ROOT / path): path for path in paths}) as lines:
        well = check.run()
    seconds = time.process_time() - begin
    return well, seconds, {path: sorted(each) for path, each in lines.items()}


@contextlib.contextmanager
def _noting(files: dict[str, str]) -> Iterator[dict[str, set[int]]]:
    """The lines that are come to inside, by path."""
    noted: dict[str, set[int]] = defaultdict(set)
    expected: dict[CodeType, set[int]] = {}

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        path = files.get(code.co_filename)
        if path is None:
            return None
        left = expected.get(code)
        if left is None:
            left = {line for _, _, line in code.co_lines() if line is not None}
            expected[code] = left
        if not left:
            return None
        lines = noted[path]
        lines.add(frame.f_lineno)

        def step(frame: FrameType, event: str, argument: object) -> Any:
            line = frame.f_lineno
            lines.add(line)
            left.discard(line)
            return step if left else None

        return step

    sys.settrace(enter)
    threading.settrace(enter)
    try:
        yield noted
    finally:
        sys.settrace(None)
        threading.settrace(None)


class _Digests:
    """Tells what a check's reach was measured of: all sources, what tests share, and its own file."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._shared = hashlib.sha256(repr(sorted(paths)).encode())
        self._tests: dict[str, bytes] = {}
        for folder in ("streammine", "replication", "partitioners", "tests"):
            for path in sorted((ROOT / folder).rglob("*.py")):
                if path.stem.startswith("test_"):
                    self._tests[str(path.relative_to(ROOT))] = path.read_bytes()
                else:
                    self._shared.update(path.read_bytes())

    def of(self, check: Check) -> str:
        digest = self._shared.copy()
        digest.update(self._tests.get(check.name.partition("::")[0], b""))
        return digest.hexdigest()


_Known = dict[str, tuple[str, Reach]]


def _read(cache: Path) -> _Known:
    if not cache.exists():
        return {}
    document = json.loads(cache.read_text(encoding="utf-8"))
    return {
        name: (digest, Reach(seconds, {path: frozenset(each) for path, each in lines.items()}))
        for name, (digest, seconds, lines) in document.items()
    }


def _write(cache: Path, known: _Known) -> None:
    """Add to the file, which other calls may add to at the same time."""
    known = _read(cache) | known
    document = {
        name: (digest, reach.seconds, {path: sorted(each) for path, each in reach.lines.items()})
        for name, (digest, reach) in known.items()
    }
    cache.parent.mkdir(parents=True, exist_ok=True)
    draft = cache.with_suffix(".draft")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(cache)
