"""Loop joints: linkages stay closed, and a loop joint does what the joint of a tree does."""

import math

import numpy as np
import pytest
import warp as wp
from physics.linkages import crank_motion, four_bar, gap, random_turn
from physics.scenes import GRAVITY, Run, diagonal_inertia, many, quaternion, rotation_matrices, z_up

import newtonsim
from newtonsim import JointType
from newtonsim.dynamics import kinetic_energy, potential_energy

X, Y, Z = np.eye(3)


def total_energy(run: Run) -> float:
    parts = (kinetic_energy(run.model, run.state), potential_energy(run.model, run.state))
    return float(sum(part.numpy().sum(dtype=np.float64) for part in parts))


@pytest.mark.parametrize("speed", [0.0, 10.0])
def test_four_bar_stays_closed_and_keeps_its_energy(device: str, speed: float):
    """2400 steps of 1/240 s; 10 rad/s turn the crank 19 times."""
    run = Run(four_bar(speed=speed).finalize(device), 1.0 / 240.0)
    energies, gaps, crank = [], [], []
    for _ in range(800):
        run.step(3)
        energies.append(total_energy(run))
        gaps.append(gap(run.joint_q))
        crank.append(run.joint_q[0])
    assert max(gaps) < 1.0e-4
    assert np.ptp(crank) > (100.0 if speed > 0.0 else 3.0)
    # positions and velocities of a step are half a step apart, so the sum swings; means must not drift
    first, last = np.mean(energies[:200]), np.mean(energies[-200:])
    swing = energies[0] + GRAVITY  # relative to a level below the lowest energy
    assert abs(last - first) < 0.01 * swing


@pytest.mark.parametrize("joint_type", [JointType.REVOLUTE, JointType.BALL, JointType.UNIVERSAL])
def test_four_bar_moves_by_the_equation_of_motion(device: str, joint_type: JointType):
    """In a plane, a hinge, a universal joint and a ball close the loop alike."""
    dt, count = 1.0 / 2000.0, 3000
    run = Run(four_bar(joint_type, start=1.3, speed=2.0, dt=dt).finalize(device), dt)
    (angles,) = run.record(count, "joint_q", every=50)
    times = dt * np.arange(0, count + 1, 50)
    expected = crank_motion(1.3, 2.0, GRAVITY, times)
    assert np.ptp(expected) > 2.0
    np.testing.assert_allclose(angles[:, 0], expected, rtol=0.0, atol=1.0e-3)


def test_four_bar_is_second_order(device: str):
    """A quarter of the step leaves about a sixteenth of the error."""
    errors = []
    for dt in (1.0 / 120.0, 1.0 / 480.0):
        world = four_bar(start=1.3, gravity=0.0, speed=4.0, dt=dt)
        run = Run(world.finalize(device), dt).run_for(1.0)
        expected = crank_motion(1.3, 4.0, 0.0, np.array([0.0, 1.0]))[-1]
        errors.append(abs(run.joint_q[0] - expected))
    assert errors[0] < 2.0e-2
    assert errors[1] < 0.1 * errors[0]


JOINTS = {
    "hinge": (JointType.REVOLUTE, None, [(0.2, 0.9, -0.1)]),
    "slider": (JointType.PRISMATIC, [(0.3, 0.1, -0.9)], None),
    "ball": (JointType.BALL, None, None),
    "weld": (JointType.FIXED, None, None),
    "universal": (JointType.UNIVERSAL, None, [(0.0, 1.0, 0.0), (1.0, 0.0, 0.0)]),
    "compound": (JointType.COMPOUND, None, [X, Y, Z]),
    "plane": (JointType.D6, [X, Y], [Z]),
    "rail": (JointType.D6, [Z], [X, Y, Z]),
    "cylinder": (JointType.D6, [Z], [Z]),
    "no rotation": (JointType.D6, [X, Y, Z], None),
    "oblique plane": (JointType.D6, [X, (0.6, 0.8, 0.0)], [Z]),
}
FRAME = wp.transform((0.3, -0.1, 0.8), wp.quat(*quaternion((0.3, 0.5, -0.8), 0.7)))
ANCHOR = wp.transform((-0.1, 0.2, 0.15), wp.quat(*quaternion((0.6, -0.2, 0.3), 1.1)))


