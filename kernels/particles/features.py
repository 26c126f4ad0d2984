"""Contact features of particles and triangles in the frames of bodies, which stay fixed while forces vary.

The gap beside a feature is known to second order: gap + n·δ + ½ δ·C δ for a displacement δ in the frame of
the body. The forces of a step need only gap and normal n; their derivatives need the curvature C of the
surface at this distance, which follows from nearby normals.

Stage: collision of particles with shapes, for penalties
Called by: solvers/semi_implicit/contacts.py, kernels/particles/adjoint/curvature.py
Reads: ContactView, FaceView, FeatureView, RigidView, body_q, indices, order, radius, v, x
Writes: FeatureView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.contacts import ContactView, FaceView, blend, corners_of
from newtonsim.kernels.particles.point_distance import RigidView, shape_distance

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# distance of nearby points: share of the radius, and least [m]
BESIDE = wp.constant(1.0e-2)
LEAST_BESIDE = wp.constant(1.0e-4)
# change of the normal over that distance above which the surface has a kink and no curvature
KINK = wp.constant(0.3)


@wp.struct
class FeatureView:
    """Contacts of N particles or triangles, K places for each, as in `ContactView`."""

    count: wp.array(dtype=int)  # (N)
    shape: wp.array2d(dtype=int)  # (N, K)
    weight: wp.array2d(dtype=wp.vec3)  # (N, K) weights of the corners in the point of contact, for triangles
    point: wp.array2d(dtype=wp.vec3)  # (N, K) [m] position of the particle, in the frame of the body
    normal: wp.array2d(dtype=wp.vec3)  # (N, K) out of the shape, in the frame of the body
    gap: wp.array2d(dtype=float)  # (N, K) [m] from the centre to the shape
    curvature: wp.array2d(dtype=wp.mat33)  # (N, K) [1/m] in the frame of the body
    curved: int  # 0 if the curvature is not used


@wp.func
def change_of_normal(
    rigid: RigidView, s: int, p: wp.vec3, viewer: wp.vec3, way: wp.vec3, reach: float
) -> wp.vec3:
    """Change of the normal of shape s from p - way to p + way."""
    X = rigid.pose[s]
    ahead = shape_distance(rigid, s, X, p + way, viewer, reach).normal
    behind = shape_distance(rigid, s, X, p - way, viewer, reach).normal
    change = ahead - behind
    if wp.length(change) > KINK:
        change = wp.vec3(0.0)
    return change


@wp.func
def surface_curvature(
    rigid: RigidView, s: int, p: wp.vec3, viewer: wp.vec3, n: wp.vec3, radius: float, reach: float
) -> wp.mat33:
    """Slope of the normal of shape s at world point p, world axes [1/m]."""
    h = BESIDE * radius + LEAST_BESIDE
    t = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(n[0]) > 0.7:
        t = wp.vec3(0.0, 1.0, 0.0)
    t = wp.normalize(t - wp.dot(t, n) * n)
    u = wp.cross(n, t)
    along_t = change_of_normal(rigid, s, p, viewer, h * t, reach + h)
    along_u = change_of_normal(rigid, s, p, viewer, h * u, reach + h)
    slope = (wp.outer(along_t, t) + wp.outer(along_u, u)) / (2.0 * h)
    # a second derivative is symmetric, and the normal is constant along itself
    slope = 0.5 * (slope + wp.transpose(slope))
    across = wp.identity(n=3, dtype=float) - wp.outer(n, n)
    return across * slope * across


@wp.func
def fix_feature(
    rigid: RigidView,
    contacts: ContactView,
    i: int,
    k: int,
    p: wp.vec3,
    viewer: wp.vec3,
    radius: float,
    body_q: wp.array(dtype=wp.transform),
    features: FeatureView,
):
    """Contact k of particle or triangle i, which touches at world point p, in the frame of its body."""
    s = contacts.shape[i, k]
    n = contacts.normal[i, k]
    X = wp.transform_identity()
    if rigid.shape.body[s] >= 0:
        X = body_q[rigid.shape.body[s]]
    r = wp.transform_get_rotation(X)
    features.shape[i, k] = s
    features.point[i, k] = wp.transform_point(wp.transform_inverse(X), p)
    features.normal[i, k] = wp.quat_rotate_inv(r, n)
    features.gap[i, k] = radius - contacts.overlap[i, k]
    if features.curved == 1:
        C = surface_curvature(rigid, s, p, viewer, n, radius, wp.abs(features.gap[i, k]) + radius)
        R = wp.quat_to_matrix(r)
        features.curvature[i, k] = wp.transpose(R) * C * R


@wp.kernel
def fix_particle_features(
    first: int,
    rigid: RigidView,
    contacts: ContactView,
    radius: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    body_q: wp.array(dtype=wp.transform),
    features: FeatureView,
):
    """One thread per particle: its contacts as features."""
    i = first + wp.tid()
    features.count[i] = contacts.count[i]
    for k in range(contacts.count[i]):
        fix_feature(rigid, contacts, i, k, x[i], x[i] - v[i] * dt, radius[i], body_q, features)


@wp.kernel
def fix_triangle_features(
    first: int,
    order: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    rigid: RigidView,
    faces: FaceView,
    radius: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    body_q: wp.array(dtype=wp.transform),
    features: FeatureView,
):
    """One thread per triangle: contacts of its inside as features."""
    t = order[first + wp.tid()]
    corner = corners_of(indices, t)
    largest = wp.max(radius[corner[0]], wp.max(radius[corner[1]], radius[corner[2]]))
    features.count[t] = faces.touch.count[t]
    for k in range(faces.touch.count[t]):
        weight = faces.weight[t, k]
        p = blend(x, corner, weight)
        features.weight[t, k] = weight
        fix_feature(rigid, faces.touch, t, k, p, p - blend(v, corner, weight) * dt, largest, body_q, features)
