"""What a node knows of its cluster, from heartbeats, as a tree for clients."""

from __future__ import annotations

from streammine.engine.job_status import job_status
from streammine.engine.node import NodeMachine


def node_status(node: NodeMachine, job: int | None) -> dict[str, object]:
    """Of one job, or, with None, of all."""
    jobs = node.manager.jobs
    return {
        "manager": node.manager_name,
        "nodes": {
            name: {"load": dict(heartbeat.load)}
            for name, heartbeat in sorted(node.heartbeats.items())
            if name in node.nodes
        },
        "jobs": {
            str(number): job_status(jobs[number], node.manager.live)
            for number in jobs
            if job in (None, number)
        },
    }
