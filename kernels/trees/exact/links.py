"""Forward kinematics of one articulated body: link frames and the twists of its degrees of freedom.

Stage: kinematics and dynamics that a PyBullet client asks for
Called by: kernels/trees/exact/dynamics.py, kernels/trees/exact/reach.py
Reads: ChainState, ChainView
Writes: ChainState
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.exact.views import PLANAR, PRISMATIC, REVOLUTE, SPHERICAL, ChainState, ChainView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def place_base(state: wp.ref[ChainState], c: int):
    """Put the base at the origin."""
    state.pose[c, 0] = wp.transformd(wp.vec3d(), state.base[c])


@wp.func
def set_rotation(state: wp.ref[ChainState], c: int, dof: int, point: wp.vec3d, axis: wp.vec3d):
    """Twist of a rotation about an axis through a point."""
    state.angular[c, dof] = axis
    state.linear[c, dof] = wp.cross(point, axis)


@wp.func
def set_translation(state: wp.ref[ChainState], c: int, dof: int, direction: wp.vec3d):
    """Twist of a translation."""
    state.angular[c, dof] = wp.vec3d()
    state.linear[c, dof] = direction


@wp.func
def place_link(chain: wp.ref[ChainView], state: wp.ref[ChainState], c: int, i: int):
    """Frame of a link and twists of its joint, from the frame of its parent."""
    frame = wp.transform_multiply(state.pose[c, chain.parent[i]], chain.joint_pose[i])
    p = wp.transform_get_translation(frame)
    r = wp.transform_get_rotation(frame)
    k = chain.q_start[i]
    d = chain.dof_start[i]
    type = chain.type[i]
    if type == REVOLUTE:
        set_rotation(state, c, d, p, wp.quat_rotate(r, chain.axis[i]))
        r = r * wp.quat_from_axis_angle(chain.axis[i], state.q[c, k])
    elif type == PRISMATIC:
        direction = wp.quat_rotate(r, chain.axis[i])
        set_translation(state, c, d, direction)
        p += state.q[c, k] * direction
    elif type == SPHERICAL:
        r = r * wp.quatd(state.q[c, k], state.q[c, k + 1], state.q[c, k + 2], state.q[c, k + 3])
        for j in range(3):
            unit = wp.vec3d()
            unit[j] = wp.float64(1.0)
            set_rotation(state, c, d + j, p, wp.quat_rotate(r, unit))
    elif type == PLANAR:
        normal = wp.quat_rotate(r, chain.axis[i])
        first = wp.quat_rotate(r, chain.second[i])
        second = wp.cross(normal, first)
        set_translation(state, c, d, first)
        set_translation(state, c, d + 1, second)
        p += state.q[c, k] * first + state.q[c, k + 1] * second
        set_rotation(state, c, d + 2, p, normal)
        r = r * wp.quat_from_axis_angle(chain.axis[i], state.q[c, k + 2])
    state.pose[c, i] = wp.transformd(p, r)


@wp.func
def place_links(chain: wp.ref[ChainView], state: wp.ref[ChainState], c: int):
    """Frames of all links and twists of all joints."""
    place_base(state, c)
    for k in range(chain.order.shape[0]):
        place_link(chain, state, c, chain.order[k])


@wp.func
def place_path(chain: wp.ref[ChainView], state: wp.ref[ChainState], c: int, link: int):
    """Frames and twists from the base, whose frame is set, to a link."""
    for k in range(chain.path_start[link], chain.path_start[link + 1]):
        place_link(chain, state, c, chain.path[k])


@wp.func
def velocity_at(angular: wp.vec3d, linear: wp.vec3d, point: wp.vec3d) -> wp.vec3d:
    """Velocity that a twist gives a point."""
    return linear + wp.cross(angular, point)
