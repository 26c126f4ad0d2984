"""Sliders for the joints of a world."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.scene.enums import JointMode

if TYPE_CHECKING:
    import viser

    from newtonsim.render.viewer.frames import Frame
    from newtonsim.render.viewer.mouse import Mouse
    from newtonsim.render.viewer.playback import Playback
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

_MOST = 100
_FEW = 8
"""Largest number of sliders that are unfolded at first, since they are above the other controls."""
_STEP = 0.001
_STEADY = 1.0
"""Time for which a slider stays where a user put it [s]."""


@dataclass(frozen=True)
class JointAxis:
    """An axis that can be moved by a slider.

    Attributes:
        name: Name of its joint, and the number of the axis if there are several.
        axis: Index in `joint_act` and the limits.
        coordinate: Index in `joint_q`.
        lower: Lower end of the slider [rad or m].
        upper: Upper end.
        is_driven: Whether a drive holds a target position.
    """

    name: str
    axis: int
    coordinate: int
    lower: float
    upper: float
    is_driven: bool


def joint_axes(model: Model, world: int) -> list[JointAxis]:
    """Return the axes of hinges and slides in a world; free and ball joints have none."""
    if not model.joint_count:
        return []
    count, first = model.joint_axis_dim.numpy().reshape(-1, 2), model.joint_axis_start.numpy()
    start, keys = model.joint_q_start.numpy(), model.joint_key
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    mode = model.joint_axis_mode.numpy()
    found = []
    for joint in np.flatnonzero(model.joint_world.numpy() == world):
        linear, angular = (int(n) for n in count[joint])
        for k in range(linear + angular):
            axis, reach = int(first[joint]) + k, 1.0 if k < linear else np.pi
            name = str(keys[joint]) + (f" {k}" if linear + angular > 1 else "")
            least, greatest = (
                round(float(limit if abs(limit) < 1.0e3 else sign * reach), 3)
                for limit, sign in ((lower[axis], -1), (upper[axis], 1))
            )
            if least < greatest:
                driven = mode[axis] == JointMode.TARGET_POSITION
                found.append(JointAxis(name, axis, int(start[joint]) + k, least, greatest, bool(driven)))
    return found


class JointSliders:
    """Sliders that move the joints while paused, and set targets of drives while running.

    Args:
        server: The server.
        model: The model.
        mouse: Knows the kinematic trees.
        playback: Returns the owner of the state, or None.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        model: Model,
        mouse: Mouse,
        playback: Callable[[], Playback | None],
    ):
        self._server, self._model, self._mouse, self._playback = server, model, mouse, playback
        self._folder: viser.GuiFolderHandle | None = None
        self._sliders: list[tuple[JointAxis, viser.GuiSliderHandle]] = []
        self._touched: dict[int, float] = {}
        self._world, self._is_visible = -1, True

    def change_model(self, model: Model) -> None:
        """Switch to another model, with no sliders at first."""
        self.clear()
        self._model = model
        self._touched.clear()

    def show_all(self, visible: bool) -> None:
        """Show or hide the sliders."""
        self._is_visible = visible
        if self._folder is not None:
            self._folder.visible = visible

    def show(self, world: int) -> None:
        """Show the sliders of a world."""
        if world == self._world:
            return
        self.clear()
        self._world = world
        axes = joint_axes(self._model, world)
        if not axes:
            return
        of_world = f" of world {world}" if self._model.world_count > 1 else ""
        more = f", first {_MOST}" if len(axes) > _MOST else ""
        folder = self._server.gui.add_folder(
            f"Joints{of_world}{more}",
            order=0.6,
            expand_by_default=len(axes) <= _FEW,
            visible=self._is_visible,
        )
        self._folder = folder
        with folder:
            self._sliders = [(axis, self._add(axis)) for axis in axes[:_MOST]]

    def clear(self) -> None:
        """Remove the sliders."""
        if self._folder is not None:
            self._folder.remove()
        self._folder, self._sliders, self._world = None, [], -1

    def refresh(self, frame: Frame, playing: bool) -> None:
        """Show positions, or targets of drives while running."""
        for axis, slider in self._sliders:
            if time.monotonic() - self._touched.get(axis.axis, -_STEADY) < _STEADY:
                continue
            targets = frame.joint_act if playing and axis.is_driven else None
            value = frame.joint_q[axis.coordinate] if targets is None else targets[axis.axis]
            if np.isfinite(value) and abs(value - slider.value) > slider.step:
                slider.value = round(float(np.clip(value, axis.lower, axis.upper)), 3)

    def _add(self, axis: JointAxis) -> viser.GuiSliderHandle:
        slider = self._server.gui.add_slider(
            axis.name,
            min=axis.lower,
            max=axis.upper,
            step=_STEP,
            initial_value=float(np.clip(0.0, axis.lower, axis.upper)),
            hint="target of the drive while running, position while paused"
            if axis.is_driven
            else "position while paused; there is no position drive",
        )

        @slider.on_update
        def _(event: viser.GuiEvent) -> None:
            playback = self._playback()
            if event.client is not None and playback is not None:
                self._touched[axis.axis] = time.monotonic()
                value = slider.value
                playback.post(lambda state, control: self._set(axis, value, state, control))

        return slider

    def _set(self, axis: JointAxis, value: float, state: State, control: Control | None) -> None:
        playback = self._playback()
        if playback is not None and playback.playing:
            if axis.is_driven and control is not None:
                control.joint_act[axis.axis : axis.axis + 1].fill_(value)
            return
        q = state.joint_q.numpy().copy()
        q[axis.coordinate] = value
        self._mouse.trees.place(state, q)
