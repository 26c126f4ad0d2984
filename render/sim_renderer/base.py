"""Renderers that draw a Model and its States: into a USD file, or into a window."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from warp.render import UsdRenderer

from newtonsim.collision.collide import collide
from newtonsim.errors import ModelError
from newtonsim.render.marks import ContactMarks
from newtonsim.render.shapes import WorldLayout, body_poses
from newtonsim.render.sim_renderer.usd import UsdScene, checked_path, export_stage, frame_of, prepare_stage
from newtonsim.scene.model import check_model

if TYPE_CHECKING:
    from newtonsim.collision.contacts import Contacts
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State


class StateRenderer(ABC):
    """Base of the renderers: they draw states of one model, with contacts if requested.

    Attributes:
        model: The model.
        show_rigid_contact_points: Whether `render` draws contacts.
        contact_points_radius: Radius of contact points [m].
    """

    def __init__(self, model: Model, show_rigid_contact_points: bool, contact_points_radius: float):
        check_model(model)
        if not contact_points_radius > 0.0:
            raise ModelError(
                f"contact_points_radius: expected a positive length, got {contact_points_radius}"
            )
        self.model = model
        self.show_rigid_contact_points = show_rigid_contact_points
        self.contact_points_radius = contact_points_radius
        self._found: Contacts | None = None

    def render(self, state: State) -> None:
        """Draw a state.

        Args:
            state: Positions of its bodies and particles are drawn.

        Raises:
            ModelError: It is not a state of the model.
        """
        self.model.check_state(state)
        self._draw_state(state)
        if self.show_rigid_contact_points:
            self.render_contacts(state)

    def render_contacts(
        self, state: State, contacts: Contacts | None = None, contact_point_radius: float | None = None
    ) -> None:
        """Draw contacts: the contact point of each of the two shapes, and the normal.

        Args:
            state: State that the contacts belong to.
            contacts: The contacts; None to find those of the state.
            contact_point_radius: Radius of the points [m]; None for `contact_points_radius`.

        Raises:
            ModelError: It is not a state of the model.
        """
        self.model.check_state(state)
        if contacts is None:
            # a buffer of its own, since the model's may be in use by a solver
            self._found = self.model.contact() if self._found is None else self._found
            contacts = collide(self.model, state, self._found)
        radius = self.contact_points_radius if contact_point_radius is None else contact_point_radius
        self._draw_contacts(ContactMarks.of(self.model, contacts, body_poses(self.model, state)), radius)

    @abstractmethod
    def _draw_state(self, state: State) -> None:
        """Draw bodies and particles."""

    @abstractmethod
    def _draw_contacts(self, marks: ContactMarks, radius: float) -> None:
        """Draw contacts with points of a radius [m]."""


class SimRendererUsd(StateRenderer, UsdRenderer):
    """Writes the states of a model as time samples of a USD stage.

    It is a `warp.render.UsdRenderer`, whose `render_box`, `render_line_strip` and so on add to the stage.
    The model is below the default prim: `world_0/...`, and `common` for what belongs to all worlds. Lengths
    are correct whatever the scaling: a scaling of 100 makes a stage in centimetres.

    Attributes:
        stage: The stage.
        time: Time code of the current frame.

    Args:
        model: The model.
        path: File to write (.usd, .usda, .usdc), or a stage to write to.
        scaling: Units of the stage for a metre.
        fps: Frames per second.
        up_axis: "Y" or "Z"; None for that of the model.
        show_rigid_contact_points: Whether `render` finds and draws contacts.
        contact_points_radius: Radius of contact points [m].
        show_joints: Whether to draw anchors and axes of joints.
        worlds: Worlds to draw; None for all.
        spacing: Distance of neighbouring worlds on a grid [m]; 0 leaves them where they are.
        **render_kwargs: Further arguments of `warp.render.UsdRenderer`.

    Raises:
        ModelError: An argument is invalid.
    """

    def __init__(
        self,
        model: Model,
        path: str | os.PathLike | Any,
        scaling: float = 1.0,
        fps: int = 60,
        up_axis: str | int | None = None,
        show_rigid_contact_points: bool = False,
        contact_points_radius: float = 1e-3,
        show_joints: bool = False,
        *,
        worlds: Iterable[int] | None = None,
        spacing: float = 0.0,
        **render_kwargs: Any,
    ):
        from pxr import Usd

        StateRenderer.__init__(self, model, show_rigid_contact_points, contact_points_radius)
        axis, scaling, fps = checked_view(model, up_axis, scaling, fps)
        layout = WorldLayout(model, worlds, spacing)
        self._path = None if isinstance(path, Usd.Stage) else checked_path(path)
        stage = path if self._path is None else Usd.Stage.CreateInMemory()
        prepare_stage(stage, axis, fps, 1.0 / scaling)
        UsdRenderer.__init__(self, stage, axis, fps, scaling, **render_kwargs)
        self.scene = UsdScene(stage, "/root", model, layout, show_joints)

    def begin_frame(self, time: float) -> None:
        """Choose the frame to which the following calls belong.

        Args:
            time: Simulated time [s].
        """
        self.time = frame_of(time, self.fps)
        self.scene.extend_range(self.time)

    def save(self) -> None:
        """Write the file; a given stage is saved in its own format.

        Raises:
            OSError: The file cannot be written.
        """
        if self._path is None:
            self.stage.Save()
        else:
            export_stage(self.stage, self._path)

    def _draw_state(self, state: State) -> None:
        self.scene.write(state, self.time)

    def _draw_contacts(self, marks: ContactMarks, radius: float) -> None:
        self.scene.write_contacts(marks, self.time, radius)


SimRenderer = SimRendererUsd


def checked_view(
    model: Model, up_axis: str | int | None, scaling: float, fps: float
) -> tuple[str, float, float]:
    """Return the letter of the up axis, scaling and frames per second.

    Raises:
        ModelError: One of them is invalid; the message names it.
    """
    axis = model.up_axis if up_axis is None else up_axis
    letter = "XYZ"[axis] if isinstance(axis, int) and 0 <= axis <= 2 else str(axis).upper()
    if letter not in ("X", "Y", "Z"):
        raise ModelError(f"up_axis: expected X, Y or Z, got {up_axis!r}")
    for name, value in (("scaling", scaling), ("fps", fps)):
        if not 0.0 < value < np.inf:
            raise ModelError(f"{name}: expected a positive number, got {value!r}")
    return letter, float(scaling), float(fps)
