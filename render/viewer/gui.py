"""Controls and keys of users."""

from __future__ import annotations

import string
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.render.viewer.page_input import PageInput, PageKey, PagePointer

if TYPE_CHECKING:
    import viser

_EDITING = ("space", "enter", "escape", "tab", "backspace", "delete", "insert")
_MOVING = ("home", "end", "pageup", "pagedown", "arrowup", "arrowdown", "arrowleft", "arrowright")
KEYS = (*string.ascii_uppercase, *string.digits, *_EDITING, *_MOVING)
"""Keys that the browser can report."""
_SOME = ('"A"', '"7"', '"space"', '"enter"', '"arrowup"')


@dataclass(frozen=True)
class Click:
    """A click into the scene.

    Attributes:
        origin: Start of the ray from the eye (3,) [m].
        direction: Unit direction of the ray (3,).
        place: Position in the picture, (0, 0) upper left, (1, 1) lower right.
        keys: Modifier keys that were held, such as "shift", or "".
    """

    origin: np.ndarray
    direction: np.ndarray
    place: tuple[float, float]
    keys: str


class Parameter:
    """A value that the user of the browser may change.

    Args:
        handle: Its control.
    """

    def __init__(self, handle: Any):
        self._handle = handle

    @property
    def value(self) -> Any:
        """The value that the control shows; may be assigned."""
        return self._handle.value

    @value.setter
    def value(self, value: Any) -> None:
        self._handle.value = value

    def on_change(self, callback: Callable[[Any], None]) -> None:
        """Register a function to be called with the value when a user has changed it."""

        @self._handle.on_update
        def _(event: viser.GuiEvent) -> None:
            if event.client is not None:
                callback(self._handle.value)

    def remove(self) -> None:
        """Remove the control."""
        self._handle.remove()


class Button:
    """A button that counts how often it was pressed.

    Args:
        handle: Its control.
    """

    def __init__(self, handle: viser.GuiButtonHandle):
        self._handle, self._lock = handle, threading.Lock()
        self.clicks = 0
        self._callbacks: list[Callable[[], None]] = []
        handle.on_click(self._click)

    def on_click(self, callback: Callable[[], None]) -> None:
        """Register a function to be called at every press."""
        self._callbacks.append(callback)

    def remove(self) -> None:
        """Remove the button."""
        self._handle.remove()

    def _click(self, event: viser.GuiEvent) -> None:
        with self._lock:
            self.clicks += 1
        for callback in self._callbacks:
            callback()


class UserGui:
    """Sliders, buttons, keys and clicks of users, in a separate folder of the panel.

    Callbacks run in threads of the viewer.

    Args:
        server: The server.
    """

    def __init__(self, server: viser.ViserServer):
        self._server = server
        self._folder: viser.GuiFolderHandle | None = None
        self._lock = threading.Lock()
        self._commands: dict[str, Any] = {}
        self._callbacks: dict[str, list[Callable[[str], None]]] = {}
        self._pressed: list[str] = []
        self._inputs: list[PageInput] = []

    def slider(
        self, label: str, minimum: float, maximum: float, value: float, step: float | None = None
    ) -> Parameter:
        """Add a slider.

        Raises:
            NewtonsimError: The minimum is not below the maximum, or the value is not between them.
        """
        if not minimum < maximum or not minimum <= value <= maximum:
            raise NewtonsimError(f"slider {label!r}: expected {minimum} <= {value} <= {maximum}")
        step = (maximum - minimum) / 1000.0 if step is None else step
        numbers = [float(number) for number in (minimum, maximum, step, value)]
        return self._add("slider", label, *numbers)

    def checkbox(self, label: str, value: bool = False) -> Parameter:
        """Add a box to tick."""
        return self._add("checkbox", label, bool(value))

    def number(self, label: str, value: float) -> Parameter:
        """Add a field for a number."""
        return self._add("number", label, value)

    def text(self, label: str, value: str = "") -> Parameter:
        """Add a field for text."""
        return self._add("text", label, value)

    def choice(self, label: str, options: list[str], value: str | None = None) -> Parameter:
        """Add a list to choose from; None for the first.

        Raises:
            NewtonsimError: There is nothing to choose from, or the value is not in the list.
        """
        if not options or (value is not None and value not in options):
            raise NewtonsimError(f"choice {label!r}: expected one of {options!r}, got {value!r}")
        return self._add("dropdown", label, options, initial_value=value)

    def button(self, label: str) -> Button:
        """Add a button."""
        with self._lock, self._place():
            return Button(self._server.gui.add_button(label))

    def on_key(self, key: str, callback: Callable[[str], None]) -> None:
        """Register a function to be called with a key when it is pressed, and repeatedly while it is held.

        Args:
            key: "A".."Z", "0".."9", "space", "enter", "arrowup", "pagedown", ... in upper or lower case.
            callback: Takes the key.

        Raises:
            NewtonsimError: There is no such key.
        """
        self._callbacks[self._watch(key)].append(callback)

    def watch_keys(self) -> None:
        """Make `pressed_keys` report all keys."""
        for key in KEYS:
            self._watch(key)

    def pressed_keys(self) -> list[str]:
        """Return the watched keys that were pressed since the last call, in order."""
        with self._lock:
            pressed, self._pressed = self._pressed, []
        return pressed

    def on_input(self, callback: Callable[[PageKey | PagePointer], None], keys_fly: bool = True) -> None:
        """Register a function to be called with every key and mouse button of the page, and with movements.

        Args:
            callback: Takes the event.
            keys_fly: Whether W, A, S, D, Q, E and the arrows move the camera as well.
        """
        with self._lock:
            self._inputs.append(PageInput(self._server, callback, keys_fly))

    def on_click(self, callback: Callable[[Click], None]) -> None:
        """Register a function to be called when the scene is clicked."""

        def click(event: viser.SceneClickEvent) -> None:
            ray = np.array(event.ray_origin), np.array(event.ray_direction)
            callback(Click(*ray, event.screen_pos, event.modifier or ""))

        self._server.scene.on_click()(click)

    def _add(self, kind: str, label: str, *values: Any, **options: Any) -> Parameter:
        with self._lock, self._place():
            return Parameter(getattr(self._server.gui, f"add_{kind}")(label, *values, **options))

    def _place(self) -> viser.GuiFolderHandle:
        if self._folder is None:
            self._folder = self._server.gui.add_folder("Parameters", order=0.5)
        return self._folder

    def _watch(self, name: str) -> str:
        """Listen to a key; returns its name in `KEYS`."""
        key: Any = next((known for known in KEYS if known.lower() == str(name).lower()), None)
        if key is None:
            meant = did_you_mean(str(name), KEYS)
            raise NewtonsimError(f"there is no key {name!r}{meant or ', but such as ' + ', '.join(_SOME)}")
        if key in self._commands:
            return key

        def press(event: Any) -> None:
            with self._lock:
                self._pressed.append(key)
            for callback in list(self._callbacks[key]):
                callback(key)

        self._callbacks[key] = []
        self._commands[key] = self._server.gui.add_command(f"Key {key}", hotkey=key)
        self._commands[key].on_trigger(press)
        return key
