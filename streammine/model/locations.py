"""Locations as text: a path, or a URL such as ``s3://bucket/folder?region=eu-west-1``.

What follows the '?' are options of the file system, as `pyarrow.fs` reads them. It stands at the
end and takes no part in names, suffixes and order. In a glob a '?' that no ``name=value`` follows
stands for one character.
"""

from __future__ import annotations

import re

_OPTIONS = re.compile(r"\?\w+=[^?*\[\]]*\Z")


def without_options(location: str) -> tuple[str, str]:
    """The location up to its options, and these with their '?': "" where there are none."""
    found = _OPTIONS.search(location) if "://" in location else None
    return (location, "") if found is None else (location[: found.start()], found[0])


def below(folder: str, name: str) -> str:
    """The location of what is called `name` inside of a folder."""
    plain, options = without_options(folder)
    return f"{plain.rstrip('/')}/{name}{options}"
