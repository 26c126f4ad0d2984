"""Forces that correspond to the impulses of a step: of contacts, of constraints, and through joints.

The wrench through a joint is what the recursive Newton-Euler algorithm passes on from child to parent
(Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 5.3) if the accelerations are those of the step
and all impulses except the joint's own count as external. One thread per world adds them up in the order of
the rows, so that the sums are the same in every run.

Stage: after a step, where forces are read
Called by: solvers/featherstone/reactions.py
Reads: BodyStateView, ContactView, JointView, KinematicsView, LoopView, RowsView, ShapeView, body_F, body_q,
    impulse, qd, side
Writes: body_f, force, qdd, sums, wrench
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.contact_rows import contact_frame, contact_point
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.trees.point_motion import BodyStateView
from newtonsim.kernels.views.model import JointView, KinematicsView, TreeView
from newtonsim.kernels.views.pair_rows import PAIR_COUPLING, LoopView
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

READINGS = wp.constant(13)  # sums over contacts: normal force, friction, point, normal, count


@wp.func
def in_world(n: wp.vec3, components: wp.vec3) -> wp.vec3:
    """Vector with the given components along a contact's normal and tangents."""
    return wp.transpose(contact_frame(n)) * components


@wp.kernel
def write_contact_forces(
    first: int,
    contacts: ContactView,
    impulse: wp.array(dtype=wp.vec3),
    rate: float,
    force: wp.array(dtype=wp.vec3),
):
    """One thread per contact place: mean force over the step, zero where there is no contact."""
    c = first + wp.tid()
    w = contacts.world[c]
    force[c] = wp.vec3(0.0, 0.0, 0.0)
    if c - contacts.world_start[w] < contacts.world_count[w]:
        force[c] = rate * in_world(contacts.normal[c], impulse[c])


@wp.kernel
def sum_contacts(
    first: int,
    shape: ShapeView,
    contacts: ContactView,
    body_q: wp.array(dtype=wp.transform),
    impulse: wp.array(dtype=wp.vec3),
    rate: float,
    side: wp.array2d(dtype=wp.uint8),
    sums: wp.array2d(dtype=float),
):
    """One thread per world and pair of sets: add up the forces of contacts on shapes of the first set.

    `side[pair, shape]` adds up 1 for shapes of the first set and 2 for those of the second. A row of `sums`
    has the readings of all pairs of a world: force along normals, friction, mean point and mean normal, both
    weighted by normal force, all in world axes, and the number of contacts.
    """
    i = first + wp.tid()
    pairs = side.shape[0]
    w = i // pairs
    p = i % pairs
    pressing = wp.vec3()
    rubbing = wp.vec3()
    point = wp.vec3()
    weight = float(0.0)
    count = float(0.0)
    begin = contacts.world_start[w]
    for c in range(begin, begin + contacts.world_count[w]):
        s0 = contacts.shape0[c]
        s1 = contacts.shape1[c]
        sign = float(0.0)
        if (int(side[p, s0]) & 1) != 0 and (int(side[p, s1]) & 2) != 0:
            sign = 1.0
        elif (int(side[p, s1]) & 1) != 0 and (int(side[p, s0]) & 2) != 0:
            sign = -1.0
        if sign != 0.0:
            n = contacts.normal[c]
            axes = wp.transpose(contact_frame(n))
            push = rate * impulse[c]
            pressing = pressing + sign * push[0] * (axes * wp.vec3(1.0, 0.0, 0.0))
            rubbing = rubbing + sign * (axes * wp.vec3(0.0, push[1], push[2]))
            x = contact_point(contacts, c, shape.body[s0], shape.body[s1], body_q)
            point = point + push[0] * x
            weight = weight + push[0]
            count = count + wp.where(push[0] > 0.0, 1.0, 0.0)
    if weight > 0.0:
        point = point / weight
    along = wp.vec3()
    if wp.length(pressing) > 0.0:
        along = wp.normalize(pressing)
    at = READINGS * p
    for k in range(3):
        sums[w, at + k] = pressing[k]
        sums[w, at + 3 + k] = rubbing[k]
        sums[w, at + 6 + k] = point[k]
        sums[w, at + 9 + k] = along[k]
    sums[w, at + 12] = count


