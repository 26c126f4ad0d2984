"""The built-in controls: time, worlds, what is shown, the picked body."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.render.viewer.layout import format_worlds, parse_worlds
from newtonsim.render.viewer.mouse import describe
from newtonsim.render.viewer.scene import COLLIDER_STYLES, VISUAL_STYLES

if TYPE_CHECKING:
    import viser

    from newtonsim.render.viewer.frames import Frame
    from newtonsim.render.viewer.mouse import Mouse
    from newtonsim.render.viewer.playback import Playback
    from newtonsim.render.viewer.scene import Scene
    from newtonsim.scene.model import Model

_SPEEDS = {"0.1x": 0.1, "0.25x": 0.25, "0.5x": 0.5, "1x": 1.0, "2x": 2.0, "5x": 5.0, "fastest": math.inf}


class Controlled(Protocol):
    """What the panel controls; see `Viewer` for details.

    Attributes:
        model: The model.
        frame: What is shown.
        playback: Owner of the steps, None if there is none.
        mouse: Picks bodies.
        scene: The shapes, and which of them are shown.
        keys_taken: Whether the page has its keys, or must have none.
    """

    model: Model
    frame: Frame
    playback: Playback | None
    mouse: Mouse
    scene: Scene
    keys_taken: bool

    def look_at_all(self) -> None:
        """Move the camera so that it sees everything."""

    def show_worlds(self, worlds: Iterable[int]) -> None:
        """Show some of the worlds."""

    def spread_worlds(self, distance: float) -> None:
        """Set the distance between worlds [m]."""

    def show_shapes(self, visuals: str = "solid", colliders: str = "hidden") -> None:
        """Choose how shapes look."""

    def show_mark(self, label: str, visible: bool = True) -> None:
        """Show or hide a kind of marks."""

    def show_particles(self, visible: bool) -> None:
        """Show or hide particles that are part of something."""

    def say(self, title: str, text: str) -> None:
        """Show a message."""


class Panel:
    """The controls beside the scene.

    Args:
        viewer: What they control.
        server: The server.
    """

    def __init__(self, viewer: Controlled, server: viser.ViserServer):
        self._viewer, self._gui, self._is_visible = viewer, server.gui, True
        self._status = self._gui.add_markdown("", order=0.0)
        self._time: viser.GuiFolderHandle | None = None
        self._frames: viser.GuiSliderHandle | None = None
        self._speed: viser.GuiDropdownHandle | None = None
        self._folders: list[viser.GuiFolderHandle] = []
        self._add_worlds()
        self._add_shown()
        self._picked = self._gui.add_markdown("", order=0.2, visible=False)
        self._strength = self._add_strength()

    def rebuild(self) -> None:
        """Rebuild the controls for another scene."""
        for folder in self._folders:
            folder.remove()
        self._folders = []
        self._add_worlds()
        self._add_shown()
        self.refresh_shown()

    def show(self, visible: bool) -> None:
        """Show or hide the whole panel."""
        self._is_visible = visible
        for handle in (self._status, self._time, *self._folders):
            if handle is not None:
                handle.visible = visible

    def refresh(self) -> None:
        """Show the current state."""
        viewer, playback = self._viewer, self._viewer.playback
        frame = viewer.frame
        words = [f"**{frame.time:.3f} s**"]
        if playback is not None:
            words += _progress(playback)
        if frame.lost:
            words.append(f"{frame.lost} bodies or particles are not finite")
        self._status.content = " · ".join(words)
        if self._frames is not None and playback is not None and playback.times is not None:
            self._frames.value = int(np.searchsorted(playback.times, frame.time, side="right")) - 1
        if self._speed is not None and playback is not None:
            self._speed.value = _speed_name(playback.speed)
        self.refresh_picked()

    def refresh_picked(self) -> None:
        """Describe the picked body."""
        body = self._viewer.mouse.picked
        has = 0 <= body < len(self._viewer.frame.body_q)
        self._picked.visible = self._strength.visible = has
        if has:
            self._picked.content = describe(self._viewer.model, self._viewer.frame, body)

    def add_time(self) -> None:
        """Add the controls of a playback, replacing those of an earlier one."""
        if self._time is not None:
            self._time.remove()
        playback = self._viewer.playback
        names = ["Play", "Pause", "Step", *(["Restart"] if playback.can_rewind else [])]
        self._time = self._gui.add_folder("Time", order=0.1, visible=self._is_visible)
        with self._time:
            buttons = self._gui.add_button_group("Control", names, hint="keys: space, N for a step")
            buttons.on_click(lambda event: self._press(event.target.value))
            self._frames = self._speed = None
            if playback.can_rewind:
                self._speed = self._gui.add_dropdown("Speed", list(_SPEEDS), initial_value="1x")
                self._speed.on_update(_by_user(self._choose_speed))
            if playback.times is not None and len(playback.times) > 1:
                last = len(playback.times) - 1
                self._frames = self._gui.add_slider("Frame", 0, last, 1, 0)
                self._frames.on_update(_by_user(self._seek))
        if not self._viewer.keys_taken:
            self._viewer.keys_taken = True
            toggle = self._gui.add_command("Play or pause", hotkey="space")
            toggle.on_trigger(lambda event: self._press("Toggle"))
            self._gui.add_command("Step", hotkey="N").on_trigger(lambda event: self._press("Step"))

    def _press(self, name: str) -> None:
        playback = self._viewer.playback
        if name == "Step":
            playback.step()
        elif name == "Restart":
            playback.rewind()
        else:
            playback.playing = not playback.playing if name == "Toggle" else name == "Play"

    def _choose_speed(self, name: str) -> None:
        self._viewer.playback.speed = _SPEEDS.get(name, self._viewer.playback.speed)

    def _seek(self, index: int) -> None:
        self._viewer.playback.playing = False
        self._viewer.playback.seek(int(index))

    def _add_folder(self, label: str, order: float) -> viser.GuiFolderHandle:
        self._folders.append(self._gui.add_folder(label, order=order, visible=self._is_visible))
        return self._folders[-1]

    def _add_worlds(self) -> None:
        viewer = self._viewer
        self._worlds = None
        if viewer.model.world_count == 1:
            return
        layout = viewer.scene.layout
        with self._add_folder("Worlds", 1.0):
            text = format_worlds(layout.worlds, viewer.model.world_count)
            self._worlds = self._gui.add_text(
                f"Shown of {viewer.model.world_count}", text, hint='"all", "3", "0-15" or "0, 2, 8-11"'
            )
            self._worlds.on_update(_by_user(self._choose_worlds))
            most = float(np.ceil(max(4.0 * layout.spacing, 2.0 * layout.extent)))
            spacing = self._gui.add_slider("Distance [m]", 0.0, most, 0.1, layout.spacing)
            spacing.on_update(_by_user(viewer.spread_worlds))

    def _choose_worlds(self, text: str) -> None:
        try:
            self._viewer.show_worlds(parse_worlds(text, self._viewer.model.world_count))
        except NewtonsimError as error:
            self._viewer.say("Worlds", str(error))

    def refresh_worlds(self) -> None:
        """Update the choice of shown worlds."""
        if self._worlds is not None:
            layout = self._viewer.scene.layout
            self._worlds.value = format_worlds(layout.worlds, self._viewer.model.world_count)

    def _add_shown(self) -> None:
        viewer, scene = self._viewer, self._viewer.scene
        with self._add_folder("Show", 2.0):
            self._visuals = self._gui.add_dropdown("Shapes", VISUAL_STYLES, initial_value=scene.visuals)
            self._colliders = self._gui.add_dropdown(
                "Colliders", COLLIDER_STYLES, initial_value=scene.colliders
            )
            for choice in (self._visuals, self._colliders):
                choice.on_update(_by_user(self._choose_shapes))
            if scene.has_shapes:
                self._gui.add_checkbox("Ground", True).on_update(_by_user(scene.show_ground))
            if not scene.soft.is_empty:
                self._gui.add_checkbox("All particles", False).on_update(_by_user(viewer.show_particles))
            self._marks = {label: self._add_mark(label) for label in scene.marks}
            self._gui.add_button("Look at all").on_click(lambda _: viewer.look_at_all())

    def refresh_shown(self) -> None:
        """Update the choice of what is shown."""
        scene = self._viewer.scene
        self._visuals.value, self._colliders.value = scene.visuals, scene.colliders
        for label, box in self._marks.items():
            box.value = scene.marks[label].is_on

    def _choose_shapes(self, _: str) -> None:
        self._viewer.show_shapes(self._visuals.value, self._colliders.value)

    def _add_mark(self, label: str) -> viser.GuiCheckboxHandle:
        box = self._gui.add_checkbox(label, False)
        box.on_update(_by_user(lambda visible: self._viewer.show_mark(label, visible)))
        return box

    def _add_strength(self) -> viser.GuiSliderHandle:
        slider = self._gui.add_slider(
            "Pull", 0.1, 10.0, 0.1, 1.0, order=0.3, visible=False, hint="stiffness of the mouse's spring"
        )

        def choose(value: float) -> None:
            self._viewer.mouse.strength = value

        slider.on_update(_by_user(choose))
        return slider


def _progress(playback: Playback) -> list[str]:
    """Return whether it is running, how fast, and what is wrong."""
    if playback.error is not None:
        return [f"stopped: {playback.error}"]
    words = ["playing" if playback.playing else "paused"]
    if playback.playing and not math.isnan(playback.measured_speed):
        words.append(f"{playback.measured_speed:.2f} x real time")
    return [*words, playback.trouble] if playback.trouble else words


def _by_user(callback: Callable) -> Callable:
    """Return a listener that passes on values chosen by a user, but not those that we set."""

    def listen(event: viser.GuiEvent) -> None:
        if event.client is not None:
            callback(event.target.value)

    return listen


def _speed_name(speed: float) -> str:
    """Return the name of the nearest available speed."""
    return min(_SPEEDS, key=lambda name: abs(math.log(min(_SPEEDS[name], 1e3)) - math.log(min(speed, 1e3))))
