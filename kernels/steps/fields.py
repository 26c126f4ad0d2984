"""Writes to chosen entries of a model's arrays, and updates of the values that depend on them.

Updates apply to the worlds of a mask, or to all if the mask has no entries.

Stage: between steps, changes of a model
Called by: newtonsim/fields/field.py, newtonsim/fields/updates.py
Reads: JointView, 15 arrays
Writes: inverse, lever, lower, radius, target, upper, values
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import inverse_of
from newtonsim.kernels.views.model import JointView
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_NONE,
    GEO_PLANE,
    GEO_SPHERE,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def is_chosen(w: int, mask: wp.array(dtype=bool)) -> bool:
    """Whether world w is one of a mask; a mask without entries means all, the global world too."""
    if mask.shape[0] == 0:
        return True
    if w < 0:
        return False
    return mask[w]


@wp.kernel
def write_entries(
    first: int,
    index: wp.array2d(dtype=int),
    worlds: wp.array(dtype=int),
    mask: wp.array(dtype=bool),
    width: int,
    values: wp.array(dtype=int),
    target: wp.array(dtype=int),
):
    """One thread per entry (row and column of `index`): copy its words where the row's world is chosen."""
    i = first + wp.tid()
    row = i // index.shape[1]
    if is_chosen(worlds[row], mask):
        place = index[row, i - row * index.shape[1]]
        for k in range(width):
            target[place * width + k] = values[i * width + k]


@wp.kernel
def read_entries(
    first: int,
    index: wp.array2d(dtype=int),
    width: int,
    source: wp.array(dtype=int),
    values: wp.array(dtype=int),
):
    """One thread per entry (row and column of `index`): copy its words."""
    i = first + wp.tid()
    row = i // index.shape[1]
    place = index[row, i - row * index.shape[1]]
    for k in range(width):
        values[i * width + k] = source[place * width + k]


@wp.kernel
def invert_masses(
    first: int,
    world: wp.array(dtype=int),
    mask: wp.array(dtype=bool),
    mass: wp.array(dtype=float),
    inverse: wp.array(dtype=float),
):
    """One thread per body or particle: 1/m, or 0 for those without mass, which do not move."""
    i = first + wp.tid()
    if is_chosen(world[i], mask):
        inverse[i] = wp.where(mass[i] > 0.0, 1.0 / mass[i], 0.0)


@wp.kernel
def invert_inertias(
    first: int,
    world: wp.array(dtype=int),
    mask: wp.array(dtype=bool),
    mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    inverse: wp.array(dtype=wp.mat33),
):
    """One thread per body: the inverse of its inertia if it has mass; others keep theirs."""
    b = first + wp.tid()
    if is_chosen(world[b], mask) and mass[b] > 0.0:
        inverse[b] = inverse_of(inertia[b])


@wp.kernel
def measure_levers(
    first: int,
    world: wp.array(dtype=int),
    mask: wp.array(dtype=bool),
    joint: JointView,
    mass: wp.array(dtype=float),
    com: wp.array(dtype=wp.vec3),
    inertia: wp.array(dtype=wp.mat33),
    lever: wp.array(dtype=float),
):
    """One thread per joint: radius of gyration of its child about each of its angular axes."""
    j = first + wp.tid()
    if not is_chosen(world[j], mask):
        return
    b = joint.child[j]
    radius = float(1.0)
    if mass[b] > 0.0:
        arm = wp.length(com[b] - wp.transform_get_translation(joint.X_c[j]))
        found = wp.sqrt(0.5 * wp.trace(inertia[b]) / mass[b] + arm * arm)
        radius = wp.where(found > 0.0, found, 1.0)
    start = joint.axis_start[j] + joint.axis_dim[j, 0]
    for a in range(start, start + joint.axis_dim[j, 1]):
        lever[a] = radius


@wp.func
def radius_of(kind: int, size: wp.vec3) -> float:
    """Radius [m] of the bounding sphere about the origin of a shape, -1 for meshes, fields and planes."""
    x = wp.abs(size[0])
    y = wp.abs(size[1])
    z = wp.abs(size[2])
    radius = float(-1.0)
    if kind == GEO_SPHERE:
        radius = x
    elif kind == GEO_BOX:
        radius = wp.sqrt(x * x + y * y + z * z)
    elif kind == GEO_CAPSULE:
        radius = x + y
    elif kind == GEO_CYLINDER or kind == GEO_CONE:
        radius = wp.sqrt(x * x + y * y)
    elif kind == GEO_ELLIPSOID:
        radius = wp.max(x, wp.max(y, z))
    return radius


@wp.kernel
def bound_radii(
    first: int,
    world: wp.array(dtype=int),
    mask: wp.array(dtype=bool),
    kind: wp.array(dtype=int),
    scale: wp.array(dtype=wp.vec3),
    nominal_scale: wp.array(dtype=wp.vec3),
    nominal_radius: wp.array(dtype=float),
    radius: wp.array(dtype=float),
):
    """One thread per shape: radius of its bounding sphere at its current size; planes keep theirs.

    For meshes and fields, it is that at the nominal size times the largest of the three factors.
    """
    s = first + wp.tid()
    if not is_chosen(world[s], mask) or kind[s] == GEO_PLANE or kind[s] == GEO_NONE:
        return
    found = radius_of(kind[s], scale[s])
    if found < 0.0:
        factor = wp.cw_div(scale[s], nominal_scale[s])
        found = nominal_radius[s] * wp.max(wp.max(wp.abs(factor[0]), wp.abs(factor[1])), wp.abs(factor[2]))
    radius[s] = found


@wp.kernel
def bound_boxes(
    first: int,
    world: wp.array(dtype=int),
    mask: wp.array(dtype=bool),
    kind: wp.array(dtype=int),
    scale: wp.array(dtype=wp.vec3),
    nominal_scale: wp.array(dtype=wp.vec3),
    nominal_lower: wp.array(dtype=wp.vec3),
    nominal_upper: wp.array(dtype=wp.vec3),
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
):
    """One thread per shape: bounding box of a mesh or a field at its current size; others have none."""
    s = first + wp.tid()
    if not is_chosen(world[s], mask) or radius_of(kind[s], scale[s]) >= 0.0 or kind[s] == GEO_PLANE:
        return
    if kind[s] != GEO_NONE:
        factor = wp.cw_div(scale[s], nominal_scale[s])
        a = wp.cw_mul(nominal_lower[s], factor)
        b = wp.cw_mul(nominal_upper[s], factor)
        lower[s] = wp.min(a, b)
        upper[s] = wp.max(a, b)
