"""Keyboard, mouse and virtual reality. Without a window or a headset nothing ever happens.

A viewer puts what happens in its window into the `Events` of its client; the getters hand it out once.
"""

from __future__ import annotations

from collections.abc import Sequence

from newtonsim.pybullet_compat.scene import Client


class Events:
    """Events of one client since they were last asked for.

    Attributes:
        keys: State by key code, a sum of KEY_IS_DOWN, KEY_WAS_TRIGGERED and KEY_WAS_RELEASED.
        mouse: (event type, x, y, button index, button state).
    """

    def __init__(self, client: Client):
        self.keys: dict[int, int] = {}
        self.mouse: list[tuple[int, float, float, int, int]] = []


def getKeyboardEvents(client: Client) -> dict[int, int]:
    """Return the state of each key that changed or is held down, by key code."""
    events = client.part(Events)
    keys, events.keys = events.keys, {}
    return keys


def getMouseEvents(client: Client) -> tuple:
    """Return mouse events: (event type, x, y, button index, button state) each."""
    events = client.part(Events)
    mouse, events.mouse = events.mouse, []
    return tuple(mouse)


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
