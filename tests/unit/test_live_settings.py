"""Live sources as a topology declares them, and opened as it declares them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

from streammine.model.errors import ClusterError, InputError
from streammine.model.topology.live_sources import AnyLiveSource, TcpSource
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live import open_live_reader
from streammine.runtime.sources.live.addresses import Token
from tests.unit.live_logs import BY_COUNT, free_ports

SOURCE: TypeAdapter[Any] = TypeAdapter(AnyLiveSource)
LINES = {"type": "tcp", "bind": "127.0.0.1:9000", "ingest_log": "in", "format": "text"}
TABLE = {**LINES, "format": "csv", "schema": {"ts": "int64", "v": "string"}}


def tcp(**changes: Any) -> TcpSource:
    return TcpSource.model_validate({**LINES, **changes})


def test_what_is_left_out_has_its_default() -> None:
    source = tcp()
    assert source.arrow_schema == pa.schema([pa.field("line", pa.string())])
    assert (source.slices, source.end, source.idle, source.address) == (
        1,
        "never",
        None,
        ("127.0.0.1", 9000),
    )
    assert TcpSource.model_validate(source.model_dump(mode="json")) == source


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"bind": "9000"}, "write HOST:PORT"),
        ({"bind": "127.0.0.1:70000"}, "write HOST:PORT"),
        ({"bind": "127.0.0.1:65535", "slices": 2}, "go beyond port 65535"),
        ({"bind": "0.0.0.0:9000"}, "allow_remote: true and token: FILE"),
        ({"bind": "10.0.0.7:9000", "allow_remote": True}, "needs token: FILE"),
        ({"bind": "example.org:9000"}, "is reached from other machines"),
        ({"format": "csv"}, "csv needs a schema"),
        ({"schema": {"ts": "int64"}}, "text has the one column"),
        ({"largest": "1GB"}, "between 1KiB and 16MiB"),
        ({"delimiter": '"'}, "can't be a delimiter"),
        ({"end": "sometime"}, "never"),
        ({"rate": "5/s"}, "rate"),
        ({"log": "x"}, "ingest_log"),
    ],
)
def test_what_can_not_be_is_refused_with_what_would_be_right(
    changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValidationError, match=text):
        tcp(**changes)


def test_a_zeromq_source_that_others_reach_needs_keys() -> None:
    remote = {**LINES, "type": "zeromq", "bind": "0.0.0.0:9000", "allow_remote": True}
    with pytest.raises(ValidationError, match="needs keys: FILE"):
        SOURCE.validate_python(remote)
    assert SOURCE.validate_python({**remote, "keys": "k"}).keys == "k"


@pytest.mark.parametrize(
    ("mode", "content", "text"),
    [
        (0o644, "0123456789abcdef", "may be read by others"),
        (0o600, "short", "16 to 4096 bytes"),
        (None, "", "can't be read"),
    ],
)
def test_a_token_file_that_keeps_no_secret_is_refused(
    tmp_path: Path, mode: int | None, content: str, text: str
) -> None:
    path = tmp_path / "token"
    if mode is not None:
        path.write_text(content)
        path.chmod(mode)
    with pytest.raises(InputError, match=text):
        Token.load(str(path))


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    ClusterKeys.create().save(tmp_path / "keys")
    os.chmod(tmp_path / "keys", 0o644)
    source = SOURCE.validate_python({**LINES, "type": "zeromq", "keys": "keys"})
    with pytest.raises(ClusterError, match="others may have read it"):
        open_live_reader("s", source, BY_COUNT, str(tmp_path), 0, None)


def test_each_slice_has_a_port_and_a_log_of_its_own(tmp_path: Path) -> None:
    port = free_ports(2)
    source = TcpSource.model_validate({**TABLE, "bind": f"127.0.0.1:{port}", "slices": 2})
    reader = open_live_reader("s", source, BY_COUNT, str(tmp_path), 1, ("v",))
    try:
        with socket.create_connection(("127.0.0.1", port + 1), 20) as sender:
            sender.sendall(b"1,a\n")
            assert sender.recv(100) == b"ok 1\n"
        delivery = reader.read(10, 0.0)
    finally:
        reader.close()
    (piece,) = delivery.pieces
    assert piece.batch.to_pylist() == [{"v": "a"}]
    assert piece.files is not None
    assert piece.files.tolist() == [1]
    assert (tmp_path / "in" / "slice-00001" / "segments").is_dir()


def test_a_source_whose_log_says_that_it_is_over_is_only_read(tmp_path: Path) -> None:
    port = free_ports(1)
    source = TcpSource.model_validate({**TABLE, "bind": f"127.0.0.1:{port}", "end": "on_request"})
    reader = open_live_reader("s", source, BY_COUNT, str(tmp_path), 0, None)
    with socket.create_connection(("127.0.0.1", port), 20) as sender:
        sender.sendall(b"1,a\n!end\n")
        answers = sender.makefile("rb").read()
    reader.close()
    assert answers == b"ok 1\nended\n"
    before = sorted(tmp_path.rglob("*"))
    again = open_live_reader("s", source, BY_COUNT, str(tmp_path), 0, None)
    delivery = again.read(10, 0.0)
    assert [piece.batch.num_rows for piece in delivery.pieces] == [1]
    assert not delivery.exhausted, "what was promised before the end comes first"
    delivery = again.read(10, 0.0)
    assert delivery.exhausted
    again.close()
    assert sorted(tmp_path.rglob("*")) == before
