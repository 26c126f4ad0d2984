"""Kinematics and dynamics of trees against an arm in NumPy, and their inner functions against textbooks."""

import numpy as np
import pytest
import small_arm
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation
from small_trees import SmallTree

from newtonsim.kernels.trees import articulated_factors, crba, damping, energy, forward_kinematics, rnea
from newtonsim.kernels.trees.inverse_kinematics import components, split_rotation, wrap_angle
from newtonsim.kernels.trees.joint_forces import bounded_effort, drive_effort, implicit_inertia
from newtonsim.kernels.trees.middle_velocity import middle_spin
from newtonsim.kernels.trees.muscles import force_of_length, force_of_velocity, muscle_tension
from newtonsim.kernels.trees.point_motion import (
    BodyStateView,
    arc_acceleration,
    base_gravity,
    lacking_gravity,
    parting_acceleration,
    point_motion,
)
from newtonsim.kernels.trees.rnea import body_wrench
from newtonsim.kernels.views.model import (
    MODE_POSITION,
    MODE_VELOCITY,
    BodyView,
    DriveView,
    JointView,
    KinematicsView,
)
from newtonsim.runtime.teams import teams_from

call = DeviceFunctions(
    __name__,
    components,
    split_rotation,
    wrap_angle,
    bounded_effort,
    drive_effort,
    implicit_inertia,
    middle_spin,
    force_of_length,
    force_of_velocity,
    muscle_tension,
    body_wrench,
    point_motion,
    base_gravity,
    lacking_gravity,
    arc_acceleration,
    parting_acceleration,
)


class Arm:
    """The arm of `small_arm`: one tree, one body for each joint."""

    def __init__(self, device: str):
        self.device = device
        tree = SmallTree(small_arm.PARENTS, device)
        self.small, self.tree = tree, tree.view
        self.tree.joint_start, self.tree.joint = tree.ints([0, 3]), tree.ints([0, 1, 2])
        joint = self.joint = JointView()
        joint.type, joint.child = tree.ints([6, 6, 6]), tree.ints([0, 1, 2])
        joint.parent = tree.ints(small_arm.PARENTS)
        joint.q_start = joint.qd_start = tree.ints([0, 1, 2, 3])
        joint.axis_start = tree.ints([0, 1, 2])
        dims = np.array([[0, 1] if turns else [1, 0] for turns in small_arm.TURNS], np.int32)
        joint.axis_dim = wp.array(dims, dtype=int, device=device)
        anchors = np.hstack([small_arm.ANCHORS, small_arm.ANCHOR_TURNS.as_quat()])
        joint.X_p = wp.array(anchors, dtype=wp.transform, device=device)
        joint.X_c = wp.array(np.tile([0, 0, 0, 0, 0, 0, 1.0], (3, 1)), dtype=wp.transform, device=device)
        joint.axis = wp.array(small_arm.AXES, dtype=wp.vec3, device=device)
        body = self.body = BodyView()
        body.mass = tree.floats(small_arm.MASSES)
        body.com = wp.array(small_arm.CENTRES, dtype=wp.vec3, device=device)
        body.inertia = wp.array([np.diag(m) for m in small_arm.MOMENTS], dtype=wp.mat33, device=device)
        kin = self.kin = KinematicsView()
        kin.origin = wp.zeros(1, dtype=wp.vec3, device=device)
        for name in ("dof_X", "body_X"):
            setattr(kin, name, wp.zeros(3, dtype=wp.transform, device=device))
        for name in ("S", "dof_V", "body_V"):
            setattr(kin, name, wp.zeros(3, dtype=wp.spatial_vector, device=device))
        kin.body_com = wp.zeros(3, dtype=wp.vec3, device=device)
        kin.body_I = wp.zeros(3, dtype=wp.mat33, device=device)

    def launch(self, kernel, count: int, *inputs) -> None:
        wp.launch(kernel, count, [0, self.tree, *inputs], device=self.device)

    def launch_team(self, kernel, *inputs) -> None:
        teams = teams_from(0)
        wp.launch(kernel, 1, [teams, self.tree, self.small.levels, *inputs], device=self.device)

    def place(self, q: np.ndarray, qd: np.ndarray) -> None:
        """Poses, velocities and inertias of the bodies."""
        q, qd = self.small.floats(q), self.small.floats(qd)
        self.launch(forward_kinematics.place_origins, 1, self.joint, q, self.kin.origin)
        self.launch(forward_kinematics.compute_poses, 1, self.joint, self.body.com, q, self.kin)
        self.launch(forward_kinematics.compute_velocities, 1, self.joint, qd, self.kin)
        self.launch(forward_kinematics.turn_inertias, 3, self.body, self.kin)