@wp.kernel
def write_constraint_forces(
    first: int, rows: RowsView, rate: float, wrench: wp.array(dtype=wp.spatial_vector)
):
    """One thread per world: add the forces of the rows of each constraint. `wrench` is zero on entry."""
    w = first + wp.tid()
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        c = rows.pair.constraint[p]
        if c >= 0:
            size = rate * rows.pair.impulse[p]
            if rows.pair.kind[p] == PAIR_COUPLING:
                wrench[c] = wp.spatial_vector(size, 0.0, 0.0, 0.0, 0.0, 0.0)
            else:
                wrench[c] = wrench[c] + size * wp.spatial_vector(rows.pair.torque[p], rows.pair.force[p])


@wp.func
def add_at_point(
    b: int,
    torque: wp.vec3,
    force: wp.vec3,
    x: wp.vec3,
    bodies: BodyStateView,
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """Add a wrench at a world point to the wrench at the centre of mass of body b."""
    if b >= 0:
        arm = x - wp.transform_point(bodies.q[b], bodies.com[b])
        body_f[b] = body_f[b] + wp.spatial_vector(torque + wp.cross(arm, force), force)


@wp.kernel
def add_external_impulses(
    first: int,
    shape: ShapeView,
    contacts: ContactView,
    loop: LoopView,
    bodies: BodyStateView,
    rows: RowsView,
    rate: float,
    constraints: int,
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per world: add contacts, and constraints if asked for, to the wrenches on its bodies."""
    w = first + wp.tid()
    zero = wp.vec3(0.0, 0.0, 0.0)
    begin = contacts.world_start[w]
    for c in range(begin, begin + contacts.world_count[w]):
        b0 = shape.body[contacts.shape0[c]]
        b1 = shape.body[contacts.shape1[c]]
        n = contacts.normal[c]
        x = contact_point(contacts, c, b0, b1, bodies.q)
        force = rate * in_world(n, rows.contact.impulse[c])
        torque = zero
        if rows.spins == 1:
            torque = rate * in_world(n, rows.spin.impulse[c])
        add_at_point(b0, torque, force, x, bodies, body_f)
        add_at_point(b1, -torque, -force, x, bodies, body_f)
    if constraints == 0:
        return
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        c = rows.pair.constraint[p]
        if c >= 0 and rows.pair.kind[p] != PAIR_COUPLING:
            force = rate * rows.pair.impulse[p] * rows.pair.force[p]
            torque = rate * rows.pair.impulse[p] * rows.pair.torque[p]
            add_at_point(loop.child[c], torque, force, rows.pair.point[p], bodies, body_f)
            add_at_point(loop.parent[c], -torque, -force, rows.pair.point0[p], bodies, body_f)


@wp.kernel
def recover_accelerations(
    first: int,
    joint: JointView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    rate: float,
    qdd: wp.array(dtype=float),
):
    """One thread per joint: (qd - old velocity) / h, with the old velocity taken from the bodies."""
    j = first + wp.tid()
    begin = joint.qd_start[j]
    parent = joint.parent[j]
    for d in range(begin, joint.qd_start[j + 1]):
        before = wp.spatial_vector()
        if d > begin:
            before = kin.dof_V[d - 1]
        elif parent >= 0:
            before = kin.body_V[parent]
        old = wp.dot(kin.S[d], kin.dof_V[d] - before) / wp.length_sq(kin.S[d])
        qdd[d] = rate * (qd[d] - old)


@wp.kernel
def write_joint_wrenches(
    first: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    body_F: wp.array(dtype=wp.spatial_vector),
    wrench: wp.array(dtype=wp.spatial_vector),
):
    """One thread per joint: wrench on the child about the child's joint frame, world axes."""
    j = first + wp.tid()
    b = joint.child[j]
    r = wp.transform_get_translation(kin.body_X[b] * joint.X_c[j])
    force = wp.spatial_bottom(body_F[b])
    wrench[j] = wp.spatial_vector(wp.spatial_top(body_F[b]) - wp.cross(r, force), force)
