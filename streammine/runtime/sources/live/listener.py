"""A TCP server for endpoints: each client in a task of its own, so many of them and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from streammine.runtime.sources.live.addresses import Address, bind_error

MOST_CONNECTIONS = 256
CLOSE_PATIENCE_SECONDS = 1.0
_BACKLOG = 128

Task: TypeAlias = asyncio.Task[None]
Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Listens at an address from `open` to `close`. `buffer_bytes`: of each client, while nobody reads."""

    def __init__(self, address: Address, buffer_bytes: int) -> None:
        self._address = address
        self._buffer_bytes = buffer_bytes
        self._server: asyncio.Server | None = None
        self._tasks: set[Task] = set()

    @property
    def address(self) -> Address:
        """With the port that was got, once it is open."""
        return self._address

    @property
    def tasks(self) -> Collection[Task]:
        """One for each client that is being served."""
        return self._tasks

    async def open(self, serve: Serve) -> None:
        """`serve` has a client until it returns or raises; then the connection is closed.

        An OSError or IncompleteReadError of it means that the client left or is not wanted any more.
        Raises InputError when the address can't be had.
        """

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(serve, reader, writer)

        try:
            self._server = await asyncio.start_server(
                accept,
                self._address.host,
                self._address.port,
                limit=self._buffer_bytes,
                backlog=_BACKLOG,
            )
        except OSError as error:
            raise bind_error(self._address, error) from error
        self._address = Address(self._address.host, self._server.sockets[0].getsockname()[1])

    def refuse(self) -> None:
        """Let nobody in any more."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Give those that are being served a moment to end, and cut them off then."""
        self.refuse()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=CLOSE_PATIENCE_SECONDS)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _accept(
        self, serve: Serve, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= MOST_CONNECTIONS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()