def test_poses_velocities_and_inertia_of_an_arm(device):
    q, qd = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 3))
    arm = Arm(device)
    arm.place(q, qd)
    body_q, body_qd = (wp.zeros(3, dtype=t, device=device) for t in (wp.transform, wp.spatial_vector))
    mask = wp.ones(1, dtype=bool, device=device)
    arm.launch(forward_kinematics.write_body_state, 3, arm.body, arm.kin, mask, 0, body_q, body_qd)
    for i, (R, p) in enumerate(small_arm.frames(q)):
        np.testing.assert_allclose(body_q.numpy()[i, :3], p, atol=1e-5)
        np.testing.assert_allclose(Rotation.from_quat(body_q.numpy()[i, 3:]).as_matrix(), R, atol=1e-5)
        exact = small_arm.jacobian(q, i, small_arm.CENTRES[i]) @ qd
        np.testing.assert_allclose(body_qd.numpy()[i], exact, atol=1e-5)
    composite = crba.CompositeView()
    composite.mass = wp.zeros(3, dtype=float, device=device)
    composite.com = wp.zeros(3, dtype=wp.vec3, device=device)
    composite.inertia = wp.zeros(3, dtype=wp.mat33, device=device)
    added, H, floor = (
        arm.small.floats([0.5, 0.0, 0.0]),
        arm.small.floats([0.0] * 5),
        arm.small.floats([0.0] * 3),
    )
    arm.launch_team(crba.expand_trees, arm.joint, arm.body, added, arm.kin, composite, H, floor)
    exact = small_arm.mass_matrix(q) + np.diag([0.5, 0.0, 0.0])
    np.testing.assert_allclose(H.numpy(), arm.small.sparse(exact).numpy(), rtol=1e-4, atol=1e-5)
    assert composite.mass.numpy()[0] == pytest.approx(small_arm.MASSES.sum())


def test_factors_of_the_inertia_of_an_arm(device):
    q = np.random.default_rng(4).uniform(-1.0, 1.0, 3)
    arm = Arm(device)
    arm.place(q, np.zeros(3))
    articulated = articulated_factors.ArticulatedView()
    articulated.mass = wp.zeros(3, dtype=float, device=device)
    for name in ("rotational", "coupling", "translational"):
        setattr(articulated, name, wp.zeros(3, dtype=wp.mat33, device=device))
    added, L = arm.small.floats([0.5, 0.0, 0.2]), arm.small.floats([0.0] * 5)
    arm.launch_team(articulated_factors.factorize_chains, arm.joint, arm.body, added, arm.kin, articulated, L)
    exact = arm.small.factors(small_arm.mass_matrix(q) + np.diag([0.5, 0.0, 0.2]))
    np.testing.assert_allclose(L.numpy(), exact.numpy(), rtol=1e-4, atol=1e-5)
    assert articulated.mass.numpy()[0] == pytest.approx(small_arm.MASSES.sum())


def test_energies_of_an_arm(device):
    q, qd = np.random.default_rng(8).uniform(-1.0, 1.0, (2, 3))
    arm = Arm(device)
    arm.place(q, qd)
    articulation, gravity = (
        arm.small.ints([0, 0, 0]),
        wp.array([small_arm.GRAVITY], dtype=wp.vec3, device=device),
    )
    kinetic, potential = (arm.small.floats([0.0]) for _ in range(2))
    arm.launch(energy.sum_kinetic_energy, 3, arm.body, arm.kin, articulation, kinetic)
    arm.launch(energy.sum_potential_energy, 3, arm.body, arm.kin, gravity, articulation, potential)
    assert kinetic.numpy()[0] == pytest.approx(0.5 * qd @ small_arm.mass_matrix(q) @ qd, rel=1e-4)
    assert potential.numpy()[0] == pytest.approx(small_arm.potential(q), rel=1e-4)


