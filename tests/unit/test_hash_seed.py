"""Programs that run user code hash alike, however they are started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from streammine.runtime.hash_seed import begin_with_hash_seed
begin_with_hash_seed()
print(hash("a"), os.getpid(), sys.argv[1:])
"""


def output(seed: str | None, *flags: str) -> tuple[str, list[str]]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    if seed is not None:
        environment["PYTHONHASHSEED"] = seed
    command = [sys.executable, *flags, "-c", PROGRAM, "two words", "-x"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        hashed, pid, arguments = process.stdout.read().strip().split(" ", 2)
    assert process.returncode == 0
    assert int(pid) == process.pid
    assert arguments == "['two words', '-x']"
    return hashed, arguments.split()


@pytest.mark.parametrize("seed", [None, "random", "7"])
def test_a_program_begins_anew_with_its_arguments_in_its_process(seed: str | None) -> None:
    assert output(seed) == output("0")


def test_one_that_hears_of_no_environment_goes_on_as_it_is() -> None:
    output(None, "-E")
