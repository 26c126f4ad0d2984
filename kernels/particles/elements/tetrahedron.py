"""Tetrahedra: stable neo-Hookean solids of either precision.

The energy is V (½ mu (tr FᵀF - 3) - mu (J - 1) + ½ (lambda + mu) (J - 1 - a)²), with J the determinant of the
deformation gradient F: that of Smith, de Goes, Kim, "Stable neo-Hookean flesh simulation", ACM TOG 37, 2018,
without its logarithm, with parameters such that its moduli at rest are the Lamé parameters.

Stage: substeps, penalty forces and backward passes of particles, elements
Called by: kernels/particles/adjoint/elements.py, kernels/particles/adjoint/work.py,
    kernels/particles/vbd/rows.py, kernels/particles/xpbd/tetrahedra.py, kernels/penalty/elements.py
Reads: F, m
Writes: nothing, its functions return what they find
"""

from typing import Any

import newtonsim.kernels.lazy_warp as wp


@wp.func
def rest_volume(pose: Any):
    """V: the volume at rest [m³] of a tetrahedron with the inverse edges `pose` [1/m]."""
    return pose.dtype(1.0) / (pose.dtype(6.0) * wp.determinant(pose))


@wp.func
def column(m: Any, k: int):
    """Column k of a 3 x 3 matrix."""
    return wp.vector(m[0, k], m[1, k], m[2, k])


@wp.func
def volume_slope(F: Any):
    """Slope of J with respect to F, and J."""
    c0 = column(F, 0)
    c1 = column(F, 1)
    c2 = column(F, 2)
    slope = wp.matrix_from_cols(wp.cross(c1, c2), wp.cross(c2, c0), wp.cross(c0, c1))
    return slope, wp.dot(c0, wp.cross(c1, c2))


@wp.func
def solid_stress(F: Any, slope: Any, J: Any, mu: Any, lame: Any, activation: Any):
    """First Piola-Kirchhoff stress [Pa]: the slope of the energy per volume with respect to F.

    Args:
        F: Deformation gradient.
        slope: That of J.
        J: Volume over the one at rest.
        mu: Shear modulus [Pa].
        lame: First Lamé parameter [Pa].
        activation: Target value of J - 1.
    """
    one = type(J)(1.0)
    return mu * F + ((lame + mu) * (J - one - activation) - mu) * slope
