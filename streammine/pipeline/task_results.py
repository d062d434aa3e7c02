"""What tasks tell the driver: msgpack with arrays as bytes; faults of the world as values.

A file that can't be read stays so when the task is repeated. So errors of ours do not fail the
Spark task; they travel as its result and are raised by the driver, the first one in task
order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from streammine.model.errors import ClusterError, InputError, OutputError


def task_result(work: Callable[[], dict[str, Any]]) -> bytes:
    """What `work` returned or the fault that it raised. An OSError is one of the output's
    storage."""
    try:
        content = work()
    except InputError as error:
        content = {"fault": "input", "message": str(error)}
    except (OSError, OutputError) as error:
        content = {"fault": "output", "message": str(error)}
    except ClusterError as error:
        content = {"fault": "cluster", "message": str(error)}
    packed: bytes = msgpack.packb(content, default=_array_bytes)
    return packed


def _array_bytes(value: object) -> bytes:
    assert isinstance(value, np.ndarray)
    assert value.dtype == np.int64
    return value.tobytes()


def unpacked(results: list[bytes], output: str) -> list[dict[str, Any]]:
    """The tasks' answers. Raises InputError, OutputError or ClusterError for the first fault."""
    answers = [msgpack.unpackb(result) for result in results]
    for answer in answers:
        if answer.get("fault") == "input":
            raise InputError(answer["message"])
        if answer.get("fault") == "cluster":
            raise ClusterError(answer["message"])
        if answer.get("fault") == "output":
            raise OutputError(f"epoch log {output} can't be written: {answer['message']}")
    return answers


def array(data: bytes, columns: int | None = None) -> Any:
    """An int64 array, or a matrix of so many columns, out of a task's answer."""
    flat = np.frombuffer(data, dtype=np.int64)
    return flat if columns is None else flat.reshape(-1, columns)
