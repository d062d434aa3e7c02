"""How kernels are compiled: one machine-code version each, cached on disk, loaded before use.

Numba compiles a function anew for every combination of argument types it meets; a read-only
Arrow buffer and a writable array would already be two. Here each kernel states its one
signature. Inputs are declared read-only, which writable arrays satisfy too, and afterwards
compilation is shut off, so a wrong type is an error at once instead of a pause of a second.

Numba's cache notices a change of what stands in the file that holds the kernel, not in files it calls.
So a kernel's helpers stand in its own file; where several files share some, each tells their digest.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba import types

Function = TypeVar("Function", bound=Callable[..., Any])

INT64 = types.int64
BOOLEAN = types.boolean


def read_only(dtype: Any, dimensions: int = 1) -> Any:
    """The numba type of a C-contiguous input array that the kernel does not write."""
    return types.Array(dtype, dimensions, "C", readonly=True)


def writable(dtype: Any, dimensions: int = 1) -> Any:
    """The numba type of a C-contiguous array that the kernel writes."""
    return types.Array(dtype, dimensions, "C")


BYTES_IN = read_only(types.uint8)
BYTES_OUT = writable(types.uint8)
MASK_IN = read_only(types.boolean)
MASK_OUT = writable(types.boolean)
INT32_IN = read_only(types.int32)
INT32_OUT = writable(types.int32)
UINT64_IN = read_only(types.uint64)
UINT64_OUT = writable(types.uint64)
INT64_IN = read_only(types.int64)
INT64_OUT = writable(types.int64)
FLOAT64_OUT = writable(types.float64)


def helper(function: Function) -> Function:
    """A function called from kernels; LLVM inlines it."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


class KernelSet:
    """The kernels of one file, which are loaded together on the file's first use."""

    def __init__(self, helpers: str = "") -> None:
        """`helpers`: a digest of the files whose functions and constants the kernels are compiled with. It is
        there to change the kernels' own file when those change (tests/unit/test_kernel_helpers.py)."""
        self.helpers = helpers
        self._waiting: list[tuple[Any, tuple[Any, ...]]] = []

    def kernel(self, *argument_types: Any) -> Callable[[Function], Function]:
        """Declare a function as a kernel for exactly these argument types."""

        def declare(function: Function) -> Function:
            dispatcher = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
            self._waiting.append((dispatcher, argument_types))
            return cast(Function, dispatcher)

        return declare

    def load(self) -> None:
        """Make every kernel of the set ready, from numba's cache where it can.

        Safe to call from several threads: numba serialises the work, and doing it twice is
        harmless because a compiled signature is found again.
        """
        if not self._waiting:
            return
        waiting = list(self._waiting)
        for dispatcher, argument_types in waiting:
            dispatcher.compile(argument_types)
            dispatcher.disable_compile()
        self._waiting = []
