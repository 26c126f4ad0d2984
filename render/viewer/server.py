"""The web server of the viewer."""

from __future__ import annotations

import contextlib
import logging
import socket
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    import viser

_TRIES = 20
"""Number of ports that are tried."""


def start_server(host: str, port: int, label: str, effects: bool) -> viser.ViserServer:
    """Start a server on a port, or on the next one that is free.

    Args:
        host: Address to listen on.
        port: First port to try; 0 for any free one.
        label: Title of the panel.
        effects: Whether there are shadows and reflections.

    Raises:
        NewtonsimError: viser is missing, or no port is available at this address.
    """
    try:
        import viser
    except ImportError as error:
        raise NewtonsimError("the viewer needs viser: pip install 'newtonsim[view]'") from error
    free = find_port(host, port)
    with quiet():
        server = viser.ViserServer(host=host, port=free, label=label, verbose=False)
    # the share button would open the simulation to everybody through a foreign server
    server.gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium")
    server.gui.main_panel.dock_right()
    server.scene.configure_default_lights(cast_shadow=effects)
    # `lit_colors` counts on this much light; more from the surroundings makes dark colours grey
    surroundings = {"hdri": "warehouse", "environment_intensity": 0.45} if effects else {"hdri": None}
    server.scene.configure_environment_map(**surroundings)
    server.scene.add_light_ambient("/ambient", intensity=0.9 if effects else 1.9)
    return server


def find_port(host: str, port: int) -> int:
    """Return the first free port, starting from a given one.

    Raises:
        NewtonsimError: There is no free port nearby, or the address is not one of this machine.
    """
    if not 0 <= port <= 65535:
        raise NewtonsimError(f"port: expected a number from 0 to 65535, got {port}")
    failure: OSError | None = None
    for candidate in range(port, min(port + (_TRIES if port else 1), 65536)):
        try:
            _try_port(host, candidate)
        except socket.gaierror as error:
            raise NewtonsimError(f"host: {host!r} is not an address: {error}") from error
        except OSError as error:
            failure = error
        else:
            return candidate
    raise NewtonsimError(f"cannot listen on {host}, ports {port} to {port + _TRIES - 1}: {failure}")


def _try_port(host: str, port: int) -> None:
    """Raise OSError if nothing can listen on a port."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen(1)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep viser from printing its own banner."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        console.quiet = before


def stop_server(server: viser.ViserServer) -> None:
    """Stop a server, and take back what it has added to the log of web sockets.

    The first page that a server of viser sends adds a filter there, which outlives the server. One is enough
    for all.
    """
    with quiet():
        server.stop()
    logger = logging.getLogger("websockets.server")
    for extra in [one for one in logger.filters if type(one).__module__.startswith("viser.")][1:]:
        logger.removeFilter(extra)
