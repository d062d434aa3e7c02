"""A Spark job's command and the file that it takes its request from."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from streammine.model.spark_job import SparkFailure
from streammine.pipeline.command import run_command


class Request(BaseModel):
    number: int


@pytest.mark.parametrize("text", [None, "", "{", '{"number": "x"}'])
def test_a_damaged_request_is_told_in_a_line(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "request.json"
    if text is not None:
        path.write_text(text)
    lines: list[str] = []

    def job(request: Request, listener: object) -> BaseModel:
        raise AssertionError("there is nothing to do")

    assert run_command([str(path)], "a.module", Request, job, lines.append) == 2
    (line,) = lines
    failure = SparkFailure.model_validate_json(line)
    assert failure.kind == "input"
    assert failure.error.startswith(f"{path} holds no request: ")
