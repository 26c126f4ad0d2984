"""Sums over the bodies of an articulation, and dense copies of sparse matrices.

Stage: queries of dynamics between steps
Called by: newtonsim/dynamics/functions.py, newtonsim/dynamics/stages.py
Reads: BodyView, H, KinematicsView, TreeView, a, b, body_articulation, dof_articulation, dof_local, gravity,
    mass, moment
Writes: a, b, com, dense, energy, mass, moment, total
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import rotate_inertia
from newtonsim.kernels.views.model import BodyView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def sum_mass(
    first: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    body_articulation: wp.array(dtype=int),
    mass: wp.array(dtype=float),
    moment: wp.array(dtype=wp.vec3),
):
    """One thread per body: add mass and mass times COM position [kg m] to its articulation."""
    b = first + wp.tid()
    t = tree.body_tree[b]
    if t < 0:
        return
    com = wp.transform_point(kin.body_X[b], body.com[b]) + kin.origin[t]
    wp.atomic_add(mass, body_articulation[b], body.mass[b])
    wp.atomic_add(moment, body_articulation[b], body.mass[b] * com)


@wp.kernel
def clear_sums(first: int, mass: wp.array(dtype=float), moment: wp.array(dtype=wp.vec3)):
    """One thread per articulation: clear the sums of `sum_mass`."""
    a = first + wp.tid()
    mass[a] = 0.0
    moment[a] = wp.vec3(0.0, 0.0, 0.0)


@wp.kernel
def divide(
    first: int, moment: wp.array(dtype=wp.vec3), mass: wp.array(dtype=float), com: wp.array(dtype=wp.vec3)
):
    """One thread per articulation: moment / mass."""
    a = first + wp.tid()
    com[a] = moment[a] / mass[a]


@wp.kernel
def clear_energies(first: int, energy: wp.array(dtype=float)):
    """One thread per articulation: clear the sums of energies."""
    energy[first + wp.tid()] = 0.0


@wp.kernel
def sum_kinetic_energy(
    first: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    body_articulation: wp.array(dtype=int),
    energy: wp.array(dtype=float),
):
    """One thread per body: add (m v² + ωᵀ I ω) / 2 to its articulation."""
    b = first + wp.tid()
    if tree.body_tree[b] < 0:
        return
    w = wp.spatial_top(kin.body_V[b])
    v = wp.spatial_bottom(kin.body_V[b]) + wp.cross(w, wp.transform_point(kin.body_X[b], body.com[b]))
    inertia = rotate_inertia(wp.transform_get_rotation(kin.body_X[b]), body.inertia[b])
    e = 0.5 * (body.mass[b] * wp.dot(v, v) + wp.dot(w, inertia * w))
    wp.atomic_add(energy, body_articulation[b], e)


@wp.kernel
def sum_potential_energy(
    first: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    gravity: wp.array(dtype=wp.vec3),
    body_articulation: wp.array(dtype=int),
    energy: wp.array(dtype=float),
):
    """One thread per body: add -m g·x to its articulation."""
    b = first + wp.tid()
    t = tree.body_tree[b]
    if t < 0:
        return
    com = wp.transform_point(kin.body_X[b], body.com[b]) + kin.origin[t]
    wp.atomic_add(energy, body_articulation[b], -body.mass[b] * wp.dot(gravity[tree.world[t]], com))


@wp.kernel
def expand_inertia(
    first: int,
    tree: TreeView,
    dof_articulation: wp.array(dtype=int),
    dof_local: wp.array(dtype=int),
    H: wp.array(dtype=float),
    dense: wp.array3d(dtype=float),
):
    """One thread per dof: its row and column of the dense symmetric matrix."""
    d = first + wp.tid()
    a = dof_articulation[d]
    row = tree.dof_row[d]
    for k in range(tree.dof_depth[d] + 1):
        other = dof_local[tree.row_dof[row + k]]
        dense[a, dof_local[d], other] = H[row + k]
        dense[a, other, dof_local[d]] = H[row + k]


@wp.kernel
def clear_blocks(first: int, dense: wp.array3d(dtype=float)):
    """One thread per block: zeros."""
    a = first + wp.tid()
    for i in range(dense.shape[1]):
        for k in range(dense.shape[2]):
            dense[a, i, k] = 0.0


@wp.kernel
def copy(first: int, a: wp.array(dtype=float), b: wp.array(dtype=float)):
    """One thread per entry: b = a."""
    i = first + wp.tid()
    b[i] = a[i]


@wp.kernel
def subtract(first: int, a: wp.array(dtype=float), b: wp.array(dtype=float)):
    """One thread per entry: a -= b."""
    i = first + wp.tid()
    a[i] = a[i] - b[i]


@wp.kernel(enable_backward=True)
def add_product(first: int, a: wp.array(dtype=float), b: wp.array(dtype=float), total: wp.array(dtype=float)):
    """One thread per entry: total += a b."""
    i = first + wp.tid()
    wp.atomic_add(total, i, a[i] * b[i])
