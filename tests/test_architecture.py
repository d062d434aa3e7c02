"""The house: who may import whom, and what a pure layer may not know.

::

    apps ──> streammine (public names)
    cli  ──> runtime ────┐               ┌─> engine ──────┐
             simulation ─┴──> assembly ──┼─> operators ───┼──> model
                                         ├─> partitioners ┤
                                         └─> replication ─┘
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS = {
    "streammine.model": {"streammine.model"},
    "streammine.engine": {"streammine.engine", "streammine.model"},
    "streammine.operators": {"streammine.operators", "streammine.model"},
    "partitioners": {"partitioners", "streammine.model"},
    "replication": {"replication", "streammine.model"},
    "streammine.assembly": {
        "streammine.assembly",
        "streammine.engine",
        "streammine.operators",
        "partitioners",
        "replication",
        "streammine.model",
    },
    "streammine.runtime": {
        "streammine.runtime",
        "streammine.assembly",
        "streammine.engine",
        "streammine.operators",
        "streammine.model",
    },
    "streammine.simulation": {
        "streammine.simulation",
        "streammine.assembly",
        "streammine.engine",
        "streammine.operators",
        "streammine.model",
    },
    "streammine.pipeline": {"streammine.pipeline", "streammine.model"},
    "apps": {"apps", "streammine", "streammine.testing", "partitioners"},
}
"""What each layer may import of ours. cli, testing and the package itself stand above and may all."""

PURE = (
    "streammine/model",
    "streammine/engine",
    "streammine/operators",
    "partitioners",
    "replication",
)
IMPURE_MODULES = {
    "time",
    "random",
    "os",
    "socket",
    "threading",
    "multiprocessing",
    "subprocess",
    "asyncio",
    "concurrent",
    "zmq",
    "kazoo",
    "secrets",
    "uuid",
    "tempfile",
}
PURE_EXCEPTIONS: dict[str, set[str]] = {
    "streammine/operators/frozen.py": {"threading"},
    "streammine/operators/aggregates/keys.py": {"threading"},
}
"""A frozen state is written on another thread while its operator goes on, so it has a lock; and so have
tables of keys, to which that thread adds what was frozen before."""


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""


def layer_of(name: str) -> str | None:
    return max(
        (layer for layer in LAYERS if name == layer or name.startswith(layer + ".")),
        key=len,
        default=None,
    )


@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_a_layer_imports_only_what_lies_below_it(layer: str) -> None:
    folder = layer.replace(".", "/")
    paths = [*python_files(folder), *ROOT.glob(folder + ".py")]
    wrong = []
    for path in paths:
        for line, name in imports(path):
            ours = name.split(".")[0] in {"streammine", "partitioners", "replication", "apps"}
            allowed = any(name == good or name.startswith(good + ".") for good in LAYERS[layer])
            if layer == "apps" and name.startswith("streammine."):
                allowed = name == "streammine.testing"
            if ours and not allowed:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_pure_layers_know_no_clock_no_chance_and_no_input_or_output() -> None:
    wrong = []
    for path in python_files(*PURE):
        allowed = PURE_EXCEPTIONS.get(str(path.relative_to(ROOT)), set())
        for line, name in imports(path):
            if name.split(".")[0] in IMPURE_MODULES - allowed:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"hash", "open", "eval", "exec", "input"}
            ):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} calls {node.func.id}()")
    assert not wrong, "\n".join(wrong)


def test_pyspark_is_imported_in_the_pipeline_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files("streammine", "partitioners", "replication", "apps")
        for line, name in imports(path)
        if name.split(".")[0] == "pyspark" and "pipeline" not in path.parts
    ]
    assert not wrong, "\n".join(wrong)


def test_importing_the_package_loads_no_heavy_library() -> None:
    program = (
        "import sys, streammine;"
        "loaded = {'zmq', 'kazoo', 'pyspark', 'polars', 'numba'} & set(sys.modules);"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


WIRED = {
    "SliceMachine",
    "LoopSlice",
    "LoopHeadSlice",
    "InputChannel",
    "OutputChannel",
    "OperatorProcessor",
    "LoopProcessor",
    "SourceProcessor",
    "OutgoingEdges",
}


def test_the_parts_of_a_slice_are_put_together_in_the_assembly_alone() -> None:
    found: dict[str, set[str]] = {}
    for path in python_files("streammine", "partitioners", "replication", "apps", "scripts"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
                if called in WIRED:
                    found.setdefault(str(path.relative_to(ROOT)), set()).add(called)
    elsewhere = {path for path in found if not path.startswith("streammine/engine/")}
    assert elsewhere == {"streammine/assembly/compiled.py", "streammine/assembly/sending.py"}
    assert set.union(*(found[path] for path in elsewhere)) == WIRED


def test_no_file_grows_past_five_hundred_lines() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {count}"
        for path in python_files("streammine", "partitioners", "replication", "apps", "scripts")
        if (count := len(path.read_text().splitlines())) > 520
    ]
    assert not long, "\n".join(long)
