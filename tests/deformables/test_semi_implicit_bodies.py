"""Rigid bodies in SemiImplicitSolver: joints, contacts, spin and muscles."""

import numpy as np
import pytest
import warp as wp
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.scene.enums import JointType
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver
from newtonsim.testing import random_model, random_state

GRAVITY = 9.81


def tumbling(device: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    inertia = wp.mat33(0.02, 0.002, 0.001, 0.002, 0.05, 0.003, 0.001, 0.003, 0.06)
    builder.add_body(com=(0.05, -0.02, 0.1), I_m=inertia, mass=1.5, key="potato")
    model = builder.finalize(device)
    model.joint_qd.assign([4.0, -6.0, 2.0, 0.0, 0.0, 0.0])
    return model


def spin_of(model: newtonsim.Model, body_q: np.ndarray, body_qd: np.ndarray) -> tuple[np.ndarray, float]:
    """Angular momentum of the bodies about the origin, and kinetic energy, in float64."""
    momentum, energy = np.zeros(3), 0.0
    for b in range(model.body_count):
        r = np.array(wp.quat_to_matrix(wp.quat(*body_q[b, 3:].tolist()))).reshape(3, 3)
        inertia = r @ model.body_inertia.numpy()[b].astype(np.float64) @ r.T
        mass, w, v = float(model.body_mass.numpy()[b]), body_qd[b, :3], body_qd[b, 3:].astype(np.float64)
        com = body_q[b, :3] + r @ model.body_com.numpy()[b]
        momentum += inertia @ w + mass * np.cross(com, v)
        energy += 0.5 * w @ inertia @ w + 0.5 * mass * v @ v
    return momentum, energy


def test_tumbling_body_keeps_angular_momentum_and_energy(device):
    model = tumbling(device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, angular_damping=0.0), dt=1.0e-3)
    state = simulator.state
    before, energy = spin_of(model, state.body_q.numpy(), state.body_qd.numpy())
    simulator.step(2000)
    after, energy_end = spin_of(model, state.body_q.numpy(), state.body_qd.numpy())
    np.testing.assert_allclose(after, before, atol=3.0e-5 * np.linalg.norm(before))
    assert energy_end == pytest.approx(energy, rel=1.0e-4)


def test_angular_damping_slows_at_its_rate(device):
    model = tumbling(device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, angular_damping=0.5), dt=1.0e-3)
    state = simulator.state
    before, _ = spin_of(model, state.body_q.numpy(), state.body_qd.numpy())
    simulator.step(1000)
    after, _ = spin_of(model, state.body_q.numpy(), state.body_qd.numpy())
    np.testing.assert_allclose(after, before * np.exp(-0.5), rtol=1.0e-3)


def motion(model: newtonsim.Model, solver, state, dt: float, time: float) -> tuple[np.ndarray, np.ndarray]:
    """Joint coordinates and velocities after a time."""
    simulator = newtonsim.Simulator(model, solver, dt=dt)
    simulator.state.assign(state)
    simulator.step(round(time / dt))
    return simulator.state.joint_q.numpy().copy(), simulator.state.joint_qd.numpy().copy()


@pytest.mark.parametrize("kind", [t.name for t in JointType if t != JointType.DISTANCE])
def test_stiff_joints_move_like_reduced_coordinates(kind, device):
    """The joints of an arm with drives, springs and damping, against FeatherstoneSolver."""
    types = (JointType[kind], JointType.REVOLUTE)
    builder = random_model(11, body_count=3, joint_types=types, base=JointType.REVOLUTE, armature=0.0)
    rng = np.random.default_rng(1)
    axes = len(builder.joint_axis_mode)
    builder.joint_axis_mode[:] = rng.integers(0, 3, axes).tolist()
    builder.joint_target_ke[:] = rng.uniform(0.5, 2.0, axes).tolist()
    builder.joint_target_kd[:] = rng.uniform(0.1, 0.5, axes).tolist()
    builder.joint_stiffness[:] = rng.uniform(0.5, 2.0, axes).tolist()
    builder.joint_spring_ref[:] = rng.uniform(-0.5, 0.5, axes).tolist()
    builder.joint_act[:] = rng.uniform(-0.5, 0.5, axes).tolist()
    builder.joint_damping[:] = rng.uniform(0.1, 0.3, len(builder.joint_damping)).tolist()
    model = builder.finalize(device)
    state = random_state(model, 2, angle=0.4, speed=0.5)
    expected = motion(model, FeatherstoneSolver(model), state, 1.0e-4, 0.1)
    solver = SemiImplicitSolver(model, 0.0, joint_attach_ke=1.0e6, joint_attach_kd=1.0e3)
    found = motion(model, solver, state, 2.0e-5, 0.1)
    start = state.joint_q.numpy()
    assert np.abs(expected[0] - start).max() > 0.02
    np.testing.assert_allclose(found[0], expected[0], atol=3.0e-3)
    np.testing.assert_allclose(found[1], expected[1], atol=0.03)


