"""What the forces of actuators of a model add to the wrenches of bodies and to generalised forces.

An actuator on the contacts of a body presses them together: its force is spread evenly over them, along their
normals. A contact counts where the surfaces are closer than `NEAR`.

Source: MuJoCo's documentation, "XML reference: actuator/adhesion".

Stage: forces at the start of a step, of actuators
Called by: solvers/model_actuators.py
Reads: ContactView, PushView, TendonMotion, TendonView, arm, body_com, body_q, force, joint_f, shape_body
Writes: body_f, total
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.tendons.paths import TendonMotion, TendonView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# gap up to which surfaces touch [m]
NEAR = wp.constant(1.0e-4)


@wp.struct
class PushView:
    """Who acts on what; N actuators in the order of their worlds, B bodies, D dofs, T tendons, W worlds."""

    body_start: wp.array(dtype=int)  # (B + 1)
    body_arm: wp.array(dtype=int)  # entry of `arm`, three for each actuator
    dof_start: wp.array(dtype=int)  # (D + 1)
    dof_actuator: wp.array(dtype=int)
    tendon_start: wp.array(dtype=int)  # (T + 1)
    tendon_actuator: wp.array(dtype=int)
    gear: wp.array(dtype=float)  # (N) of a dof or tendon
    contact_start: wp.array(dtype=int)  # (W + 1)
    contact_actuator: wp.array(dtype=int)
    contact_body: wp.array(dtype=int)  # whose contacts each of these presses together


@wp.kernel
def push_bodies(
    first: int,
    view: PushView,
    arm: wp.array(dtype=wp.spatial_vector),
    force: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: its wrench; atomic, because the adjoint of a read and a write would be wrong."""
    b = first + wp.tid()
    sum = wp.spatial_vector()
    for k in range(view.body_start[b], view.body_start[b + 1]):
        e = view.body_arm[k]
        sum += force[e // 3] * arm[e]
    if view.body_start[b] < view.body_start[b + 1]:
        wp.atomic_add(body_f, b, sum)


@wp.kernel
def push_dofs(
    first: int,
    view: PushView,
    force: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    total: wp.array(dtype=float),
):
    """One thread per dof: the generalised force of actuators on it, added to the others."""
    d = first + wp.tid()
    sum = float(0.0) + joint_f[d]
    for k in range(view.dof_start[d], view.dof_start[d + 1]):
        i = view.dof_actuator[k]
        sum += view.gear[i] * force[i]
    total[d] = sum


@wp.kernel
def push_along_tendons(
    first: int,
    view: PushView,
    tendon: TendonView,
    motion: TendonMotion,
    force: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    total: wp.array(dtype=float),
):
    """One thread per dof: the generalised force of actuators along tendons, added to the others."""
    d = first + wp.tid()
    sum = float(0.0) + joint_f[d]
    for k in range(tendon.dof_start[d], tendon.dof_start[d + 1]):
        e = tendon.dof_entry[k]
        t = tendon.entry_tendon[e]
        for n in range(view.tendon_start[t], view.tendon_start[t + 1]):
            i = view.tendon_actuator[n]
            sum += motion.J[e] * view.gear[i] * force[i]
    total[d] = sum


@wp.kernel(enable_backward=False)
def press_contacts(
    first: int,
    view: PushView,
    contacts: ContactView,
    shape_body: wp.array(dtype=int),
    body_com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    force: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per world: the wrenches of actuators on contacts."""
    w = first + wp.tid()
    begin = contacts.world_start[w]
    end = begin + contacts.world_count[w]
    for k in range(view.contact_start[w], view.contact_start[w + 1]):
        b = view.contact_body[k]
        count = float(0.0)
        for c in range(begin, end):
            if touches(c, b, contacts, shape_body):
                count += 1.0
        share = force[view.contact_actuator[k]] / wp.max(count, 1.0)
        for c in range(begin, end):
            if touches(c, b, contacts, shape_body):
                n = contacts.normal[c]
                press(
                    shape_body[contacts.shape0[c]], contacts.point0[c], -share * n, body_com, body_q, body_f
                )
                press(shape_body[contacts.shape1[c]], contacts.point1[c], share * n, body_com, body_q, body_f)


@wp.func
def touches(c: int, b: int, contacts: ContactView, shape_body: wp.array(dtype=int)) -> bool:
    """Whether body b touches another one in contact c."""
    found = False
    if contacts.shape0[c] >= 0 and contacts.distance[c] < NEAR:
        found = shape_body[contacts.shape0[c]] == b or shape_body[contacts.shape1[c]] == b
    return found


@wp.func
def press(
    b: int,
    point: wp.vec3,
    force: wp.vec3,
    body_com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """Add a force at a point of body b to its wrench."""
    if b >= 0:
        arm = wp.transform_vector(body_q[b], point - body_com[b])
        body_f[b] = body_f[b] + wp.spatial_vector(wp.cross(arm, force), force)
