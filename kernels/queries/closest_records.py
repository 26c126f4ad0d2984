"""Closest points of many pairs of shapes, thickness included, as rows of numbers for the host.

Stage: queries between steps
Called by: newtonsim/pybullet_compat/queries/closest_points.py
Reads: SceneView, pairs, reach
Writes: found, numbers
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.queries.closest_points import closest_on_shapes, shape_gap
from newtonsim.kernels.queries.rays import SceneView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

CLOSEST_NUMBERS = wp.constant(10)


@wp.kernel
def find_closest_pairs(
    scene: SceneView,
    pairs: wp.array(dtype=wp.vec2i),
    reach: wp.array(dtype=float),
    found: wp.array(dtype=int),
    numbers: wp.array2d(dtype=wp.float64),
):
    """One thread per pair (a, b): whether it is within reach[0], and its points, normal on b and distance."""
    i = wp.tid()
    a = pairs[i][0]
    b = pairs[i][1]
    thick_a = scene.shape.geo.thickness[a]
    thick_b = scene.shape.geo.thickness[b]
    limit = reach[0] + thick_a + thick_b
    found[i] = 0
    if shape_gap(scene, a, b) > limit:
        return
    c = closest_on_shapes(scene, a, b, limit)
    if c.found == 0:
        return
    found[i] = 1
    p_a = c.point_a - thick_a * c.normal
    p_b = c.point_b + thick_b * c.normal
    for k in range(3):
        numbers[i, k] = wp.float64(p_a[k])
        numbers[i, 3 + k] = wp.float64(p_b[k])
        numbers[i, 6 + k] = wp.float64(c.normal[k])
    numbers[i, 9] = wp.float64(c.distance - thick_a - thick_b)
