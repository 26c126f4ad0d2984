"""A hand that turns a cube on its palm, composed of terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import warp as wp

from newtonsim.envs.sensors import JointSensor, Sensor
from newtonsim.envs.task import Metric
from newtonsim.envs.terms import library
from newtonsim.envs.terms.robots import ZOO, BuiltRobot
from newtonsim.envs.terms.task import TermTask
from newtonsim.envs.terms.term import Action, Ending, Event, Observation, Reward
from newtonsim.errors import NewtonsimError
from newtonsim.geometry.transforms import transform_inverse, transform_multiply, transform_point
from newtonsim.scene.enums import JointType

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

    from newtonsim.builder import ModelBuilder
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.scene.model import Model

_PALM, _REST = (1.0, 0.0, 0.0), (0.0338, 0.0, -0.0145)  # of the robot by default, in the frame of its base
_HEIGHT = 0.25  # [m] of the palm's origin, so that cubes have room to fall
_TOWARDS = 0.5
"""Cosine of the largest angle between the normal of the palm and the mean way of fingers that bend."""
_BENT = 0.1
"""Share of the way to the middle between their limits by which fingers bend a little."""
_AGREE = 0.3
"""Length of the mean way of fingers, as a share of the mean length, below which they bend to no side."""
_MARGIN = 0.002
"""Gap below which there are contacts [m]: within 10 mm, as by default, a finger is next to most others."""
_STILL = 1.0e-6
"""Length below which it is rounding [m]."""


class TurnInHand(TermTask):
    """Turn a cube on the upward palm of a hand about the vertical, and keep it there: for any hand.

    The hand is fixed in the world, 0.25 m above the ground, with `palm`, the normal of the palm in the frame
    of the base, upwards. The cube has the width `width` [m] and the mass `mass` [kg]. It starts on the palm,
    `rest` [m] from the origin of the base to its middle in the frame of the base, moved by up to `offset` [m]
    to each side, and turned by up to `cube_turn` [rad]. Without `rest` it lies on the shapes of the base,
    halfway between their middle and the roots of the fingers. Actions within ±1 move the targets of the
    drives by up to `action_scale` [rad], 20 times a second. At home, the tips of fingers should be beside the
    cube: a policy finds only what its noise touches.

    Observations: "angles", "rates", "targets" (angles that the drives aim at, from home), "cube" (from the
    place of rest to the cube), "cube_axes" (its rotation matrix), "cube_velocity", "cube_spin" (in its axes).
    Rewards: "turning", the cube's angular velocity about the vertical, which counts up to `fastest` [rad/s]
    to either side; minus "dropping", "drifting" (speed of the cube), "exerting" (efforts of the drives),
    "leaving_home". Ends: the cube is "dropped", `drop` [m] below the origin of the base. Otherwise an episode
    ends by time, after 20 s.

    Source: task and rewards after Qi, Kumar, Calandra, Ma, Malik, "In-hand object rotation via rapid motor
    adaptation", 2022.

    Raises:
        NewtonsimError: The base is not fixed to the world, the normal of the palm is unknown, no direction or
            not where the fingers bend to, or the base has no shapes that a cube could lie on.
    """

    name = "TurnInHand"
    zoo = "allegro_like"
    fixed_base = True
    dt = 0.01
    frame_skip = 5
    episode_steps = 400
    camera_eye, camera_target = (0.30, -0.32, 0.55), (-0.02, 0.0, 0.27)
    defaults: ClassVar[Mapping[str, Any]] = {
        **TermTask.defaults,
        "self_collisions": True,
        "palm": None,
        "width": 0.045,
        "mass": 0.05,
        "rest": None,
        "offset": 0.003,
        "cube_turn": 0.15,
        "fastest": 0.5,
        "drop": 0.05,
        "reset_noise_scale": 0.02,
    }

    def action(self) -> Action:
        """See `TermTask.action`."""
        return library.shift(self.built.scale, self.built.lower, self.built.upper)

    def payload(self) -> float:
        """See `TermTask.payload`: the cube."""
        return float(self.options["mass"])

    def add_others(self, builder: ModelBuilder) -> None:
        """See `TermTask.add_others`."""
        from scipy.spatial.transform import Rotation

        base, root, palm = self.built.base, self._root(builder), self._palm(builder)
        turn, _ = Rotation.align_vectors([[0.0, 0.0, 1.0]], [palm])
        place = wp.transform((0.0, 0.0, _HEIGHT), tuple(turn.as_quat()))
        joint = builder.joint_child.index(root)
        of_root = wp.transform(*self.built.pose_in(root, base).tolist())
        builder.joint_X_p[joint] = place * of_root * wp.transform_inverse(builder.joint_X_c[joint])
        rest = self._given("rest", _REST)
        self._rest_in_palm = self._resting(turn) if rest is None else tuple(float(x) for x in rest)
        x, y, z = turn.apply(self._rest_in_palm).tolist()
        self._rest = (x, y, z + _HEIGHT)
        half = 0.5 * self.options["width"]
        cube = builder.add_body(origin=(*self._rest, 0.0, 0.0, 0.0, 1.0), key="cube")
        density = self.options["mass"] / (2.0 * half) ** 3
        builder.add_shape_box(cube, hx=half, hy=half, hz=half, density=density, mu=1.0)
        builder.add_joint_free(cube, key="cube")
        self._cube_at = builder.joint_q_start[-1]

    def _root(self, builder: ModelBuilder) -> int:
        """Return the body by which the hand is fixed to the world: the base, or what the base is fixed to."""
        body = self.built.base
        while body in builder.joint_child:
            joint = builder.joint_child.index(body)
            if builder.joint_type[joint] != JointType.FIXED:
                break
            if builder.joint_parent[joint] < 0:
                return body
            body = builder.joint_parent[joint]
        raise NewtonsimError(
            f"{self.name}: base: expected a body that is fixed to the world, as {self.robot.base!r} of "
            f"{self.robot.file} is not: {builder.body_key[body]!r} moves"
        )

    def _given(self, name: str, of_zoo: tuple[float, ...]) -> Any:
        """Return an option that the robot by default has another value for."""
        value = self.options[name]
        return of_zoo if value is None and self.robot.file == ZOO[self.zoo].file else value

    def _palm(self, builder: ModelBuilder) -> np.ndarray:
        """Return the normal of the palm, a unit vector in the frame of the base."""
        given = self._given("palm", _PALM)
        try:
            palm = np.array(given if given is not None else [], float)
        except (TypeError, ValueError):
            palm = np.zeros(0)
        bend = _bending(self.built, builder)
        bends = "" if bend is None else f"; its fingers bend towards {tuple((bend + 0.0).round(2).tolist())}"
        if palm.shape != (3,) or not np.isfinite(palm).all() or not palm.any():
            what = "unknown" if given is None else f"{given!r} is no direction"
            raise NewtonsimError(
                f"{self.name}: palm: {what}; give the normal of the palm in the frame of "
                f"{self.built.body_names[self.built.base]!r}, the base, such as (0, 0, 1){bends}"
            )
        palm /= np.linalg.norm(palm)
        if bend is not None and bend @ palm < _TOWARDS:
            raise NewtonsimError(
                f"{self.name}: palm: {given!r} is not the normal of the palm of {self.robot.file} in the "
                f"frame of {self.built.body_names[self.built.base]!r}, the base{bends}"
            )
        return palm

    def _resting(self, turn: Rotation) -> tuple[float, ...]:
        """Return where the middle of the cube is when it lies on the palm, in the frame of the base [m].

        Args:
            turn: Rotation of the base with the palm upwards.
        """
        base, axes = self.built.base, turn.inv().as_matrix().T
        low, high = np.transpose([self.built.extent(base, axis) for axis in axes])
        if not np.isfinite(high).all():
            raise NewtonsimError(
                f"{self.name}: rest: {self.built.body_names[base]!r}, the base, has no shapes that collide; "
                "give the place of the middle of the cube in its frame"
            )
        roots = [axes @ self.built.pose_in(body, base)[:3] for body in self.built.branches(base)]
        middle = 0.5 * (low + high)
        at = 0.5 * (middle + np.mean(roots, axis=0)) if roots else middle
        at[2] = high[2] + 0.5 * self.options["width"]
        return tuple((at @ axes).tolist())

    def bind(self, model: Model) -> None:
        """See `Task.bind`."""
        super().bind(model)
        model.rigid_contact_margin = _MARGIN

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
            "cube": known["body"]("cube", self._rest_in_palm),
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


def _bending(built: BuiltRobot, builder: ModelBuilder) -> np.ndarray | None:
    """Return where the fingers of a hand move to when they bend: a unit vector in the frame of the base.

    They bend from straight, where joints are at 0, towards the middle between the limits of their joints.

    Returns:
        The mean direction of the last links; None if they move in no common direction, as where joints have
        no limits, or the same to both sides.
    """
    limits = {
        builder.joint_key.index(name): (low, high)
        for name, low, high in zip(built.joints, built.lower, built.upper)
        if np.isfinite([low, high]).all()
    }

    def placed(finger: list[int], share: float) -> np.ndarray:
        """Return where the middle of the last link is, given the joints from the base on, (3,)."""
        place = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        for joint in finger:
            inner = built.pose_in(builder.joint_child[joint], builder.joint_parent[joint])
            if joint in limits and builder.joint_type[joint] == JointType.REVOLUTE:
                straight = np.clip(0.0, *limits[joint])
                half = 0.5 * (straight + share * (np.mean(limits[joint]) - straight))
                axis = np.array([*builder.joint_axis[builder.joint_axis_start[joint]]], float)
                turn = np.array([0.0, 0.0, 0.0, *(np.sin(half) * axis / np.linalg.norm(axis)), np.cos(half)])
                before, after = np.array([[*builder.joint_X_p[joint]], [*builder.joint_X_c[joint]]], float)
                inner = transform_multiply(transform_multiply(before, turn), transform_inverse(after))
            place = transform_multiply(place, inner)
        return transform_point(place, np.array([*builder.body_com[builder.joint_child[finger[-1]]]], float))

    above = {child: joint for joint, child in enumerate(builder.joint_child)}
    ways = []
    for body in sorted(set(above) - set(builder.joint_parent)):
        finger = []
        while body != built.base and body in above:
            finger.insert(0, above[body])
            body = builder.joint_parent[above[body]]
        if finger and body == built.base:
            ways.append(placed(finger, _BENT) - placed(finger, 0.0))
    mean = np.sum(ways, axis=0) if ways else np.zeros(3)
    size, length = float(np.linalg.norm(mean)), float(sum(map(np.linalg.norm, ways)))
    return mean / size if size > max(_AGREE * length, _STILL) else None
