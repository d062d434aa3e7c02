"""Keys and socket addresses."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import zmq

from streammine.model.errors import ClusterError
from streammine.runtime.endpoints import SocketFolder, ipc_endpoints, is_loopback, tcp_endpoints
from streammine.runtime.keys import ClusterKeys


def test_saved_keys_are_loaded_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    keys = ClusterKeys.create()
    path = tmp_path / "new" / "cluster.key"
    mask = os.umask(0)
    try:
        keys.save(path)
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o600
    assert ClusterKeys.load(path) == keys
    with pytest.raises(ClusterError, match="exists"):
        keys.save(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "cluster.key"
    ClusterKeys.create().save(path)
    path.chmod(mode)
    with pytest.raises(ClusterError, match="chmod 600"):
        ClusterKeys.load(path)


@pytest.mark.parametrize(
    "text", ["", "\n", "streammine cluster secret 1\n", "streammine cluster secret 1\nabcd\n", "ä"]
)
def test_a_file_that_holds_no_keys_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ClusterError, match="no key file"):
        ClusterKeys.load(path)


def test_a_missing_key_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="nowhere"):
        ClusterKeys.load(tmp_path / "nowhere")


def test_each_purpose_has_keys_of_its_own() -> None:
    keys = ClusterKeys.create()
    pairs = [keys.server, keys.client, keys.node("a"), keys.node("b")]
    assert len({pair.secret for pair in pairs}) == len({pair.public for pair in pairs}) == 4
    assert all(zmq.curve_public(pair.secret) == pair.public for pair in pairs)
    assert keys.node("a") == ClusterKeys(keys.root).node("a")
    assert keys.node("a") != ClusterKeys.create().node("a")


def test_signatures_hold_for_the_data_and_the_cluster_that_made_them() -> None:
    keys = ClusterKeys.create()
    signature = keys.sign(b"code")
    assert keys.verify(b"code", signature)
    assert not keys.verify(b"Code", signature)
    assert not keys.verify(b"code", signature[:-1] + b"\0\0")
    assert not ClusterKeys.create().verify(b"code", signature)


def test_secrets_do_not_show_in_messages() -> None:
    keys = ClusterKeys.create()
    assert keys.root.hex() not in repr(keys)
    assert repr(keys.root) not in repr(keys)
    assert keys.server.secret.decode() not in repr(keys.server)


def test_sockets_lie_in_a_private_folder_with_a_short_path(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short, SocketFolder(Path(short)) as folder:
        assert folder.path.parent == Path(short)
        assert folder.path.stat().st_mode & 0o777 == 0o700
        first, second = ipc_endpoints(folder.path), ipc_endpoints(folder.path)
        assert len({first.data, first.control, second.data, second.control}) == 4
    assert not folder.path.exists()

    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with SocketFolder(deep) as folder:
        assert deep not in folder.path.parents
        assert len(ipc_endpoints(folder.path).control) <= len("ipc://") + 107
    assert not folder.path.exists()


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o750)
    with pytest.raises(ClusterError, match="0700"):
        ipc_endpoints(wide)
    with pytest.raises(ClusterError, match="missing"):
        ipc_endpoints(tmp_path / "missing")


def test_tcp_beyond_loopback_needs_keys() -> None:
    with pytest.raises(ClusterError, match="without keys"):
        tcp_endpoints("192.0.2.1", None)
    with pytest.raises(ClusterError, match="without keys"):
        tcp_endpoints("0.0.0.0", None, advertised_host="127.0.0.1")
    assert tcp_endpoints("127.0.0.1", None).data == "tcp://127.0.0.1:*"
    keys = ClusterKeys.create()
    assert tcp_endpoints("192.0.2.1", keys, 5000).data == "tcp://192.0.2.1:5000"
    with pytest.raises(ClusterError, match="which one"):
        tcp_endpoints("0.0.0.0", keys)


def test_the_advertised_host_stands_in_for_a_wildcard() -> None:
    keys = ClusterKeys.create()
    endpoints = tcp_endpoints("0.0.0.0", keys, advertised_host="fe80::1")
    assert endpoints.advertised("tcp://0.0.0.0:4711") == "tcp://[fe80::1]:4711"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("no such", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected
