"""Credentials have no place in a topology: it is written to ZooKeeper, to runs and to messages.

Nodes take them from their environment instead, as the file systems of `pyarrow.fs` do by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from streammine.model.topology.problems import InvalidTopologyError, Path, Problem

if TYPE_CHECKING:
    from streammine.model.topology import Topology

_USER_AND_PASSWORD = re.compile(r"\A[A-Za-z][\w+.-]*://[^/?#\s]*:[^/?#\s]*@")
_KEY_IN_BUCKET = re.compile(r"\A(s3|gs|gcs|abfss?)://[^/?#\s]*:", re.IGNORECASE)
"""Names of buckets have no colon; a secret may have a slash in it."""
_SECRET_OPTION = re.compile(
    r"\A[A-Za-z][\w+.-]*://[^\s]*[?&]\w*(secret|password|token|access_key|account_key)\w*=",
    re.IGNORECASE,
)
_PLACES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "gcs": "GOOGLE_APPLICATION_CREDENTIALS",
}


def holds_credentials(text: str) -> bool:
    """Whether this is a URL with a password, key or token in it."""
    return any(
        each.search(text) is not None
        for each in (_USER_AND_PASSWORD, _KEY_IN_BUCKET, _SECRET_OPTION)
    )


def credentials_text(location: str) -> str:
    """What is wrong with a URL that holds credentials, without them."""
    scheme = location.partition("://")[0].lower()
    place = _PLACES.get(scheme)
    return (
        f"this {scheme}:// URL holds credentials, which would be written to ZooKeeper, to the run's "
        "folder and to messages in clear; take them out of it, and give them to each node in its "
        f"environment{f' ({place})' if place else ''}"
    )


def refuse_credentials(topology: Topology) -> Topology:
    """This topology, if no URL in it holds credentials. Raises InvalidTopologyError."""
    tree = topology.model_dump(mode="json", by_alias=True)
    problems = [
        Problem(path, credentials_text(text))
        for path, text in _texts(tree, ())
        if holds_credentials(text)
    ]
    if problems:
        raise InvalidTopologyError(problems)
    return topology


def _texts(tree: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """All texts of a tree of plain data, with the way to each."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, dict):
        for name, value in tree.items():
            yield from _texts(value, (*path, name))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _texts(value, (*path, number))
