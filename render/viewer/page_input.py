"""Keys and mouse buttons of the page, with their releases, which viser does not report.

A hidden text field carries them: a script in the page writes events into it, and viser sends its text to the
server. So there is no second connection to open or to forward. viser sends only the last text of some 50 ms,
so the text is a list of the latest events with their numbers, and none is lost. In these 50 ms viser drops
changes of other controls, so keys and buttons that act on a control are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import viser

_MARK = "newtonsim:"
"""Prefix of the text of the field, by which the script finds it."""
_KEPT = 64

_SCRIPT = """
(() => {
  const mark = 'MARK', kept = KEPT;
  const field = () => [...document.querySelectorAll('input')].find(i => i.value.startsWith(mark));
  const hide = () => {
    const row = field()?.closest('.mantine-Flex-root')?.parentElement;
    if (row) row.style.display = 'none';
  };
  hide();
  if (window.newtonsimInput) return;
  window.newtonsimInput = true;
  const write = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  const page = Math.random().toString(36).slice(2);
  let log = [], number = 0;
  const tell = (...event) => {
    const last = log[log.length - 1];
    if (last && last[1] === 'move' && event[0] === 'move') log.pop();
    log.push([number++, ...event]);
    log = log.slice(-kept);
    const input = field();
    if (!input) return;
    write.call(input, mark + JSON.stringify([page, log]));
    input.dispatchEvent(new Event('input', {bubbles: true}));
    hide();
  };
  const taken = e => {
    const control = e.target.closest?.('input, textarea, button, [role]');
    if (!control) return false;
    return !control.matches('button, [role=slider]') || e.key === ' ' || e.key.length > 1;
  };
  const down = new Map();
  window.addEventListener('keydown', e => {
    if (taken(e)) return;
    if (!KEYSFLY && /^(Key[WASDQE]|Arrow.*)$/.test(e.code)) e.stopImmediatePropagation();
    if (e.repeat) return;
    down.set(e.code, e.key);
    tell('key', e.code, e.key, true);
  }, true);
  window.addEventListener('keyup', e => {
    if (down.delete(e.code)) tell('key', e.code, e.key, false);
  }, true);
  window.addEventListener('blur', () => {
    down.forEach((key, code) => tell('key', code, key, false));
    down.clear();
  });
  const scene = e => e.target.tagName === 'CANVAS', held = new Set();
  window.addEventListener('pointermove', e => { if (scene(e)) tell('move', e.clientX, e.clientY); }, true);
  window.addEventListener('pointerdown', e => {
    if (!scene(e)) return;
    held.add(e.button);
    tell('button', e.clientX, e.clientY, e.button, true);
  }, true);
  window.addEventListener('pointerup', e => {
    if (held.delete(e.button)) tell('button', e.clientX, e.clientY, e.button, false);
  }, true);
})()
"""


@dataclass(frozen=True)
class PageKey:
    """A key that went down or up; repetitions of held keys are left out.

    Attributes:
        code: Its place on the keyboard, such as "KeyA" or "ArrowLeft", as in the browser's `event.code`.
        key: The character that it types, such as "a", or its name, as in `event.key`.
        down: Whether it went down.
    """

    code: str
    key: str
    down: bool


@dataclass(frozen=True)
class PagePointer:
    """The mouse over the scene.

    Attributes:
        x, y: Position in the page from its upper left corner [pixels].
        button: 0 left, 1 middle, 2 right; -1 for a movement.
        down: Whether the button went down.
    """

    x: float
    y: float
    button: int = -1
    down: bool = False


class PageInput:
    """Reports keys and mouse buttons.

    Args:
        server: The server.
        callback: Takes each event, in order; called in a thread of the server.
        keys_fly: Whether W, A, S, D, Q, E and the arrows move the camera as well.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        callback: Callable[[PageKey | PagePointer], None],
        keys_fly: bool = True,
    ):
        self._callback = callback
        self._seen: dict[str, int] = {}
        script = _SCRIPT.replace("MARK", _MARK).replace("KEPT", str(_KEPT))
        script = script.replace("KEYSFLY", str(keys_fly).lower()).replace("\n", " ")
        escaped = script.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        self._field = server.gui.add_text("keys", _MARK, order=98.0)
        # scripts do not run in HTML that is added later, but handlers do
        server.gui.add_html(f'<img src="data:," style="display:none" onerror="{escaped}">', order=99.0)

        @self._field.on_update
        async def _(event: viser.GuiEvent) -> None:
            if event.client is not None:
                self._read(event.target.value)

    def _read(self, text: str) -> None:
        try:
            page, log = json.loads(text.removeprefix(_MARK))
            events = [(int(number), _event(*words)) for number, *words in log]
        except (ValueError, TypeError, RecursionError):
            return  # no browser of ours has written this
        last = self._seen.get(page, -1)
        for number, event in events:
            if number > last:
                self._seen[page] = number
                self._callback(event)


def _event(kind: str, *words: object) -> PageKey | PagePointer:
    """Return the event that the script wrote."""
    if kind == "key":
        code, key, down = words
        return PageKey(str(code), str(key), bool(down))
    if kind == "move":
        x, y = words
        return PagePointer(float(x), float(y))
    if kind == "button":
        x, y, button, down = words
        return PagePointer(float(x), float(y), int(button), bool(down))
    raise ValueError(f"there is no event {kind!r}")
