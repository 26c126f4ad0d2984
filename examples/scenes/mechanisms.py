"""Mechanisms: a four-bar linkage, and a gripper that lifts things."""

import math
from dataclasses import dataclass

import numpy as np

from newtonsim import JointMode, JointType, ModelBuilder
from newtonsim.examples.assets import asset_path
from newtonsim.examples.scenes.parts import new_scene, prism, regular_polygon

FOUR_BAR = (0.2, 0.5, 0.4, 0.5)
"""Lengths [m] of crank, coupler, rocker and ground of the linkage; the crank can turn all the way round."""


def four_bar(speed: float | None = 2.0 * math.pi) -> ModelBuilder:
    """Crank, coupler and rocker in the x-z plane, of which a loop joint connects the last two.

    The pivots on the ground are at x = 0 and x = `FOUR_BAR[3]`, 0.6 m above z = 0. The crank starts upright.
    Joint angles are those of the links with the x axis; only the coupler's is relative to the crank.

    Args:
        speed: Angular velocity [rad/s] at which a drive turns the crank; None for none, so that the linkage
            swings.
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    crank, coupler, rocker, ground = FOUR_BAR
    height, hinge = 0.6, {"axis": (0.0, -1.0, 0.0), "armature": 0.0}
    # the coupler's end is where circles about its start, atop the crank, and about the rocker's pivot meet
    across = math.hypot(ground, crank)
    along = (coupler**2 - rocker**2 + across**2) / (2.0 * across)
    tilt = math.atan2(-crank, ground)
    coupler_angle = tilt + math.acos(along / coupler)
    end = np.array([0.0, crank]) + coupler * np.array([math.cos(coupler_angle), math.sin(coupler_angle)])
    rocker_angle = math.atan2(end[1], end[0] - ground)
    links = [_add_bar(builder, length, 0.02 * i) for i, length in enumerate((crank, coupler, rocker))]
    drive = {} if speed is None else {"target": speed, "target_ke": 50.0, "mode": JointMode.TARGET_VELOCITY}
    builder.add_joint_revolute(-1, links[0], parent_xform=_at(0.0, height), **hinge, **drive, **_UNLIMITED)
    builder.add_joint_revolute(links[0], links[1], parent_xform=_at(crank), **hinge, **_UNLIMITED)
    builder.add_joint_revolute(-1, links[2], parent_xform=_at(ground, height), **hinge, **_UNLIMITED)
    builder.joint_q[:] = [0.5 * math.pi, coupler_angle - 0.5 * math.pi, rocker_angle]
    builder.add_loop_joint(
        JointType.REVOLUTE, links[1], links[2], _at(coupler), _at(rocker), angular_axes=[hinge["axis"]]
    )
    return builder


_UNLIMITED = {"limit_lower": -math.inf, "limit_upper": math.inf}


def _at(x: float, z: float = 0.0) -> tuple[float, ...]:
    """Return the pose without rotation at a point of the plane."""
    return (x, 0.0, z, 0.0, 0.0, 0.0, 1.0)


def _add_bar(builder: ModelBuilder, length: float, aside: float) -> int:
    """Add a bar along its x axis from its origin, moved along y to pass by its neighbours."""
    bar = builder.add_body()
    builder.add_shape_box(bar, pos=(0.5 * length, aside, 0.0), hx=0.5 * length + 0.015, hy=0.008, hz=0.015)
    return bar


GRASPED = ("cube", "cylinder", "mesh")
"""What the gripper can be given to lift."""

_OPEN = 0.05  # [m]


@dataclass(frozen=True)
class GripperScript:
    """What the gripper is told to do over time: close, lift, hold.

    Attributes:
        closing: Time [s] for closing.
        lifting: Time [s] for lifting after that.
        height: How high to lift [m].
        opening: How far each finger is from the middle at first [m].
    """

    closing: float = 0.5
    lifting: float = 1.0
    height: float = 0.2
    opening: float = _OPEN

    def targets(self, time: float) -> np.ndarray:
        """Return the targets of lift, left and right finger (3,) [m] at a time [s]."""
        done = min(max((time - self.closing) / self.lifting, 0.0), 1.0)
        smooth = done * done * (3.0 - 2.0 * done)
        opening = self.opening * max(0.0, 1.0 - time / self.closing)
        return np.array([self.height * smooth, opening, 0.0], dtype=np.float32)


def gripper(grasped: str = "cube") -> ModelBuilder:
    """Gripper with two coupled fingers around something on the ground; friction 0.5.

    The drive of the left finger moves both, with at most 20 N. Let `GripperScript` write the drives' targets
    to `control.joint_act`.

    Args:
        grasped: One of `GRASPED`: a cube of 50 mm, a cylinder of 50 mm on its base, or a hexagonal nut of
            50 mm between its flats, as a mesh. Each weighs 0.2 kg and is the last body.
    """
    if grasped not in GRASPED:
        raise ValueError(f"grasped: expected one of {GRASPED}, got {grasped!r}")
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    add_gripper(builder)
    _add_grasped(builder, grasped)
    return builder


def add_gripper(builder: ModelBuilder, script: GripperScript | None = None) -> None:
    """Add the gripper to an empty builder, as it is at time 0 of a script, by default `GripperScript()`."""
    from newtonsim.importers import parse_urdf

    script = GripperScript() if script is None else script
    report = parse_urdf(
        asset_path("gripper.urdf"),
        builder,
        stiffness=0.0,
        damping=0.0,
        contact_mu=builder.default_shape_mu,
        contact_restitution=0.0,
        ignore_inertial_definitions=False,
    )
    for name, stiffness, damping in (("lift", 2.0e4, 400.0), ("left", 4.0e3, 80.0)):
        axis = builder.joint_axis_start[report.joints[name]]
        builder.joint_axis_mode[axis] = int(JointMode.TARGET_POSITION)
        builder.joint_target_ke[axis], builder.joint_target_kd[axis] = stiffness, damping
    for name in ("left", "right"):
        builder.joint_q[report.joint_coords[name]] = script.opening
    builder.joint_act[:] = script.targets(0.0).tolist()


def _add_grasped(builder: ModelBuilder, grasped: str) -> None:
    half, mass = 0.025, 0.2
    body = builder.add_body(origin=(0.0, 0.0, half, 0.0, 0.0, 0.0, 1.0), key=grasped)
    if grasped == "cube":
        builder.add_shape_box(body, hx=half, hy=half, hz=half, density=mass / (8.0 * half**3))
    elif grasped == "cylinder":
        volume = 2.0 * np.pi * half**3
        builder.add_shape_cylinder(body, radius=half, half_height=half, up_axis=2, density=mass / volume)
    else:
        # the corners of the hexagon are on the y axis, two of its flats between the fingers
        outline = regular_polygon(6, half / np.cos(np.pi / 6.0)) @ np.array([[0.0, 1.0], [-1.0, 0.0]])
        nut = prism(outline, -half, half)
        builder.add_shape_mesh(body, mesh=nut, density=mass / nut.mass)