def potato(builder: newtonsim.ModelBuilder, **options) -> int:
    inertia = wp.mat33(0.02, 0.002, 0.001, 0.002, 0.05, 0.003, 0.001, 0.003, 0.06)
    return builder.add_body(com=(0.05, -0.02, 0.1), I_m=inertia, mass=1.5, **options)


def tree_and_loop(kind: str, device: str) -> tuple[newtonsim.Model, newtonsim.Model]:
    """Two bodies and a joint between them: as a tree, and as two free bodies with a loop joint."""
    joint_type, linear, angular = JOINTS[kind]
    axes = {"linear_axes": linear, "angular_axes": angular}
    models = []
    for loop in (False, True):
        builder = z_up()
        parent = potato(builder)
        child = potato(builder)
        builder.add_joint_free(parent)
        if loop:
            builder.add_joint_free(child)
            builder.add_loop_joint(joint_type, parent, child, FRAME, ANCHOR, **axes)
        else:
            frames = {"parent_xform": FRAME, "child_xform": ANCHOR}
            builder.add_joint(joint_type, parent, child, **frames, armature=0.0, **axes)
        models.append(builder.finalize(device))
    return models[0], models[1]


@pytest.mark.parametrize("kind", JOINTS)
def test_loop_joint_moves_like_the_joint_of_a_tree(device: str, kind: str):
    """A pair of bodies tumbles in free fall; the reduced coordinates of the tree are the reference."""
    tree, loop = tree_and_loop(kind, device)
    rng = np.random.default_rng(3)
    joint_q = tree.joint_q.numpy().copy()
    joint_q[3:7] = quaternion((1.0, 2.0, 0.5), 0.9)
    if kind != "ball":
        joint_q[7:] = rng.uniform(-0.3, 0.3, len(joint_q) - 7)
    joint_qd = rng.uniform(-1.5, 1.5, tree.joint_dof_count)
    reference = Run(tree, 1.0 / 1000.0).start(joint_q, joint_qd)
    run = Run(loop, 1.0 / 1000.0)
    run.state.body_q.assign(reference.state.body_q)
    run.state.body_qd.assign(reference.state.body_qd)
    newtonsim.eval_ik(loop, run.state, run.state.joint_q, run.state.joint_qd)
    before = reference.body_q
    for one in (reference, run):
        one.run_for(0.6)
    assert np.abs(reference.body_q[:, :3] - before[:, :3]).max() > 0.2
    np.testing.assert_allclose(run.body_q[:, :3], reference.body_q[:, :3], rtol=0.0, atol=2.0e-3)
    turned = rotation_matrices(run.body_q[:, 3:]) - rotation_matrices(reference.body_q[:, 3:])
    assert np.abs(turned).max() < 5.0e-3


