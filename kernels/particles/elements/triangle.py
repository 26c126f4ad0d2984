"""Triangles: St. Venant-Kirchhoff membranes of either precision.

The energy is A (ke |G|² + ½ ka (tr G - a)²), with G = ½ (FᵀF - I) Green's strain and F the 3 x 2 deformation
gradient. Symmetric 2 x 2 matrices are their components 00, 11 and 01.

Stage: substeps, penalty forces and backward passes of particles, elements
Called by: kernels/particles/adjoint/work.py, kernels/particles/xpbd/triangles.py,
    kernels/penalty/elements.py
Reads: pose
Writes: nothing, its functions return what they find
"""

from typing import Any

import newtonsim.kernels.lazy_warp as wp


@wp.func
def deformation_column(b: Any, c: Any, pose: Any, k: int):
    """Column k of F, or of its change.

    Args:
        b: From the first corner to the second, or its change, vec3 [m].
        c: To the third.
        pose: Inverse of the edges at rest, mat22 [1/m].
        k: 0 or 1.
    """
    return b * pose[0, k] + c * pose[1, k]


@wp.func
def deformation_columns(b: Any, c: Any, pose: Any):
    """Both columns of F, or of its change."""
    return deformation_column(b, c, pose, 0), deformation_column(b, c, pose, 1)


@wp.func
def green_strain(f0: Any, f1: Any):
    """Green's strain of the columns of F."""
    half = f0.dtype(0.5)
    one = f0.dtype(1.0)
    return half * (wp.dot(f0, f0) - one), half * (wp.dot(f1, f1) - one), half * wp.dot(f0, f1)


@wp.func
def strain_change(f0: Any, f1: Any, r0: Any, r1: Any):
    """Change of Green's strain when the columns f of F change by r: 00, 11 and twice 01."""
    return wp.dot(f0, r0), wp.dot(f1, r1), wp.dot(f0, r1) + wp.dot(f1, r0)


@wp.func
def membrane_stress(g00: Any, g11: Any, g01: Any, ke: Any, ka: Any, activation: Any):
    """Second Piola-Kirchhoff stress [N/m]: the slope of the energy per area with respect to G.

    Args:
        g00: Green's strain along the first axis.
        g11: Along the second one.
        g01: Shear.
        ke: Stiffness against strain [N/m].
        ka: Stiffness against a change of the area [N/m].
        activation: Target value of tr G.
    """
    two = type(ke)(2.0)
    spread = ka * (g00 + g11 - activation)
    return two * ke * g00 + spread, two * ke * g11 + spread, two * ke * g01
