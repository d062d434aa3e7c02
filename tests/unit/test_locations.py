"""Locations: options at the end of a URL stay at the end."""

from __future__ import annotations

import pytest

from streammine.model.locations import below, without_options
from streammine.model.topology.sources import format_of_path

OPTIONS = "?endpoint_override=127.0.0.1:9000&scheme=http"


@pytest.mark.parametrize(
    ("location", "plain", "options"),
    [
        (f"s3://b/x.csv{OPTIONS}", "s3://b/x.csv", OPTIONS),
        (f"s3://b/x-?.csv{OPTIONS}", "s3://b/x-?.csv", OPTIONS),
        ("s3://b/x-?.csv", "s3://b/x-?.csv", ""),
        ("s3://b/year?=[0-9]/*.csv", "s3://b/year?=[0-9]/*.csv", ""),
        ("a?b=c", "a?b=c", ""),
    ],
)
def test_options_are_told_from_globs_and_paths(location: str, plain: str, options: str) -> None:
    assert without_options(location) == (plain, options)


def test_names_go_in_front_of_the_options() -> None:
    assert below(f"s3://b/out/{OPTIONS}", "part") == f"s3://b/out/part{OPTIONS}"
    assert below("/out", "part") == "/out/part"


def test_a_suffix_is_found_in_front_of_the_options() -> None:
    assert format_of_path(f"s3://b/*.csv.gz{OPTIONS}") == "csv"
