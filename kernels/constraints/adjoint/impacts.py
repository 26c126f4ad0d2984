"""Adjoint of impacts that propagate from body to body within a step, see `impacts`.

A round turns the velocity v into (1 + e) v' - e v, where v' results from an inelastic impact of the
participating contacts, those with an impulse x > 0: H (v' - v) = Jᵀ x, J v' = 0. A gradient g of the velocity
after a round leads to the solution of H λ + Jᵀ m = (1 + e) g, J λ = 0, and to the gradient H λ - e g of the
velocity before it. With respect to parameters, the gradient is that of -S, S = λᵀ H (v' - v) - x · J λ + m ·
J v' - e x · J H⁻¹ g (implicit differentiation at the contacts that take part). With h r(v) = H (v - v_free)
for the residual r of a step, the first terms of all rounds are h cᵀ r(v') of each round and h c₀ᵀ r(v_free),
for r is affine in v: with T = (-e)^k H⁻¹ g after the last of k rounds before it, c = (1 + e) (T - P ζ), where
P takes the part of ζ = H⁻¹ g along the contacts.

Stage: backward pass of constraints, propagated impacts
Called by: solvers/featherstone/constraint_adjoint.py, solvers/featherstone/impact_adjoint.py
Reads: ContactRowView, ContactView, ImpactRoundsView, L, RowsView, TreeView, WorldDofsView, reason, z
Writes: ImpactRoundsView, ImpulseView, SystemView, mask, reason, v, y, zeta
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import alone
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.products import triple_product
from newtonsim.kernels.constraints.adjoint.solve import clear_contact
from newtonsim.kernels.constraints.adjoint.system import TOLERANCE, SystemView, row_weight, solve_weighted
from newtonsim.kernels.constraints.adjoint.worlds import PROPAGATED_IMPACT
from newtonsim.kernels.constraints.chains import triple_velocity
from newtonsim.kernels.constraints.contact_rows import ContactRowView
from newtonsim.kernels.constraints.energy_coordinates import to_joint_velocities
from newtonsim.kernels.constraints.impacts import (
    ROUNDS,
    SLOWEST,
    any_rebound,
    mark_approaching,
    normal_velocity,
    reflect,
    stop_approach,
)
from newtonsim.kernels.constraints.islands import find_islands
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView, WorldDofsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# largest number of rounds of impact with a gradient
MOST_ROUNDS = wp.constant(4)
# change by propagated impacts up to which a rebound counts as independent
ALONE = wp.constant(1.0e-3)
# difference up to which coefficients of restitution count as equal
ALIKE = wp.constant(1.0e-5)


@wp.struct
class ImpactRoundsView:
    """Rounds of impact of a step: M rounds, W worlds, C contact places, D dofs."""

    count: wp.array(dtype=int)  # (W) number of rounds; 0 if every contact rebounds as it would alone
    restitution: wp.array(dtype=float)  # (W)
    impulse: wp.array2d(dtype=float)  # (M, C) x [N s]
    multiplier: wp.array2d(dtype=float)  # (M, C) m
    slope: wp.array2d(dtype=float)  # (M, C) J H⁻¹ g
    z: wp.array2d(dtype=float)  # (M, D) v' in energy coordinates
    zeta: wp.array2d(dtype=float)  # (M, D) λ, likewise
    force: wp.array2d(dtype=float)  # (M, D) c, likewise
    v: wp.array2d(dtype=float)  # (M, D) v'
    v_zeta: wp.array2d(dtype=float)  # (M, D) λ
    v_force: wp.array2d(dtype=float)  # (M, D) c
    left: wp.array(dtype=float)  # (D) T, in energy coordinates


@wp.func
def changes_rebounds(
    tree: wp.ref[TreeView],
    rows: wp.ref[ContactRowView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    after: wp.ref[ImpulseView],
    z: wp.array(dtype=float),
) -> bool:
    """True if a contact has another velocity after the impacts than if it rebounded alone."""
    changed = bool(False)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        impact = rows.impact[c]
        hit = impact[2] > impact[1]
        if hit or after.contact[c][1] > 0.0:
            before = normal_velocity(tree, rows, c, depth, z)
            left = wp.max(0.0, normal_velocity(tree, rows, c, depth, after.z))
            if not hit or before >= 0.0 or wp.abs(left + impact[0] * before) > -ALONE * impact[0] * before:
                changed = True
    return changed


@wp.func
def keep_round(
    contacts: wp.ref[ContactView],
    rows: wp.ref[ContactRowView],
    dofs: wp.ref[WorldDofsView],
    w: int,
    r: int,
    after: wp.ref[ImpulseView],
    rounds: wp.ref[ImpactRoundsView],
) -> bool:
    """Store the result of the inelastic impact of a round; False if its contacts differ in restitution."""
    alike = bool(True)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        x = after.contact[c][0]
        rounds.impulse[r, c] = x
        if x > 0.0:
            e = rows.impact[c][0]
            if rounds.restitution[w] < 0.0:
                rounds.restitution[w] = e
            if wp.abs(e - rounds.restitution[w]) > ALIKE:
                alike = False
    for i in range(dofs.world_start[w], dofs.world_start[w + 1]):
        rounds.z[r, dofs.dof[i]] = after.z[dofs.dof[i]]
    return alike


@wp.kernel
def follow_impacts(
    first: int,
    tree: TreeView,
    rows: ContactRowView,
    contacts: ContactView,
    depth: int,
    dt: float,
    dofs: WorldDofsView,
    after: ImpulseView,
    z: wp.array(dtype=float),
    rounds: ImpactRoundsView,
    reason: wp.array(dtype=int),
):
    """One thread per world: repeat the rounds of `impacts.propagate_impacts`, and store the result of each.

    Afterwards, `after` holds the outcome; rows are those before the solve.
    """
    w = first + wp.tid()
    rounds.count[w] = 0
    team = alone(w)
    if not any_rebound(team, rows, contacts, w):
        return
    for i in range(dofs.world_start[w], dofs.world_start[w + 1]):
        after.z[dofs.dof[i]] = z[dofs.dof[i]]
    c0 = contacts.world_start[w]
    fastest = float(0.0)
    for c in range(c0, c0 + contacts.world_count[w]):
        after.contact[c] = wp.vec3(0.0, 0.0, 0.0)
        if rows.impact[c][2] > rows.impact[c][1]:
            fastest = wp.max(fastest, -normal_velocity(tree, rows, c, depth, z))
    slowest = SLOWEST * fastest
    rounds.restitution[w] = -1.0
    known = bool(True)
    n = int(0)
    running = int(1)
    while running == 1 and n < ROUNDS:
        if mark_approaching(team, tree, rows, contacts, w, depth, slowest, dt, after) == 0:
            running = 0
        else:
            stop_approach(team, tree, rows, contacts, w, depth, 0.1 * slowest, after)
            if n < MOST_ROUNDS:
                known = keep_round(contacts, rows, dofs, w, n, after, rounds) and known
            else:
                known = False
            reflect(team, tree, rows, contacts, w, depth, after)
            n += 1
    if changes_rebounds(tree, rows, contacts, w, depth, after, z):
        rounds.count[w] = wp.min(n, MOST_ROUNDS)
        if not known:
            reason[w] = reason[w] | PROPAGATED_IMPACT


@wp.kernel
def write_outcome(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    rounds: ImpactRoundsView,
    v: wp.array(dtype=float),
):
    """One thread per tree: joint velocities after all impacts."""
    t = first + wp.tid()
    if rounds.count[tree.world[t]] > 0:
        to_joint_velocities(tree, L, t, z, v)


@wp.func
def weigh_round(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    contacts: wp.ref[ContactView],
    w: int,
    r: int,
    depth: int,
    zeta: wp.array(dtype=float),
    rounds: wp.ref[ImpactRoundsView],
):
    """Set only the weights of the contacts of a round, and store their normal velocities under ζ."""
    for i in range(rows.dof.world_start[w], rows.dof.world_start[w + 1]):
        s.dof[i] = 0.0
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        s.pair[p] = 0.0
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        clear_contact(rows, s, c)
        if rounds.impulse[r, c] > 0.0:
            A = wp.mat33()
            A[0, 0] = row_weight(rows.contact.delassus[c][0], 0.0)
            s.contact[c] = A
            v = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, zeta)
            rounds.slope[r, c] = v[0]


@wp.func
def write_round(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    contacts: wp.ref[ContactView],
    dofs: wp.ref[WorldDofsView],
    w: int,
    r: int,
    depth: int,
    x: wp.array(dtype=wp.float64),
    zeta: wp.array(dtype=float),
    rounds: wp.ref[ImpactRoundsView],
):
    """Multipliers of a round from the solution x, and ζ of the velocity before it."""
    e = rounds.restitution[w]
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if rounds.impulse[r, c] > 0.0:
            v = triple_product(tree, rows.contact.leaf[c], depth, c, rows.contact.B, x, 0)
            m = wp.float64(s.contact[c][0, 0]) * v[0]
            rounds.multiplier[r, c] = (1.0 + e) * float(m)
    for i in range(dofs.world_start[w], dofs.world_start[w + 1]):
        d = dofs.dof[i]
        left = float(x[d])
        rounds.force[r, d] = (1.0 + e) * (rounds.left[d] - zeta[d] + left)
        rounds.zeta[r, d] = (1.0 + e) * left
        rounds.left[d] = -e * rounds.left[d]
        zeta[d] = rounds.zeta[r, d] - e * zeta[d]


@wp.kernel
def reverse_impacts(
    first: int,
    tree: wp.array(dtype=TreeView),
    dofs: wp.array(dtype=WorldDofsView),
    rows: wp.array(dtype=RowsView),
    contacts: wp.array(dtype=ContactView),
    depth: int,
    system: wp.array(dtype=SystemView),
    zeta: wp.array(dtype=float),
    rounds: ImpactRoundsView,
    reason: wp.array(dtype=int),
):
    """One thread per world: compute the multipliers of every round from ζ of the velocity after all impacts.

    `zeta` is overwritten.
    """
    w = first + wp.tid()
    n = rounds.count[w]
    for i in range(dofs[0].world_start[w], dofs[0].world_start[w + 1]):
        d = dofs[0].dof[i]
        rounds.left[d] = 0.0
        if n > 0:
            rounds.left[d] = zeta[d]
    if n == 0:
        return
    find_islands(tree[0], rows[0], contacts[0], w, system[0].islands)
    begin = system[0].islands.tree_start[w]
    found = int(0)
    for k in range(n):
        r = n - 1 - k
        weigh_round(tree[0], rows[0], system[0], contacts[0], w, r, depth, zeta, rounds)
        for i in range(dofs[0].world_start[w], dofs[0].world_start[w + 1]):
            system[0].r[dofs[0].dof[i]] = wp.float64(zeta[dofs[0].dof[i]])
        for island in range(begin, begin + system[0].islands.count[w]):
            found = found | solve_weighted(tree[0], rows[0], system[0], island, w, depth, TOLERANCE)
        write_round(tree[0], rows[0], system[0], contacts[0], dofs[0], w, r, depth, system[0].x, zeta, rounds)
    reason[w] = reason[w] | found


@wp.kernel
def write_rounds(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    reason: wp.array(dtype=int),
    rounds: ImpactRoundsView,
):
    """One thread per tree: joint velocities of all rounds; zero, or NaN in worlds without a gradient."""
    t = first + wp.tid()
    w = tree.world[t]
    n = rounds.count[w]
    for r in range(MOST_ROUNDS):
        if r < n:
            to_joint_velocities(tree, L, t, rounds.z[r], rounds.v[r])
            to_joint_velocities(tree, L, t, rounds.zeta[r], rounds.v_zeta[r])
            to_joint_velocities(tree, L, t, rounds.force[r], rounds.v_force[r])
        for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
            d = tree.dof[i]
            if r >= n:
                rounds.v_force[r, d] = 0.0
            elif reason[w] != 0:
                rounds.v_force[r, d] = wp.nan


@wp.kernel
def mask_round(first: int, rounds: ImpactRoundsView, r: int, mask: wp.array(dtype=int)):
    """One thread per world: 1 if it has that round."""
    w = first + wp.tid()
    mask[w] = int(r < rounds.count[w])


@wp.kernel
def add_left(first: int, rounds: ImpactRoundsView, y: wp.array(dtype=float)):
    """One thread per dof: add the gradient of the velocity before all rounds."""
    d = first + wp.tid()
    y[d] = y[d] + rounds.left[d]
