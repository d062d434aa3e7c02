"""URLs with passwords, keys or tokens are refused, and not repeated in what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streammine import Topology
from streammine.model.credentials import credentials_text, holds_credentials, refuse_credentials
from streammine.model.document import parse_topology
from streammine.model.errors import ClusterError, TopologyError
from streammine.runtime.jobs import JobRun
from streammine.runtime.run_folders import known_run

SECRETS = [
    "s3://AKIAKEY:SeCrEt@bucket/out",
    "s3://AKIAKEY:Se/CrEt@bucket/out",
    "S3://AKIAKEY:SeCrEt@bucket/out?region=eu-west-1",
    "s3://bucket/out?region=x&secret_key=SeCrEt",
    "abfs://container:SeCrEt@account/out",
    "abfs://container@account/out?sas_token=SeCrEt",
    "postgres://me:SeCrEt@host:5432/database",
]
HARMLESS = [
    "out/a:b@c",
    "/data/2026-11-21T10:00:00@x.csv",
    "s3://bucket/out?scheme=http&endpoint_override=127.0.0.1:9000&region=x",
    "s3://bucket/a:b@c.csv",
    "hdfs://user@host:8020/out?kerb_ticket=/tmp/ticket",
    "abfs://container@account.dfs.core.windows.net/out",
    "line like 'http://a:b@c'",
]


@pytest.mark.parametrize("location", SECRETS)
def test_credentials_are_seen_and_not_repeated(location: str) -> None:
    assert holds_credentials(location)
    assert "SeCrEt" not in credentials_text(location)
    assert "AKIAKEY" not in credentials_text(location)


@pytest.mark.parametrize("location", HARMLESS)
def test_what_only_looks_like_them_is_left_alone(location: str) -> None:
    assert not holds_credentials(location)


DOCUMENT = """
name: t
epoch: {{count: 10}}
snapshot: {{every: 1s, store: "{store}"}}
sources:
  lines: {{files: ["a.txt", "{files}"], prepare: none}}
operators:
  mine: {{input: lines, operator: "mine:Mine", with: {{database: "{database}"}}}}
sinks:
  result: {{input: mine, format: parquet, path: "{path}"}}
"""
PLACES = {"store": "runs", "files": "b.txt", "database": "none", "path": "out"}


@pytest.mark.parametrize(
    ("name", "line", "field"),
    [
        ("store", 4, "snapshot.store"),
        ("files", 6, "sources.lines.files.1"),
        ("database", 8, "operators.mine.with.database"),
        ("path", 10, "sinks.result.path"),
    ],
)
def test_a_topology_with_credentials_is_refused_where_they_stand(
    name: str, line: int, field: str
) -> None:
    parse_topology(DOCUMENT.format(**PLACES), "t.yaml")
    text = DOCUMENT.format(**{**PLACES, name: SECRETS[0]})
    with pytest.raises(TopologyError) as raised:
        parse_topology(text, "t.yaml")
    said = str(raised.value)
    assert said.startswith(f"t.yaml:{line}:")
    assert f"{field}: this s3:// URL holds credentials" in said
    assert "AWS_SECRET_ACCESS_KEY" in said
    assert "SeCrEt" not in said


def test_a_topology_made_in_python_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"input": "lines", "format": "parquet", "path": SECRETS[0]}
    topology = (
        Topology(name="t", epoch={"count": 10})
        .source("lines", generator="words", rows=10)
        .sink("result", **settings)
    )
    with pytest.raises(TopologyError, match=r"sinks\.result\.path: this s3:// URL holds"):
        refuse_credentials(topology)
    with (
        JobRun(topology, tmp_path) as job,
        pytest.raises(TopologyError, match=r"sinks\.result\.path: this s3:// URL holds"),
    ):
        job.prepare()
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_resumed_from_a_url_with_credentials(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="holds credentials") as raised:
        known_run(SECRETS[0], tmp_path, None)
    assert "SeCrEt" not in str(raised.value)
