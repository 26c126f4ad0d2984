"""Joints of rigid bodies by XPBD: energy, the same motion as in joint coordinates, drives, limits, loops."""

import math

import numpy as np
import pytest
import warp as wp
from body_runs import BodyRun
from physics.linkages import four_bar, gap
from physics.robots import load_robot, varied_starts
from physics.scenes import GRAVITY, Run, add_hinge, diagonal_inertia, many, rotation_matrices, z_up

import newtonsim
from newtonsim import JointMode, dynamics
from newtonsim.errors import ModelError
from newtonsim.scene.enums import JointType
from newtonsim.solvers import XPBDSolver
from newtonsim.testing import random_coordinates, random_model

DT = 1.0 / 240.0
MASS, LENGTH, INERTIA = 1.3, 0.5, 0.02
FREE_TURNS = {"limit_lower": -math.inf, "limit_upper": math.inf}
JOINTS = [t for t in JointType if t != JointType.FREE]


def energy(run: Run) -> float:
    """Kinetic and potential energy, with that of rotors [J]."""
    model = run.model
    kinetic = dynamics.kinetic_energy(model, run.state).numpy().sum()
    rotors = 0.5 * float(model.joint_armature.numpy() @ run.joint_qd**2)
    return float(kinetic + dynamics.potential_energy(model, run.state).numpy().sum()) + rotors


def joint_errors(run: Run) -> float:
    """Largest distance of a body from where its joint coordinates put it [m]."""
    state = run.model.state()
    newtonsim.eval_fk(run.model, run.state.joint_q, run.state.joint_qd, None, state)
    return float(np.abs(state.body_q.numpy()[:, :3] - run.body_q[:, :3]).max())


@pytest.mark.parametrize("armature", [0.0, 0.05])
def test_pendulum_keeps_its_energy_and_period(device: str, armature: float):
    """At 1/240 s with 10 sweeps: under 0.2 % a swing lost, over 12 swings; the exact period to 0.1 %."""
    from scipy.special import ellipk

    world = z_up()
    add_hinge(world, mass=MASS, length=LENGTH, inertia=INERTIA, armature=armature)
    run = BodyRun(world.finalize(device), DT).start(joint_q=[1.0])
    total = INERTIA + MASS * LENGTH**2 + armature
    period = 4.0 * ellipk(math.sin(0.5) ** 2) * math.sqrt(total / (MASS * GRAVITY * LENGTH))
    (angles,) = run.record(round(12.5 * period / DT), "joint_q")
    angles = angles[:, 0]
    upward = np.flatnonzero((angles[:-1] < 0.0) & (angles[1:] >= 0.0))
    crossings = upward - angles[upward] / (angles[upward + 1] - angles[upward])
    assert np.diff(crossings).mean() * DT == pytest.approx(period, rel=1.0e-3)
    last = angles[-round(1.2 * period / DT) :].max()
    kept = (1.0 - math.cos(last)) / (1.0 - math.cos(1.0))
    assert abs(1.0 - kept) / 12.0 < 2.0e-3
    assert joint_errors(run) < 1.0e-5


