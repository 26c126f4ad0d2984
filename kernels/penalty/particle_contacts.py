"""Penalty forces between particles or triangles and the shapes of bodies.

The features in contact stay fixed (`particles.features`); gap, normal and forces follow the particles and the
bodies. Forces are those between bodies (`penalty.contact_law`), with dampers that at most stop the motion
within a step, so that light particles need no shorter step.

Stage: penalty forces, contacts of particles
Called by: solvers/semi_implicit/contacts.py, kernels/penalty/grains.py
Reads: BodyView, FeatureView, SoftMaterial, indices, order, v, x
Writes: body_f, corner, f
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_velocity
from newtonsim.kernels.particles.features import FeatureView
from newtonsim.kernels.penalty.contact_law import contact_force, push_body

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class SoftMaterial:
    """Contact material of particles with shapes."""

    ke: float  # [N/m]
    kd: float  # [N s/m]
    kf: float  # [N s/m]
    mu: float  # averaged with that of the shape
    slip: float  # [m/s] speed below which friction fades
    fade: float  # [m] penetration below which damping fades
    shape_mu: wp.array(dtype=float)  # (S)
    shape_body: wp.array(dtype=int)  # (S)
    rate: float  # [1/s] one over the time step
    body_mass: wp.array(dtype=float)  # (B) [kg]
    mass: wp.array(dtype=float)  # (N) [kg]
    radius: wp.array(dtype=float)  # (N) [m]
    adhesion: wp.array(dtype=float)  # (N) [m] gap up to which shapes attract a particle


@wp.struct
class BodyView:
    """Bodies that are touched."""

    q: wp.array(dtype=wp.transform)  # (B)
    qd: wp.array(dtype=wp.spatial_vector)  # (B)
    com: wp.array(dtype=wp.vec3)  # (B)


@wp.func
def pull_back(depth: float, reach: float, ke: float) -> float:
    """Attraction across a gap -depth < reach [N]: zero at both ends, at most ½ ke reach in the middle."""
    pull = float(0.0)
    if depth < 0.0 and depth > -reach:
        pull = ke * wp.min(-depth, reach + depth)
    return pull


@wp.func
def inverse_of_mass(m: float) -> float:
    """1/m; 0 for immovable bodies and particles."""
    w = float(0.0)
    if m > 0.0:
        w = 1.0 / m
    return w


@wp.func
def most_damping(rate: float, w: float) -> float:
    """Damping that stops an inverse mass w [1/kg] within a step [N s/m]."""
    return rate / wp.max(w, 1.0e-9)


@wp.func
def feature_force(
    i: int,
    k: int,
    features: FeatureView,
    x: wp.vec3,
    v: wp.vec3,
    w: float,
    radius: float,
    adhesion: float,
    material: SoftMaterial,
    bodies: BodyView,
    body_f: wp.array(dtype=wp.spatial_vector),
) -> wp.vec3:
    """Force of contact k of i at x; the opposite force acts on the body at the same point.

    Args:
        i: Particle or triangle.
        k: Place of its contact.
        features: The contacts.
        x: World position of the centre in contact [m].
        v: Its velocity [m/s].
        w: Its inverse mass [1/kg].
        radius: Distance from the centre at which it touches [m].
        adhesion: Gap up to which it is attracted [m].
        material: Contact material.
        bodies: Poses and velocities of bodies.
        body_f: Wrenches of the bodies, added to.
    """
    s = features.shape[i, k]
    b = material.shape_body[s]
    X = wp.transform_identity()
    w_both = w
    if b >= 0:
        X = bodies.q[b]
        # a body also yields by rotation, which makes a ball up to 3.5 times lighter
        w_both = w + 4.0 * inverse_of_mass(material.body_mass[b])
    r = wp.transform_get_rotation(X)
    shift = wp.transform_point(wp.transform_inverse(X), x) - features.point[i, k]
    n = features.normal[i, k]
    gap = features.gap[i, k] + wp.dot(n, shift)
    if features.curved == 1:
        bend = features.curvature[i, k] * shift
        gap += 0.5 * wp.dot(shift, bend)
        n += bend
    n = wp.quat_rotate(r, n)
    u = v - point_velocity(b, x, bodies.q, bodies.com, bodies.qd)
    mu = 0.5 * (material.mu + material.shape_mu[s])
    depth = radius - gap
    most = most_damping(material.rate, w_both)
    kd = wp.min(material.kd, most)
    kf = wp.min(material.kf, most)
    force = contact_force(depth, u, n, material.ke, kd, kf, mu, material.slip, material.fade)
    force -= pull_back(depth, adhesion, material.ke) * n
    push_body(b, x, -force, bodies.q, bodies.com, body_f)
    return force


@wp.kernel
def push_particles(
    first: int,
    features: FeatureView,
    material: SoftMaterial,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    bodies: BodyView,
    body_f: wp.array(dtype=wp.spatial_vector),
    f: wp.array(dtype=wp.vec3),
):
    """One thread per particle: add the forces of its contacts, and the opposite ones to the bodies."""
    i = first + wp.tid()
    for k in range(features.count[i]):
        radius = material.radius[i]
        adhesion = material.adhesion[i]
        w = inverse_of_mass(material.mass[i])
        force = feature_force(i, k, features, x[i], v[i], w, radius, adhesion, material, bodies, body_f)
        wp.atomic_add(f, i, force)


@wp.kernel
def push_triangles(
    first: int,
    order: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    features: FeatureView,
    material: SoftMaterial,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    bodies: BodyView,
    place: int,
    body_f: wp.array(dtype=wp.spatial_vector),
    corner: wp.array(dtype=wp.vec3),
):
    """One thread per triangle: add the forces on its inside to its corners, the opposite to the bodies."""
    t = order[first + wp.tid()]
    i0 = indices[t, 0]
    i1 = indices[t, 1]
    i2 = indices[t, 2]
    for k in range(features.count[t]):
        w = features.weight[t, k]
        p = w[0] * x[i0] + w[1] * x[i1] + w[2] * x[i2]
        u = w[0] * v[i0] + w[1] * v[i1] + w[2] * v[i2]
        inverse = w[0] * w[0] * inverse_of_mass(material.mass[i0])
        inverse += w[1] * w[1] * inverse_of_mass(material.mass[i1])
        inverse += w[2] * w[2] * inverse_of_mass(material.mass[i2])
        radius = wp.max(material.radius[i0], wp.max(material.radius[i1], material.radius[i2]))
        adhesion = wp.max(material.adhesion[i0], wp.max(material.adhesion[i1], material.adhesion[i2]))
        force = feature_force(t, k, features, p, u, inverse, radius, adhesion, material, bodies, body_f)
        wp.atomic_add(corner, place + 3 * t, w[0] * force)
        wp.atomic_add(corner, place + 3 * t + 1, w[1] * force)
        wp.atomic_add(corner, place + 3 * t + 2, w[2] * force)
