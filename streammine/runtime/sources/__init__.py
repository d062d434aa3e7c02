"""Sources: where rows come from, and which epoch and position each of them has."""

from streammine.runtime.sources.files import raw_files
from streammine.runtime.sources.opening import first_event_time, open_reader
from streammine.runtime.sources.resolving import (
    format_settings,
    prepared_source,
    resolve_source,
    schema_of,
    schema_text,
)

__all__ = [
    "first_event_time",
    "format_settings",
    "open_reader",
    "prepared_source",
    "raw_files",
    "resolve_source",
    "schema_of",
    "schema_text",
]
