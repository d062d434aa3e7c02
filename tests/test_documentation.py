"""What README and docstrings show works as it stands there."""

from __future__ import annotations

import ast
import doctest
import gzip
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pyarrow as pa
import pytest

import streammine
from streammine.cli.main import streammine as command_group
from streammine.model.document import parse_topology
from streammine.testing import check_operator

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


def named(name: str) -> str:
    """The block whose first line is its file's name."""
    (text,) = [text for _, text in BLOCKS if text.startswith(f"# {name}\n")]
    return text


def python(*arguments: object, folder: Path) -> list[str]:
    """The lines that a Python program prints in a folder."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with README's files in it."""
    for _, text in BLOCKS:
        found = re.match(r"# ([\w.]+)\n", text)
        if found:
            (tmp_path / found[1]).write_text(text)
    return tmp_path


def test_the_files_that_readme_names_exist() -> None:
    links = re.findall(r"\]\(([\w./-]+)\)", README)
    paths = re.findall(r"`((?:scripts|docs|tests|apps|streammine|\.ci)/[\w./-]+)", README)
    assert links
    for path in links + paths:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("text", blocks("yaml"))
def test_the_topologies_of_readme_are_right(text: str) -> None:
    name = text.partition("\n")[0].removeprefix("# ")
    assert parse_topology(text, name).name == name.removesuffix(".yaml")


def command_lines() -> list[str]:
    lines = [line.removeprefix("$ ") for text in blocks("console") for line in text.splitlines()]
    return lines + re.findall(r"`((?:scripts/run|streammine) [^`]+)`", README)


@pytest.mark.parametrize("line", command_lines())
def test_the_commands_of_readme_exist_with_their_options(line: str) -> None:
    program, *words = shlex.split(line)
    if program == ".venv/bin/python":
        module = words[words.index("-m") + 1]
        assert importlib.util.find_spec(module) is not None
        return
    if program == "scripts/run":
        words.insert(0, "run")
    name = words.pop(0)
    if name == "--help":
        return
    command = command_group.get_command(click.Context(command_group), name)
    if isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(click.Context(command), name)
    assert command is not None, name
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options | {"--help"}


def test_every_command_that_a_user_has_is_in_readme() -> None:
    for name in command_group.list_commands(click.Context(command_group)):
        assert re.search(rf"\b{name}\b", README), name


@pytest.mark.slow
def test_the_first_own_operator_gives_one_digest_as_a_script_and_as_a_topology(
    folder: Path,
) -> None:
    rows, digest = python("longest.py", folder=folder)
    shown = ast.literal_eval(rows)
    assert len(shown) == 5
    assert all(row["longest"].startswith(row["initial"]) for row in shown)
    python("-m", "streammine.cli.main", "run", "longest.yaml", "--quiet", folder=folder)
    assert python("-m", "streammine.cli.main", "digest", "longest.yaml", folder=folder) == [digest]

    (reading,) = [text for text in blocks("python") if "read_output" in text]
    (folder / "reading.py").write_text(f"{reading}print(len(files))\n")
    *epochs, files = python("reading.py", folder=folder)
    assert [line.split()[0] for line in epochs] == [str(epoch) for epoch in range(10)]
    assert int(files) >= 10


@pytest.mark.slow
def test_the_topology_that_uses_most_of_what_there_is_runs(folder: Path) -> None:
    (folder / "data").mkdir()
    for file in range(3):
        rows = [f"{second * 2},{(second + file) % 120},{second / 8}" for second in range(600)]
        text = "\n".join(["ts,plug,value", *rows, ""])
        (folder / "data" / f"{file}.csv.gz").write_bytes(gzip.compress(text.encode()))
    printed = python("-m", "streammine.cli.main", "run", "readings.yaml", folder=folder)
    assert any(line.startswith("screen, epoch ") for line in printed)
    assert any(line.startswith("1") and " events in" in line for line in printed)
    explained = python("-m", "streammine.cli.main", "explain", "readings.yaml", folder=folder)
    assert any("discipline epoch" in line for line in explained)


@pytest.mark.slow
def test_the_test_that_readme_shows_passes(folder: Path) -> None:
    python("test_longest.py", folder=folder)


def test_the_operator_with_state_that_readme_shows_keeps_its_promise() -> None:
    names: dict[str, Any] = {}
    exec(compile(named("steps.py"), "steps.py", "exec"), names)  # noqa: S102
    rows = {"key": [1, 2, 1, 1, 2], "value": [1.5, 2.0, 4.0, 3.0, 8.0]}
    check_operator(names["Steps"], pa.table(rows).to_batches(), key="key")


def test_the_page_of_operators_with_state_shows_what_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs/operators/process.md").read_text(encoding="utf-8")
    for _, text in re.findall(r"^```(\w+)\n# (.*?)^```$", page, re.MULTILINE | re.DOTALL):
        name, _, content = text.partition("\n")
        (tmp_path / name).write_text(content, encoding="utf-8")
    readings = {
        "00:00": "1,2.5",
        "00:10": "2,1.0",
        "00:50": "1,-3.0",
        "00:55": "1,2.0",
        "03:20": "2,4.0",
    }
    lines = [f"1970-01-01T00:{time},{rest}\n" for time, rest in readings.items()]
    (tmp_path / "readings.csv").write_text("ts,plug,value\n" + "".join(lines))
    summary = python("-m", "streammine", "run", "silences.yaml", folder=tmp_path)
    assert any(line.startswith("5 events in, 3 out, 1 dead letters") for line in summary)
    files = sorted((tmp_path / "found").glob("*.csv"))
    found = [line for file in files for line in file.read_text("utf-8").splitlines()[1:]]
    assert found == [
        "2,1970-01-01 00:01:10.000000,1",
        "1,1970-01-01 00:01:55.000000,2",
        "2,1970-01-01 00:04:20.000000,1",
    ]
    python("-m", "streammine", "check", "silences.yaml", folder=tmp_path)


def modules_with_public_names() -> list[ModuleType]:
    homes = {getattr(streammine, name).__module__ for name in streammine.__all__}
    return [importlib.import_module(name) for name in sorted({*homes, "streammine.testing"})]


@pytest.mark.parametrize("module", modules_with_public_names(), ids=lambda module: module.__name__)
def test_the_examples_in_docstrings_of_public_names_run(module: ModuleType) -> None:
    names = {name: getattr(streammine, name) for name in streammine.__all__}
    assert doctest.testmod(module, extraglobs=names).failed == 0
