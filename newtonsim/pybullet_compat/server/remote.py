"""Clients of physics servers: `connect` with TCP, UDP or SHARED_MEMORY.

All three use the protocol of this package (see protocol.py), TCP and UDP both over a TCP connection, which
makes UDP reliable. Servers of PyBullet itself use another protocol.
"""

from __future__ import annotations

import ipaddress
import socket
import time

from newtonsim.pybullet_compat.clients.table import TABLE, disconnect
from newtonsim.pybullet_compat.server import protocol
from newtonsim.pybullet_compat.server.protocol import Call
from newtonsim.pybullet_compat.server.tls import Relay, client_context
from newtonsim.pybullet_compat.surface.constants import SHARED_MEMORY
from newtonsim.pybullet_compat.surface.errors import error, not_connected

DEFAULT_TIMEOUT = 600.0
"""Time limit of a call, unless setTimeOut is called [s]; first steps compile kernels."""
CONNECT_TIMEOUT = 5.0
"""Time limit to find a server [s]."""


class RemoteClient:
    """A world in another process.

    Args:
        address: Address of the server as ZeroMQ writes it.
        token: Its token.
        relay: What leads there, and ends with the connection; None if nothing has to.

    Attributes:
        remote: True; clients in this process have False.
        chooses: Whether a call names its worlds, which none does here.
        num_worlds: Copies of the server's world.
        timeout: Seconds after which a call that is not answered ends the connection.
    """

    remote, chooses = True, False

    def __init__(self, address: str, token: str = "", relay: Relay | None = None):
        zmq, _ = protocol.load_packages()
        self.num_worlds = 1
        self.timeout = DEFAULT_TIMEOUT
        self._number, self._token, self._relay = 0, token, relay
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, protocol.MAX_BYTES)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._socket.connect(address)

    @property
    def given_worlds(self) -> int:
        """For how many worlds a call gives values."""
        return self.num_worlds

    def greet(self) -> bool:
        """Return whether a server answers that speaks our protocol."""
        try:
            match self._ask(protocol.HELLO, {"token": self._token}, CONNECT_TIMEOUT):
                case {"version": protocol.VERSION, "num_worlds": int(worlds)}:
                    self.num_worlds = worlds
                    return True
        except error:
            pass  # no server, or one with another protocol
        return False

    def call(self, name: str, arguments: dict[str, object]) -> object:
        """Call a function of the API on the server and return what it returns.

        Args:
            name: Name of the function.
            arguments: Its arguments by name.

        Raises:
            error: The server is gone or did not answer in time, and the connection is closed; or what the
                function raised.
        """
        if self._socket is None:
            raise not_connected()
        if name == "setTimeOut":
            if arguments["timeOutInSeconds"] > 0.0:
                self.timeout = float(arguments["timeOutInSeconds"])
            return None
        return self._ask(name, arguments, self.timeout)

    def close(self) -> None:
        """End the connection; the world of the server stays."""
        if self._socket is not None:
            self._socket.disable_monitor()
            self._monitor.close()
            self._socket.close()
            self._context.term()
            self._socket = None
            if self._relay is not None:
                self._relay.close()

    def _ask(self, name: str, arguments: dict[str, object], timeout: float) -> object:
        """Send a call and wait for the answer."""
        self._number += 1
        data = protocol.encode(Call(self._number, name, arguments))
        self._socket.send(data)
        end = time.monotonic() + timeout
        while True:
            ready = dict(self._poller.poll(max(0.0, 1000.0 * (end - time.monotonic()))))
            if self._socket in ready:
                try:
                    answer = protocol.decode_answer(self._socket.recv())
                except protocol.ProtocolError as failure:
                    raise self._lost(f"The answer of the physics server is {failure}") from None
                if answer.number == self._number:
                    break
                if answer.number == -1:
                    raise self._lost(f"The physics server did not understand {name}.")
            elif self._monitor in ready:
                raise self._lost(f"The physics server closed the connection in {name}.")
            elif not ready:
                raise self._lost(f"The physics server did not answer {name} within {timeout:g} s.")
        if answer.failure is not None:
            raise protocol.make_failure(answer.failure)
        return answer.value

    def _lost(self, reason: str) -> error:
        """Disconnect and return the error with the reason."""
        number = next((n for n, client in TABLE.items() if client is self), None)
        if number is None:
            self.close()
        else:
            disconnect(number)
        return error(reason)


def connect(method: int, hostName: str, port: int, key: int, tls: str | None = None) -> RemoteClient | None:
    """Connect to a physics server.

    Args:
        method: SHARED_MEMORY, TCP or UDP.
        hostName: Host of the server, for TCP and UDP.
        port: Its port.
        key: Its shared memory key, for SHARED_MEMORY.
        tls: Connect by TLS, for TCP and UDP: the file of certificates that are trusted, "" for those that the
            system trusts.

    Returns:
        A client, or None if no server answers.

    Raises:
        error: There may be one, but the packages for a connection are not installed, or it does not speak TLS
            or has a certificate that is not trusted.
    """
    relay = None
    if method == SHARED_MEMORY:
        try:
            path = protocol.socket_path(key)
        except OSError:
            return None
        if not protocol.listens(path):
            return None
        address, name = f"ipc://{path}", f"key-{key}"
    else:
        if not _listens(hostName, port):
            return None
        name = f"tcp-{port}" if _is_here(hostName) else None
        if tls is not None:
            relay = _relay(hostName, port, tls)
            hostName, port = "127.0.0.1", relay.port
        address = f"tcp://[{hostName}]:{port}" if ":" in hostName else f"tcp://{hostName}:{port}"
    client = RemoteClient(address, protocol.find_token(name), relay)
    if client.greet():
        return client
    client.close()
    return None


def _relay(host: str, port: int, authority: str) -> Relay:
    """Return a relay to a server with TLS; its certificate is verified first, for a precise error."""
    try:
        context = client_context(authority)
        with (
            socket.create_connection((host, port), CONNECT_TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            pass
    except OSError as failure:
        raise error(f"No TLS connection to {host}:{port}: {failure}") from None
    return Relay("127.0.0.1", 0, (host, port), outside=context)


def _is_here(host: str) -> bool:
    """Whether a host is this machine, whose servers' tokens are in files; other hosts do not get them."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listens(host: str, port: int) -> bool:
    """Whether a port accepts connections."""
    try:
        with socket.create_connection((host, port), CONNECT_TIMEOUT):
            return True
    except (OSError, OverflowError, UnicodeError):
        return False