def test_inverse_dynamics_solves_the_equations_of_lagrange(device):
    q, qd, qdd = np.random.default_rng(1).uniform(-1.0, 1.0, (3, 3))
    arm = Arm(device)
    arm.place(q, qd)
    # the arm stands in world 1 of two
    gravity = wp.array([[1.0, 2.0, 3.0], small_arm.GRAVITY], dtype=wp.vec3, device=device)
    arm.tree.world = arm.small.ints([1])
    rates = [arm.small.floats(x) for x in (qd, qdd)]
    wrenches = np.random.default_rng(2).normal(size=(3, 6))
    external = wp.array(wrenches, dtype=wp.spatial_vector, device=device)
    work = [wp.zeros(3, dtype=wp.spatial_vector, device=device) for _ in range(3)]
    tau = arm.small.floats([0.0] * 3)
    inputs = [arm.joint, arm.body, gravity, arm.kin, *rates, external, *work, tau]
    arm.launch(rnea.inverse_dynamics, 1, *inputs)
    jacobians = [small_arm.jacobian(q, i, small_arm.CENTRES[i]) for i in range(3)]
    exact = small_arm.forces(q, qd, qdd) - sum(J.T @ f for J, f in zip(jacobians, wrenches))
    np.testing.assert_allclose(tau.numpy(), exact, rtol=1e-4, atol=1e-4)


