"""Hinges: the energy ½ ke L (θ - θ0)² of the angle θ between two triangles at the edge that they share.

Bridson, Marino, Fedkiw, "Simulation of clothing with folds and wrinkles", 2003; slopes of the angle as in
Tamstorf, Grinspun, "Discrete bending forces and their Jacobians", Graphical Models 75, 2013.

Stage: elastic energies of particles
Called by: kernels/particles/adjoint/work.py, kernels/particles/vbd/rows.py, kernels/particles/xpbd/edges.py,
    kernels/penalty/elements.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

from typing import Any

import newtonsim.kernels.lazy_warp as wp


@wp.struct
class Fold:
    """Angle of a hinge, and its gradients."""

    angle: float  # [rad]
    g0: wp.vec3  # at the corner opposite the edge in the first triangle [1/m]
    g1: wp.vec3  # in the second triangle
    g2: wp.vec3  # at the start of the edge
    g3: wp.vec3  # at its end


@wp.func
def short_way(angle: Any):
    """The angle between minus and plus half a turn that differs by full turns [rad]."""
    turn = type(angle)(6.283185307179586)
    return angle - turn * wp.round(angle / turn)


@wp.func
def fold_between(n0: wp.vec3, n1: wp.vec3, edge: wp.vec3, a: wp.vec3, b: wp.vec3) -> Fold:
    """Angle between two triangles, 0 when flat; no gradients if one has no area.

    Args:
        n0: Normal of the first one, as long as twice its area [m²].
        n1: Of the second one.
        edge: From the start of the edge to its end [m].
        a: To the opposite corner of the first triangle.
        b: To that of the second one.
    """
    fold = Fold()
    length = wp.length(edge)
    square0 = wp.dot(n0, n0)
    square1 = wp.dot(n1, n1)
    if length > 0.0 and square0 > 0.0 and square1 > 0.0:
        fold.angle = wp.atan2(wp.dot(wp.cross(n0, n1), edge) / length, wp.dot(n0, n1))
        # the heights of the triangles are |n| / length
        g0 = -n0 * (length / square0)
        g1 = -n1 * (length / square1)
        along0 = wp.dot(a, edge) / (length * length)
        along1 = wp.dot(b, edge) / (length * length)
        fold.g2 = -(g0 * (1.0 - along0) + g1 * (1.0 - along1))
        fold.g3 = -(g0 * along0 + g1 * along1)
        fold.g0 = g0
        fold.g1 = g1
    return fold


@wp.func
def fold_of(o0: wp.vec3, o1: wp.vec3, v0: wp.vec3, v1: wp.vec3) -> Fold:
    """Angle between the triangles (o0, v0, v1) and (o1, v1, v0), see `fold_between`."""
    n0 = wp.cross(v0 - o0, v1 - o0)
    n1 = wp.cross(v1 - o1, v0 - o1)
    return fold_between(n0, n1, v1 - v0, o0 - v0, o1 - v0)
