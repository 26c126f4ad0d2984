"""Picking bodies and dragging them with the mouse."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from newtonsim.geometry.transforms import (
    quat_conjugate,
    quat_matrix,
    quat_rotate,
    transform_inverse,
    transform_point,
)
from newtonsim.render.viewer.trees import Trees, row

if TYPE_CHECKING:
    import viser

    from newtonsim.render.viewer.bodies import Batch
    from newtonsim.render.viewer.frames import Frame
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

_FREQUENCY = 15.0
"""Angular frequency of the spring loaded with the mass of the whole tree [rad/s]."""
_STIFFEST, _THICKEST = 0.5, 0.8
"""Largest k dt²/m and c dt/m of the point that is held: the force is constant in a step, and with more the
point would swing up."""


class StateOwner(Protocol):
    """The owner of the state, as the mouse sees it: a playback."""

    @property
    def playing(self) -> bool:
        """Whether it is running."""
        ...

    def post(self, change: Callable[[State, Control], None]) -> None:
        """Schedule a change of the state between two steps."""


@dataclass(frozen=True)
class Grab:
    """A point of a body that the mouse holds.

    Attributes:
        body: The body.
        local: The point in the body's frame (3,) [m].
        target: Where the mouse is (3,) [m], in the world of the simulation.
        client: Number of the browser.
    """

    body: int
    local: np.ndarray
    target: np.ndarray
    client: int


class Mouse:
    """A spring between the mouse and the body that it holds; while paused, the body follows the mouse.

    Attributes:
        picked: Body that was clicked or dragged last, -1 for none.
        can_grab: Whether bodies can be dragged.
        strength: Factor of the spring's stiffness.

    Args:
        model: The model.
        frame: Returns what is shown.
        playback: Returns the owner of the state, or None.
    """

    def __init__(self, model: Model, frame: Callable[[], Frame], playback: Callable[[], StateOwner | None]):
        self._model, self._frame, self._playback = model, frame, playback
        self._trees: Trees | None = None
        self._grab: Grab | None = None
        self.picked, self.strength, self.can_grab = -1, 1.0, True
        self.on_pick: Callable[[], None] = lambda: None

    def change_model(self, model: Model) -> None:
        """Release the body, and pick from another model."""
        self._model, self._trees, self._grab, self.picked = model, None, None, -1

    @property
    def holds(self) -> bool:
        """Whether a body is held."""
        return self._grab is not None

    @property
    def trees(self) -> Trees:
        """The kinematic trees, created on first use."""
        if self._trees is None:
            self._trees = Trees(self._model)
        return self._trees

    def listen(self, batch: Batch) -> None:
        """Follow clicks and drags on instances."""

        # coroutines: viser calls them one after the other, functions in any order
        async def click(event: viser.SceneNodePointerEvent) -> None:
            if event.instance_index is not None:
                self.pick(int(batch.body[event.instance_index]))

        async def drag(event: viser.SceneNodeDragEvent) -> None:
            if event.instance_index is not None:
                self._drag(event, int(batch.body[event.instance_index]), batch.offset[event.instance_index])

        batch.handle.on_click(click)
        batch.handle.on_drag("left")(drag)

    def pick(self, body: int) -> None:
        """Describe a body in the panel, as a click on it does."""
        self.picked = body
        self.on_pick()

    def _drag(self, event: viser.SceneNodeDragEvent, body: int, offset: np.ndarray) -> None:
        grab = self._grab
        if event.phase == "start" and grab is None and self.can_grab:
            pose = self._frame().body_q[body]
            local = transform_point(transform_inverse(pose), np.array(event.start_position) - offset)
            grab = Grab(body, local, np.array(event.end_position) - offset, event.client_id)
            self.pick(body)
        elif grab is None or grab.client != event.client_id:
            return
        grab = Grab(grab.body, grab.local, np.array(event.end_position) - offset, grab.client)
        self._grab = None if event.phase == "end" else grab
        playback = self._playback()
        if playback is not None and not playback.playing:
            playback.post(lambda state, control: self._carry(state, grab))

    def _carry(self, state: State, grab: Grab) -> None:
        """Move the point of the body to the mouse."""
        self.trees.pull(state, grab.body, grab.local, grab.target)

    @contextlib.contextmanager
    def pulling(self, state: State, dt: float) -> Iterator[None]:
        """Add the force of the spring to `body_f` for the length of a step dt [s]."""
        grab = self._grab
        if grab is None or state.body_f is None:
            yield
            return
        force = state.body_f[grab.body : grab.body + 1]
        before = force.numpy().copy()
        force.assign(before + self._wrench(state, grab, dt).astype(np.float32))
        try:
            yield
        finally:
            force.assign(before)

    def add_forces(self, state: State, dt: float) -> None:
        """Add the force of the spring to `body_f`."""
        grab = self._grab
        if grab is not None and state.body_f is not None:
            force = state.body_f[grab.body : grab.body + 1]
            force.assign(force.numpy() + self._wrench(state, grab, dt).astype(np.float32))

    def wrench(self, state: State, dt: float) -> tuple[int, np.ndarray] | None:
        """Return the held body, and torque about its centre of mass and force (6,) in world axes, or None.

        Args:
            state: The state that the next step starts from.
            dt: Length of that step [s].
        """
        grab = self._grab
        return None if grab is None else (grab.body, self._wrench(state, grab, dt))

    def _wrench(self, state: State, grab: Grab, dt: float) -> np.ndarray:
        """Torque about the centre of mass and force (6,), world axes."""
        model, body = self._model, grab.body
        pose, velocity = row(state.body_q, body), row(state.body_qd, body)
        centre = transform_point(pose, row(model.body_com, body))
        point = transform_point(pose, grab.local)
        lever = point - centre
        held = self._held_mass(body, pose, lever)
        if held <= 0.0:
            return np.zeros(6)
        tree = float(self.trees.mass[body])
        stiffness = min(self.strength * _FREQUENCY**2 * tree, _STIFFEST * held / dt**2)
        damping = min(2.0 * np.sqrt(stiffness * tree), _THICKEST * held / dt)
        speed = velocity[3:] + np.cross(velocity[:3], lever)
        force = stiffness * (grab.target - point) - damping * speed
        return np.concatenate([np.cross(lever, force), force])

    def _held_mass(self, body: int, pose: np.ndarray, lever: np.ndarray) -> float:
        """Smallest effective mass of the point, if its body were free [kg]; 0 for kinematic bodies."""
        inverse_mass = row(self._model.body_inv_mass, body)
        if inverse_mass <= 0.0:
            return 0.0
        turn = quat_matrix(pose[3:])
        inverse_inertia = turn @ row(self._model.body_inv_inertia, body) @ turn.T
        cross = np.array([[0.0, -lever[2], lever[1]], [lever[2], 0.0, -lever[0]], [-lever[1], lever[0], 0.0]])
        mobility = inverse_mass * np.eye(3) - cross @ inverse_inertia @ cross
        return 1.0 / float(np.linalg.eigvalsh(mobility)[-1])


def describe(model: Model, frame: Frame, body: int) -> str:
    """Return name, mass and motion of a body as Markdown."""
    pose, velocity = frame.body_q[body], frame.body_qd[body]
    turned = quat_rotate(quat_conjugate(pose[3:]), model.up_vector)
    tilt = np.degrees(np.arccos(np.clip(turned @ model.up_vector, -1.0, 1.0)))
    lines = [
        f"**{model.body_key[body]}** (body {body}, world {model.body_world.numpy()[body]})",
        f"mass {model.body_mass.numpy()[body]:.4g} kg",
        f"position {_numbers(pose[:3])} m",
        f"quaternion {_numbers(pose[3:])} (xyzw), tilt {tilt:.0f}°",
        f"velocity {_numbers(velocity[3:])} m/s",
        f"angular {_numbers(velocity[:3])} rad/s",
    ]
    return "  \n".join(lines)


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3f}" for value in values)
