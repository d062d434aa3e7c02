"""The JSON Schema of topology documents, for editors."""

from __future__ import annotations

from typing import Any

from streammine.model.topology.definition import Topology


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a topology document, with a description on every field."""
    schema = Topology.model_json_schema(by_alias=True, mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "streammine topology",
        "description": "What runs: sources, operators and sinks, and the epoch that cuts their "
        "streams.",
        "required": ["epoch", "sources", "sinks"],
    }
