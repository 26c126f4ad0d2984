"""The command ``newtonsim pybullet-server``: a physics server that PyBullet scripts connect to."""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import ssl
import sys

from newtonsim.errors import NewtonsimError


def pybullet_server(arguments: argparse.Namespace) -> int:
    """Serve one world until the process is interrupted or terminated.

    Args:
        arguments: `host`, `port`, `shared_memory_key`, `folder`, `tls`, `num_worlds` and `device` of the
            command line.

    Returns:
        Exit status 0.

    Raises:
        NewtonsimError: A package is missing, or a TLS file cannot be used.
        OSError: The port or the key is in use.
    """
    from newtonsim.pybullet_compat.clients.table import disconnect
    from newtonsim.pybullet_compat.connections import open_world
    from newtonsim.pybullet_compat.server import protocol
    from newtonsim.pybullet_compat.server.physics_server import PhysicsServer
    from newtonsim.pybullet_compat.surface import constants
    from newtonsim.pybullet_compat.surface.errors import error

    tls = _tls(arguments)
    world = open_world(constants.GUI_SERVER, arguments.num_worlds, arguments.device)
    try:
        server = PhysicsServer(world, _folder(arguments))
    except (error, OSError) as failure:
        raise NewtonsimError(str(failure)) from failure
    signal.signal(signal.SIGTERM, lambda *_: server.stop())
    try:
        port = server.listen_tcp(arguments.host, arguments.port, tls)
        if arguments.shared_memory_key >= 0:
            server.listen_local(arguments.shared_memory_key)
        if not _is_loopback(arguments.host):
            variable = protocol.TOKEN_VARIABLE
            print(f"newtonsim: clients on other machines need {variable}={server.token}", file=sys.stderr)
            if tls is None:
                print("newtonsim: warning: the connection is not encrypted", file=sys.stderr)
        print(f"physics server on port {port}: {', '.join(server.addresses)}", flush=True)
        server.run()
    except KeyboardInterrupt:
        pass  # how a person ends a server
    finally:
        server.close()
        disconnect(world)
    return 0


def _tls(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    """Return the encryption with the given certificate and key, None if none are given."""
    from newtonsim.pybullet_compat.server.tls import server_context

    if arguments.tls is None:
        return None
    try:
        return server_context(*arguments.tls)
    except OSError as failure:
        raise NewtonsimError(f"--tls {' '.join(arguments.tls)}: {failure}") from failure


def _folder(arguments: argparse.Namespace) -> str | None:
    """Return the folder that confines clients: the given one, or the working one if others can connect."""
    if arguments.folder is None and not _is_loopback(arguments.host):
        return os.getcwd()
    return arguments.folder


def _is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