def test_welded_bodies_conserve_momentum(device: str):
    """Two free bodies, welded and spinning without gravity, keep their momenta to rounding."""
    builder = z_up(0.0)
    first = builder.add_body(mass=1.0, I_m=diagonal_inertia(0.01, 0.02, 0.03))
    place = wp.transform((0.3, 0.1, 0.2), wp.quat(*quaternion((1.0, 1.0, 0.0), 0.4)))
    second = builder.add_body(origin=place, mass=2.0, I_m=diagonal_inertia(0.04, 0.02, 0.03))
    builder.add_constraint_weld(first, second)
    run = Run(builder.finalize(device), 1.0 / 240.0)
    joint_qd = np.array([3.0, -2.0, 1.0, 0.2, 0.5, -0.3, 3.0, -2.0, 1.0, 0.0, 0.0, 0.0])
    joint_qd[9:] = joint_qd[3:6] + np.cross(joint_qd[:3], [0.3, 0.1, 0.2])
    run.start(joint_qd=joint_qd)
    masses, inertias = np.array([1.0, 2.0]), [np.diag([0.01, 0.02, 0.03]), np.diag([0.04, 0.02, 0.03])]

    def momenta() -> tuple[np.ndarray, np.ndarray]:
        q, qd = run.body_q.astype(float), run.body_qd.astype(float)
        rotation = rotation_matrices(q[:, 3:])
        linear = masses[:, None] * qd[:, 3:]
        spin = [r @ i @ r.T @ w for r, i, w in zip(rotation, inertias, qd[:, :3])]
        # positions belong to the ends of the step, velocities to its middle
        middle = q[:, :3] - 0.5 * run.dt * qd[:, 3:]
        return linear.sum(axis=0), (np.cross(middle, linear) + spin).sum(axis=0)

    linear, angular = momenta()
    run.run_for(5.0)
    after = momenta()
    np.testing.assert_allclose(after[0], linear, rtol=0.0, atol=2.0e-5 * np.linalg.norm(linear))
    np.testing.assert_allclose(after[1], angular, rtol=0.0, atol=2.0e-2 * np.linalg.norm(angular))
    relative = rotation_matrices(run.body_q[:, 3:])
    held = rotation_matrices(quaternion((1.0, 1.0, 0.0), 0.4))
    np.testing.assert_allclose(relative[0].T @ relative[1], held, rtol=0.0, atol=1.0e-4)
    offset = relative[0].T @ (run.body_q[1, :3] - run.body_q[0, :3])
    np.testing.assert_allclose(offset, [0.3, 0.1, 0.2], rtol=0.0, atol=1.0e-4)


def test_weld_to_the_world_holds_an_arm(device: str):
    """The tip of a horizontal double pendulum is welded to the world: nothing moves."""
    builder = z_up()
    parent = -1
    for _ in range(2):
        body = builder.add_body(mass=1.0, com=(0.25, 0.0, 0.0), I_m=diagonal_inertia(0.01, 0.01, 0.01))
        frame = wp.transform((0.0 if parent < 0 else 0.5, 0.0, 0.0), wp.quat_identity())
        builder.add_joint_revolute(parent, body, parent_xform=frame, axis=(0.0, 1.0, 0.0), armature=0.0)
        parent = body
    builder.add_constraint_weld(-1, parent, wp.transform((0.5, 0.0, 0.0), wp.quat_identity()))
    run = Run(builder.finalize(device), 1.0 / 240.0).run_for(3.0)
    assert np.abs(run.joint_q).max() < 1.0e-4
    assert np.abs(run.joint_qd).max() < 1.0e-4


def test_kinematic_body_drags_what_is_tied_to_it(device: str):
    """A body of zero mass moves as told; a weld carries another body along."""
    builder = z_up(0.0)
    hand = builder.add_body(mass=0.0)
    box = builder.add_body(
        origin=wp.transform((0.2, 0.0, 0.0), wp.quat_identity()),
        mass=1.0,
        I_m=diagonal_inertia(0.1, 0.1, 0.1),
    )
    builder.add_constraint_weld(hand, box)
    run = Run(builder.finalize(device), 1.0 / 240.0)
    body_qd = run.body_qd
    body_qd[hand] = [0.0, 0.0, 0.5, 0.3, 0.0, 0.1]
    run.state.body_qd.assign(body_qd)
    run.run_for(2.0)
    np.testing.assert_allclose(run.body_q[hand, :3], [0.6, 0.0, 0.2], rtol=0.0, atol=1.0e-4)
    expected = np.array([0.6, 0.0, 0.2]) + 0.2 * np.array([math.cos(1.0), math.sin(1.0), 0.0])
    np.testing.assert_allclose(run.body_q[box, :3], expected, rtol=0.0, atol=1.0e-3)
    np.testing.assert_allclose(run.body_qd[box, :3], [0.0, 0.0, 0.5], rtol=0.0, atol=1.0e-3)


