"""Per-world reset of flat arrays and of the memory of solvers.

Stage: between steps, reset of worlds
Called by: newtonsim/kernel_warmup.py, newtonsim/simulator.py, solvers/featherstone/constraints.py,
    solvers/featherstone/solver.py, solvers/nonfinite.py
Reads: Teams, 17 arrays
Writes: 17 arrays
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, lanes, own_team

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def restore_worlds(
    teams: Teams,
    mask: wp.array(dtype=bool),
    coord_start: wp.array(dtype=int),
    dof_start: wp.array(dtype=int),
    body_start: wp.array(dtype=int),
    body_world: wp.array(dtype=int),
    source_joint_q: wp.array(dtype=float),
    source_joint_qd: wp.array(dtype=float),
    source_body_q: wp.array(dtype=wp.transform),
    source_body_qd: wp.array(dtype=wp.spatial_vector),
    joint_q: wp.array(dtype=float),
    joint_qd: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One team per world: copy coordinates, velocities and poses of the masked ones, and clear forces.

    Bodies of the global world may be stored between those of two worlds.
    """
    team = own_team(teams, wp.tid())
    w = team.index
    if not mask[w]:
        return
    for i in range(coord_start[w] + team.lane, coord_start[w + 1], lanes(team)):
        joint_q[i] = source_joint_q[i]
    for i in range(dof_start[w] + team.lane, dof_start[w + 1], lanes(team)):
        joint_qd[i] = source_joint_qd[i]
    for b in range(body_start[w] + team.lane, body_start[w + 1], lanes(team)):
        if body_world[b] == w:
            body_q[b] = source_body_q[b]
            body_qd[b] = source_body_qd[b]
            body_f[b] = wp.spatial_vector()


@wp.kernel
def restore_particles(
    first: int,
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    source_q: wp.array(dtype=wp.vec3),
    source_qd: wp.array(dtype=wp.vec3),
    target_q: wp.array(dtype=wp.vec3),
    target_qd: wp.array(dtype=wp.vec3),
    target_f: wp.array(dtype=wp.vec3),
):
    """One thread per particle: copy position and velocity of masked worlds, and clear their forces."""
    i = first + wp.tid()
    if world[i] >= 0 and mask[world[i]]:
        target_q[i] = source_q[i]
        target_qd[i] = source_qd[i]
        target_f[i] = wp.vec3(0.0, 0.0, 0.0)


@wp.kernel
def restore_activations(
    first: int,
    mask: wp.array(dtype=bool),
    start: wp.array(dtype=int),
    number: wp.array(dtype=int),
    source: wp.array(dtype=float),
    target: wp.array(dtype=float),
):
    """One thread per world: copy the activations of the actuators of the masked ones."""
    w = first + wp.tid()
    if mask[w]:
        for k in range(start[w], start[w + 1]):
            target[number[k]] = source[number[k]]


@wp.kernel
def forget_rows(
    teams: Teams,
    mask: wp.array(dtype=bool),
    dof_start: wp.array(dtype=int),
    dof_memory: wp.array(dtype=float),
    pair_start: wp.array(dtype=int),
    pair_impulse: wp.array(dtype=float),
    contact_start: wp.array(dtype=int),
    contact_memory: wp.array(dtype=wp.vec3),
    spin_memory: wp.array(dtype=wp.vec3),
    nonfinite: wp.array(dtype=bool),
    wedged_run: wp.array(dtype=int),
):
    """One team per world: the masked ones lose their warm starts and marks.

    If few worlds are masked, one thread per entry would take longer on the CPU.
    """
    team = own_team(teams, wp.tid())
    w = team.index
    if not mask[w]:
        return
    for i in range(dof_start[w] + team.lane, dof_start[w + 1], lanes(team)):
        dof_memory[i] = 0.0
    for i in range(pair_start[w] + team.lane, pair_start[w + 1], lanes(team)):
        pair_impulse[i] = 0.0
    for i in range(contact_start[w] + team.lane, contact_start[w + 1], lanes(team)):
        contact_memory[i] = wp.vec3(0.0, 0.0, 0.0)
        if spin_memory.shape[0] > 0:
            spin_memory[i] = wp.vec3(0.0, 0.0, 0.0)
    if team.lane == 0:
        nonfinite[w] = False
        wedged_run[w] = 0


@wp.kernel
def clear_wrenches(first: int, wrenches: wp.array(dtype=wp.spatial_vector)):
    """One thread per body: clear its wrench."""
    wrenches[first + wp.tid()] = wp.spatial_vector()


@wp.kernel
def clear_flags(first: int, mask: wp.array(dtype=bool), flags: wp.array(dtype=bool)):
    """One thread per world: unset the flags of the masked ones."""
    w = first + wp.tid()
    if mask[w]:
        flags[w] = False
