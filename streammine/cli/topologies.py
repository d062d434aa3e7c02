"""Reading topology files."""

from __future__ import annotations

from pathlib import Path

from streammine.cli.options import LARGEST_FILE_BYTES
from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.model.topology import Topology


def read_topology(path: Path, overrides: tuple[str, ...]) -> Topology:
    """Raises TopologyError when the file can't be read or is no topology that can run."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise TopologyError(f"{path}: larger than 1 MiB; this is no topology file")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: not UTF-8 text at byte {error.start}") from None
    return parse_topology(text, str(path), overrides)
