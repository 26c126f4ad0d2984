"""Armature of tendons in joint-space dynamics: a JᵀJ in the inertia, a Jᵀ(J q̈ + J̇ q̇) in the forces.

The factors of the inertia M are sparse along the trees and have no place for a JᵀJ. M⁻¹ is therefore
corrected by one tendon after the other, with the product y = M⁻¹ Jᵀ that contains those before it: (M + a
JᵀJ)⁻¹ = M⁻¹ - s y yᵀ, where s = a / (1 + a J y). In each world, tendons with armature have numbers 0, 1, ...;
the correction of number k is in y[k D], ..., of D degrees of freedom of all worlds, and in s[w, k].

Source: Sherman and Morrison, "Adjustment of an inverse matrix corresponding to a change in one element of a
given matrix", 1950; Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 8.2 (the acceleration J̇ q̇).

Stage: queries of dynamics between steps
Called by: newtonsim/dynamics/tendon_inertia.py
Reads: KinematicsView, TendonMotion, TendonNumbers, TendonView, TreeView, acceleration, armature, base,
    bodies, body_com, qdd, s, y
Writes: acceleration, dense, inverse, rhs, s, tau, x, y
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.tendons.paths import TendonMotion, TendonView
from newtonsim.kernels.views.model import KinematicsView, TreeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class TendonNumbers:
    """Tendons with armature by world, and degrees of freedom by articulation."""

    number: wp.array(dtype=int)  # (T) its number in its world, -1 without armature
    tendon: wp.array2d(dtype=int)  # (W, K) the tendon of each number, or -1
    dof_start: wp.array(dtype=int)  # (W + 1)
    dof_articulation: wp.array(dtype=int)  # (D)
    dof_local: wp.array(dtype=int)  # (D)


@wp.kernel
def add_inertia(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    numbers: TendonNumbers,
    armature: wp.array(dtype=float),
    dense: wp.array3d(dtype=float),
):
    """One thread per dof: add a JᵀJ to its row of the block of its articulation."""
    d = first + wp.tid()
    block = numbers.dof_articulation[d]
    for k in range(tendon.dof_start[d], tendon.dof_start[d + 1]):
        e = tendon.dof_entry[k]
        t = tendon.entry_tendon[e]
        share = armature[t] * motion.J[e]
        for i in range(tendon.entry_start[t], tendon.entry_start[t + 1]):
            other = tendon.entry_dof[i]
            if numbers.dof_articulation[other] == block:
                row = numbers.dof_local[d]
                column = numbers.dof_local[other]
                dense[block, row, column] = dense[block, row, column] + share * motion.J[i]


@wp.kernel
def accelerate_tendons(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    qdd: wp.array(dtype=float),
    acceleration: wp.array(dtype=float),
):
    """One thread per tendon: J q̈ + J̇ q̇."""
    t = first + wp.tid()
    total = float(0.0) + motion.bend[t]
    for e in range(tendon.entry_start[t], tendon.entry_start[t + 1]):
        total += motion.J[e] * qdd[tendon.entry_dof[e]]
    acceleration[t] = total


@wp.kernel
def add_forces(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    armature: wp.array(dtype=float),
    acceleration: wp.array(dtype=float),
    tau: wp.array(dtype=float),
):
    """One thread per dof: add the generalised forces that accelerate the armature."""
    d = first + wp.tid()
    sum = float(0.0)
    for k in range(tendon.dof_start[d], tendon.dof_start[d + 1]):
        e = tendon.dof_entry[k]
        t = tendon.entry_tendon[e]
        sum += motion.J[e] * armature[t] * acceleration[t]
    tau[d] = tau[d] + sum


@wp.kernel
def fill_column(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    numbers: TendonNumbers,
    k: int,
    rhs: wp.array(dtype=float),
):
    """One thread per dof: its entry in J of the tendon with number k of its world."""
    d = first + wp.tid()
    found = float(0.0)
    for i in range(tendon.dof_start[d], tendon.dof_start[d + 1]):
        e = tendon.dof_entry[i]
        if numbers.number[tendon.entry_tendon[e]] == k:
            found = motion.J[e]
    rhs[d] = found


@wp.func
def correct(
    w: int,
    j: int,
    tendon: TendonView,
    motion: TendonMotion,
    numbers: TendonNumbers,
    y: wp.array(dtype=float),
    s: wp.array2d(dtype=float),
    base: wp.array(dtype=float),
    x: wp.array(dtype=float),
):
    """Correct x - base, a product with M⁻¹, in world w by the tendon with number j."""
    t = numbers.tendon[w, j]
    if t >= 0:
        along = float(0.0)
        for e in range(tendon.entry_start[t], tendon.entry_start[t + 1]):
            d = tendon.entry_dof[e]
            along += motion.J[e] * (x[d] - base[d])
        shift = j * base.shape[0]
        for d in range(numbers.dof_start[w], numbers.dof_start[w + 1]):
            x[d] = x[d] - s[w, j] * along * y[shift + d]


@wp.kernel
def correct_column(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    numbers: TendonNumbers,
    armature: wp.array(dtype=float),
    k: int,
    base: wp.array(dtype=float),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
    s: wp.array2d(dtype=float),
):
    """One thread per world: y and s of number k, from x = M⁻¹ Jᵀ without tendons; `base` is zero."""
    w = first + wp.tid()
    for j in range(k):
        correct(w, j, tendon, motion, numbers, y, s, base, x)
    shift = k * base.shape[0]
    for d in range(numbers.dof_start[w], numbers.dof_start[w + 1]):
        y[shift + d] = x[d]
    s[w, k] = 0.0
    t = numbers.tendon[w, k]
    if t >= 0:
        mobility = float(0.0)
        for e in range(tendon.entry_start[t], tendon.entry_start[t + 1]):
            mobility += motion.J[e] * x[tendon.entry_dof[e]]
        s[w, k] = armature[t] / (1.0 + armature[t] * mobility)


@wp.kernel
def correct_vector(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    numbers: TendonNumbers,
    y: wp.array(dtype=float),
    s: wp.array2d(dtype=float),
    base: wp.array(dtype=float),
    x: wp.array(dtype=float),
):
    """One thread per world: correct x - base, a product with M⁻¹, by all tendons."""
    w = first + wp.tid()
    for j in range(s.shape[1]):
        correct(w, j, tendon, motion, numbers, y, s, base, x)


@wp.kernel
def correct_blocks(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    numbers: TendonNumbers,
    y: wp.array(dtype=float),
    s: wp.array2d(dtype=float),
    dense: wp.array3d(dtype=float),
):
    """One thread per world: correct products with M⁻¹ by all tendons, each on one articulation."""
    w = first + wp.tid()
    dofs = y.shape[0] / s.shape[1]
    for j in range(s.shape[1]):
        t = numbers.tendon[w, j]
        if t >= 0:
            block = numbers.dof_articulation[tendon.entry_dof[tendon.entry_start[t]]]
            for c in range(dense.shape[2]):
                along = float(0.0)
                for e in range(tendon.entry_start[t], tendon.entry_start[t + 1]):
                    along += motion.J[e] * dense[block, numbers.dof_local[tendon.entry_dof[e]], c]
                for d in range(numbers.dof_start[w], numbers.dof_start[w + 1]):
                    if numbers.dof_articulation[d] == block:
                        i = numbers.dof_local[d]
                        dense[block, i, c] = dense[block, i, c] - s[w, j] * along * y[j * dofs + d]


@wp.kernel
def correct_mobilities(
    first: int,
    tree: TreeView,
    kin: KinematicsView,
    body_com: wp.array(dtype=wp.vec3),
    y: wp.array(dtype=float),
    s: wp.array2d(dtype=float),
    bodies: wp.array(dtype=int),
    inverse: wp.array3d(dtype=float),
):
    """One thread per entry of a list of bodies: correct J M⁻¹ Jᵀ of its own six rows by all tendons."""
    block = first + wp.tid()
    b = bodies[block]
    leaf = tree.body_leaf[b]
    if leaf < 0:
        return
    w = tree.dof_world[leaf]
    com = wp.transform_point(kin.body_X[b], body_com[b])
    dofs = y.shape[0] / s.shape[1]
    row = tree.dof_row[leaf]
    for j in range(s.shape[1]):
        turn = wp.vec3(0.0, 0.0, 0.0)
        shift = wp.vec3(0.0, 0.0, 0.0)
        for k in range(tree.dof_depth[leaf] + 1):
            d = tree.row_dof[row + k]
            turn += y[j * dofs + d] * wp.spatial_top(kin.S[d])
            shift += y[j * dofs + d] * wp.spatial_bottom(kin.S[d])
        twist = wp.spatial_vector(turn, shift + wp.cross(turn, com))
        for i in range(6):
            for k in range(6):
                inverse[block, i, k] = inverse[block, i, k] - s[w, j] * twist[i] * twist[k]