def test_wrench_on_a_body_is_the_rate_of_its_momentum(device):
    rng = np.random.default_rng(3)
    com, spin, speed, alpha, a = rng.normal(size=(5, 3))
    inertia, mass, external = np.diag([0.3, 0.5, 0.7]), 2.0, rng.normal(size=6)

    def momentum(t: float) -> np.ndarray:
        R = Rotation.from_rotvec(t * spin).as_matrix()
        c = com + t * (speed + np.cross(spin, com))
        w, v = spin + t * alpha, speed + t * a
        p = mass * (v + np.cross(w, c))
        return np.concatenate([R @ inertia @ R.T @ w + np.cross(c, p), p])

    rate = (momentum(1e-5) - momentum(-1e-5)) / 2e-5
    about = np.concatenate([external[:3] + np.cross(com, external[3:]), external[3:]])
    motion = [np.concatenate(pair) for pair in ((spin, speed), (alpha, a))]
    found = call(device, body_wrench, mass, com, inertia, *motion, external)
    np.testing.assert_allclose(found[0], rate - about, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_angles_about_successive_axes_compose_to_the_rotation(device, n):
    rng = np.random.default_rng(4)
    axes = Rotation.random(100, random_state=4).as_matrix()
    angles = rng.uniform(-1.4, 1.4, (100, 3)) * (np.arange(3) < n)

    def compose(x: np.ndarray) -> Rotation:
        turns = [Rotation.from_rotvec(x[:, k : k + 1] * axes[:, k]) for k in range(3)]
        return turns[0] * turns[1] * turns[2]

    found = call(device, split_rotation, compose(angles).as_quat(), n, *axes.transpose(1, 0, 2))
    assert (compose(found.astype(np.float64)).inv() * compose(angles)).magnitude().max() < 1e-5
    # of the two solutions the one with the smaller angles, which is the one that was given
    np.testing.assert_allclose(found, angles, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_components_are_those_of_least_squares(device, n):
    rng = np.random.default_rng(5)
    c = rng.normal(size=(3, 50, 3))
    c /= np.linalg.norm(c, axis=2, keepdims=True)
    v = rng.normal(size=(50, 3))
    found = call(device, components, n, *c, v)
    for k in range(50):
        exact = np.linalg.lstsq(c[:n, k].T, v[k])[0]
        np.testing.assert_allclose(found[k, :n], exact, rtol=2e-3, atol=2e-3)
    # a direction twice over gets nothing the second time
    again = call(device, components, 2, c[0], c[0], c[2], v)
    np.testing.assert_allclose(
        again[:, :2], np.stack([np.sum(c[0] * v, axis=1), np.zeros(50)], axis=1), atol=1e-5
    )


def test_free_spin_of_the_midpoint_rule_keeps_energy_and_momentum(device):
    rng = np.random.default_rng(6)
    moments = np.array([0.2, 0.5, 0.6])
    spin = rng.normal(size=(30, 3)) * 5.0
    dt = 0.02
    predicted = spin - dt * np.cross(spin, moments * spin) / moments
    middle = call(device, middle_spin, spin, predicted, np.diag(moments), dt).astype(np.float64)
    end = 2.0 * middle - spin
    energy = np.sum(moments * spin**2, axis=1)
    np.testing.assert_allclose(np.sum(moments * end**2, axis=1), energy, rtol=1e-5)
    size = np.linalg.norm(moments * spin, axis=1)
    np.testing.assert_allclose(np.linalg.norm(moments * end, axis=1), size, rtol=1e-5)
    assert np.abs(end - spin).max() > 0.1


@pytest.mark.parametrize("turn", [1.0, 3.0, 10.0, 300.0])
def test_middle_spin_is_found_however_far_a_body_turns_in_a_step(device, turn):
    # boxes of any proportions, thin plates and rods among them, with any torques
    rng = np.random.default_rng(7)
    n = 300
    square = 10.0 ** rng.uniform(-4.0, -1.0, size=(n, 3))
    moments = square.sum(axis=1, keepdims=True) - square
    axes = Rotation.random(n, random_state=8).as_matrix()
    inertia = np.einsum("nij,nj,nkj->nik", axes, moments, axes)
    spin = rng.normal(size=(n, 3))
    dt = 0.02
    spin *= turn / dt / np.linalg.norm(spin, axis=1, keepdims=True)
    torque = rng.normal(size=(n, 3)) * (rng.random((n, 1)) < 0.5)
    impulse = torque * np.linalg.norm(np.einsum("nij,nj->ni", inertia, spin), axis=1, keepdims=True)
    gyroscopic = dt * np.cross(spin, np.einsum("nij,nj->ni", inertia, spin))
    change = np.linalg.solve(inertia, (impulse - gyroscopic)[..., None])[..., 0]
    middle = call(device, middle_spin, spin, spin + change, inertia, dt).astype(np.float64)
    # what the rule demands, in double precision
    momentum = np.einsum("nij,nj->ni", inertia, middle)
    missing = 2.0 * (momentum - np.einsum("nij,nj->ni", inertia, spin)) + dt * np.cross(middle, momentum)
    # what is rounded: the change by which the impulse is given, and the momenta that it turns
    speed = np.linalg.norm(spin, axis=1) + np.linalg.norm(middle, axis=1)
    scale = moments.max(axis=1) * (np.linalg.norm(change, axis=1) + speed + dt * speed**2)
    assert np.all(np.linalg.norm(missing - impulse, axis=1) < 1e-6 * scale)


def test_muscles(device):
    # greatest at the best length, and falling to both sides alike
    near = call(device, force_of_length, [0.7, 1.0, 1.3])
    assert near[1] == 1.0
    assert near[0] == pytest.approx(near[2], rel=1e-5)
    assert near[0] < 1.0
    # Hill: no force at the greatest speed of shortening, one at rest, smooth, bounded when stretched
    u = np.array([-1.2, -1.0, 0.0, 100.0])
    np.testing.assert_allclose(call(device, force_of_velocity, u), [0.0, 0.0, 1.0, 1.4], atol=2e-3)
    h = 1e-3
    below, here, above = call(device, force_of_velocity, [-h, 0.0, h])
    assert (here - below) / h == pytest.approx((above - here) / h, rel=0.05)
    # a fibre at its best length that is held, pennate by 20 degrees, pulls its tendon with its cosine
    pen, lt, lmax = np.deg2rad(20.0), 0.2, 0.1
    tension = call(
        device, muscle_tension, lt + lmax * np.cos(pen), 0.0, [1.0, 0.5, 2.0, -1.0], 300.0, 1.5, lt, lmax, pen
    )
    np.testing.assert_allclose(tension, 300.0 * np.cos(pen) * np.array([1.0, 0.5, 1.0, 0.0]), atol=1e-2)
    assert call(device, muscle_tension, 0.15, 0.0, 1.0, 300.0, 1.5, lt, lmax, pen)[0] == 0.0


@pytest.mark.parametrize("mode", [MODE_POSITION, MODE_VELOCITY], ids=["position", "velocity"])
def test_implicit_inertia_is_the_slope_of_what_acts_at_the_end_of_the_step(device, mode):
    tree = SmallTree([-1], device)
    tree.view.dof_axis = tree.ints([0])
    drive = DriveView()
    drive.mode = tree.ints([int(mode)])
    values = {"target_ke": 30.0, "target_kd": 2.0, "stiffness": 7.0, "armature": 0.1, "damping": 0.3}
    for name, value in values.items():
        setattr(drive, name, tree.floats([value]))
    dt, q = 0.02, 0.4
    v = np.array([-1.0, 1.0])
    effort = call(device, drive_effort, drive, 0, 0.9, q + dt * v, v)
    slope = -(effort[1] - effort[0]) / 2.0 + 0.3 + 7.0 * dt
    assert call(device, implicit_inertia, 0, tree.view, drive, 1, dt)[0] == pytest.approx(
        0.1 + dt * slope, rel=1e-5
    )
    assert call(device, implicit_inertia, 0, tree.view, drive, 0, dt)[0] == pytest.approx(
        0.1 + dt * (0.3 + 7.0 * dt), rel=1e-5
    )


@pytest.mark.parametrize(
    ("lower", "bounds"), [(-np.inf, (-3.0, 3.0)), (-0.5, (-0.5, 3.0)), (0.0, (0.0, 3.0))]
)
def test_efforts_are_within_their_bounds(device, lower, bounds):
    """Without a least effort, the largest one counts both ways."""
    tree = SmallTree([-1], device)
    drive = DriveView()
    drive.effort_limit, drive.effort_lower = tree.floats([3.0]), tree.floats([lower])
    efforts = np.array([-9.0, -2.0, -0.3, 0.0, 2.0, 9.0])
    expected = np.clip(efforts, *bounds)
    np.testing.assert_array_equal(
        call(device, bounded_effort, drive, 0, efforts), expected.astype(np.float32)
    )


def test_damping_takes_energy_from_every_motion(device):
    rng = np.random.default_rng(7)
    turns = Rotation.random(20, random_state=7)
    spin, speed = rng.normal(size=(2, 20, 3))
    inertia = np.tile(np.diag([0.1, 0.4, 0.2]), (20, 1, 1))

    def array(values, dtype=float) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    wrench = wp.zeros(20, dtype=wp.spatial_vector, device=device)
    inputs = [0, array([2.0] * 20), array(inertia, wp.mat33)]
    inputs += [array(np.hstack([np.zeros((20, 3)), turns.as_quat()]), wp.transform)]
    inputs += [
        array(np.hstack([spin, speed]), wp.spatial_vector),
        array([0.3] * 20),
        array([0.5] * 20),
        wrench,
    ]
    wp.launch(damping.damp_bodies, 20, inputs, device=device)
    world = turns.as_matrix() @ inertia @ turns.as_matrix().transpose(0, 2, 1)
    torque = -0.5 * (1.0 + np.linalg.norm(spin, axis=1))[:, None] * np.einsum("nij,nj->ni", world, spin)
    force = -2.0 * 0.3 * (1.0 + np.linalg.norm(speed, axis=1))[:, None] * speed
    np.testing.assert_allclose(wrench.numpy(), np.hstack([torque, force]), rtol=1e-4, atol=1e-5)
    assert np.all(np.sum(wrench.numpy() * np.hstack([spin, speed]), axis=1) < 0.0)


def test_angles_are_wrapped_by_whole_turns(device):
    x = np.linspace(-20.0, 20.0, 101)
    found = call(device, wrap_angle, x)
    assert np.abs(found).max() <= np.pi + 1e-5
    np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * x), atol=1e-5)


