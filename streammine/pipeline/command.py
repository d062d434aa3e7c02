"""A Spark job as a command: a request out of a file, JSON lines on standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from streammine.model.errors import ClusterError, InputError, OutputError
from streammine.model.spark_job import SparkFailure
from streammine.pipeline.session import ProgressListener

Request = TypeVar("Request", bound=BaseModel)


def run_command(
    arguments: Sequence[str],
    module: str,
    request_type: type[Request],
    job: Callable[[Request, ProgressListener], BaseModel],
    write_line: Callable[[str], None],
) -> int:
    """Do what the file asks for that is the only argument; returns the exit code."""

    def write(message: BaseModel) -> None:
        write_line(message.model_dump_json())

    if len(arguments) != 1:
        usage = f"usage: python -m {module} REQUEST.json"
        write(SparkFailure(kind="input", error=usage))
        return 2
    try:
        request = request_type.model_validate_json(Path(arguments[0]).read_bytes())
    except (OSError, ValidationError) as error:
        write(SparkFailure(kind="input", error=f"{arguments[0]} holds no request: {error}"))
        return 2
    try:
        report = job(request, write)
    except InputError as error:
        failure = SparkFailure(kind="input", error=str(error))
    except OutputError as error:
        failure = SparkFailure(kind="output", error=str(error))
    except ClusterError as error:
        failure = SparkFailure(kind="cluster", error=str(error))
    else:
        write(report)
        return 0
    write(failure)
    return 1


def print_line(line: str) -> None:
    """One write per line: lines of progress may come from another thread."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
