"""What several of these tests take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.live_endpoints import Client, Live


@pytest.fixture
def opened() -> Iterator[Callable[..., Live]]:
    with contextlib.ExitStack() as stack:

        def open_live(*given: Any, **more: Any) -> Live:
            live = Live(*given, **more)
            stack.callback(live.reader.close)
            return live

        yield open_live


@pytest.fixture
def client() -> Iterator[Callable[[Live], Client]]:
    with contextlib.ExitStack() as stack:

        def connect(live: Live) -> Client:
            made = Client(live)
            stack.callback(made.close)
            return made

        yield connect
