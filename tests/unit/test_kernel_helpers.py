"""Kernels are compiled anew when files change that they take functions or constants from.

Numba's cache looks at the kernel's own file alone. So that file tells a digest of those others.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

OPERATORS = Path(__file__).parents[2] / "streammine" / "operators"
KERNELS = OPERATORS / "kernels"
WITH_KERNELS = sorted(
    path
    for path in OPERATORS.rglob("*.py")
    if "KernelSet(" in path.read_text() and path.name != "compilation.py"
)


def imported(path: Path) -> set[Path]:
    """Files of kernels that a file takes something from."""
    names = re.findall(
        r"^from streammine\.operators\.kernels\.(\w+) import", path.read_text(), re.M
    )
    return {KERNELS / f"{name}.py" for name in names if name != "compilation"}


def is_compiled_in(path: Path) -> bool:
    """Whether what it has is for kernels of other files."""
    return re.search(r"^@helper|\bintrinsic\(", path.read_text(), re.M) is not None


def helpers_of(path: Path) -> set[Path]:
    """What the kernels of a file are compiled with, and what that takes from others."""
    found = {each for each in imported(path) if is_compiled_in(each) and each not in WITH_KERNELS}
    return found | {further for each in found for further in imported(each)}


@pytest.mark.parametrize("path", WITH_KERNELS, ids=lambda path: path.stem)
def test_a_file_of_kernels_tells_what_they_are_compiled_with(path: Path) -> None:
    digest = hashlib.sha256()
    for each in sorted(helpers_of(path)):
        digest.update(each.read_bytes())
    told = f'"{digest.hexdigest()[:8]}"' if helpers_of(path) else ""
    assert f"\n_KERNELS = KernelSet({told})\n" in path.read_text()


def test_helpers_are_found() -> None:
    found = {path.stem: {each.stem for each in helpers_of(path)} for path in WITH_KERNELS}
    assert found["value_queues"] == found["sliding_order"] == {"bracket_steps", "order_layout"}
    assert found["word_table"] == {"machine_words"}
    assert found["leading"] == set()
