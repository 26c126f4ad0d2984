"""The end of a step after its rows are solved: store impulses, accept velocities, move trees.

Stage: last of a step, after the constraints
Called by: solvers/featherstone/constraints.py
Reads: BodyView, ContactView, JointView, KinematicsView, L, LevelView, RowsView, ServoView, Teams, TreeView,
    16 arrays
Writes: KinematicsView, MarksView, RowsView, ServoView, body_q, body_qd, far, moving_qd, q_end, qd
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, sync
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.contact_rows import stretched
from newtonsim.kernels.constraints.dof_rows import remember_row
from newtonsim.kernels.constraints.energy_coordinates import accept_tree
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.servos import ServoView
from newtonsim.kernels.steps.nonfinite import MarksView
from newtonsim.kernels.trees.energy_limit import limit_energy, note_far_turns
from newtonsim.kernels.trees.free_body import integrate_free_body, is_free_body, place_free_body
from newtonsim.kernels.trees.joint_forces import integrate_joint
from newtonsim.kernels.trees.tree_state import place_tree
from newtonsim.kernels.views.gravity import gravity_of
from newtonsim.kernels.views.model import BodyView, JointView, KinematicsView, LevelView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def remember(
    team: Team, contacts: ContactView, start: wp.array(dtype=wp.vec3), servo: ServoView, rows: RowsView
):
    """Store the impulses of a world that its next step starts from; `start` has those of contacts.

    Rows between bodies have fixed places and keep their impulses there.
    """
    w = team.index
    begin = rows.dof.world_start[w]
    for r in range(begin + team.lane, begin + rows.dof.world_count[w], lanes(team)):
        remember_row(r, servo, rows.dof)
    place = contacts.world_start[w]
    for c in range(place + team.lane, place + contacts.world_count[w], lanes(team)):
        stretch = rows.contact.stretch[c]
        rows.contact.memory[c] = stretched(start[c], stretch)
        if stretch[0] != stretch[1]:
            rows.contact.impulse[c] = stretched(rows.contact.impulse[c], stretch)
        if rows.spins == 1:
            rows.spin.memory[c] = rows.spin.impulse[c]


@wp.kernel
def remember_impulses(
    teams: Teams, contacts: ContactView, start: wp.array(dtype=wp.vec3), servo: ServoView, rows: RowsView
):
    """One team per world: `remember`."""
    remember(own_team(teams, wp.tid()), contacts, start, servo, rows)


@wp.kernel
def advance_trees(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    q: wp.array(dtype=float),
    dt: float,
    marks: MarksView,
    kin: KinematicsView,
    moving_qd: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    q_end: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    far: wp.array(dtype=int),
):
    """One team per tree: velocities after the constraints, and the resulting coordinates and body poses.

    Trees that turn far in the step are noted for `end_worlds`.
    """
    team = own_team(teams, wp.tid())
    t = team.index
    accept_tree(team, tree, levels, L, z, z_moving, v_free, world_state, qd, moving_qd, marks)
    if is_free_body(team, tree, joint):
        integrate_free_body(t, tree, joint, body, q, moving_qd, dt, q_end)
        place_free_body(t, tree, joint, body, q_end, qd, kin, body_q, body_qd)
        return
    for i in range(tree.joint_start[t] + team.lane, tree.joint_start[t + 1], lanes(team)):
        integrate_joint(tree.joint[i], joint, body.com, q, moving_qd, dt, q_end)
    sync(team)
    place_tree(team, tree, levels, joint, body, q_end, qd, kin, body_q, body_qd)
    note_far_turns(team, tree, joint, body_qd, dt, far)


@wp.kernel
def end_worlds(
    teams: Teams,
    contacts: ContactView,
    start_impulse: wp.array(dtype=wp.vec3),
    servo: ServoView,
    tree_start: wp.array(dtype=int),
    world_tree: wp.array(dtype=int),
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    gravity: wp.array(dtype=wp.vec3),
    falls: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
    middle: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    free: wp.array(dtype=float),
    mid: KinematicsView,
    mid_A: wp.array(dtype=wp.spatial_vector),
    dt: float,
    rows: RowsView,
    far: wp.array(dtype=int),
    kin: KinematicsView,
    moving_qd: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    q_end: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One team per world: `remember`, and `limit_energy` of the trees that turned far; arguments as there.

    The trees of world w are `world_tree[tree_start[w]]` to `world_tree[tree_start[w + 1] - 1]`.
    """
    team = own_team(teams, wp.tid())
    w = team.index
    remember(team, contacts, start_impulse, servo, rows)
    for k in range(tree_start[w] + team.lane, tree_start[w + 1], lanes(team)):
        t = world_tree[k]
        if far[t] == 1:
            far[t] = 0
            lacking = wp.vec3()
            if falls[t] == 0:
                lacking = gravity_of(gravity, tree.world[t])
            limit_energy(
                t,
                tree,
                levels,
                joint,
                body,
                lacking,
                diagonal,
                middle,
                predicted,
                free,
                mid,
                mid_A,
                dt,
                kin,
                moving_qd,
                qd,
                q_end,
                body_q,
                body_qd,
            )
