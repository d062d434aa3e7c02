"""`streammine node`: one node of a cluster, run or drained.

`run` and `up` start nodes by `node run`; on other machines a person does.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
from functools import partial
from pathlib import Path

import click
import pyarrow as pa

from streammine.cli.clusters import cluster_options, connected, timeout_option
from streammine.model.errors import ClusterError
from streammine.model.suggestions import hint, listed
from streammine.runtime.endpoints import ipc_endpoints, tcp_endpoints
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.membership import Membership
from streammine.runtime.node import DECISIONS_LOG, NodeSettings

logger = logging.getLogger(__name__)


@click.group()
def node() -> None:
    """Run one node process, or take the work from one."""


@node.command("run")
@click.option("--name", required=True, help="The node's name, its own in the cluster.")
@click.option("--zookeeper", required=True, help="HOST:PORT,… of the ensemble.")
@click.option("--cluster", required=True, help="Name of the cluster.")
@click.option("--keys", required=True, type=click.Path(path_type=Path), help="Cluster key file.")
@click.option("--sockets", type=click.Path(path_type=Path), help="Private folder for sockets.")
@click.option("--listen", help="HOST to listen on by TCP, instead of sockets in a folder.")
@click.option("--folder", required=True, type=click.Path(path_type=Path), help="Scratch folder.")
@click.option("--threads", default=1, show_default=True, help="Worker threads.")
@click.option("--quiet", is_flag=True, help="Say only what is wrong.")
def run(
    name: str,
    zookeeper: str,
    cluster: str,
    keys: Path,
    sockets: Path | None,
    listen: str | None,
    folder: Path,
    threads: int,
    quiet: bool,
) -> None:
    """Host slices of a cluster's jobs until told to end, or until the cluster is over.

    `run` and `up` start their nodes by it. Started by hand on another machine, with what `up` says there, a
    node makes that machine part of the cluster. It may be started again at any time, in the same folder.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger(DECISIONS_LOG).setLevel(logging.INFO)
    # the loop must get the interpreter soon when a worker runs Python code
    sys.setswitchinterval(0.001)
    # user code makes many short-lived rows and hardly ever cycles; the default looks for them too often
    gc.set_threshold(100_000, 20, 20)
    pa.set_cpu_count(threads)
    cluster_keys = ClusterKeys.load(keys)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if listen is not None:
        endpoints = partial(tcp_endpoints, listen, cluster_keys)
    elif sockets is not None:
        endpoints = partial(ipc_endpoints, sockets)
    else:
        raise click.UsageError("give --sockets FOLDER, or --listen HOST")
    tell = logger.info if quiet else click.echo
    settings = NodeSettings(name, folder, threads, cluster_keys.verify)
    membership = Membership(settings, endpoints, cluster_keys, zookeeper, cluster, tell)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: membership.stop())
    membership.run()


@node.command()
@click.argument("node", metavar="NODE")
@cluster_options
@timeout_option
def drain(node: str, name: str | None, folder: Path | None, timeout_seconds: float) -> None:
    """Move all slices away from NODE, and place none there any more.

    Jobs go on meanwhile. It returns when nothing of them is left there, so that the node can be ended.
    """
    with connected(name, folder) as client:
        nodes = [member.name for member in client.members]
        if node not in nodes:
            raise ClusterError(
                f"there is no node {node!r}{hint(node, nodes)} Nodes: {listed(nodes)}"
            )
        client.drain(node, timeout_seconds)
    click.echo(f"{node} is drained")
