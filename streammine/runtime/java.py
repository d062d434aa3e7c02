"""Finds the Java runtime that ZooKeeper and Spark need."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from streammine.model.errors import ClusterError

OLDEST_JAVA = 17
"""The oldest major version of Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """The `java` program of JAVA_HOME, else the first one on PATH, of version 17 or newer.

    Raises ClusterError, which says what was found instead and what to do.
    """
    found: list[str] = []
    for origin, program in _candidates():
        version = java_version(program)
        if version is not None and version >= OLDEST_JAVA:
            return program
        what = f"version {version}" if version is not None else "nothing that runs"
        found.append(f"{origin} has {what} ({program})")
    raise ClusterError(
        f"ZooKeeper and Spark need Java {OLDEST_JAVA} or newer; "
        + ("; ".join(found) if found else "there is no java in JAVA_HOME or on PATH")
        + ". Install one, for instance `apt-get install default-jre-headless`, or set JAVA_HOME"
    )


def java_version(program: Path) -> int | None:
    """Major version of a `java` program, None when it can't be run."""
    return _version(program)


@functools.cache
def _version(program: Path) -> int | None:
    try:
        answer = subprocess.run(
            [program, "-XX:TieredStopAtLevel=1", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if answer.returncode == 0 and match else None


def _candidates() -> list[tuple[str, Path]]:
    candidates = []
    home = os.environ.get("JAVA_HOME")
    if home:
        candidates.append((f"JAVA_HOME={home}", Path(home, "bin", "java")))
    on_path = shutil.which("java")
    if on_path:
        candidates.append(("PATH", Path(on_path)))
    return candidates
