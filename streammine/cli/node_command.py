"""`streammine node`: one node process. `run` and `up` start it; on other machines a person does."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from pathlib import Path

import click
import pyarrow as pa

from streammine.model.coordination import Member
from streammine.model.errors import ClusterError
from streammine.runtime.cluster import ADDRESS_FOLLOWS
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.endpoints import ipc_endpoints, tcp_endpoints
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.node import Node, NodeSettings
from streammine.runtime.transport import Transport


@click.command(hidden=True)
@click.option("--name", required=True)
@click.option(
    "--zookeeper",
    required=True,
    help="HOST:PORT,… of the ensemble; with - it comes as the first line of standard input.",
)
@click.option("--cluster", required=True, help="Name of the cluster.")
@click.option("--keys", required=True, type=click.Path(path_type=Path), help="Cluster key file.")
@click.option("--sockets", type=click.Path(path_type=Path), help="Private folder for sockets.")
@click.option("--listen", help="HOST to listen on by TCP, instead of sockets in a folder.")
@click.option("--folder", required=True, type=click.Path(path_type=Path), help="Scratch folder.")
@click.option("--threads", default=1, show_default=True, help="Worker threads.")
def node(
    name: str,
    zookeeper: str,
    cluster: str,
    keys: Path,
    sockets: Path | None,
    listen: str | None,
    folder: Path,
    threads: int,
) -> None:
    """Host slices of a cluster's jobs until told to end."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    # the loop must get the interpreter soon when a worker runs Python code
    sys.setswitchinterval(0.001)
    # user code makes many short-lived rows and hardly ever cycles; the default looks for them too often
    gc.set_threshold(100_000, 20, 20)
    pa.set_cpu_count(threads)
    cluster_keys = ClusterKeys.load(keys)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if listen is not None:
        endpoints = tcp_endpoints(listen, cluster_keys)
    elif sockets is not None:
        endpoints = ipc_endpoints(sockets)
    else:
        raise click.UsageError("give --sockets FOLDER, or --listen HOST")
    if zookeeper == ADDRESS_FOLLOWS:
        zookeeper = sys.stdin.readline().strip()
        if not zookeeper:
            raise ClusterError("standard input ended before it told where ZooKeeper is")
    transport = Transport(name, endpoints, cluster_keys)
    host = Node(NodeSettings(name, folder, threads, cluster_keys.verify), transport)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: host.stop())
    service = Coordinator(zookeeper, cluster, cluster_keys.zookeeper_secret, host.listen)
    try:
        service.start()
        service.join(
            Member(
                name,
                transport.data_endpoint,
                transport.control_endpoint,
                os.uname().nodename,
                os.getpid(),
                transport.public_key,
            )
        )
        host.run(service)
    finally:
        service.close()
        transport.close()
