"""Pairs of shapes whose bounds overlap.

Worlds with few shapes test a list of pairs; crowded worlds sort and sweep, see `sweep`. Bounds grow by what a
shape can travel within the step, so that fast bodies are found in time.

Stage: broad phase
Called by: newtonsim/collision/collide.py, kernels/collision/pairs/sweep.py, kernels/collision/world_pairs.py
Reads: HullView, PlacementView, ShapeView, body_com, body_q, body_qd
Writes: PlacementView, body_head
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.pairs.bounds import box_separates, has_local_box, near_box
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_NONE, FAMILY_PLANE, PairView
from newtonsim.kernels.views.shapes import HullView, ShapeView, shape_pose

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class PlacementView:
    """Poses and velocities of S shapes."""

    X: wp.array(dtype=wp.transform)  # (S) world pose
    lower: wp.array(dtype=wp.vec3)  # (S) [m] bounds of the shape over the step, margin included
    upper: wp.array(dtype=wp.vec3)  # (S)
    velocity: wp.array(dtype=wp.vec3)  # (S) [m/s] of the shape's origin
    travel: wp.array(dtype=wp.vec3)  # (S) [m] of the origin over the time of the bounds
    spin: wp.array(dtype=float)  # (S) [m/s] fastest motion of a surface point about the origin
    grow: wp.array(dtype=float)  # (S) [m] by which the bounds lie off the shape at rest
    awake: wp.array(dtype=int)  # (S) 0 where the shape cannot move: static, or asleep
    paired: wp.array(dtype=int)  # (S) 0 where the shape is in no pair, and is not placed


@wp.kernel
def place_shapes(
    first: int,
    shape: ShapeView,
    hulls: HullView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    margin: float,
    dt: float,
    place: PlacementView,
    body_head: wp.array(dtype=int),
):
    """One thread per shape: world pose, velocity, and bounds over the next dt seconds, of those in pairs.

    The list of touching pairs of the shape's body, `body_head`, is emptied, if there are such lists.
    """
    s = first + wp.tid()
    if place.paired[s] == 0:
        return
    X = shape_pose(shape, s, body_q)
    place.X[s] = X
    v = wp.vec3(0.0, 0.0, 0.0)
    spin = float(0.0)
    b = shape.body[s]
    if b >= 0:
        if body_head.shape[0] > 0:
            body_head[b] = -1
        omega = wp.spatial_top(body_qd[b])
        arm = wp.transform_get_translation(X) - wp.transform_point(body_q[b], body_com[b])
        v = wp.spatial_bottom(body_qd[b]) + wp.cross(omega, arm)
        spin = wp.length(omega) * shape.radius[s]
    place.velocity[s] = v
    travel = v * dt
    place.travel[s] = travel
    place.spin[s] = spin
    box = near_box(shape, hulls, s, X)  # empty for an absent shape, which overlaps nothing
    grow = 0.5 * margin + shape.geo.thickness[s] + dt * spin
    place.grow[s] = grow
    r = wp.vec3(grow, grow, grow)
    place.lower[s] = box.lower - r + wp.min(travel, wp.vec3(0.0, 0.0, 0.0))
    place.upper[s] = box.upper + r + wp.max(travel, wp.vec3(0.0, 0.0, 0.0))


@wp.func
def bounds_overlap(place: PlacementView, a: int, b: int) -> bool:
    """True if the bounds of two shapes overlap."""
    la = place.lower[a]
    ua = place.upper[a]
    lb = place.lower[b]
    ub = place.upper[b]
    x = la[0] <= ub[0] and lb[0] <= ua[0]
    y = la[1] <= ub[1] and lb[1] <= ua[1]
    z = la[2] <= ub[2] and lb[2] <= ua[2]
    return x and y and z


@wp.func
def below_reach(place: PlacementView, s: int, plane: int) -> bool:
    """True if the bounds of shape s reach below a plane."""
    X = place.X[plane]
    n = wp.transform_vector(X, wp.vec3(0.0, 1.0, 0.0))
    center = 0.5 * (place.lower[s] + place.upper[s])
    half = 0.5 * (place.upper[s] - place.lower[s])
    extent = wp.abs(n[0]) * half[0] + wp.abs(n[1]) * half[1] + wp.abs(n[2]) * half[2]
    return wp.dot(n, center - wp.transform_get_translation(X)) <= extent + place.grow[plane]


@wp.func
def boxes_apart(shape: ShapeView, place: PlacementView, a: int, b: int) -> bool:
    """True if a local box of two shapes shows that they cannot meet within the time of the bounds."""
    ka = shape.kind[a]
    kb = shape.kind[b]
    slack = place.grow[a] + place.grow[b] + wp.length(place.travel[a] - place.travel[b])
    if has_local_box(ka) and box_separates(shape, a, b, place.X[a], place.X[b], slack):
        return True
    return has_local_box(kb) and box_separates(shape, b, a, place.X[b], place.X[a], slack)


@wp.func
def may_touch(shape: ShapeView, place: PlacementView, family: int, s0: int, s1: int) -> bool:
    """True if two shapes may come into contact within the step; shape 1 is the plane, if there is one."""
    if place.awake[s0] == 0 and place.awake[s1] == 0:
        return False
    if not bounds_overlap(place, s0, s1):
        return False
    if family == FAMILY_PLANE:
        # an infinite plane has no bounds; a finite one is a sheet that fills little of its bounds
        return below_reach(place, s0, s1)
    return not boxes_apart(shape, place, s0, s1)


@wp.func
def put_pair(
    pairs: PairView,
    place: PlacementView,
    shape: ShapeView,
    p: int,
    s0: int,
    s1: int,
    family: int,
    margin: float,
    dt: float,
):
    """Write a pair to its place, with the gap up to which its points matter in this step."""
    closing = wp.length(place.velocity[s0] - place.velocity[s1]) + place.spin[s0] + place.spin[s1]
    pairs.shape0[p] = s0
    pairs.shape1[p] = s1
    pairs.family[p] = family
    travel = dt * closing
    pairs.travel[p] = travel
    pairs.reach[p] = margin + shape.geo.thickness[s0] + shape.geo.thickness[s1] + travel


@wp.func
def clear_pair(p: int, used: bool, pairs: PairView, count: wp.array(dtype=int)):
    """Clear the points of a pair's place, and its narrow phase if it is not in use."""
    count[p] = 0
    if not used:
        pairs.family[p] = FAMILY_NONE
