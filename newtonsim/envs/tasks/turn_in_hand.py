"""A hand that turns a cube on its palm, composed of terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import warp as wp

from newtonsim.envs.sensors import JointSensor, Sensor
from newtonsim.envs.task import Metric
from newtonsim.envs.terms import library
from newtonsim.envs.terms.task import TermTask
from newtonsim.envs.terms.term import Action, Ending, Event, Observation, Reward
from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.kernels.envs.views import EnvView

_HEIGHT = 0.25  # [m] of the palm's origin, so that cubes have room to fall


class TurnInHand(TermTask):
    """Turn a cube on the upward palm of a hand about the vertical, and keep it there: for any hand.

    The hand is fixed in the world, 0.25 m above the ground, with `palm`, the normal of the palm in the frame
    of the base, upwards. The cube has the width `width` [m] and the mass `mass` [kg]. It starts on the palm,
    `rest` [m] from the origin of the base to its middle in the frame of the base, moved by up to `offset` [m]
    to each side, and turned by up to `cube_turn` [rad]. Actions within ±1 move the targets of the drives by
    up to `action_scale` [rad], 20 times a second.

    Observations: "angles", "rates", "targets" (angles that the drives aim at, from home), "cube" (from the
    place of rest to the cube), "cube_axes" (its rotation matrix), "cube_velocity", "cube_spin" (in its axes).
    Rewards: "turning", the cube's angular velocity about the vertical, which counts up to `fastest` [rad/s]
    to either side; minus "dropping", "drifting" (speed of the cube), "exerting" (efforts of the drives),
    "leaving_home". Ends: the cube is "dropped", `drop` [m] below the origin of the base. Otherwise an episode
    ends by time, after 20 s.

    Source: task and rewards after Qi, Kumar, Calandra, Ma, Malik, "In-hand object rotation via rapid motor
    adaptation", 2022.

    Raises:
        NewtonsimError: The base is not fixed to the world.
    """

    name = "TurnInHand"
    zoo = "allegro_like"
    dt = 0.005
    frame_skip = 10
    episode_steps = 400
    camera_eye, camera_target = (0.30, -0.32, 0.55), (-0.02, 0.0, 0.27)
    defaults: ClassVar[Mapping[str, Any]] = {
        **TermTask.defaults,
        "self_collisions": True,
        "palm": (1.0, 0.0, 0.0),
        "width": 0.045,
        "mass": 0.05,
        "rest": (0.0338, 0.0, -0.0145),
        "offset": 0.003,
        "cube_turn": 0.15,
        "fastest": 0.5,
        "drop": 0.05,
        "reset_noise_scale": 0.02,
    }

    def action(self) -> Action:
        """See `TermTask.action`."""
        return library.shift(self.built.scale, self.built.lower, self.built.upper)

    def add_others(self, builder: ModelBuilder) -> None:
        """See `TermTask.add_others`."""
        from scipy.spatial.transform import Rotation

        joint = builder.joint_child.index(self.built.base) if self.built.base in builder.joint_child else -1
        if joint < 0 or builder.joint_parent[joint] >= 0 or self.built.floats:
            raise NewtonsimError(f"{self.name}: base: expected a body that is fixed to the world")
        turn, _ = Rotation.align_vectors([[0.0, 0.0, 1.0]], [self.options["palm"]])
        place = wp.transform((0.0, 0.0, _HEIGHT), tuple(turn.as_quat()))
        builder.joint_X_p[joint] = place * wp.transform_inverse(builder.joint_X_c[joint])
        x, y, z = turn.apply(self.options["rest"]).tolist()
        self._rest = (x, y, z + _HEIGHT)
        half = 0.5 * self.options["width"]
        cube = builder.add_body(origin=(*self._rest, 0.0, 0.0, 0.0, 1.0), key="cube")
        density = self.options["mass"] / (2.0 * half) ** 3
        builder.add_shape_box(cube, hx=half, hy=half, hz=half, density=density, mu=1.0)
        builder.add_joint_free(cube, key="cube")
        self._cube_at = builder.joint_q_start[-1]

    def sensors(self) -> Mapping[str, Sensor]:
        """See `Task.sensors`."""
        return {"drives": JointSensor(self.built.joints)}

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        known = library.OBSERVATIONS
        return {
            "angles": known["angles"](),
            "rates": known["rates"](),
            "targets": known["targets"](),
            "cube": known["body"]("cube", self.options["rest"]),
            "cube_axes": replace(known["axes"](), base="cube"),
            "cube_velocity": replace(known["velocity"](), base="cube"),
            "cube_spin": replace(known["spin"](), base="cube"),
        }

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        joints, o = len(self.built.joints), self.options
        return library.rewards_of(
            {
                "turning": {"term": "turn_body", "weight": 2.0, "body": "cube", "most": o["fastest"]},
                "dropping": {"weight": -200.0, "body": "cube", "distance": o["drop"]},
                "drifting": {"weight": -2.0, "body": "cube"},
                "exerting": {"weight": -0.1, "sensor": "drives", "offset": 2 * joints, "count": joints},
                "leaving_home": -0.02,
            }
        )

    def end_terms(self) -> dict[str, Ending]:
        """See `TermTask.end_terms`."""
        return {"dropped": library.ENDS["dropped"]("cube", self.options["drop"])}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        o = self.options
        x, y, height = self._rest
        low, high = (x - o["offset"], y - o["offset"]), (x + o["offset"], y + o["offset"])
        return {
            "home": library.EVENTS["home"](o["reset_noise_scale"], 0.0, turned=False),
            "cube": library.place_body(self._cube_at, low, high, height, o["cube_turn"]),
        }

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: the angular velocity of the cube about the vertical."""
        spin = env.joint_qd.numpy().reshape(-1, env.dofs)[:, -4]
        return {"turning": Metric(spin, "rad/s")}
