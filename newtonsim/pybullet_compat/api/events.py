"""Keyboard, mouse and virtual reality. Without a window or a headset nothing ever happens.

A viewer puts what happens in its window into the `Events` of its client; the getters hand it out once.
"""

from __future__ import annotations

from collections.abc import Sequence

from newtonsim.pybullet_compat.surface import constants as c
from newtonsim.pybullet_compat.world.client import Client

MOUSE_MOVE, MOUSE_BUTTON = 1, 2
"""Types of mouse events."""


class Events:
    """Events of one client since they were last asked for.

    Attributes:
        keys: State by key code, a sum of KEY_IS_DOWN, KEY_WAS_TRIGGERED and KEY_WAS_RELEASED.
        mouse: (event type, x, y, button index, button state); the last movement, and one for each button.
    """

    def __init__(self, client: Client):
        self.keys: dict[int, int] = {}
        self.mouse: list[tuple[int, float, float, int, int]] = []

    def key(self, code: int, down: bool) -> None:
        """Note that a key went down or up."""
        state = self.keys.get(code, 0)
        if down:
            self.keys[code] = state | c.KEY_IS_DOWN | c.KEY_WAS_TRIGGERED
        elif state & c.KEY_WAS_TRIGGERED:  # down and up since it was last asked
            self.keys[code] = state | c.KEY_WAS_RELEASED
        else:
            self.keys[code] = c.KEY_WAS_RELEASED

    def pointer(self, x: float, y: float, button: int = -1, down: bool = False) -> None:
        """Note a movement of the mouse, or that one of its buttons went down or up."""
        before = [event for event in self.mouse if event[3] == button]
        self.mouse = [event for event in self.mouse if event[3] != button]
        if button < 0:
            self.mouse.insert(0, (MOUSE_MOVE, x, y, -1, 0))
        elif down:
            self.mouse.append((MOUSE_BUTTON, x, y, button, c.KEY_IS_DOWN | c.KEY_WAS_TRIGGERED))
        else:
            pressed = c.KEY_WAS_TRIGGERED if before and before[0][4] & c.KEY_WAS_TRIGGERED else 0
            self.mouse.append((MOUSE_BUTTON, x, y, button, pressed | c.KEY_WAS_RELEASED))

    def take_keys(self) -> dict[int, int]:
        """Return the state of keys that changed or are down; those that are down stay so."""
        keys = self.keys
        self.keys = {
            code: c.KEY_IS_DOWN
            for code, state in keys.items()
            if state & c.KEY_IS_DOWN and not state & c.KEY_WAS_RELEASED
        }
        return keys

    def take_mouse(self) -> tuple:
        """Return what the mouse did."""
        mouse, self.mouse = self.mouse, []
        return tuple(mouse)


def getKeyboardEvents(client: Client) -> dict[int, int]:
    """Return the state of each key that changed or is held down, by key code."""
    return client.part(Events).take_keys()


def getMouseEvents(client: Client) -> tuple:
    """Return mouse events: (event type, x, y, button index, button state) each."""
    return client.part(Events).take_mouse()


def getVREvents(client: Client, deviceTypeFilter: int = 1, allAnalogAxes: int = 0) -> tuple:
    """Return nothing: there is no support for headsets."""
    return ()


def setVRCameraState(
    client: Client,
    rootPosition: Sequence[float] | None = None,
    rootOrientation: Sequence[float] | None = None,
    trackObject: int | None = None,
    trackObjectFlag: int | None = None,
) -> None:
    """Do nothing: there is no support for headsets."""
