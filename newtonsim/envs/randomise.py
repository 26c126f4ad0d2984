"""What differs between worlds and between episodes, and the kernels that draw it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.envs.draws import FieldDraws, read_draws
from newtonsim.envs.imperfections import LateActions, ObservationNoise
from newtonsim.envs.values import is_number, is_range
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.fields.table import FIELDS, find_field
from newtonsim.kernels.envs import randomise as envs_randomise
from newtonsim.kernels.envs.randomise import RangeView
from newtonsim.scene.allocation import put

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.runtime.launcher import Launcher
    from newtonsim.scene.model import Model


@dataclass(frozen=True)
class Randomisation:
    """What differs between worlds; drawn within the captured step, by default for each episode.

    Attributes:
        mass: Factor on the mass and the inertia of each body.
        friction: Factor on the coefficients of friction of all shapes of a world.
        strength: Factor on the efforts of the motors of a world; for drives, on both gains.
        gains: Further factors on the stiffness and, drawn separately, the damping of each drive.
        terrain: Level on which a world starts, as a fraction of the hardest, for tasks on terrain; it
            replaces their curriculum. None leaves it to the task.
        push_seconds: Time between pushes [s]: a horizontal force acts on the first body of a world for one
            step of the environment; 0 for never.
        push_force: Its largest component [N]; needs `push_seconds`, and vice versa.
        delay: Delay of the actions, drawn for each episode of a world [s].
        noise: Standard deviation of Gaussian noise on observations, one for all numbers or one for each.
        fields: Further fields of the model by the names of `newtonsim.fields.FIELDS`, such as
            {"gravity": ..., "bodies.com": ..., "joints.armature": ..., "shapes.scale": ...}; of each a range
            of factors (low, high), a `Draw`, a dict of its fields, or a list of these.

    Raises:
        NewtonsimError: A range is empty, a number is not finite or negative, only one of the push parameters
            is given, or there is no such field.
    """

    mass: tuple[float, float] = (1.0, 1.0)
    friction: tuple[float, float] = (1.0, 1.0)
    strength: tuple[float, float] = (1.0, 1.0)
    gains: tuple[float, float] = (1.0, 1.0)
    terrain: tuple[float, float] | None = None
    push_seconds: float = 0.0
    push_force: float = 0.0
    delay: tuple[float, float] = (0.0, 0.0)
    noise: float | tuple[float, ...] = 0.0
    fields: Mapping[str, Any] = field(default_factory=dict)

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
                raise NewtonsimError(f"{name}: expected a number of at least 0, got {value!r}")
        if (self.push_seconds > 0.0) != (self.push_force > 0.0):
            raise NewtonsimError(
                "pushes need both push_seconds and push_force, "
                f"got push_seconds={self.push_seconds} and push_force={self.push_force}"
            )
        self._check_imperfections()
        for name in self.fields:
            find_field(name)
        for name, several in _SAME.items():
            twice = [field for field in several if field in self.fields]
            if twice and self.draws(name):
                raise NewtonsimError(
                    f"randomise: {name!r} and {twice[0]!r} draw the same numbers, and only the last would "
                    f"take effect; give one of them, or a list of draws for {twice[0]!r}"
                )

    def _check_imperfections(self) -> None:
        value = self.delay
        if not is_range(value) or value[0] < 0.0 or value[1] == math.inf:
            raise NewtonsimError(f"delay: expected a range (low, high) of times of at least 0, got {value!r}")
        numbers = self.noise if isinstance(self.noise, (tuple, list, np.ndarray)) else [self.noise]
        if not all(is_number(n) and 0.0 <= n < math.inf for n in numbers):
            raise NewtonsimError(f"noise: expected standard deviations of at least 0, got {self.noise!r}")

    @property
    def is_late(self) -> bool:
        """Whether actions arrive late."""
        return self.delay[1] > 0.0

    @property
    def is_noisy(self) -> bool:
        """Whether observations have noise."""
        return bool(np.any(np.asarray(self.noise) > 0.0))

    def draws(self, name: str) -> bool:
        """Whether anything is drawn from a range of factors."""
        return tuple(getattr(self, name)) != (1.0, 1.0)

    def changes_model(self) -> list[str]:
        """Names of draws that change arrays of the model other than gravity."""
        factors = [name for name in ("mass", "friction", "gains") if self.draws(name)]
        return [*factors, *(name for name in self.fields if name != "gravity")]


def read_randomisation(given: Mapping[str, Any]) -> Randomisation:
    """Read names and ranges: those of `Randomisation`, and those of fields of the model.

    Raises:
        NewtonsimError: A name is unknown; the error lists the known ones.
    """
    known = [f.name for f in dataclasses.fields(Randomisation) if f.name != "fields"]
    own, of_model = {}, dict(given.get("fields", {}))
    for name, value in given.items():
        if name in FIELDS:
            of_model[name] = value
        elif name in known:
            own[name] = value
        elif name != "fields":
            hint = did_you_mean(name, [*known, *FIELDS])
            raise NewtonsimError(
                f"randomise: there is no {name!r}{hint}; there are {known}, and fields of the model such as "
                f"{['gravity', 'bodies.com', 'joints.armature', 'shapes.scale']}, see newtonsim.fields.FIELDS"
            )
    return Randomisation(**own, fields=of_model)


_SAME = {
    "mass": ("bodies.mass", "bodies.inertia"),
    "friction": ("shapes.friction",),
    "gains": ("joints.target_ke", "joints.target_kd"),
    "strength": ("joints.target_ke", "joints.target_kd"),
}
"""Fields of the model that ranges of factors also draw."""

_NOTHING = (0.0, 0.0)
"""Range of a factor that is not drawn."""


class Randomiser:
    """Draws for the worlds of a model; its initial values are the nominal ones.

    Args:
        ranges: What to draw.
        model: The model, whose arrays are written.
        env: The environment of its worlds.

    Attributes:
        late: The delay of actions, None without delay.
        noise: Noise on observations, None if there is none.

    Raises:
        NewtonsimError: A field cannot be drawn, or values that can be drawn are invalid for it.
    """

    def __init__(self, ranges: Randomisation, model: Model, env: EnvView):
        control_dt = env.control_dt
        draws = {name: read_draws(name, given) for name, given in ranges.fields.items()}
        self._draws = FieldDraws(draws, model, control_dt) if draws else None
        self.late = LateActions(ranges.delay, env.actions, control_dt) if ranges.is_late else None
        self.noise = ObservationNoise(ranges.noise, env.obs) if ranges.is_noisy else None
        view = self._view = RangeView()
        view.mass_low, view.mass_high = ranges.mass
        view.friction_low, view.friction_high = ranges.friction
        view.strength_low, view.strength_high = ranges.strength
        view.gains_low, view.gains_high = ranges.gains
        view.terrain_low, view.terrain_high = ranges.terrain or _NOTHING
        view.draws_mass, view.draws_friction = int(ranges.draws("mass")), int(ranges.draws("friction"))
        view.draws_gains = int(ranges.draws("gains") or ranges.draws("strength"))
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

    def launch_before(self, launch: Launcher, env: EnvView) -> None:
        """Set the forces of a step, and draw the fields that are due in it."""
        if self._draws is not None:
            self._draws.launch_intervals(launch, env)
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
        if self._draws is not None:
            self._draws.launch_draw(launch, env, mask)
        if self.late is not None:
            self.late.launch_draw(launch, env, mask)
