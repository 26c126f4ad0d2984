"""An arm that reaches, and an arm that picks up a cube."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from newtonsim.builder import ModelBuilder
from newtonsim.envs.task import Motors, Task
from newtonsim.errors import NewtonsimError
from newtonsim.examples.assets import asset_path
from newtonsim.importers import parse_urdf
from newtonsim.kernels.envs import manipulation as envs_manipulation
from newtonsim.scene.enums import JointMode

if TYPE_CHECKING:
    pass

_JOINTS = 7
_HOME = (0.0, 0.1, 0.0, -1.9, 0.0, math.pi - 2.0, 0.0)  # [rad] the hand points down
_STIFFNESS = (4000.0, 4000.0, 2500.0, 2500.0, 1000.0, 500.0, 200.0)  # [N m/rad]
_DAMPING = 0.05  # [s] of the drives, over their stiffness
_FLANGE = 0.045  # [m] along z of the last link
_REACHED = 0.05  # [m] from the target
_CUBE_HALF, _CUBE_MASS = 0.02, 0.1  # [m], [kg]
_FINGER_REACH = 0.04  # [m] of each finger from the middle when open


class ArmTask(Task):
    """Base of tasks of the arm `arm7.urdf` on a table, which is the plane z = 0.

    Position drives hold the arm. Actions within ±1 change the targets of its seven drives by up to
    `action_scale` [rad], 25 times a second, within the limits of the joints. Episodes only end by time. They
    start near a pose with the hand in front of the arm and pointing down, with uniform noise of
    `reset_noise_scale` [rad] on the angles. "is_success" in the infos says whether the flange or the cube is
    within 0.05 m of the target.
    """

    dt = 0.005
    frame_skip = 8
    memory_size = 10
    has_goal = True
    camera_eye, camera_target = (1.5, -1.1, 0.9), (0.3, 0.0, 0.4)
    actions: ClassVar[int] = _JOINTS
    tool: ClassVar[float] = _FLANGE
    targets: ClassVar[tuple[tuple[float, float, float], tuple[float, float, float]]]
    defaults: ClassVar[Mapping[str, Any]] = {"action_scale": 0.05, "reset_noise_scale": 0.05}

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        report = parse_urdf(
            asset_path("arm7.urdf"),
            builder,
            armature=0.05,
            contact_mu=1.0,
            contact_restitution=0.0,
            enable_self_collisions=False,
            ignore_inertial_definitions=False,
            collapse_fixed_joints=True,
        )
        self._hand = report.bodies["link_7"]
        builder.joint_target_ke[:] = _STIFFNESS
        builder.joint_target_kd[:] = [_DAMPING * ke for ke in _STIFFNESS]
        builder.joint_q[:] = _HOME
        builder.joint_act[:] = _HOME
        self._limits = [*builder.joint_limit_lower, *builder.joint_limit_upper]
        self.furnish(builder)
        self._add_marker(builder)
        ones = [1.0] * self.actions
        return Motors(list(range(self.actions)), ones, [-1.0] * self.actions, ones)

    def furnish(self, builder: ModelBuilder) -> None:
        """Add what the task needs in addition to the arm."""

    def _add_marker(self, builder: ModelBuilder) -> None:
        """Add the ball that shows where the target is."""
        marker = builder.add_body(key="target")
        builder.add_shape_sphere(
            marker,
            radius=0.02,
            density=0.0,
            has_ground_collision=False,
            has_shape_collision=False,
        )
        builder.shape_color[-1] = (0.80, 0.20, 0.20, 1.0)

    def finish_scene(self, scene: ModelBuilder) -> None:
        """See `Task.finish_scene`."""
        scene.set_ground_plane(mu=1.0)

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        low, high = self.targets
        o = self.options
        numbers = [float(self._hand), self.tool, o["action_scale"], o["reset_noise_scale"]]
        return [*numbers, *low, *high, *_HOME, *self._limits, _REACHED]


class ArmReach(ArmTask):
    """Bring the flange of an arm of seven joints to a target; see `ArmTask` for the actions.

    Observation (23): angles [rad] (7), their rates [rad/s] (7), position of the flange [m] (3), of the target
    (3), and the vector from the one to the other (3). The target is anywhere in a box of 0.4 m by 0.8 m by
    0.5 m in front of the arm. The reward is minus the distance, or with `reward_type="sparse"` -1 while the
    distance exceeds 0.05 m and 0 otherwise. Episodes last for 50 actions, 2 s.

    Source: reward, time of an action and length are those of FetchReach of Plappert et al., "Multi-goal
    reinforcement learning: challenging robotics environments and request for research", 2018, with
    `reward_type="dense"` as default; actions change joint angles rather than the place of the hand.
    """

    name = "ArmReach"
    episode_steps = 50
    observation_size = 23
    act = envs_manipulation.aim_reach
    observe = envs_manipulation.observe_reach
    score = envs_manipulation.score_reach
    spawn = envs_manipulation.spawn_reach
    targets = (0.3, -0.4, 0.15), (0.7, 0.4, 0.65)
    defaults: ClassVar[Mapping[str, Any]] = {**ArmTask.defaults, "reward_type": "dense"}

    def __init__(self, **options: Any):
        super().__init__(**options)
        if self.options["reward_type"] not in ("dense", "sparse"):
            got = self.options["reward_type"]
            raise NewtonsimError(f"ArmReach: reward_type: expected 'dense' or 'sparse', got {got!r}")

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        return [*super().numbers(), float(self.options["reward_type"] == "sparse")]


class ArmPick(ArmTask):
    """Pick up a cube from the table and bring it to a goal; see `ArmTask` for the first seven actions.

    The eighth action sets the opening of the two coupled fingers, -1 for closed. The cube, 40 mm wide, 0.1
    kg, starts anywhere within 0.2 m by 0.3 m, turned by up to 45°.

    Observation (41): angles of the arm [rad] (7), their rates (7), distance of a finger from the middle [m]
    and its rate, the point between the fingertips (3), the cube's place (3), quaternion xyzw (4), velocity
    (3) and angular velocity (3), the goal (3), the vectors from the fingertips to the cube (3) and from the
    cube to the goal (3).

    The reward is 1 - tanh(10 d) with d [m] from fingertips to cube, plus 0.25 if the cube is grasped; 2.25
    once it is 0.04 m above the table, plus 1 - tanh(5 g) with g [m] from cube to goal. The cube is grasped if
    it is within 15 mm of the fingertips and keeps them 2 mm or more from closing. Episodes last for 150
    actions, 6 s.

    Source: the stages and their weights are those of Lift of Zhu et al., "robosuite: a modular simulation
    framework and benchmark for robot learning", 2020; goal and time of an action of FetchPickAndPlace, see
    `ArmReach`.
    """

    name = "ArmPick"
    episode_steps = 150
    observation_size = 41
    act = envs_manipulation.aim_pick
    observe = envs_manipulation.observe_pick
    score = envs_manipulation.score_pick
    spawn = envs_manipulation.spawn_pick
    camera_eye, camera_target = (1.2, -0.7, 0.6), (0.35, 0.0, 0.22)
    actions = _JOINTS + 1
    tool = _FLANGE + 0.085
    targets = (0.4, -0.15, 0.1), (0.6, 0.15, 0.3)

    def furnish(self, builder: ModelBuilder) -> None:
        """Add the gripper, and the cube."""
        _add_gripper(builder, self._hand)
        cube = builder.add_body(origin=(0.5, 0.0, _CUBE_HALF, 0.0, 0.0, 0.0, 1.0), key="cube")
        half, density = _CUBE_HALF, _CUBE_MASS / (2.0 * _CUBE_HALF) ** 3
        builder.add_shape_box(cube, hx=half, hy=half, hz=half, density=density, mu=1.0, restitution=0.0)
        builder.shape_color[-1] = (0.20, 0.45, 0.70, 1.0)
        builder.add_joint_free(cube)

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        numbers = [_CUBE_HALF, _FINGER_REACH, 0.4, -0.15, 0.6, 0.15, 0.25 * math.pi, 0.04, 0.015, 0.002]
        return [*super().numbers(), *numbers]


def _add_gripper(builder: ModelBuilder, hand: int) -> None:
    """Add a palm and two fingers that slide along x of the hand, the second coupled to the first.

    The fingers are 60 mm long; a drive closes them with up to 20 N.
    """
    surface: dict[str, Any] = {"mu": 1.0, "restitution": 0.0}
    palm = _FLANGE + 0.02
    builder.add_shape_box(hand, pos=(0.0, 0.0, palm), hx=0.06, hy=0.025, hz=0.02, density=1000.0, **surface)
    at = (0.0, 0.0, palm + 0.02, 0.0, 0.0, 0.0, 1.0)
    joints = []
    for side, name in ((1.0, "left"), (-1.0, "right")):
        finger = builder.add_body(key=f"{name}_finger")
        place = (side * 0.006, 0.0, 0.03)
        builder.add_shape_box(finger, pos=place, hx=0.006, hy=0.012, hz=0.03, density=2500.0, **surface)
        builder.shape_color[-1] = (0.30, 0.32, 0.35, 1.0)
        drive: dict[str, Any] = (
            {"target": 0.0, "target_ke": 4000.0, "target_kd": 80.0} if name == "left" else {}
        )
        joint = builder.add_joint_prismatic(
            hand,
            finger,
            parent_xform=at,
            axis=(side, 0.0, 0.0),
            limit_lower=0.0,
            limit_upper=_FINGER_REACH,
            armature=0.05,
            key=name,
            **drive,
        )
        axis = builder.joint_axis_start[joint]
        builder.joint_effort_limit[axis] = 20.0
        builder.joint_q[builder.joint_q_start[joint]] = _FINGER_REACH
        joints.append(joint)
    builder.joint_axis_mode[builder.joint_axis_start[joints[0]]] = int(JointMode.TARGET_POSITION)
    builder.joint_act[builder.joint_axis_start[joints[0]]] = _FINGER_REACH
    builder.add_constraint_gear(joints[1], joints[0], ratio=1.0, offset=0.0)
