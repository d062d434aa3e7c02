"""The public names: which they are, that README names them, and that they cost nothing unused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import streammine

ROOT = Path(__file__).resolve().parents[2]

PUBLIC_NAMES = [
    "ClusterError",
    "Context",
    "InputError",
    "JobFailedError",
    "List",
    "Map",
    "Mapper",
    "Operator",
    "OutputError",
    "Queue",
    "Reducer",
    "Result",
    "StateVersionError",
    "StreammineError",
    "Timers",
    "Topology",
    "TopologyError",
    "UserCodeError",
    "Value",
    "Window",
    "output_files",
    "read_output",
    "read_topology",
    "run",
]


def test_the_public_names_are_these() -> None:
    assert streammine.__all__ == PUBLIC_NAMES
    assert dir(streammine) == PUBLIC_NAMES
    assert sorted(streammine._HOME_OF) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_a_public_name_leads_to_something_documented(name: str) -> None:
    found = getattr(streammine, name)
    assert found.__name__ == name
    assert found.__doc__


def test_readme_names_every_public_name() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [name for name in PUBLIC_NAMES if not re.search(rf"\b{name}\b", readme)]
    assert not missing


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Engine'"):
        _ = streammine.Engine


def loaded_after(statement: str) -> set[str]:
    """The heavy libraries that a statement loads in a fresh interpreter."""
    heavy = {"zmq", "kazoo", "pyspark", "polars", "numba", "numpy", "pyarrow", "pydantic", "click"}
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return heavy & set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import streammine") == set()


def test_names_load_only_what_they_need() -> None:
    assert not loaded_after("from streammine import TopologyError, OutputError")
    bases = loaded_after("from streammine import Mapper, Reducer, Operator, Value, Topology")
    assert not bases & {"zmq", "kazoo", "pyspark", "numba", "polars"}
