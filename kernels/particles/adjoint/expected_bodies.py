"""Expected poses of rigid bodies at the end of a substep, in kernels that a tape can reverse.

Particles find their contacts at these poses, and their impulses act on the inertia there, while those of
joints and of contacts between bodies act in the middle of the substep.

Stage: backward pass of particles among bodies, poses
Called by: solvers/particles/adjoint_bodies.py, kernels/particles/adjoint/body_touches.py
Reads: 9 arrays
Writes: centre, expected, facing, origin, term
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import inverse_of, rotate_inertia
from newtonsim.kernels.maximal.adjoint.substep import BODY_MOVES
from newtonsim.kernels.maximal.moving_bodies import moved

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def predict_bodies(
    first: int,
    x0: wp.array(dtype=wp.transform),
    u0: wp.array(dtype=wp.spatial_vector),
    com: wp.array(dtype=wp.vec3),
    dt: float,
    origin: wp.array(dtype=wp.vec3),
    centre: wp.array(dtype=wp.vec3),
    facing: wp.array(dtype=wp.quat),
    expected: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: `moving_bodies.move_bodies`."""
    b = first + wp.tid()
    pose = moved(x0[b], com[b], u0[b], dt)
    origin[b] = wp.transform_get_translation(pose)
    centre[b] = wp.transform_point(pose, com[b])
    facing[b] = wp.transform_get_rotation(pose)
    expected[b] = u0[b]


@wp.func
def carried(inertia: wp.mat33, middle: wp.quat, facing: wp.quat) -> wp.mat33:
    """Angular impulse in the middle of the substep that has the effect of a given one at the expected end."""
    return rotate_inertia(middle, inertia) * rotate_inertia(facing, inverse_of(inertia))


@wp.kernel
def weigh_carried(
    first: int,
    role: wp.array(dtype=int),
    inertia: wp.array(dtype=wp.mat33),
    middle: wp.array(dtype=wp.quat),
    facing: wp.array(dtype=wp.quat),
    multiplier: wp.array(dtype=wp.spatial_vector),
    impulse: wp.array(dtype=wp.spatial_vector),
    term: wp.array(dtype=float),
):
    """One thread per body: the angular impulse of its particles, times the multiplier."""
    b = first + wp.tid()
    total = float(0.0)
    if role[b] == BODY_MOVES:
        got = carried(inertia[b], middle[b], facing[b]) * wp.spatial_top(impulse[b])
        total = -wp.dot(wp.spatial_top(multiplier[b]), got)
    term[b] = total
