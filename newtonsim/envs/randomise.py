"""What differs from world to world and from episode to episode, and the kernels that draw it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.envs.values import is_number, is_range
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs import randomise as envs_randomise
from newtonsim.kernels.envs.randomise import RangeView
from newtonsim.scene.allocation import put

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.runtime.launcher import Launcher
    from newtonsim.scene.model import Model


@dataclass(frozen=True)
class Randomisation:
    """Ranges from which every world draws anew at the start of each episode, within the captured step.

    Attributes:
        mass: Factor on the mass and the inertia of each body.
        friction: Factor on the coefficients of friction of all shapes of a world.
        strength: Factor on the efforts of the motors of a world: of drives, on both of their gains.
        gains: Further factors on the stiffness and, drawn apart, the damping of each drive.
        terrain: Level on which a world begins, as a share of the hardest, for tasks on terrain; it takes the
            place of their curriculum. None leaves it to the task.
        push_seconds: Time from push to push [s]: for one step of the environment a horizontal force acts on
            the first body of a world; 0 for never.
        push_force: Its largest component [N]; with `push_seconds` only, and the other way round.

    Raises:
        NewtonsimError: A range is empty, a number not finite or below zero, or only one of the numbers of
            pushes is given.
    """

    mass: tuple[float, float] = (1.0, 1.0)
    friction: tuple[float, float] = (1.0, 1.0)
    strength: tuple[float, float] = (1.0, 1.0)
    gains: tuple[float, float] = (1.0, 1.0)
    terrain: tuple[float, float] | None = None
    push_seconds: float = 0.0
    push_force: float = 0.0

    def __post_init__(self) -> None:
        for name in ("mass", "friction", "strength", "gains"):
            value = getattr(self, name)
            wrong = not is_range(value) or value[0] < 0.0 or value[1] == math.inf
            if wrong or (name == "mass" and value[0] == 0.0):
                raise NewtonsimError(
                    f"{name}: expected a range (low, high) of positive factors, got {value!r}"
                )
        value = self.terrain
        if value is not None and not (is_range(value) and value[0] >= 0.0 and value[1] <= 1.0):
            raise NewtonsimError(f"terrain: expected a range within 0..1, (low, high), got {value!r}")
        for name in ("push_seconds", "push_force"):
            value = getattr(self, name)
            if not is_number(value) or not 0.0 <= value < math.inf:
                raise NewtonsimError(f"{name}: expected a number from 0 on, got {value!r}")
        if (self.push_seconds > 0.0) != (self.push_force > 0.0):
            raise NewtonsimError(
                "pushes need both push_seconds and push_force, "
                f"got push_seconds={self.push_seconds} and push_force={self.push_force}"
            )


_NOTHING = (0.0, 0.0)
"""Range of what is not drawn."""


class Randomiser:
    """Draws for the worlds of a model; its values at the start are the nominal ones.

    Args:
        ranges: What to draw.
        model: The model, whose arrays are written.
        control_dt: Time of a step of the environment [s].
    """

    def __init__(self, ranges: Randomisation, model: Model, control_dt: float):
        view = self._view = RangeView()
        view.mass_low, view.mass_high = ranges.mass or _NOTHING
        view.friction_low, view.friction_high = ranges.friction or _NOTHING
        view.strength_low, view.strength_high = ranges.strength or _NOTHING
        view.gains_low, view.gains_high = ranges.gains or _NOTHING
        view.terrain_low, view.terrain_high = ranges.terrain or _NOTHING
        view.draws_terrain = int(ranges.terrain is not None)
        view.push_every = max(1, round(ranges.push_seconds / control_dt)) if ranges.push_seconds else 0
        view.push_force = ranges.push_force
        view.mass, view.inv_mass = model.body_mass, model.body_inv_mass
        view.inertia, view.inv_inertia = model.body_inertia, model.body_inv_inertia
        view.nominal_mass, view.nominal_inertia = wp.clone(view.mass), wp.clone(view.inertia)
        view.ke, view.kd = model.joint_target_ke, model.joint_target_kd
        view.nominal_ke, view.nominal_kd = wp.clone(view.ke), wp.clone(view.kd)
        starts = np.asarray(model.world_shape_start)
        if model.shape_count:
            view.mu = model.shape_materials.mu
            view.nominal_mu = wp.clone(view.mu)
        else:
            starts = np.zeros(model.world_count + 1, int)
        view.shape_start = put(starts, dtype=int, device=model.device)

    def launch_push(self, launch: Launcher, env: EnvView) -> None:
        """Set the forces of a step."""
        if self._view.push_every:
            launch(envs_randomise.push_worlds, "world", reads=dict(ranges=self._view), writes=dict(env=env))

    def launch_draw(self, launch: Launcher, env: EnvView, mask: wp.array) -> None:
        """Draw for the masked worlds."""
        launch(
            envs_randomise.draw_worlds,
            "world",
            reads=dict(mask=mask),
            writes=dict(env=env, ranges=self._view),
        )
