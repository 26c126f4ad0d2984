"""Smooth contact forces of compliant contact.

A spring and damper along the normal and Coulomb friction regularised around zero slip, as in Geilinger et
al., "ADD: Analytically differentiable dynamics for multi-body systems with frictional contact", 2020. The
damper fades in over a small depth of penetration and slip is smoothed below a small speed: forces have a
derivative everywhere but at first touch; `penalty.feature_contacts` has those of FeatherstoneSolver.

Stage: penalty forces, contacts between bodies
Called by: solvers/penalty.py, kernels/penalty/body_contacts.py, kernels/penalty/feature_contacts.py,
    kernels/penalty/grains.py, kernels/penalty/particle_contacts.py
Reads: ContactView, ModelShapeMaterials, body_com, body_q, body_qd, shape_body
Writes: body_f
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_in_world, point_velocity
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.views.structs import ModelShapeMaterials

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

FADE_DEPTH = wp.constant(1.0e-3)  # [m], where a solver has no option for it


@wp.func
def contact_force(
    depth: float,
    v: wp.vec3,
    n: wp.vec3,
    ke: float,
    kd: float,
    kf: float,
    mu: float,
    slip_speed: float,
    fade_depth: float = FADE_DEPTH,
) -> wp.vec3:
    """Force on side 0 at penetration `depth` [m] and relative velocity v [m/s]; zero without penetration.

    Friction fades below `slip_speed` [m/s], damping below `fade_depth` [m].
    """
    force = wp.vec3(0.0, 0.0, 0.0)
    if depth > 0.0:
        vn = wp.dot(v, n)
        fn = wp.max(0.0, ke * depth - kd * vn * depth / (depth + fade_depth))
        vt = v - vn * n
        slip = wp.sqrt(wp.dot(vt, vt) + slip_speed * slip_speed)
        force = fn * n - wp.min(kf, mu * fn / slip) * vt
    return force


@wp.func
def push_body(
    b: int,
    x: wp.vec3,
    force: wp.vec3,
    body_q: wp.array(dtype=wp.transform),
    body_com: wp.array(dtype=wp.vec3),
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """Add a force at the world point x as a wrench at the centre of mass of body b."""
    if b >= 0:
        com = wp.transform_point(body_q[b], body_com[b])
        wp.atomic_add(body_f, b, wp.spatial_vector(wp.cross(x - com, force), force))


@wp.kernel
def apply_contact_penalty(
    first: int,
    contacts: ContactView,
    shape_body: wp.array(dtype=int),
    material: ModelShapeMaterials,
    body_com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    slip_speed: float,
    fade_depth: float,
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per contact place: add the contact's force to both bodies. Materials are averaged."""
    c = first + wp.tid()
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    if s0 < 0:
        return
    b0 = shape_body[s0]
    b1 = shape_body[s1]
    n = contacts.normal[c]
    # the offsets stay along the normal when a round feature turns
    x0 = point_in_world(b0, contacts.point0[c], body_q) - wp.length(contacts.offset0[c]) * n
    x1 = point_in_world(b1, contacts.point1[c], body_q) + wp.length(contacts.offset1[c]) * n
    v = point_velocity(b0, x0, body_q, body_com, body_qd) - point_velocity(b1, x1, body_q, body_com, body_qd)
    ke = 0.5 * (material.ke[s0] + material.ke[s1])
    kd = 0.5 * (material.kd[s0] + material.kd[s1])
    kf = 0.5 * (material.kf[s0] + material.kf[s1])
    mu = 0.5 * (material.mu[s0] + material.mu[s1])
    force = contact_force(wp.dot(n, x1 - x0), v, n, ke, kd, kf, mu, slip_speed, fade_depth)
    push_body(b0, x0, force, body_q, body_com, body_f)
    push_body(b1, x1, -force, body_q, body_com, body_f)
