"""Models of Newton made from newtonsim's builder, as several benchmarks use them."""

from collections.abc import Sequence

import numpy as np
import warp as wp
from tasks.deformables import GRAVITY

import newtonsim


def newton_particles(b: newtonsim.ModelBuilder, planes: Sequence[tuple] = (), requires_grad: bool = False):
    """Return a model of Newton with the particles and elements of a builder, and planes."""
    import newton

    p = newton.ModelBuilder(up_axis=newton.Axis.Z, gravity=tuple(GRAVITY.tolist()))
    p.add_particles(
        [wp.vec3(*map(float, q)) for q in b.particle_q],
        [wp.vec3(*map(float, v)) for v in b.particle_qd],
        list(map(float, b.particle_mass)),
        radius=list(map(float, b.particle_radius)),
    )
    for corners, (ke, ka, *_) in zip(b.tri_indices, b.tri_materials):
        p.add_triangle(*corners, tri_ke=ke, tri_ka=ka, tri_kd=0.0, tri_drag=0.0, tri_lift=0.0)
    for corners, angle, (ke, _) in zip(b.edge_indices, b.edge_rest_angle, b.edge_bending_properties):
        p.add_edge(*corners, rest=float(angle), edge_ke=ke, edge_kd=0.0)
    for corners, (mu, lam, _) in zip(b.tet_indices, b.tet_materials):
        p.add_tetrahedron(*corners, k_mu=mu, k_lambda=lam, k_damp=0.0)
    for (i, j), ke in zip(np.array(b.spring_indices).reshape(-1, 2).tolist(), b.spring_stiffness):
        p.add_spring(i, j, ke=ke, kd=0.0, control=0.0)
    for plane in planes:
        p.add_shape_plane(plane, width=0.0, length=0.0)
    if b.tri_count or b.tet_count:
        p.color(include_bending=b.edge_count > 0)
    return p.finalize("cpu", requires_grad=requires_grad)