def test_worlds_at_once_equal_one_at_a_time(device: str):
    """Four linkages with different speeds, one of them broken by a NaN, and each alone."""
    speeds = (0.0, 3.0, -5.0, 8.0)
    worlds = [four_bar(speed=speed) for speed in speeds]
    builder = newtonsim.ModelBuilder(up_vector=worlds[0].up_vector, gravity=worlds[0].gravity)
    for world in worlds:
        builder.add_builder(world)
    model = builder.finalize(device)
    together = Run(model, 1.0 / 240.0)
    joint_q = together.joint_q
    joint_q[6] = np.nan
    together.start(joint_q).run_for(1.0)
    for index in (0, 1, 3):
        alone = Run(worlds[index].finalize(device), 1.0 / 240.0).run_for(1.0)
        np.testing.assert_array_equal(together.joint_q.reshape(4, 3)[index], alone.joint_q)
    assert together.solver.world_nonfinite.numpy().tolist() == [False, False, True, False]


def test_copies_elsewhere_move_alike(device: str):
    """Replicated linkages, with what is tied to the world moved along."""
    world = z_up()
    body = world.add_body(mass=1.0, com=(0.0, 0.0, -0.4), I_m=diagonal_inertia(0.02, 0.02, 0.02))
    world.add_constraint_connect(-1, body, (0.1, 0.2, 0.3), (0.0, 0.0, 0.0))
    world.body_q[body] = wp.transform((0.1, 0.2, 0.3), wp.quat(*quaternion(X, 1.0)))
    builder = newtonsim.ModelBuilder(up_vector=world.up_vector, gravity=world.gravity)
    turn = wp.quat(*quaternion(Z, 0.5))
    builder.replicate(world, 3, spacing=(4.0, 0.0, 0.0), xform=wp.transform((0.0, 1.0, 2.0), turn))
    run = Run(builder.finalize(device), 1.0 / 240.0).run_for(0.7)
    alone = Run(many(world, 1).finalize(device), 1.0 / 240.0).run_for(0.7)
    swung = rotation_matrices(quaternion(Z, 0.5)) @ alone.body_q[0, :3]
    for index, x in enumerate((-4.0, 0.0, 4.0)):
        expected = swung + np.array([x, 1.0, 2.0])
        np.testing.assert_allclose(run.body_q[index, :3], expected, rtol=0.0, atol=1.0e-3)


def test_collapsed_bodies_keep_their_loops(device: str):
    """The coupler's end is a body of its own behind a fixed joint; merging it moves the anchor."""
    plain = four_bar(speed=2.0)
    builder = four_bar(speed=2.0)
    tip = builder.add_body(mass=0.0)
    builder.add_joint_fixed(1, tip, parent_xform=wp.transform((0.5, 0.0, 0.0), wp.quat_identity()))
    builder.constraint_parent[0] = tip
    builder.constraint_X_p[0] = wp.transform_identity()
    builder.collapse_fixed_joints(verbose=False)
    runs = [Run(b.finalize(device), 1.0 / 240.0).run_for(1.0) for b in (plain, builder)]
    np.testing.assert_allclose(runs[1].joint_q, runs[0].joint_q, rtol=0.0, atol=1.0e-4)


