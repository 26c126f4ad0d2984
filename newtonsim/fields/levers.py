"""Lever arms of joint axes: how far rotations about them move bodies, for joint limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.scene.allocation import put

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

LEVERS = "axis levers"
"""Name under which a model keeps them."""


def levers_of(model: Model) -> wp.array:
    """Return the lever arm of each joint axis [m]: the radius of gyration of its body about the joint.

    It is 1 for linear axes and for bodies without mass. Shape (joint_axis_count,). All solvers of a model
    share the array, which is recomputed for each; changes of fields update it in place.
    """
    levers = _measure(model)
    held = model.cached(LEVERS, lambda _: put(levers, dtype=float, device=model.device))
    if levers.size:
        held.assign(levers.astype(np.float32))
    return held


def _measure(model: Model) -> np.ndarray:
    child, start = (np.asarray(a.numpy(), int) for a in (model.joint_child, model.joint_axis_start))
    linear, angular = np.asarray(model.joint_axis_dim.numpy(), int).reshape(-1, 2).T
    mass, com = model.body_mass.numpy()[child], model.body_com.numpy().reshape(-1, 3)[child]
    inertia = np.trace(model.body_inertia.numpy().reshape(-1, 3, 3)[child], axis1=1, axis2=2)
    arm = np.linalg.norm(com - model.joint_X_c.numpy().reshape(-1, 7)[:, :3], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.sqrt(0.5 * inertia / mass + arm**2)
    radius = np.where((mass > 0.0) & (radius > 0.0), radius, 1.0)
    levers = np.ones(model.joint_axis_count)
    turning = np.repeat(np.arange(len(child)), angular)
    local = np.arange(len(turning)) - np.repeat(np.cumsum(angular) - angular, angular)
    levers[start[turning] + linear[turning] + local] = radius[turning]
    return levers
