"""Penalty forces between bodies for the backward pass, with normal and points that depend on the poses.

The forward pass (`penalty.contact_law`) takes normal and points from the collision pass. Here they follow the
features in contact (`contact_features`): the values are the same, and their derivatives those of the
collision pass.

Stage: backward pass of penalty forces, contacts between bodies
Called by: solvers/semi_implicit/bodies.py
Reads: ContactView, FeatureView, ModelShapeMaterials, body_com, body_q, body_qd, shape_body
Writes: body_f
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_velocity
from newtonsim.kernels.collision.contact_features import (
    NORMAL_UNKNOWN,
    FeatureView,
    body_pose,
    contact_geometry,
)
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.penalty.contact_law import contact_force, push_body
from newtonsim.kernels.views.structs import ModelShapeMaterials

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def push_bodies(
    first: int,
    contacts: ContactView,
    features: FeatureView,
    shape_body: wp.array(dtype=int),
    material: ModelShapeMaterials,
    body_com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    slip_speed: float,
    fade_depth: float,
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per contact place: add the contact's force to both bodies."""
    c = first + wp.tid()
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    if s0 < 0:
        return
    if features.normal[c] == NORMAL_UNKNOWN:
        return
    b0 = shape_body[s0]
    b1 = shape_body[s1]
    g = contact_geometry(c, body_pose(b0, body_q), body_pose(b1, body_q), contacts.normal[c], features)
    depth = -g.distance
    x0 = g.point - 0.5 * depth * g.normal
    x1 = g.point + 0.5 * depth * g.normal
    v = point_velocity(b0, x0, body_q, body_com, body_qd) - point_velocity(b1, x1, body_q, body_com, body_qd)
    ke = 0.5 * (material.ke[s0] + material.ke[s1])
    kd = 0.5 * (material.kd[s0] + material.kd[s1])
    kf = 0.5 * (material.kf[s0] + material.kf[s1])
    mu = 0.5 * (material.mu[s0] + material.mu[s1])
    force = contact_force(depth, v, g.normal, ke, kd, kf, mu, slip_speed, fade_depth)
    push_body(b0, x0, force, body_q, body_com, body_f)
    push_body(b1, x1, -force, body_q, body_com, body_f)
