"""Terms of propagated impacts in the scalar S whose derivatives are the gradient of a step.

See `constraints.adjoint.impacts`; normals, points and restitution follow from poses and materials as in
`constraints.adjoint.contact_terms`.

Stage: backward pass of constraints, after the multipliers
Called by: solvers/featherstone/impact_adjoint.py
Reads: ConstraintSettings, ContactRowView, ContactView, FeatureView, ImpactMotionView, ShapeView, body_q,
    impulse, mask, multiplier, restitution, slope
Writes: out
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_velocity
from newtonsim.kernels.collision.contact_features import FeatureView, body_pose, contact_geometry
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.contact_rows import ContactRowView, way_ahead
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.views.references import combine
from newtonsim.kernels.views.shapes import ShapeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class ImpactMotionView:
    """World velocities (ω, v of the centre of mass) of bodies, see
    `constraints.adjoint.contact_terms.ContactMotionView`."""

    com: wp.array(dtype=wp.vec3)  # (B) [m] body frame
    multiplier: wp.array(dtype=wp.spatial_vector)  # (B) under λ
    end: wp.array(dtype=wp.spatial_vector)  # (B) after the inelastic impact


@wp.func
def impact_terms(
    c: int,
    contacts: ContactView,
    features: FeatureView,
    shape: ShapeView,
    restitution: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    motion: ImpactMotionView,
    s: ConstraintSettings,
    rows: ContactRowView,
    impulse: wp.array(dtype=float),
    multiplier: wp.array(dtype=float),
    slope: wp.array(dtype=float),
) -> float:
    """Terms of a contact in one round of impact, see `impact_lagrangian`."""
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    b0 = shape.body[s0]
    b1 = shape.body[s1]
    g = contact_geometry(c, body_pose(b0, body_q), body_pose(b1, body_q), contacts.normal[c], features)
    ahead = way_ahead(rows.leaf[c], g.distance) * g.normal
    x0 = g.point + ahead
    x1 = g.point - ahead
    under = point_velocity(b0, x0, body_q, motion.com, motion.multiplier)
    under = under - point_velocity(b1, x1, body_q, motion.com, motion.multiplier)
    end = point_velocity(b0, x0, body_q, motion.com, motion.end)
    end = end - point_velocity(b1, x1, body_q, motion.com, motion.end)
    e = combine(restitution[s0], restitution[s1], s.restitution_product)
    total = multiplier[c] * wp.dot(g.normal, end) - impulse[c] * wp.dot(g.normal, under)
    return total - e * impulse[c] * slope[c]


@wp.kernel
def impact_lagrangian(
    first: int,
    mask: wp.array(dtype=int),
    contacts: ContactView,
    features: FeatureView,
    shape: ShapeView,
    restitution: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    motion: ImpactMotionView,
    s: ConstraintSettings,
    rows: ContactRowView,
    impulse: wp.array(dtype=float),
    multiplier: wp.array(dtype=float),
    slope: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    """One thread per world: terms of the contacts in one round of impact.

    One thread per contact would take longer to find that there is nothing to do.

    Args:
        first: First world.
        mask: 1 for worlds with that round.
        contacts: Contacts of the step.
        features: What `contact_features.find_features` found.
        shape: Shapes.
        restitution: Of their materials.
        body_q: World poses at the start of the step.
        motion: Velocities of bodies.
        s: Settings of the step.
        rows: Rows as the step solved them.
        impulse: x.
        multiplier: m.
        slope: Change of the normal velocity by a gradient of the velocity after the round.
        out: Receives the terms.
    """
    w = first + wp.tid()
    if mask[w] == 0:
        return
    for c in range(contacts.world_start[w], contacts.world_start[w] + contacts.world_count[w]):
        if impulse[c] > 0.0:
            out[c] = impact_terms(
                c,
                contacts,
                features,
                shape,
                restitution,
                body_q,
                motion,
                s,
                rows,
                impulse,
                multiplier,
                slope,
            )
