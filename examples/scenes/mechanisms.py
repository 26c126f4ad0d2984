"""Mechanisms: a gripper that lifts things."""

from dataclasses import dataclass

import numpy as np

from newtonsim import JointMode, ModelBuilder
from newtonsim.examples import asset_path
from newtonsim.examples.scenes.parts import new_scene, prism, regular_polygon

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
    """

    closing: float = 0.5
    lifting: float = 1.0
    height: float = 0.2

    def targets(self, time: float) -> np.ndarray:
        """Return the targets of lift, left and right finger (3,) [m] at a time [s]."""
        done = min(max((time - self.closing) / self.lifting, 0.0), 1.0)
        smooth = done * done * (3.0 - 2.0 * done)
        opening = _OPEN * max(0.0, 1.0 - time / self.closing)
        return np.array([self.height * smooth, opening, 0.0], dtype=np.float32)


def gripper(grasped: str = "cube") -> ModelBuilder:
    """Gripper with two coupled fingers around something on the ground; friction 0.5.

    The drive of the left finger moves both, with at most 20 N. Let `GripperScript` write the drives' targets
    to `control.joint_act`.

    Args:
        grasped: One of `GRASPED`: a cube of 50 mm, a cylinder of 50 mm on its base, or a hexagonal nut of
            50 mm between its flats, as a mesh. Each weighs 0.2 kg and is the last body.
    """
    from newtonsim.importers import parse_urdf

    if grasped not in GRASPED:
        raise ValueError(f"grasped: expected one of {GRASPED}, got {grasped!r}")
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    report = parse_urdf(
        asset_path("gripper.urdf"),
        builder,
        stiffness=0.0,
        damping=0.0,
        contact_mu=0.5,
        contact_restitution=0.0,
        ignore_inertial_definitions=False,
    )
    for name, stiffness, damping in (("lift", 2.0e4, 400.0), ("left", 4.0e3, 80.0)):
        axis = builder.joint_axis_start[report.joints[name]]
        builder.joint_axis_mode[axis] = int(JointMode.TARGET_POSITION)
        builder.joint_target_ke[axis], builder.joint_target_kd[axis] = stiffness, damping
    for name in ("left", "right"):
        builder.joint_q[report.joint_coords[name]] = _OPEN
    _add_grasped(builder, grasped)
    builder.joint_act[:] = GripperScript().targets(0.0).tolist()
    return builder


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
