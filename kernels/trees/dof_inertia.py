"""Inertia of each dof alone, without and with the terms of implicit forces.

It is the diagonal of the joint-space inertia, one dof at a time: H_dd = Σ S_dᵀ I_b S_d over the bodies b that
the dof moves, plus the armature.

Source: Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 6.2.

Stage: smooth dynamics, joint-space inertia
Called by: solvers/featherstone/references.py, kernels/constraints/pair_rows.py
Reads: BodyView, DriveView, JointView, KinematicsView, TreeView, added, implicit, inertia
Writes: heavy, inertia, light
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.joint_forces import implicit_inertia
from newtonsim.kernels.views.model import BodyView, DriveView, JointView, KinematicsView, TreeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

LEAST_INERTIA = wp.constant(1.0e-12)


@wp.func
def is_moved(leaf: int, d: int, tree: TreeView) -> bool:
    """Whether dof d is on the chain that ends with the dof `leaf`, -1 for none."""
    found = bool(False)
    if leaf >= 0:
        k = tree.dof_depth[d]
        if tree.dof_depth[leaf] >= k:
            found = tree.row_dof[tree.dof_row[leaf] + k] == d
    return found


@wp.func
def inertia_along(S: wp.spatial_vector, b: int, body: BodyView, kin: KinematicsView) -> float:
    """Twice the kinetic energy of body b when it moves with S."""
    w = wp.spatial_top(S)
    v = wp.spatial_bottom(S) + wp.cross(w, kin.body_com[b])
    return wp.dot(w, kin.body_I[b] * w) + body.mass[b] * wp.dot(v, v)


@wp.kernel
def add_up_inertias(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    inertia: wp.array(dtype=float),
):
    """One thread per dof: H_dd without armature."""
    d = first + wp.tid()
    t = tree.body_tree[tree.dof_body[d]]
    total = float(0.0)
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        b = joint.child[tree.joint[i]]
        if is_moved(tree.body_leaf[b], d, tree):
            total += inertia_along(kin.S[d], b, body, kin)
    inertia[d] = total


@wp.kernel
def weigh_dofs(
    first: int,
    tree: TreeView,
    drive: DriveView,
    implicit: wp.array(dtype=int),
    inertia: wp.array(dtype=float),
    added: wp.array(dtype=float),
    dt: float,
    light: wp.array(dtype=float),
    heavy: wp.array(dtype=float),
):
    """One thread per dof: 1 / H_dd, and the same with the terms of implicit forces, `added` among them."""
    # a separate launch, because reverse mode does not preserve sums in a loop
    d = first + wp.tid()
    light[d] = 1.0 / wp.max(inertia[d] + drive.armature[d], LEAST_INERTIA)
    yielding = inertia[d] + added[d] + implicit_inertia(d, tree, drive, implicit[d], dt)
    heavy[d] = 1.0 / wp.max(yielding, LEAST_INERTIA)
