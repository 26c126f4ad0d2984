"""Islands of trees that rest together, and their sleep.

Trees that touch or are coupled form an island (Mirtich, "Impulse-based Dynamic Simulation of Rigid Body
Systems", 1996, on contact groups). An island whose trees have all been slow for long enough falls asleep: its
trees stand still, and the collision pass skips pairs of shapes that cannot move. The whole island wakes when
a moving body comes near, or when its inputs or coordinates change.

Stage: first and last of a step with sleeping islands
Called by: solvers/featherstone/sleep.py
Reads: ContactView, PairView, ShapeView, SleepView, TreeView, 13 arrays
Writes: PlacementView, SleepView, body_leaf, body_qd, qd
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.collision.pairs.broad_phase import PlacementView
from newtonsim.kernels.collision.pairs.manifolds import PairView
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class SleepView:
    """Sleep of T trees; D degrees of freedom, A axes, C coordinates, B bodies."""

    world_start: wp.array(dtype=int)  # (W + 1) first entry of each world in `tree`
    tree: wp.array(dtype=int)  # (T) trees in the order of their worlds
    asleep: wp.array(dtype=int)  # (T)
    island: wp.array(dtype=int)  # (T) lowest tree of the island
    rest_time: wp.array(dtype=float)  # (T) [s] time since the tree was last fast
    wake: wp.array(dtype=int)  # (T) 1 if the tree's island has to wake before the next step
    wake_world: wp.array(dtype=int)  # (W) 1 if all islands of the world have to
    seen_body_q: wp.array(dtype=wp.transform)  # (B) poses at the end of the last step
    link_a: wp.array(dtype=int)  # (K) bodies that permanent constraints couple, -1 for the world
    link_b: wp.array(dtype=int)  # (K)
    link_start: wp.array(dtype=int)  # (W + 1) first coupling of each world
    seen_q: wp.array(dtype=float)  # (C) coordinates at the end of the last step
    seen_act: wp.array(dtype=float)  # (A) inputs of the last step
    seen_f: wp.array(dtype=float)  # (D)
    seen_gravity: wp.array(dtype=wp.vec3)  # (W) those of the last step of each world


@wp.kernel
def notice_inputs(
    first: int,
    tree: TreeView,
    joint_qd: wp.array(dtype=float),
    joint_act: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    gravity: wp.array(dtype=wp.vec3),
    dof_tree: wp.array(dtype=int),
    sleep: SleepView,
):
    """One thread per dof: wake sleeping trees whose velocity, inputs or gravity changed."""
    d = first + wp.tid()
    a = tree.dof_axis[d]
    w = tree.dof_world[d]
    changed = joint_qd[d] != 0.0 or joint_f[d] != sleep.seen_f[d]
    changed = changed or wp.length_sq(gravity[w] - sleep.seen_gravity[w]) > 0.0
    if a >= 0:
        changed = changed or joint_act[a] != sleep.seen_act[a]
        sleep.seen_act[a] = joint_act[a]
    sleep.seen_f[d] = joint_f[d]
    if changed:
        sleep.wake[dof_tree[d]] = 1


@wp.kernel
def notice_coordinates(
    first: int, joint_q: wp.array(dtype=float), coord_tree: wp.array(dtype=int), sleep: SleepView
):
    """One thread per coordinate: wake trees that the caller moved."""
    i = first + wp.tid()
    if joint_q[i] != sleep.seen_q[i]:
        sleep.wake[coord_tree[i]] = 1


@wp.kernel
def remember_coordinates(first: int, joint_q: wp.array(dtype=float), sleep: SleepView):
    """One thread per coordinate: store what `notice_coordinates` compares with in the next step."""
    i = first + wp.tid()
    sleep.seen_q[i] = joint_q[i]


@wp.kernel
def remember_poses(first: int, body_q: wp.array(dtype=wp.transform), sleep: SleepView):
    """One thread per body: store what `notice_moved_bodies` compares with in the next step."""
    b = first + wp.tid()
    sleep.seen_body_q[b] = body_q[b]


@wp.kernel
def notice_wrenches(first: int, tree: TreeView, body_f: wp.array(dtype=wp.spatial_vector), sleep: SleepView):
    """One thread per body: wake trees on which an external wrench acts."""
    b = first + wp.tid()
    t = tree.body_tree[b]
    if t >= 0 and wp.length_sq(body_f[b]) > 0.0:
        sleep.wake[t] = 1


@wp.kernel
def notice_moved_bodies(
    first: int,
    tree: TreeView,
    body_q: wp.array(dtype=wp.transform),
    body_world: wp.array(dtype=int),
    sleep: SleepView,
):
    """One thread per body: wake the world of a body without joints that the caller moved.

    Bodies of the global world wake all worlds.
    """
    b = first + wp.tid()
    if tree.body_tree[b] >= 0:
        return
    now = body_q[b]
    seen = sleep.seen_body_q[b]
    moved = wp.length_sq(wp.transform_get_translation(now) - wp.transform_get_translation(seen)) > 0.0
    turn = wp.transform_get_rotation(now) - wp.transform_get_rotation(seen)
    if moved or wp.dot(turn, turn) > 0.0:
        if body_world[b] >= 0:
            sleep.wake_world[body_world[b]] = 1
        else:
            for w in range(sleep.wake_world.shape[0]):
                sleep.wake_world[w] = 1


@wp.kernel
def wake_islands(first: int, gravity: wp.array(dtype=wp.vec3), sleep: SleepView):
    """One thread per world: wake every tree whose island has a mark, and clear the marks."""
    w = first + wp.tid()
    start = sleep.world_start[w]
    end = sleep.world_start[w + 1]
    for i in range(start, end):
        t = sleep.tree[i]
        if (sleep.wake[t] == 1 or sleep.wake_world[w] == 1) and sleep.asleep[t] == 1:
            label = sleep.island[t]
            for k in range(start, end):
                other = sleep.tree[k]
                if sleep.island[other] == label:
                    sleep.asleep[other] = 0
                    sleep.rest_time[other] = 0.0
    for i in range(start, end):
        sleep.wake[sleep.tree[i]] = 0
    sleep.wake_world[w] = 0
    sleep.seen_gravity[w] = gravity[w]


@wp.kernel
def wake_worlds(first: int, mask: wp.array(dtype=bool), tree: TreeView, sleep: SleepView):
    """One thread per tree: wake the trees of the masked worlds."""
    t = first + wp.tid()
    if mask[tree.world[t]]:
        sleep.asleep[t] = 0
        sleep.rest_time[t] = 0.0


@wp.kernel
def hold_bodies(first: int, tree: TreeView, sleep: SleepView, body_leaf: wp.array(dtype=int)):
    """One thread per body: no dof moves the bodies of sleeping trees."""
    b = first + wp.tid()
    leaf = tree.body_leaf[b]
    if leaf >= 0:
        if sleep.asleep[tree.body_tree[b]] == 1:
            leaf = -1
    body_leaf[b] = leaf


@wp.kernel
def hold_dofs(first: int, dof_tree: wp.array(dtype=int), sleep: SleepView, qd: wp.array(dtype=float)):
    """One thread per dof: sleeping trees stand still."""
    d = first + wp.tid()
    if sleep.asleep[dof_tree[d]] == 1:
        qd[d] = 0.0


@wp.kernel
def still_bodies(first: int, tree: TreeView, sleep: SleepView, body_qd: wp.array(dtype=wp.spatial_vector)):
    """One thread per body: bodies of sleeping trees stand still."""
    b = first + wp.tid()
    t = tree.body_tree[b]
    if t >= 0:
        if sleep.asleep[t] == 1:
            body_qd[b] = wp.spatial_vector()


@wp.kernel
def mark_awake_shapes(first: int, shape: ShapeView, tree: TreeView, sleep: SleepView, place: PlacementView):
    """One thread per shape: tell the broad phase which shapes can move."""
    s = first + wp.tid()
    awake = int(0)
    b = shape.body[s]
    if b >= 0:
        awake = 1
        t = tree.body_tree[b]
        if t >= 0:
            awake = 1 - sleep.asleep[t]
    place.awake[s] = awake


@wp.func
def root_of(sleep: SleepView, t: int) -> int:
    """Lowest tree known to be in the island of tree t."""
    r = t
    while sleep.island[r] != r:
        r = sleep.island[r]
    return r


@wp.func
def join_bodies(tree: TreeView, sleep: SleepView, a: int, b: int):
    """Put the trees of two bodies into one island, if both are awake trees."""
    if a >= 0 and b >= 0:
        ta = tree.body_tree[a]
        tb = tree.body_tree[b]
        if ta >= 0 and tb >= 0:
            if sleep.asleep[ta] == 0 and sleep.asleep[tb] == 0:
                ra = root_of(sleep, ta)
                rb = root_of(sleep, tb)
                sleep.island[wp.max(ra, rb)] = wp.min(ra, rb)


@wp.func
def moves(
    tree: TreeView, sleep: SleepView, b: int, slow_too: bool, body_qd: wp.array(dtype=wp.spatial_vector)
) -> bool:
    """True for bodies on awake trees, slow ones if asked, and for kinematic bodies with a velocity."""
    moving = False
    if b >= 0:
        t = tree.body_tree[b]
        if t >= 0:
            moving = sleep.asleep[t] == 0 and (slow_too or sleep.rest_time[t] == 0.0)
        else:
            moving = wp.length_sq(body_qd[b]) > 0.0
    return moving


@wp.func
def disturb(
    tree: TreeView,
    sleep: SleepView,
    by: int,
    b: int,
    slow_too: bool,
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """Mark the island of body b for waking, if it sleeps and body `by` moves."""
    if b >= 0:
        t = tree.body_tree[b]
        if t >= 0:
            if sleep.asleep[t] == 1 and moves(tree, sleep, by, slow_too, body_qd):
                sleep.wake[t] = 1


@wp.kernel
def time_rest(
    first: int,
    tree: TreeView,
    joint_child: wp.array(dtype=int),
    body_qd: wp.array(dtype=wp.spatial_vector),
    speed: float,
    spin: float,
    dt: float,
    sleep: SleepView,
):
    """One thread per tree: time for which all of its bodies have been slow; each tree becomes an island."""
    t = first + wp.tid()
    if sleep.asleep[t] == 1:
        return
    sleep.island[t] = t
    slow = int(1)
    for n in range(tree.joint_start[t], tree.joint_start[t + 1]):
        V = body_qd[joint_child[tree.joint[n]]]
        if wp.length(wp.spatial_bottom(V)) > speed or wp.length(wp.spatial_top(V)) > spin:
            slow = 0
    if slow == 1:
        sleep.rest_time[t] = sleep.rest_time[t] + dt
    else:
        sleep.rest_time[t] = 0.0


@wp.kernel
def settle_islands(
    first: int,
    tree: TreeView,
    shape: ShapeView,
    body_qd: wp.array(dtype=wp.spatial_vector),
    pairs: PairView,
    contacts: ContactView,
    after: float,
    sleep: SleepView,
):
    """One thread per world: join trees that touch, put resting islands to sleep, mark those to be woken."""
    w = first + wp.tid()
    for c in range(contacts.world_start[w], contacts.world_start[w] + contacts.world_count[w]):
        join_bodies(tree, sleep, shape.body[contacts.shape0[c]], shape.body[contacts.shape1[c]])
    for k in range(sleep.link_start[w], sleep.link_start[w + 1]):
        join_bodies(tree, sleep, sleep.link_a[k], sleep.link_b[k])
    start = sleep.world_start[w]
    end = sleep.world_start[w + 1]
    # the shortest rest time in an island is gathered at its root
    for i in range(start, end):
        t = sleep.tree[i]
        if sleep.asleep[t] == 0:
            r = root_of(sleep, t)
            sleep.rest_time[r] = wp.min(sleep.rest_time[r], sleep.rest_time[t])
    for i in range(start, end):
        t = sleep.tree[i]
        if sleep.asleep[t] == 0:
            r = root_of(sleep, t)
            sleep.island[t] = r
            # the root has the lowest index and comes first, so it may be asleep by now
            if sleep.rest_time[r] > after:
                sleep.asleep[t] = 1
    # slow bodies wake only islands that they touch; else two resting islands would wake each other forever
    for p in range(pairs.world_start[w], pairs.world_start[w] + pairs.world_count[w]):
        b0 = shape.body[pairs.shape0[p]]
        b1 = shape.body[pairs.shape1[p]]
        disturb(tree, sleep, b0, b1, False, body_qd)
        disturb(tree, sleep, b1, b0, False, body_qd)
    for c in range(contacts.world_start[w], contacts.world_start[w] + contacts.world_count[w]):
        b0 = shape.body[contacts.shape0[c]]
        b1 = shape.body[contacts.shape1[c]]
        disturb(tree, sleep, b0, b1, True, body_qd)
        disturb(tree, sleep, b1, b0, True, body_qd)
