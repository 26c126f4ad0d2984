"""Codes of keys as getKeyboardEvents reports them."""

from __future__ import annotations

from newtonsim.pybullet_compat.surface import constants as c
from newtonsim.render.viewer.page_input import PageKey

_NAMES = {
    "Escape": 27,
    "Tab": 9,
    "Enter": c.B3G_RETURN,
    "Backspace": c.B3G_BACKSPACE,
    "Delete": c.B3G_DELETE,
    "Insert": c.B3G_INSERT,
    "Home": c.B3G_HOME,
    "End": c.B3G_END,
    "PageUp": c.B3G_PAGE_UP,
    "PageDown": c.B3G_PAGE_DOWN,
    "ArrowLeft": c.B3G_LEFT_ARROW,
    "ArrowRight": c.B3G_RIGHT_ARROW,
    "ArrowUp": c.B3G_UP_ARROW,
    "ArrowDown": c.B3G_DOWN_ARROW,
    "Shift": c.B3G_SHIFT,
    "Control": c.B3G_CONTROL,
    "Alt": c.B3G_ALT,
    **{f"F{number}": c.B3G_F1 + number - 1 for number in range(1, 16)},
}


class KeyCodes:
    """Codes of the keys of the page; a key has the same code when it goes up as when it went down."""

    def __init__(self) -> None:
        self._down: dict[str, int] = {}

    def code(self, key: PageKey) -> int | None:
        """Return the code of a key, lower case of letters; None for keys without one."""
        found = self._down.pop(key.code, None)
        if found is None:
            found = _NAMES.get(key.key)
        if found is None and len(key.key) == 1:
            found = ord(key.key.lower()[0])
        if found is not None and key.down:
            self._down[key.code] = found
        return found