@pytest.mark.parametrize("ball", [False, True])
def test_a_light_body_on_a_long_lever_gains_nothing(ball: bool, device: str):
    """Its inertia is 1/250 of m L²; two sweeps at 1/60 s must not make it swing over the top."""
    length, radius, dt = 0.5, 0.05, 1.0 / 60.0
    world = z_up()
    body = world.add_body(((length, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
    world.add_shape_sphere(body, radius=radius, density=1000.0)
    frame = ((-length, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    if ball:
        world.add_joint_ball(-1, body, child_xform=frame)
    else:
        world.add_joint_revolute(-1, body, child_xform=frame, axis=(0.0, 1.0, 0.0))
    model = world.finalize(device)
    simulator = newtonsim.Simulator(model, XPBDSolver(model), dt)
    for _ in range(round(5.0 / dt)):
        simulator.step()
        height, qd = simulator.state.body_q.numpy()[0, 2], simulator.state.body_qd.numpy()[0]
        energy = GRAVITY * height + 0.5 * qd[3:] @ qd[3:] + 0.2 * radius**2 * qd[:3] @ qd[:3]
        assert energy < 0.1 * GRAVITY * length


def weightless(joint: JointType, base: JointType | None, armature: float) -> newtonsim.ModelBuilder:
    builder = random_model(4, base=base, joint_types=[joint], armature=armature, body_count=3)
    builder.gravity = 0.0
    return builder


@pytest.mark.parametrize(
    ("joint", "base"),
    [(t, base) for t in JOINTS for base in (None, JointType.FREE) if base or t != JointType.FIXED],
)
def test_every_joint_type_keeps_the_energy(device: str, joint: JointType, base: JointType | None):
    """Three bodies in weightlessness for a second, rotors included."""
    model = weightless(joint, base, 0.02 if joint != JointType.DISTANCE else 0.0).finalize(device)
    run = BodyRun(model, 1.0 / 480.0).start(*random_coordinates(model, 1, speed=0.7))
    before = energy(run)
    run.run_for(1.0)
    assert energy(run) == pytest.approx(before, rel=1.0e-2)


@pytest.mark.parametrize("joint", [t for t in JOINTS if t != JointType.DISTANCE])
def test_every_joint_type_moves_as_in_joint_coordinates(device: str, joint: JointType):
    """The same chain by FeatherstoneSolver, under gravity, damping, springs and joint forces."""
    runs = []
    for kind in (BodyRun, Run):
        builder = random_model(7, base=JointType.FREE, joint_types=[joint], armature=0.02, body_count=3)
        builder.joint_damping = [0.0] * 6 + [0.05] * (len(builder.joint_qd) - 6)
        builder.joint_stiffness = [0.5] * len(builder.joint_stiffness)
        model = builder.finalize(device)
        run = kind(model, 1.0 / 2000.0).start(*random_coordinates(model, 2, speed=0.5))
        efforts = 0.1 * np.random.default_rng(0).normal(size=model.joint_dof_count)
        run.control.joint_f.assign(efforts.astype(np.float32))
        runs.append(run.run_for(0.5))
    np.testing.assert_allclose(runs[0].body_q[:, :3], runs[1].body_q[:, :3], rtol=0.0, atol=5.0e-3)
    turned = rotation_matrices(runs[0].body_q[:, 3:]) - rotation_matrices(runs[1].body_q[:, 3:])
    assert np.abs(turned).max() < 3.0e-2
    assert joint_errors(runs[0]) < 1.0e-3


@pytest.mark.parametrize("target_ke", [10.0, 1.0e4])
def test_drive_holds_a_load(device: str, target_ke: float):
    """Steady state under weight, of a soft drive and of one too stiff for any explicit step."""
    world = z_up()
    add_hinge(
        world,
        mass=MASS,
        length=LENGTH,
        inertia=INERTIA,
        target_ke=target_ke,
        target_kd=3.0 + 0.01 * target_ke,
        mode=JointMode.TARGET_POSITION,
    )
    run = BodyRun(world.finalize(device), DT)
    run.control.joint_act.fill_(1.0)
    run.run_for(8.0)
    angle = run.joint_q[0]
    assert target_ke * (1.0 - angle) == pytest.approx(MASS * GRAVITY * LENGTH * math.sin(angle), rel=5.0e-3)
    assert abs(run.joint_qd[0]) < 1.0e-3


def test_velocity_drive_and_effort_limits(device: str):
    """A velocity drive reaches its speed at the rate of its largest effort; so does a force."""
    world = z_up(gravity=0.0)
    for mode in (JointMode.TARGET_VELOCITY, JointMode.FORCE):
        add_hinge(world, length=0.0, inertia=0.5, target_ke=1.0e3, mode=mode, **FREE_TURNS)
    model = world.finalize(device)
    model.joint_effort_limit.fill_(2.0)
    run = BodyRun(model, DT)
    run.control.joint_act.assign([3.0, 5.0])
    run.run_for(0.5)
    np.testing.assert_allclose(run.joint_qd, [2.0, 2.0], rtol=1.0e-3)
    run.run_for(1.0)
    np.testing.assert_allclose(run.joint_qd, [3.0, 6.0], rtol=1.0e-3)


def test_velocity_limit_and_dry_friction(device: str):
    """One hinge is no faster than its limit, another stops by its friction."""
    world = z_up(gravity=0.0)
    for _ in range(2):
        add_hinge(world, length=0.0, inertia=0.5, **FREE_TURNS)
    model = world.finalize(device)
    model.joint_velocity_limit.assign([1.5, np.inf])
    model.joint_friction.assign([0.0, 0.25])
    run = BodyRun(model, DT).start(joint_qd=[0.0, 1.0])
    run.control.joint_f.assign([2.0, 0.0])
    run.run_for(1.0)
    np.testing.assert_allclose(run.joint_qd, [1.5, 0.5], atol=5.0e-3)
    run.run_for(1.5)
    np.testing.assert_allclose(run.joint_qd, [1.5, 0.0], atol=1.0e-4)


def test_hard_limit_stops_a_fall(device: str):
    world = z_up()
    add_hinge(world, mass=MASS, length=LENGTH, inertia=INERTIA, limit_lower=0.4, limit_upper=2.0)
    run = BodyRun(world.finalize(device), DT).start(joint_q=[1.5])
    (angles,) = run.record(480, "joint_q")
    assert angles.min() > 0.4 - 1.0e-3
    assert run.joint_q[0] == pytest.approx(0.4, abs=1.0e-3)
    assert abs(run.joint_qd[0]) < 1.0e-3


def test_soft_limit_gives_way_by_its_stiffness(device: str):
    world = z_up()
    limits = {"limit_lower": 0.4, "limit_upper": 2.0, "limit_ke": 50.0, "limit_kd": 5.0}
    add_hinge(world, mass=MASS, length=LENGTH, inertia=INERTIA, **limits)
    model = world.finalize(device)
    run = BodyRun(model, DT).start(joint_q=[0.5])
    run.solver.constraints.soft_limits = True
    run.run_for(4.0)
    angle = run.joint_q[0]
    assert 50.0 * (0.4 - angle) == pytest.approx(MASS * GRAVITY * LENGTH * math.sin(angle), rel=5.0e-3)


@pytest.mark.parametrize("least", [-1.0, 0.8])
def test_distance_joint_is_a_rope_or_a_rod(device: str, least: float):
    """A ball on a rope falls freely until it is taut; on a rod it swings at its distance."""
    builder = z_up()
    ball = builder.add_body(
        origin=wp.transform((0.5, 0.0, 0.0 if least < 0.0 else -0.6245), wp.quat_identity()),
        mass=1.0,
        I_m=diagonal_inertia(0.01, 0.01, 0.01),
    )
    builder.add_joint_distance(-1, ball, min_distance=least, max_distance=0.8)
    run = BodyRun(builder.finalize(device), DT)
    run.run_for(0.2)
    if least < 0.0:
        assert run.body_qd[0, 5] == pytest.approx(-GRAVITY * 0.2, rel=1.0e-3)
    (poses,) = run.record(480, "body_q")
    distance = np.linalg.norm(poses[:, 0, :3], axis=1)
    assert distance.max() < 0.8 + 1.0e-3
    assert least < 0.0 or distance.min() > 0.8 - 1.0e-3


def test_compliant_joint_sags_under_load(device: str):
    """A fixed joint of 1e-3 m/N and 0.02 rad/(N m) under a weight at an arm of 0.1 m."""
    builder = z_up()
    body = builder.add_body(mass=2.0, com=(0.1, 0.0, 0.0), I_m=diagonal_inertia(0.02, 0.02, 0.02))
    builder.add_joint_fixed(-1, body, linear_compliance=1.0e-3, angular_compliance=0.02)
    run = BodyRun(builder.finalize(device), DT).run_for(5.0)
    assert run.body_q[0, 2] == pytest.approx(-2.0 * GRAVITY * 1.0e-3, rel=2.0e-2)
    angle = 2.0 * math.asin(run.body_q[0, 4])
    assert angle == pytest.approx(2.0 * GRAVITY * 0.1 * 0.02, rel=2.0e-2)


def test_a_joint_that_is_not_enabled_holds_nothing(device: str):
    world = z_up()
    add_hinge(world, enabled=False)
    run = BodyRun(world.finalize(device), DT).run_for(0.5)
    assert run.body_qd[0, 5] == pytest.approx(-GRAVITY * 0.5, rel=1.0e-4)


def test_angles_go_on_beyond_a_turn(device: str):
    """A wheel that makes five turns has an angle of 10 π, and a drive to that angle brings it there."""
    world = z_up(gravity=0.0)
    axis = {"target_ke": 50.0, "target_kd": 20.0, "mode": JointMode.TARGET_POSITION}
    add_hinge(world, length=0.1, inertia=0.5, **axis, **FREE_TURNS)
    run = BodyRun(world.finalize(device), DT)
    run.control.joint_act.fill_(10.0 * math.pi)
    (angles,) = run.record(1200, "joint_q")
    assert np.abs(np.diff(angles[:, 0])).max() < 1.0
    assert angles[-1, 0] == pytest.approx(10.0 * math.pi, rel=1.0e-2)


def test_four_bar_linkage_stays_closed(device: str):
    """A loop joint closes two chains; the energy of the swinging linkage is kept."""
    run = BodyRun(four_bar(speed=6.0).finalize(device), 1.0 / 480.0)
    before = energy(run)
    (angles,) = run.record(960, "joint_q")
    assert gap(angles).max() < 2.0e-3
    assert energy(run) == pytest.approx(before, rel=1.0e-2)


def test_gear_turns_the_other_wheel(device: str):
    """A torque on one wheel accelerates both: α = τ / (I + r² I)."""
    world = z_up(gravity=0.0)
    for _ in range(2):
        add_hinge(world, length=0.0, inertia=0.2)
    world.add_constraint_coupling(1, 0, (0.0, -2.0))
    run = BodyRun(world.finalize(device), DT)
    run.control.joint_f.assign([1.0, 0.0])
    run.run_for(1.0)
    np.testing.assert_allclose(run.joint_qd, [1.0, -2.0], rtol=1.0e-3)
    assert run.joint_q[1] == pytest.approx(-2.0 * run.joint_q[0], abs=1.0e-4)


@pytest.mark.parametrize(
    ("ratio", "stretch", "options"),
    [
        (1.0, 1.0e-3, {}),
        (100.0, 3.0e-2, {}),
        (100.0, 1.0e-3, {"iterations": 2, "substeps": 10}),
    ],
)
def test_chain_carries_a_heavy_weight(device: str, ratio: float, stretch: float, options: dict):
    """Ten links with a weight of `ratio` links at their end hang still: how far it sinks below its place."""
    builder = z_up()
    parent, below = -1, wp.transform((0.0, 0.0, -0.1), wp.quat_identity())
    for i in range(10):
        mass = 1.0 if i < 9 else ratio
        inertia = diagonal_inertia(*(1.0e-2 * mass * np.array([1.0, 1.0, 1.0])))
        body = builder.add_body(mass=mass, com=wp.vec3(0.0, 0.0, -0.05), I_m=inertia)
        builder.add_joint_ball(parent, body, None if parent < 0 else below, armature=0.0)
        parent = body
    builder.joint_damping[:] = [0.01] * len(builder.joint_damping)
    run = BodyRun(builder.finalize(device), DT, **options).run_for(10.0)
    assert abs(run.body_q[-1, 2] + 0.9) < stretch
    assert np.abs(run.body_qd[:, 3:]).max() < 0.05


@pytest.mark.parametrize("name", ["ant", "quadruped", "humanoid"])
def test_robot_comes_to_rest(device: str, name: str):
    """Dropped from varied poses at 1/240 s: slower than 0.1 rad/s after ten seconds, and all in one piece."""
    builder = many(load_robot(name), 3)
    builder.set_ground_plane()
    model = builder.finalize(device)
    joint_q, joint_qd = varied_starts(model, 3, seed=8, height=1.0)
    # upright and symmetric, the ant balances on its toes
    joint_q[0] = joint_q[1]
    run = BodyRun(model, DT).start(joint_q, joint_qd).run_for(10.0)
    (speeds,) = run.record(120, "joint_qd")
    assert np.abs(speeds).max() < 0.1
    assert run.body_q[:, 2].min() > -0.01
    assert joint_errors(run) < 1.0e-2


def test_motion_of_a_free_body_by_joint_forces(device: str):
    """Forces and damping of a free joint: v' = (F - d v) / m."""
    builder = z_up(gravity=0.0)
    body = builder.add_body(mass=2.0, I_m=diagonal_inertia(0.1, 0.2, 0.3))
    builder.add_joint_free(body)
    builder.joint_damping[:] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    run = BodyRun(builder.finalize(device), DT)
    run.control.joint_f.assign([0.0, 0.0, 0.3, 2.0, 0.0, 0.0])
    run.run_for(1.0)
    assert run.body_qd[0, 3] == pytest.approx(2.0 * (1.0 - math.exp(-0.5)), rel=5.0e-3)
    assert run.body_qd[0, 2] == pytest.approx(1.0, rel=1.0e-3)


def test_armature_of_a_free_body_is_refused():
    builder = z_up()
    body = builder.add_body(mass=1.0, I_m=diagonal_inertia(1.0, 1.0, 1.0), key="kite")
    builder.add_joint_free(body, armature=0.5, key="string")
    with pytest.raises(ModelError, match=r"string.*0\.5"):
        XPBDSolver(builder.finalize("cpu"))
