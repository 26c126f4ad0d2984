"""Connecting: worlds of this process, their windows and servers, and clients of other servers."""

from __future__ import annotations

import difflib
import shlex
from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.clients.table import METHODS, TABLE, add, disconnect
from newtonsim.pybullet_compat.surface import constants as c
from newtonsim.pybullet_compat.surface.arguments import as_int
from newtonsim.pybullet_compat.surface.errors import error

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine

DEFAULT_PORTS = {c.UDP: 1234, c.TCP: 6667}
_IN_PROCESS = (c.DIRECT, c.SHARED_MEMORY_SERVER, c.SHARED_MEMORY_GUI)
_WINDOWS = (c.GUI, c.GUI_SERVER, c.GUI_MAIN_THREAD)
_SERVERS = (c.SHARED_MEMORY_SERVER, c.GUI_SERVER)
_REMOTE = (c.SHARED_MEMORY, c.UDP, c.TCP)
_BY_NETWORK = (c.UDP, c.TCP)
_OWN_OPTIONS = (
    "num_worlds",
    "device",
    "tls",
    "host",
    "port",
    "width",
    "height",
    "effects",
    "mp4",
    "background_color_red",
    "background_color_green",
    "background_color_blue",
)
"""Options that mean something here; PyBullet has more, and leaves out what it does not know."""
_ALIKE = 0.75
"""How alike a word is to one of these that is this one misspelt, as `difflib` counts."""
_GRAPHICS_SERVERS = (c.GRAPHICS_SERVER, c.GRAPHICS_SERVER_TCP, c.GRAPHICS_SERVER_MAIN_THREAD)


def connect(
    method: int,
    *args: int | str,
    key: int = c.SHARED_MEMORY_KEY,
    hostName: str = "localhost",
    port: int = -1,
    options: str = "",
) -> int:
    """Make a physics world, or connect to a physics server.

    After the method come, by place, key and options, or host name, port and options. Options are words like
    `--num_worlds=4096 --device=cuda:0`; those of PyBullet's windows are accepted. GUI serves a page for web
    browsers, at `--host=127.0.0.1 --port=8080` by default. With TCP and UDP, `--tls` connects by TLS to a
    server that the system trusts, `--tls=FILE` to one that the certificates of a file vouch for; there is no
    other option, so that one that is misspelt does not lead to a connection without TLS.

    Args:
        method: DIRECT, GUI, SHARED_MEMORY, UDP, TCP, ...
        *args: See above.
        key: Key of a server on this machine.
        hostName: Host of a server.
        port: Its port; by default 1234 for UDP and 6667 for TCP.
        options: Words that describe the world.

    Returns:
        The physicsClientId, -1 if no server answers.

    Raises:
        error: The method is unknown, an option is misspelt or cannot be used, there are too many clients, or
            TLS was asked for and cannot be had.
    """
    method = as_int(method)
    if args and isinstance(args[0], str):
        hostName, port, options = [*args, *(hostName, port, options)[len(args) :]]
    elif args:
        key, options = [*args, *(key, options)[len(args) :]]
    key, port = as_int(key), as_int(port)
    for name, value in (("hostName", hostName), ("options", options)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be str, not {type(value).__name__}")
    if method in _GRAPHICS_SERVERS:
        raise error("A graphics server needs a display.")
    if method not in (*_IN_PROCESS, *_WINDOWS, *_REMOTE):
        raise error("connectPhysicsServer unexpected argument")
    if method in _WINDOWS and any(m in _WINDOWS for m in METHODS.values()):
        raise error("Only one local in-process GUI/GUI_SERVER connection allowed. Use DIRECT connection mode")
    if method in _REMOTE:
        from newtonsim.pybullet_compat.server import remote

        port = DEFAULT_PORTS.get(method, -1) if port < 0 else port
        tls = None
        if method in _BY_NETWORK:
            tls = _authority(options)
        else:
            _check_names(options)
        client = remote.connect(method, hostName, port, key, tls)
        return -1 if client is None else add(client, method)
    _check_names(options)
    number = open_world(method, **parse_options(options))
    if method in _WINDOWS:
        _open_window(number, options)
    if method in _SERVERS:
        from newtonsim.pybullet_compat.server.physics_server import share

        share(TABLE[number], key)
    return number


def _words(options: str) -> list[str]:
    """Words of a string of options; quotation marks keep together what has blanks."""
    try:
        return shlex.split(options)
    except ValueError:
        raise error(f"A quotation in the options does not end: {options!r:.80}") from None


def _authority(options: str) -> str | None:
    """File of certificates that `--tls=FILE` names, "" for `--tls` alone, None without it.

    Raises:
        error: There is another option, such as that one misspelt.
    """
    words = _words(options)
    for word in words:
        if word.partition("=")[0] != "--tls":
            raise error(f"A connection has no option {word!r:.80}; there is --tls=FILE, and --tls.")
    if len(words) > 1:
        raise error(f"Option --tls is given {len(words)} times.")
    return words[0].partition("=")[2] if words else None


def _check_names(options: str) -> None:
    """Raise if an option is one that is misspelt, or is `--tls`, where no network is used."""
    for word in _words(options):
        name = word.lstrip("-").partition("=")[0]
        if name == "tls":
            raise error("Option --tls is for connections by TCP and UDP.")
        if name not in _OWN_OPTIONS and (meant := difflib.get_close_matches(name, _OWN_OPTIONS, 1, _ALIKE)):
            raise error(f"There is no option {word!r:.80}; --{meant[0]} is meant?")


def _open_window(number: int, options: str) -> None:
    """Show a world in the web browser, or end it if that cannot be."""
    from newtonsim.pybullet_compat.gui import opening

    try:
        opening.open_window(TABLE[number], opening.parse_window_options(options))
    except error:
        disconnect(number)
        raise


def open_world(method: int, num_worlds: int = 1, device: str | None = None) -> int:
    """Make a physics world in this process and return its physicsClientId.

    Args:
        method: DIRECT, GUI, ...
        num_worlds: Copies of the world.
        device: Warp device, None for the default.

    Raises:
        error: There are too many clients, or no such device.
    """
    import warp as wp

    from newtonsim.errors import DeviceError
    from newtonsim.pybullet_compat.clients.local_client import LocalClient
    from newtonsim.runtime.devices import find_device, initialise_warp

    wp.config.log_level = max(wp.config.log_level, wp.LOG_ERROR)  # what a script prints is its own
    initialise_warp()
    if device is not None:
        try:
            find_device(device)
        except DeviceError:
            raise error(f"Option --device={device}: there is no such device.") from None
    client = LocalClient(_make_engine, gui=method in _WINDOWS, num_worlds=num_worlds, device=device)
    return add(client, method)


def _make_engine(client: Client) -> Engine:
    """Return the physics of a client; the solver is imported when the first world needs it."""
    from newtonsim.pybullet_compat.engine.featherstone import FeatherstoneEngine

    return FeatherstoneEngine(client)


def parse_options(options: str) -> dict[str, int | str]:
    """Return what a string of options says about the world: num_worlds and device; others are left out.

    Args:
        options: Words like `--num_worlds=4096`.

    Raises:
        error: The number of worlds is not a positive integer, or a quotation does not end.
    """
    found = {}
    for word in _words(options):
        name, _, value = word.lstrip("-").partition("=")
        if name == "num_worlds":
            if not value.isdecimal() or int(value) < 1:
                raise error(f"Option --num_worlds must be a positive integer, not '{value}'.")
            found[name] = int(value)
        elif name == "device":
            found[name] = value
    return found