def test_points_go_along_arcs_at_constant_joint_velocities(device):
    """Against differences of positions; a body on no tree turns about its centre of mass."""
    q, qd = np.random.default_rng(9).uniform(-1.0, 1.0, (2, 3))
    arm = Arm(device)
    arm.place(q, qd)
    # the arm stands in world 1 of two
    gravity = wp.array([[1.0, 2.0, 3.0], small_arm.GRAVITY], dtype=wp.vec3, device=device)
    arm.tree.world = arm.small.ints([1])
    dof_A, body_A = (wp.zeros(3, dtype=wp.spatial_vector, device=device) for _ in range(2))
    velocities, none = arm.small.floats(qd), arm.small.floats([0.0] * 3)
    arm.launch(rnea.accelerate_bodies, 1, arm.joint, gravity, arm.kin, velocities, none, dof_A, body_A)
    arm.tree.body_tree = arm.small.ints([0, 0, 0, -1])
    local, spin = np.array([0.3, -0.2, 0.4]), np.array([0.5, -1.0, 2.0])
    bodies = BodyStateView()
    bodies.q = wp.array(np.tile([0, 0, 0, 0, 0, 0, 1.0], (4, 1)), dtype=wp.transform, device=device)
    bodies.qd = wp.array(np.tile([*spin, 1.0, 2.0, 3.0], (4, 1)), dtype=wp.spatial_vector, device=device)
    bodies.com = wp.array(np.tile([0.1, 0.0, 0.0], (4, 1)), dtype=wp.vec3, device=device)

    def place(body: int, time: float) -> np.ndarray:
        R, p = small_arm.frames(q + time * qd)[body]
        return R @ local + p

    points = [place(body, 0.0) for body in range(3)] + [local]
    state = (arm.tree, arm.kin, body_A, wp.vec3(*small_arm.GRAVITY), bodies)
    found = call(device, point_motion, [0, 1, 2, 3], points, *state)
    step = 1.0e-3
    for body in range(3):
        ahead, here, behind = (place(body, time) for time in (step, 0.0, -step))
        np.testing.assert_allclose(found["v"][body], (ahead - behind) / (2.0 * step), atol=1.0e-4)
        np.testing.assert_allclose(found["a"][body], (ahead - 2.0 * here + behind) / step**2, atol=1.0e-3)
    arc = np.cross(spin, local - [0.1, 0.0, 0.0])
    np.testing.assert_allclose(found["v"][3], np.add(arc, [1.0, 2.0, 3.0]), atol=1.0e-5)
    np.testing.assert_allclose(found["a"][3], np.cross(spin, arc), atol=1.0e-5)
    for falls, expected in ((1, [0.0, 0.0, 0.0]), (0, small_arm.GRAVITY)):
        lacking = call(device, lacking_gravity, [0, 3, -1], arm.tree, arm.small.ints([falls]), gravity)
        np.testing.assert_allclose(lacking[0], expected)
        np.testing.assert_array_equal(lacking[1:], 0.0)
    np.testing.assert_allclose(call(device, base_gravity, [0], arm.tree, gravity)[0], small_arm.GRAVITY)


