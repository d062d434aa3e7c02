"""What `streammine run` finds out before it loads what takes long."""

import subprocess
import sys

import pytest

from streammine.cli.run_command import DEFAULT_NODES, nodes_at_a_glance
from streammine.model.topology import Topology


@pytest.mark.parametrize(
    ("text", "overrides", "nodes"),
    [
        ("name: x\nnodes: 3\nepoch: {count: 1}\n", [], 3),
        ("nodes: 4   # as many as there are machines\r\n", [], 4),
        ("nodes: 4\n", ["nodes=5", "sources.lines.nodes=6"], 5),
        ("nodes: ${nodes:3}\n", ["nodes=5"], 5),
        ("nodes: ${nodes:3}\n", [], DEFAULT_NODES),
        ("sources:\n  nodes: 7\n", ["nodes = "], DEFAULT_NODES),
        ("", [], DEFAULT_NODES),
    ],
)
def test_the_number_of_nodes_shows_at_a_glance(tmp_path, text, overrides, nodes):
    file = tmp_path / "topology.yaml"
    file.write_bytes(text.encode())
    assert nodes_at_a_glance(file, overrides) == nodes


def test_a_file_that_is_not_there_is_told_of_later(tmp_path):
    assert nodes_at_a_glance(tmp_path / "missing.yaml", []) == DEFAULT_NODES


def test_the_default_is_the_topology_s():
    assert Topology.model_fields["nodes"].default == DEFAULT_NODES


@pytest.mark.parametrize("command", ["run", "supervise"])
def test_nothing_with_a_thread_pool_is_loaded_before_its_size_is_known(command):
    code = (
        f"import sys, streammine.cli.{command}_command; "
        "print({'numpy', 'polars', 'numba', 'pyarrow'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout == "set()\n"


def test_nothing_else_is_opened_in_place_of_a_closed_standard_stream():
    code = (
        "import os, sys; from streammine.cli.main import _fill_standard_descriptors as fill; "
        "fill(); first = os.open(os.devnull, os.O_RDONLY); sys.exit(first <= 2 or os.fstat(1) is None)"
    )
    command = ["sh", "-c", 'exec "$0" -c "$1" >&- <&-', sys.executable, code]
    assert subprocess.run(command, check=False).returncode == 0
