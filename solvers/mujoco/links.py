"""Bodies of negligible mass between joints, as importers make them where a body has several joints in a row.

MuJoCo gives one body all of these joints. With a body between them, its fluid forces, its diagonal
approximations of inertias and its filters between neighbours would be others than those of the file.
"""

from __future__ import annotations

import numpy as np

from newtonsim.scene.enums import ConstraintType, JointType
from newtonsim.scene.joint_types import FLOATING
from newtonsim.solvers.mujoco.source import HostModel

LARGEST_SHARE = 2.0e-6
"""Largest share of the mass and the moments of the carried body that is negligible, twice the importers'."""

_ALIKE = 1.0e-6
"""How far frames of a joint in parent and child may be apart if they are the same [m, and of quaternions]."""


def carried_by_links(host: HostModel) -> dict[int, int]:
    """Find bodies of negligible mass that do nothing but connect two joints.

    Returns:
        The body that each of them carries, if all joints between stand at zero in the same place.
    """
    children: dict[int, list[int]] = {}
    for joint, parent in enumerate(host.joint_parent.tolist()):
        children.setdefault(int(parent), []).append(joint)
    used = _used_bodies(host)
    found: dict[int, int] = {}
    above = {int(body): joint for joint, body in enumerate(host.joint_child.tolist())}
    # children come after their parents, so the last body of a chain is known when its links are looked at
    for body in sorted(above, key=lambda one: above[one], reverse=True):
        joints = children.get(body, [])
        if body in used or len(joints) != 1 or not (_moves(host, above[body]) and _moves(host, joints[0])):
            continue
        below = int(host.joint_child[joints[0]])
        end = found.get(below, below)
        frames = host.joint_X_p[joints[0]] - host.joint_X_c[joints[0]]
        if np.abs(frames).max() < _ALIKE and _is_negligible(host, body, end):
            found[body] = end
    return found


def _moves(host: HostModel, joint: int) -> bool:
    """Whether a joint has axes, or is a ball."""
    kind = JointType(host.joint_type[joint])
    return kind not in FLOATING and (kind == JointType.BALL or bool(host.joint_axis_dim[joint].sum()))


def _is_negligible(host: HostModel, body: int, end: int) -> bool:
    mass = max(float(host.body_mass[end]), 0.0) or 1.0
    moment = float(np.trace(host.body_inertia[end]))
    turning = float(np.trace(host.body_inertia[body]))
    light = float(host.body_mass[body]) <= LARGEST_SHARE * mass
    return light and (moment == 0.0 or turning <= LARGEST_SHARE * moment)


def _used_bodies(host: HostModel) -> set[int]:
    """Bodies that carry shapes, or that constraints, tendons or actuators act on."""
    loops = host.constraint_type != ConstraintType.COUPLING
    parts = (
        host.shape_body,
        host.constraint_parent[loops],
        host.constraint_child[loops],
        host.tendon_element_body,
        host.actuator_bodies,
    )
    return {int(body) for part in parts for body in np.asarray(part, np.int64).reshape(-1)}