def test_loop_that_cannot_close_stays_calm(device: str):
    """A pendulum of 0.5 m is tied to a point 0.8 m away: it stretches out towards it and rests."""
    builder = z_up()
    body = builder.add_body(mass=1.0, com=(0.25, 0.0, 0.0), I_m=diagonal_inertia(0.01, 0.02, 0.02))
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), armature=0.0)
    builder.add_constraint_connect(-1, body, (0.0, 0.0, 0.8), (0.5, 0.0, 0.0))
    run = Run(builder.finalize(device), 1.0 / 240.0)
    rates = run.record(720, "joint_qd")[0]
    assert np.abs(rates).max() < 50.0
    assert np.abs(rates[-100:]).max() < 1.0
    tip = rotation_matrices(run.body_q[0, 3:]) @ [0.5, 0.0, 0.0]
    np.testing.assert_allclose(tip, [0.0, 0.0, 0.5], rtol=0.0, atol=0.02)


def torn_chain(seed: int) -> newtonsim.ModelBuilder:
    """Three ever lighter links, the last of which two ball joints hold at two places that it cannot reach."""
    rng = np.random.default_rng(seed)
    builder, bodies = z_up(), []
    for k in range(3):
        bodies.append(builder.add_body(mass=0.25**k, I_m=diagonal_inertia(0.02, 0.03, 0.025) * 0.25**k))
        axis = rng.normal(size=3)
        builder.add_joint_revolute(
            bodies[k - 1] if k else -1,
            bodies[k],
            *(wp.transform(wp.vec3(*rng.uniform(-0.3, 0.3, 3)), random_turn(rng)) for _ in range(2)),
            axis=wp.vec3(*(axis / np.linalg.norm(axis))),
        )
    for _ in range(2):
        places = [wp.transform(wp.vec3(*rng.uniform(-a, a, 3)), wp.quat_identity()) for a in (0.5, 0.3)]
        builder.add_loop_joint(JointType.BALL, -1, bodies[-1], *places)
    return builder


@pytest.mark.parametrize("rate", [60, 240])
@pytest.mark.parametrize("seed", range(8))
def test_joints_that_contradict_each_other_pull_with_bounded_energy(device: str, seed: int, rate: int):
    """Their impulses used to grow in every step, and to be let loose when the pose changed."""
    run = Run(torn_chain(seed).finalize(device), 1.0 / rate)
    for _ in range(20):
        run.run_for(0.1)
        # each joint pulls the last link at up to 5 m/s; four times as fast, all of the chain has 260 J
        assert float(kinetic_energy(run.model, run.state).numpy().sum()) < 0.5 * 1.31 * 20.0**2


def loaded_chain(links: int, load: float) -> newtonsim.ModelBuilder:
    """A chain of free capsules of 21 g, 60 mm each, hung from the world, with a box at the end [kg]."""
    builder = z_up()
    length, upright = 0.06, wp.quat_identity()
    ends = (0.0, 0.0, 0.5 * length), (0.0, 0.0, -0.5 * length)
    last, where = -1, (0.0, 0.0, 0.0)
    for i in range(links):
        link = builder.add_body(origin=wp.transform((0.0, 0.0, -(i + 0.5) * length), upright))
        builder.add_shape_capsule(link, radius=0.015, half_height=0.02, up_axis=2, density=500.0)
        builder.add_constraint_connect(last, link, where, ends[0])
        last, where = link, ends[1]
    box = builder.add_body(origin=wp.transform((0.0, 0.0, -links * length - 0.06), upright))
    builder.add_shape_box(box, hx=0.05, hy=0.05, hz=0.05, density=load / 1.0e-3)
    builder.add_constraint_connect(last, box, where, (0.0, 0.0, 0.06))
    builder.shape_collision_filter_pairs |= {(i, i + 1) for i in range(links)}
    return builder


@pytest.mark.parametrize(("links", "load"), [(1, 300.0), (5, 200.0), (40, 50.0)])
def test_chain_of_light_links_bears_a_heavy_load(device: str, links: int, load: float):
    """It used to give way ever faster, until the load fell freely."""
    run = Run(loaded_chain(links, load).finalize(device), 1.0 / 240.0)
    run.run_for(1.0)
    heights = run.state.body_q.numpy()[:, 2]
    assert abs(heights[-1] + links * 0.06 + 0.06) < 5.0e-4
