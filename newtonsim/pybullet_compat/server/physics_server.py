"""A physics server: one world that several clients share, over TCP or a local socket.

Clients name the function of the API to call. Only functions that act on a world are available, and their
arguments are checked as those of any script. Calls are executed one after the other.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import secrets
import threading
import warnings
from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.api.functions import FUNCTIONS
from newtonsim.pybullet_compat.clients.guard import Guard
from newtonsim.pybullet_compat.clients.table import TABLE, get_client
from newtonsim.pybullet_compat.server import protocol
from newtonsim.pybullet_compat.server.file_fence import FileFence
from newtonsim.pybullet_compat.server.protocol import Answer, Call
from newtonsim.pybullet_compat.server.tls import Relay
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.surface.implementations import implementation
from newtonsim.pybullet_compat.surface.signatures import POSITIONAL, SERVED, SIGNATURES

if TYPE_CHECKING:
    import ssl

    import zmq

    from newtonsim.pybullet_compat.world.client import Client

POLL_SECONDS = 0.2
"""Interval at which a server checks whether it should stop."""
QUEUE = 16
"""Largest number of waiting messages of each connection."""


_NO_TOKEN = "The token of this physics server was not given."


class PhysicsServer:
    """Answers calls on one client's world.

    Each connection begins with a token, which clients of this machine and user find in a file that nobody
    else can read; others are given it by their user (`protocol.TOKEN_VARIABLE`).

    Args:
        physics_client_id: The client in this process whose world is served.
        folder: Folder outside which clients may neither read nor write files; None for no bounds.

    Attributes:
        addresses: Where it listens, as ZeroMQ writes it; "tls://host:port" with TLS.
        token: What connections have to begin with.

    Raises:
        OSError: There is no such folder.
    """

    def __init__(self, physics_client_id: int, folder: str | os.PathLike | None = None):
        self._zmq, _ = protocol.load_packages()
        self._id = physics_client_id
        self._context = self._zmq.Context()
        self._socket: zmq.Socket = self._context.socket(self._zmq.ROUTER)
        self._socket.setsockopt(self._zmq.MAXMSGSIZE, protocol.MAX_BYTES)
        self._socket.setsockopt(self._zmq.LINGER, 500)
        self._socket.setsockopt(self._zmq.SNDHWM, QUEUE)
        self._socket.setsockopt(self._zmq.RCVHWM, QUEUE)
        self._stop = threading.Event()
        self._file: str | None = None
        self._token_files: list[str] = []
        self._relays: list[Relay] = []
        self._known: set[bytes] = set()
        self._fence = None if folder is None else FileFence(folder)
        self.token = secrets.token_hex(32)
        self.addresses: list[str] = []

    def listen_tcp(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on a port.

        Args:
            host: Address of this machine to listen on; 127.0.0.1 lets only this machine connect.
            port: Port, 0 for any free one.
            tls: Encrypts connections, see `tls.server_context`; None for none.

        Returns:
            The port.

        Raises:
            OSError: It cannot be listened on.
        """
        if tls is None:
            port = self._bind_tcp(host, port)
        else:
            relay = Relay(host, port, ("127.0.0.1", self._bind_tcp("127.0.0.1", 0)), inside=tls)
            self._relays.append(relay)
            port = relay.port
            self.addresses[-1] = f"tls://{host}:{port}"
        self._token_files.append(protocol.write_token(f"tcp-{port}", self.token))
        return port

    def _bind_tcp(self, host: str, port: int) -> int:
        """Listen on a port, without encryption; returns it."""
        address = f"tcp://{host}:{port if port else '*'}"
        try:
            self._socket.bind(address)
        except self._zmq.ZMQError as failure:
            raise OSError(failure.errno, f"cannot listen on {host}:{port}: {failure.strerror}") from None
        bound = self._socket.getsockopt(self._zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        self.addresses.append(bound)
        return int(bound.rsplit(":", 1)[1])

    def listen_local(self, key: int) -> None:
        """Listen for connections of this machine and user by a shared memory key.

        Args:
            key: The key.

        Raises:
            OSError: There is such a server already, or its socket file cannot be made.
        """
        path = protocol.socket_path(key)
        if protocol.listens(path):
            raise OSError(errno.EADDRINUSE, f"there is already a server with shared memory key {key}")
        if os.path.exists(path):
            os.unlink(path)
        try:
            self._socket.bind(f"ipc://{path}")
        except self._zmq.ZMQError as failure:
            raise OSError(failure.errno, f"cannot listen at {path}: {failure.strerror}") from None
        self._file = path
        self._token_files.append(protocol.write_token(f"key-{key}", self.token))
        self.addresses.append(f"ipc://{path}")

    def run(self) -> None:
        """Answer calls until `stop` is called from another thread or a signal handler."""
        while not self._stop.is_set():
            if self._socket.poll(int(1000 * POLL_SECONDS)):
                self._answer_one()

    def stop(self) -> None:
        """Let `run` return."""
        self._stop.set()

    def close(self) -> None:
        """Close the connections."""
        for relay in self._relays:
            relay.close()
        self._socket.close()
        self._context.term()
        for path in (self._file, *self._token_files):
            if path is not None and os.path.exists(path):
                os.unlink(path)

    def _answer_one(self) -> None:
        """Receive one message and send the answer; what is not a message gets an error."""
        frames = self._socket.recv_multipart()
        try:
            if len(frames) != 2:
                raise protocol.ProtocolError(f"expected one frame, got {len(frames) - 1}")
            answer = self._answer_call(frames[0], protocol.decode_call(frames[1]))
        except protocol.ProtocolError as failure:
            answer = Answer(-1, None, ("error", str(failure)))
        try:
            data = protocol.encode(answer)
        except Exception as failure:  # too large, or of a type that cannot be sent
            data = protocol.encode(Answer(answer.number, None, protocol.describe_failure(failure)))
        with contextlib.suppress(self._zmq.ZMQError):  # the client is gone or does not listen
            self._socket.send_multipart([frames[0], data], self._zmq.NOBLOCK)

    def _answer_call(self, connection: bytes, call: Call) -> Answer:
        """Execute a call if its connection started with the token."""
        if call.name == protocol.HELLO:
            given = call.arguments.get("token")
            # names that clients choose do not begin with a zero, and could be those of other clients
            if not isinstance(given, str) or not connection.startswith(b"\0"):
                given = ""
            if not hmac.compare_digest(given.encode(errors="replace"), self.token.encode()):
                return Answer(call.number, None, ("error", _NO_TOKEN))
            self._known.add(connection)
        elif connection not in self._known:
            return Answer(call.number, None, ("error", _NO_TOKEN))
        with contextlib.nullcontext() if self._fence is None else self._fence.closed():
            return self.answer(call)

    def answer(self, call: Call) -> Answer:
        """Execute a call.

        Args:
            call: The call.
        """
        if call.name == protocol.HELLO:
            worlds = get_client(self._id).num_worlds
            return Answer(call.number, {"version": protocol.VERSION, "num_worlds": worlds}, None)
        try:
            return Answer(call.number, self._call(call.name, call.arguments), None)
        except Exception as failure:  # a server survives all requests of clients
            return Answer(call.number, None, protocol.describe_failure(failure))

    def _call(self, name: str, arguments: dict[str, object]) -> object:
        if name not in SERVED:
            raise error(f"A physics server has no function '{name}'.")
        if name in POSITIONAL:
            client = get_client(self._id)
            words = arguments.get("args", ())
            return (
                client.call(name, {"args": words}) if client.remote else implementation(name)(client, *words)
            )
        known = {parameter.name for parameter in SIGNATURES[name].parameters}
        for key in arguments:
            if key not in known:
                raise TypeError(f"'{key}' is an invalid keyword argument for {name}()")
        return FUNCTIONS[name](**arguments, physicsClientId=self._id)


class SharedWorld:
    """Serves a client of this process to others on this machine, as SHARED_MEMORY_SERVER does.

    Args:
        client: A client in the table of clients.
    """

    def __init__(self, client: Client):
        self._client = client
        self._server: PhysicsServer | None = None
        self._thread: threading.Thread | None = None

    def start(self, key: int) -> None:
        """Serve in a thread from now on; calls of this process and of others exclude each other.

        Args:
            key: Shared memory key.

        Raises:
            error: The packages for servers are not installed.
            OSError: There is a server with that key already.
        """
        number = next(n for n, entry in TABLE.items() if getattr(entry, "client", entry) is self._client)
        server = PhysicsServer(number)
        try:
            server.listen_local(key)
        except OSError:
            server.close()
            raise
        self._client.part(Guard).hold()
        self._server = server
        self._thread = threading.Thread(target=server.run, daemon=True, name=f"physics server {key}")
        self._thread.start()

    def close(self) -> None:
        """End the server, at disconnect."""
        if self._server is not None:
            self._server.stop()
            self._thread.join()
            self._server.close()
            self._server = None


def share(client: Client, key: int) -> None:
    """Serve a client of this process to others on this machine, or warn that it is not.

    Args:
        client: A client in the table of clients.
        key: Shared memory key.
    """
    try:
        client.part(SharedWorld).start(key)
    except (error, OSError) as failure:
        warnings.warn(f"newtonsim.pybullet_compat: the world is not shared: {failure}", stacklevel=3)