def pendulum(device: str, **options) -> newtonsim.Model:
    """A rod of 1 kg and 0.5 m on a hinge along y, hanging along -z."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    inertia = wp.mat33(0.02, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0, 0.001)
    body = builder.add_body(com=(0.0, 0.0, -0.25), I_m=inertia, mass=1.0, key="rod")
    builder.add_articulation()
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), armature=0.0, **options)
    return builder.finalize(device)


def settled(model: newtonsim.Model, dt: float = 2.0e-4, time: float = 3.0, **options):
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, **options), dt=dt)
    simulator.step(round(time / dt))
    return simulator


def test_hinge_gives_way_by_its_stiffness(device):
    model = pendulum(device)
    state = settled(model, joint_attach_ke=2.0e3, joint_attach_kd=20.0).state
    np.testing.assert_allclose(state.body_q.numpy()[0, :3], [0.0, 0.0, -GRAVITY / 2.0e3], atol=1.0e-5)


def test_compliance_is_in_series(device):
    model = pendulum(device)
    model.joint_linear_compliance.fill_(1.0e-3)
    state = settled(model, joint_attach_ke=2.0e3, joint_attach_kd=20.0).state
    expected = -GRAVITY * (1.0 / 2.0e3 + 1.0e-3)
    np.testing.assert_allclose(state.body_q.numpy()[0, :3], [0.0, 0.0, expected], atol=1.0e-5)


def test_limit_pushes_with_its_stiffness(device):
    model = pendulum(device, limit_lower=0.5, limit_upper=2.0, limit_ke=40.0, limit_kd=2.0)
    q = settled(model, joint_attach_ke=1.0e5, joint_attach_kd=50.0, dt=1.0e-4).state.joint_q.numpy()[0]
    assert 40.0 * (0.5 - q) == pytest.approx(GRAVITY * 0.25 * np.sin(q), rel=2.0e-3)


def test_drive_within_its_effort_limit(device):
    options = {
        "mode": newtonsim.JOINT_MODE_TARGET_POSITION,
        "target": 1.2,
        "target_ke": 20.0,
        "target_kd": 2.0,
    }
    stiff = {"joint_attach_ke": 1.0e5, "joint_attach_kd": 50.0, "dt": 1.0e-4}
    q = settled(pendulum(device, **options), **stiff).state.joint_q.numpy()[0]
    assert 20.0 * (1.2 - q) == pytest.approx(GRAVITY * 0.25 * np.sin(q), rel=2.0e-3)
    weak = pendulum(device, **options)
    weak.joint_effort_limit.fill_(1.0)
    weak.joint_damping.fill_(0.5)
    q = settled(weak, **stiff).state.joint_q.numpy()[0]
    assert pytest.approx(GRAVITY * 0.25 * np.sin(q), rel=1.0e-2) == 1.0


def test_angles_count_turns(device):
    model = pendulum(device, limit_lower=-100.0, limit_upper=100.0)
    model.gravity = (0.0, 0.0, 0.0)
    state = model.state()
    state.joint_q.assign([3.0])
    state.joint_qd.assign([10.0])
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    solver = SemiImplicitSolver(model, 0.0, joint_attach_ke=1.0e5, joint_attach_kd=50.0)
    q, qd = motion(model, solver, state, 1.0e-4, 1.0)
    assert qd[0] == pytest.approx(10.0, rel=2.0e-2)
    assert q[0] == pytest.approx(13.0, rel=1.0e-2)


def test_ball_joint_within_swing_and_twist(device):
    """A rod on a ball joint is pulled aside and twisted; limits hold it with the stiffness of the joint."""
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    inertia = wp.mat33(0.02, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0, 0.02)
    body = builder.add_body(I_m=inertia, mass=1.0, key="rod")
    builder.add_articulation()
    builder.add_joint_ball(-1, body, armature=0.0)
    model = builder.finalize(device)
    model.joint_swing_limit.fill_(0.4)
    model.joint_twist_upper.fill_(0.3)
    model.joint_twist_lower.fill_(-0.3)
    ke, torque = 2.0e3, 2.0
    stiffness = ke * 0.02  # inertia over mass, times the stiffness of the joint
    for axis, limit in ((1, 0.4), (0, 0.3)):
        simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, 2.0, 1.0, ke, 40.0), dt=2.0e-4)
        push = np.zeros((1, 6), np.float32)
        push[0, axis] = torque
        simulator.state.body_f.assign(push)
        simulator.step(20000)
        turn = simulator.state.joint_q.numpy()
        angle = 2.0 * np.arctan2(turn[axis], turn[3])
        assert angle == pytest.approx(limit + torque / stiffness, rel=1.0e-3)


@pytest.mark.parametrize(("lower", "upper", "away"), [(-1.0, 0.5, 0.5), (0.5, 0.5, 0.5)])
def test_distance_joint_is_a_rope_or_a_rod(lower, upper, away, device):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(I_m=wp.mat33(*(0.01 * np.eye(3)).flatten()), mass=1.0)
    builder.add_articulation()
    builder.add_joint_distance(-1, body, min_distance=lower, max_distance=upper)
    builder.joint_q[:] = [0.0, 0.0, -0.3 if lower < 0.0 else -0.5, 0.0, 0.0, 0.0, 1.0]
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, 0.0, 1.0, 5.0e3, 50.0), dt=2.0e-4)
    simulator.step(100)
    z = simulator.state.body_q.numpy()[0, 2]
    if lower < 0.0:
        assert z == pytest.approx(-0.3 - 0.5 * GRAVITY * 0.02**2, abs=1.0e-4)
    simulator.step(10000)
    z = simulator.state.body_q.numpy()[0, 2]
    assert z == pytest.approx(-away - GRAVITY / 5.0e3, abs=1.0e-4)


def test_free_linkage_keeps_its_momenta(device):
    types = (JointType.REVOLUTE, JointType.PRISMATIC, JointType.BALL, JointType.UNIVERSAL, JointType.FIXED)
    builder = random_model(5, body_count=7, joint_types=types, base=JointType.FREE, armature=0.0)
    builder.gravity = 0.0
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, 0.0, 1.0, 1.0e4, 20.0), dt=1.0e-4)
    simulator.state.assign(random_state(model, 3, speed=1.0))
    mass = model.body_mass.numpy()[:, None]

    def momenta() -> np.ndarray:
        q, qd = simulator.state.body_q.numpy(), simulator.state.body_qd.numpy()
        return np.concatenate([(mass * qd[:, 3:]).sum(axis=0), spin_of(model, q, qd)[0]])

    before, start = momenta(), simulator.state.body_qd.numpy().copy()
    size = np.abs(mass * start[:, 3:]).sum()
    simulator.step(2000)
    assert np.abs(simulator.state.body_qd.numpy() - start).max() > 0.2
    assert np.abs(momenta() - before).max() < 1.0e-4 * size


def box_on_slope(angle: float, device: str) -> newtonsim.Model:
    material = {"ke": 2.0e4, "kd": 200.0, "kf": 1.0e4, "mu": 0.4}
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.2, hy=0.2, hz=0.1, density=100.0, thickness=0.0, **material)
    builder.set_ground_plane(**material)
    model = builder.finalize(device)
    model.gravity = (GRAVITY * np.sin(angle), 0.0, -GRAVITY * np.cos(angle))
    return model


def test_box_slides_down_a_steep_slope_and_stays_on_a_flat_one(device):
    for angle, slides in ((0.2, False), (0.6, True)):
        model = box_on_slope(angle, device)
        simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, 0.0), dt=2.0e-4)
        simulator.step(2500)
        v0 = simulator.state.body_qd.numpy()[0, 3]
        simulator.step(2500)
        slope = (simulator.state.body_qd.numpy()[0, 3] - v0) / 0.5
        expected = GRAVITY * (np.sin(angle) - 0.4 * np.cos(angle)) if slides else 0.0
        assert slope == pytest.approx(expected, abs=0.02)
        if not slides:
            assert abs(v0) < 1.0e-3
    # four corners, each a spring of 20 kN/m under its share of 3.2 kg
    model = box_on_slope(0.0, device)
    depth = 0.1 + model.shape_geo.thickness.numpy().sum() - settled(model).state.body_q.numpy()[0, 2]
    assert depth == pytest.approx(3.2 * GRAVITY / (4.0 * 2.0e4), rel=1.0e-2)


def hill(length, rate, activation, f0, lm, lt, lmax, pen) -> float:
    """Tension of a Hill-type muscle, written down once more (Zajac 1989; curves of Thelen 2003)."""
    along = length - lt
    if along <= 0.0:
        return 0.0
    fibre = np.hypot(along, lmax * np.sin(pen))
    cosine = along / fibre
    u = rate * cosine / (10.0 * lmax)
    velocity = max(1.0 + u, 0.0) / (1.0 - 4.0 * u) if u <= 0.0 else (1.0 + 17.5 * u) / (1.0 + 12.5 * u)
    strain = max(fibre / lm - 1.0, 0.0)
    passive = np.expm1(5.0 * strain / 0.6) / np.expm1(5.0)
    return f0 * (activation * np.exp(-((fibre / lmax - 1.0) ** 2) / 0.45) * velocity + passive) * cosine


MUSCLE = {"f0": 50.0, "lm": 0.25, "lt": 0.3, "lmax": 0.22, "pen": 0.3}


def muscled(device: str, bodies: int = 3) -> newtonsim.Model:
    """Free bodies with a muscle from the world through all of them."""
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    for i in range(bodies):
        pose = wp.transform((0.2 * i, 0.05 * i * i, 0.0), wp.quat_rpy(0.1 * i, 0.2, -0.3 * i))
        inertia = wp.mat33(*(0.01 * np.diag([1.0, 2.0, 2.5])).flatten())
        builder.add_body(origin=pose, com=(0.01, 0.02, -0.03), I_m=inertia, mass=1.0 + i)
    points = [(-0.1, 0.0, 0.0), *[(0.02, 0.05, 0.01 * i) for i in range(bodies)]]
    builder.add_muscle([-1, *range(bodies)], points, **MUSCLE)
    builder.muscle_activations[:] = [0.6]
    return builder.finalize(device)


def path(model: newtonsim.Model, body_q: np.ndarray, body_qd: np.ndarray, time: float) -> float:
    """Length of the muscle after a time at constant velocities [m]."""
    ends = []
    for b, p in zip(model.muscle_bodies.numpy(), model.muscle_points.numpy().astype(np.float64)):
        if b >= 0:
            turn, com = Rotation.from_quat(body_q[b, 3:]), model.body_com.numpy()[b]
            centre = body_q[b, :3] + turn.apply(com) + time * body_qd[b, 3:]
            p = centre + (Rotation.from_rotvec(time * body_qd[b, :3]) * turn).apply(p - com)
        ends.append(p)
    return float(np.linalg.norm(np.diff(ends, axis=0), axis=1).sum())


def test_power_of_a_muscle_is_its_tension_times_its_shortening(device):
    model = muscled(device)
    state, end = model.state(), model.state()
    body_qd = np.random.default_rng(3).normal(size=(3, 6))
    state.body_qd.assign(body_qd)
    body_q = state.body_q.numpy().astype(np.float64)
    solver, dt = SemiImplicitSolver(model, 0.0), 1.0e-3
    solver.step(model, state, end, None, None, dt)
    tension, wrench = float(solver.bodies.tension.numpy()[0]), solver.bodies.f.numpy().astype(np.float64)
    rate = (path(model, body_q, body_qd, 1.0e-5) - path(model, body_q, body_qd, -1.0e-5)) / 2.0e-5
    length, power = path(model, body_q, body_qd, 0.0), np.sum(wrench * body_qd)
    change = end.body_qd.numpy()[:, 3:] - state.body_qd.numpy()[:, 3:]
    np.testing.assert_allclose(change * model.body_mass.numpy()[:, None] / dt, wrench[:, 3:], atol=0.01)
    assert tension == pytest.approx(hill(length, rate, 0.6, **MUSCLE), rel=1.0e-4)
    assert power == pytest.approx(-tension * rate, rel=1.0e-4)
    assert np.abs(wrench[:, 3:]).max() > 1.0


def test_weight_hangs_where_the_tension_carries_it(device):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    pose = wp.transform((0.0, 0.0, -0.55), wp.quat_identity())
    body = builder.add_body(origin=pose, I_m=wp.mat33(*(0.01 * np.eye(3)).flatten()), mass=2.0)
    builder.add_muscle([-1, body], [(0.0, 0.0, 0.0), (0.0, 0.0, 0.0)], **MUSCLE)
    builder.muscle_activations[:] = [0.3]
    model = builder.finalize(device)
    simulator = settled(model, dt=1.0e-3, time=10.0)
    length = -float(simulator.state.body_q.numpy()[0, 2])
    assert abs(simulator.state.body_qd.numpy()[0, 5]) < 1.0e-3
    assert hill(length, 0.0, 0.3, **MUSCLE) == pytest.approx(2.0 * GRAVITY, rel=1.0e-3)
    simulator.control.muscle_activations.fill_(1.0)
    simulator.step(5000)
    assert -simulator.state.body_q.numpy()[0, 2] < length - 0.01


def test_slack_muscle_does_not_push(device):
    assert hill(0.2, 0.0, 1.0, **MUSCLE) == 0.0
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    body = builder.add_body(I_m=wp.mat33(*(0.01 * np.eye(3)).flatten()), mass=2.0)
    builder.add_muscle([-1, body], [(0.0, 0.2, 0.0), (0.0, 0.0, 0.0)], **MUSCLE)
    builder.muscle_activations[:] = [1.0]
    state = settled(builder.finalize(device), dt=1.0e-3, time=0.1).state
    assert np.all(state.body_qd.numpy() == 0.0)


def test_what_it_cannot_do_is_refused(device):
    for name, value in (("lm", 0.0), ("lmax", -1.0), ("lt", -0.1), ("f0", -1.0), ("pen", 2.0)):
        builder = newtonsim.ModelBuilder()
        body = builder.add_body(I_m=wp.mat33(*np.eye(3).flatten()), mass=1.0)
        builder.add_muscle([-1, body], [(0.0, 0.0, 0.0)] * 2, **(MUSCLE | {name: value}))
        with pytest.raises(ModelError, match=f"muscle 0: {name}"):
            SemiImplicitSolver(builder.finalize(device))
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(I_m=wp.mat33(*np.eye(3).flatten()), mass=1.0)
    builder.add_muscle([body], [(0.0, 0.0, 0.0)], **MUSCLE)
    with pytest.raises(ModelError, match="waypoints"):
        SemiImplicitSolver(builder.finalize(device))
    model = tumbling(device)
    for name in ("angular_damping", "joint_attach_ke", "joint_attach_kd", "friction_smoothing"):
        for value in (-1.0, float("nan")):
            with pytest.raises(ValueError, match=name):
                SemiImplicitSolver(model, **{name: value})


@pytest.mark.parametrize("dt", [1 / 500, 1 / 2000])
def test_a_light_body_on_a_long_lever_stays_on_its_joint(dt, device):
    """Its inertia of 1e-3 of m r² would let a damper of `joint_attach_kd` explode above 40 µs."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    body = builder.add_body(((0.5, 0, 0), (0, 0, 0, 1)))
    builder.add_shape_sphere(body, radius=0.05, density=1000)
    builder.add_joint_revolute(-1, body, child_xform=((-0.5, 0, 0), (0, 0, 0, 1)), axis=(0, 1, 0))
    model = builder.finalize(device=device)
    sim = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=dt)
    for _ in range(20):
        sim.step(max(1, round(0.1 / dt)))
        position, velocity = sim.state.body_q.numpy()[0, :3], sim.state.body_qd.numpy()[0, 3:]
        assert 0.4 < np.linalg.norm(position) < 0.7
        assert 0.5 * velocity @ velocity + 9.81 * position[2] < 0.1
