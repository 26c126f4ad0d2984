"""The window of clients that were connected as GUI: a page in the web browser."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec

from newtonsim.errors import NewtonsimError
from newtonsim.pybullet_compat.api.debug_items import WINDOW, DebugItems
from newtonsim.pybullet_compat.surface.constants import STATE_LOGGING_VIDEO_MP4
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client

SWITCH = "NEWTONSIM_GUI"
"""Environment variable; "off" lets GUI clients do without a page."""
NO_VIEWER = (
    "newtonsim.pybullet_compat: GUI works without a window, which needs: pip install 'newtonsim[view]'"
)
_COLORS = ("background_color_red", "background_color_green", "background_color_blue")


@dataclass(slots=True)
class WindowOptions:
    """Options of `connect` for the window.

    Attributes:
        host: Address to listen on.
        port: First port to try, 0 for any free one.
        size: Width and height in pixels until a browser tells of its own.
        effects: Whether there are shadows and reflections.
        background: RGB in 0..1, by channel; what is missing is 1.
        video: File to film the window to, "" for none.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    size: tuple[int, int] = WINDOW
    effects: bool = True
    background: dict[str, float] = field(default_factory=dict)
    video: str = ""


def parse_window_options(options: str) -> WindowOptions:
    """Read words like `--width=1280 --port=8000 --host=0.0.0.0 --mp4=video.mp4`; others are left out.

    Raises:
        error: A value is not a number of its kind.
    """
    found = WindowOptions()
    given = dict(word.lstrip("-").partition("=")[::2] for word in shlex.split(options))
    found.host, found.video = given.get("host", found.host), given.get("mp4", "")
    sizes = [given.get(name, "") for name in ("width", "height")]
    found.size = tuple(int(s) if s.isdecimal() and int(s) > 0 else w for s, w in zip(sizes, WINDOW))
    if "port" in given:
        if not given["port"].isdecimal() or int(given["port"]) > 65535:
            raise error(
                f"Option --port must be a number from 0 to 65535, as in --port=8080, not '{given['port']}'."
            )
        found.port = int(given["port"])
    if "effects" in given:
        if given["effects"] not in ("0", "1"):
            raise error(f"Option --effects must be 0 or 1, not '{given['effects']}'.")
        found.effects = given["effects"] == "1"
    for name in _COLORS:
        try:
            if name in given:
                found.background[name] = float(given[name])
        except ValueError:
            raise error(f"Option --{name} must be a number, not '{given[name]}'.") from None
    return found


def open_window(client: Client, options: WindowOptions) -> None:
    """Open the page of a client and print its address; without viser a warning says what is missing.

    Args:
        client: A client connected as GUI, which is in the table.
        options: About the page.

    Raises:
        error: The page cannot be served at this address.
    """
    items = client.part(DebugItems)
    items.window = options.size
    if options.background:
        items.settings.values["rgbBackground"] = tuple(options.background.get(name, 1.0) for name in _COLORS)
    if options.video:
        from newtonsim.pybullet_compat.logs.state_logging import startStateLogging

        startStateLogging(client, STATE_LOGGING_VIDEO_MP4, options.video)
    if os.environ.get(SWITCH, "").lower() == "off":
        return
    if find_spec("viser") is None:
        warnings.warn(NO_VIEWER, stacklevel=3)
        return
    from newtonsim.pybullet_compat.gui.window import Window

    window = client.part(Window)
    try:
        window.open(options.host, options.port, options.effects)
    except NewtonsimError as failure:
        raise error(f"GUI: {failure}") from None
    sys.stderr.write(f"newtonsim: GUI at {window.viewer.url}\n")
    sys.stderr.flush()