def motion_of(spin: np.ndarray, acceleration: np.ndarray) -> dict[str, np.ndarray]:
    """Motion of a point that stands still for the moment."""
    return {"w": spin, "v": np.zeros(3), "alpha": np.zeros(3), "a": acceleration}


@pytest.mark.parametrize("angle", [0.02, 0.3, 0.9, 1.1, 3.75, 40.0, 1e4])
def test_points_that_turn_stay_near_their_circle(device, angle):
    """Up to a radian in a step, a point is where its arc ends, to the third order; then it stays close."""
    dt, axis, arm = 0.01, np.array([0.6, 0.0, 0.8]), np.array([0.0, 0.2, 0.0])
    w = angle / dt * axis
    v, a = np.cross(w, arm), np.cross(w, np.cross(w, arm))
    way = dt * v + 0.5 * dt**2 * call(device, arc_acceleration, w, a, dt)[0]
    exact = Rotation.from_rotvec(angle * axis).apply(arm) - arm
    if angle <= 1.0:
        assert np.linalg.norm(way - exact) <= 0.2 * angle**3 / 6.0 + 1e-7
    if angle > 1.2:  # no point of the arc is farther along any direction
        direction = np.array([0.3, -0.5, 0.8])
        arcs = Rotation.from_rotvec(np.linspace(0.0, 2.0 * np.pi, 1000)[:, None] * axis).apply(arm) - arm
        assert -1e-4 + (arcs @ direction).min() <= way @ direction <= (arcs @ direction).max() + 1e-4


def test_what_rolls_does_not_slip_and_what_is_carried_goes_along(device):
    up, radius = np.array([0.0, 0.0, 1.0]), 0.3
    still = motion_of(np.zeros(3), np.zeros(3))
    spin = np.array([0.4, 2.0, 1.5])
    rolling = motion_of(spin, np.cross(spin, np.cross(spin, -radius * up)))

    def part(m0, m1, roundness, most_round):
        return call(device, parting_acceleration, m0, m1, up, roundness, most_round, 1e-3)[0]

    np.testing.assert_allclose(part(rolling, still, radius, 10.0), 0.0, atol=1e-5)
    # a wheel, whose radius is not known, and one that is a polygon
    away = radius * (spin[:2] @ spin[:2]) * up
    wheel = motion_of(spin * (1, 1, 0), away)
    np.testing.assert_allclose(part(wheel, still, 0.0, 10.0), 0.0, atol=1e-5)
    np.testing.assert_allclose(part(wheel, still, 0.0, 0.0), away, atol=1e-5)
    # both turn together, so all that differs is to be made up for
    arc = np.array([0.1, 0.2, -0.3])
    pair = motion_of(spin, arc), motion_of(spin, 2.0 * arc)
    np.testing.assert_allclose(part(*pair, radius, 10.0), -arc, atol=1e-5)
