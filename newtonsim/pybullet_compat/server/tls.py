"""Encrypted connections to physics servers: TLS around the bytes of ZeroMQ, at both ends.

ZeroMQ has no TLS. Therefore, a relay at the server accepts TLS connections and forwards their data to the
server's own port, which only its machine can reach; a relay at the client does the reverse. Relays forward
bytes as fast as both ends accept them, store none, and do not depend on the protocol; tokens are required as
without TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
from collections.abc import Coroutine
from typing import Any

CHUNK = 64 * 1024
"""Number of bytes that are forwarded at once."""
HANDSHAKE_SECONDS = 10.0
"""Time limit of the TLS handshake."""
MOST_CONNECTIONS = 256
"""Connections that a relay keeps; more are closed at once."""


class Relay:
    """Forwards connections from a port of this machine to another address, in its own thread.

    Args:
        host: Address of this machine to listen on.
        port: Port, 0 for any free one.
        target: Host and port that connections are passed on to.
        inside: TLS of those who connect here, None for none.
        outside: TLS towards the target, None for none; its certificate has to be that of the target's host.

    Attributes:
        port: The port that it listens on.

    Raises:
        OSError: It cannot be listened on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        target: tuple[str, int],
        inside: ssl.SSLContext | None = None,
        outside: ssl.SSLContext | None = None,
    ):
        self._target, self._outside = target, outside
        self._tasks: set[asyncio.Task] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="TLS relay")
        self._thread.start()
        options: dict[str, Any] = {} if inside is None else {"ssl_handshake_timeout": HANDSHAKE_SECONDS}
        try:
            self._server = self._do(asyncio.start_server(self._connect, host, port, ssl=inside, **options))
        except OSError:
            self._end()
            raise
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Close all connections."""
        self._do(self._close())
        self._end()

    def _do(self, work: Coroutine) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Pass one connection on until either end closes it."""
        task = asyncio.current_task()
        assert task is not None
        forth = None
        self._tasks.add(task)
        try:
            if len(self._tasks) <= MOST_CONNECTIONS:
                far, forth = await asyncio.open_connection(*self._target, ssl=self._outside)
                ways = [asyncio.ensure_future(_pass(near, forth)), asyncio.ensure_future(_pass(far, back))]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # the target does not answer or has a wrong certificate: the connection here is closed
        except asyncio.CancelledError:
            pass  # the relay closes; asyncio before 3.12 reports cancelled tasks of streams as failures
        finally:
            for writer in (back, forth):
                if writer is not None:
                    writer.transport.abort() if task.cancelling() else writer.close()
            self._tasks.discard(task)


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass bytes on; a slow sink makes the source wait."""
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            sink.write(data)
            await sink.drain()


def server_context(certificate: str | os.PathLike, key: str | os.PathLike) -> ssl.SSLContext:
    """TLS of a server.

    Args:
        certificate: PEM file with its certificate, and those between it and what clients trust.
        key: PEM file with its private key.

    Raises:
        OSError: A file cannot be read, or is none of these.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def client_context(authority: str | os.PathLike) -> ssl.SSLContext:
    """TLS of a client.

    Args:
        authority: PEM file with the certificates that it trusts, such as the server's own; "" for those that
            the system trusts.

    Raises:
        OSError: The file cannot be read, or holds no certificate.
    """
    return ssl.create_default_context(cafile=os.fspath(authority) or None)
