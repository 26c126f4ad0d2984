"""Sliders and buttons of addUserDebugParameter on the page."""

from __future__ import annotations

import numpy as np

from newtonsim.pybullet_compat.api.debug_items import DebugItems, DebugParameter
from newtonsim.render.viewer import Viewer
from newtonsim.render.viewer.gui import Button, Parameter


class ParameterControls:
    """Synchronises the controls of a page with the parameters of a client.

    Args:
        viewer: The page.
        items: Has the parameters.
    """

    def __init__(self, viewer: Viewer, items: DebugItems):
        self._viewer, self._items = viewer, items
        self._shown: dict[int, tuple[DebugParameter, Parameter | Button]] = {}

    def refresh(self) -> None:
        """Add what is new, and remove what is gone."""
        parameters = self._items.parameters
        for uid in [uid for uid, (known, _) in self._shown.items() if parameters.get(uid) is not known]:
            self._shown.pop(uid)[1].remove()
        for uid, parameter in parameters.items():
            if uid not in self._shown:
                self._shown[uid] = parameter, self._add(parameter)

    def _add(self, parameter: DebugParameter) -> Parameter | Button:
        gui = self._viewer.gui

        def choose(value: float) -> None:
            parameter.value = float(np.float32(min(max(value, parameter.low), parameter.high)))

        def press() -> None:
            parameter.value += 1.0

        if parameter.is_button:
            button = gui.button(parameter.name)
            button.on_click(press)
            return button
        if parameter.low == parameter.high:
            return gui.number(parameter.name, parameter.value)
        slider = gui.slider(parameter.name, parameter.low, parameter.high, parameter.value)
        slider.on_change(choose)
        return slider
