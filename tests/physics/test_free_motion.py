"""Bodies in free flight: parabolas, and rotation without torque."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, diagonal_inertia, rotation_matrices, z_up

import newtonsim
from newtonsim import dynamics
from newtonsim.scene.enums import JointType
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver, VBDSolver, XPBDSolver
from newtonsim.testing import random_coordinates, random_model

ENERGY_DRIFT_PER_SECOND = 2.0e-5
MOMENTUM_DRIFT_PER_SECOND = 0.15
"""Relative, per second of step: the angular momentum is kept to first order only."""


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
def test_free_fall_follows_the_parabola(device: str, dt: float):
    builder = z_up()
    for _ in range(3):
        builder.add_body(mass=2.0, com=wp.vec3(0.1, -0.2, 0.05), I_m=diagonal_inertia(0.1, 0.2, 0.25))
    qd = np.array([[0, 0, 0, 0, 0, 0], [0, 0, 0, 1.0, 2.0, 3.0], [3.0, -1.0, 2.0, 0.5, 0.0, 4.0]])
    run = Run(builder.finalize(device), dt).start(joint_qd=qd)
    com = np.array([0.1, -0.2, 0.05])
    seconds = 1.0
    run.run_for(seconds)
    poses = run.body_q.astype(np.float64)
    position = poses[:, :3] + rotation_matrices(poses[:, 3:]) @ com
    gravity = np.array([0.0, 0.0, -GRAVITY])
    expected = com + qd[:, 3:] * seconds + 0.5 * gravity * seconds**2
    # The first-order step is off by half a step of velocity change.
    np.testing.assert_allclose(position, expected, rtol=0.0, atol=0.5 * GRAVITY * seconds * dt + 1.0e-4)
    np.testing.assert_allclose(run.body_qd[:, 3:], qd[:, 3:] + gravity * seconds, rtol=1.0e-5, atol=1.0e-4)


def test_center_of_mass_of_a_mechanism_follows_the_parabola(device: str):
    """Joint forces, springs between its parts and spin do not move the centre of mass of a flying tree."""
    types = [t for t in JointType if t not in (JointType.FREE, JointType.DISTANCE)]
    builder = random_model(21, base=JointType.FREE, joint_types=types, up_vector=(0.0, 0.0, 1.0))
    builder.joint_damping = [0.0] * 6 + [0.2] * (len(builder.joint_qd) - 6)
    model = builder.finalize(device)
    dt, seconds = 1.0 / 480.0, 0.5
    run = Run(model, dt).start(*random_coordinates(model, 0))
    joint_f = np.random.default_rng(0).normal(size=model.joint_dof_count)
    joint_f[:6] = 0.0
    run.control.joint_f.assign(joint_f.astype(np.float32))

    def motion() -> tuple[np.ndarray, np.ndarray]:
        masses = model.body_mass.numpy()
        return dynamics.center_of_mass(model, run.state).numpy()[0], masses @ run.body_qd[
            :, 3:
        ] / masses.sum()

    position, velocity = motion()
    run.run_for(seconds)
    position_after, velocity_after = motion()
    gravity = np.array([0.0, 0.0, -GRAVITY])
    np.testing.assert_allclose(velocity_after, velocity + gravity * seconds, rtol=0.0, atol=5.0e-3)
    expected = position + velocity * seconds + 0.5 * gravity * seconds**2
    np.testing.assert_allclose(position_after, expected, rtol=0.0, atol=0.5 * GRAVITY * seconds * dt + 2.0e-3)


MOMENTS = np.array([1.0, 2.0, 3.0])
SPINS = np.array([[2.0, 0.02, 0.0], [0.02, 2.0, 0.02], [1.0, -1.5, 0.7]])
"""Near the small axis, near the unstable middle axis (it tumbles), and anywhere."""


def tumbling(device: str, dt: float) -> Run:
    builder = z_up(gravity=0.0)
    for _ in SPINS:
        builder.add_body(mass=1.0, I_m=diagonal_inertia(*MOMENTS))
    return Run(builder.finalize(device), dt).start(joint_qd=np.hstack([SPINS, np.zeros((3, 3))]))


def invariants(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Energy (n,) and angular momentum in world axes (n, 3) in float64."""
    R = rotation_matrices(run.body_q[:, 3:])
    omega = np.einsum("nji,nj->ni", R, run.body_qd[:, :3].astype(np.float64))
    return 0.5 * (MOMENTS * omega**2).sum(axis=1), np.einsum("nij,nj->ni", R, MOMENTS * omega)


@pytest.mark.parametrize("dt", [1.0 / 240.0, 1.0 / 1000.0])
def test_rotation_without_torque_keeps_energy_and_momentum(device: str, dt: float):
    run = tumbling(device, dt)
    energy, momentum = invariants(run)
    seconds = 10.0
    run.run_for(seconds)
    energy_after, momentum_after = invariants(run)
    energy_drift = np.abs(energy_after / energy - 1.0).max() / seconds
    size = np.linalg.norm(momentum, axis=1)
    momentum_drift = (np.linalg.norm(momentum_after - momentum, axis=1) / size).max() / seconds
    print(f"dt {dt:.5f}: drift per second: energy {energy_drift:.2e}, angular momentum {momentum_drift:.2e}")
    assert energy_drift < ENERGY_DRIFT_PER_SECOND
    assert momentum_drift < MOMENTUM_DRIFT_PER_SECOND * dt


def test_rotation_without_torque_solves_eulers_equations(device: str):
    """The tumbling itself, not only its invariants: I dω/dt = Iω × ω, solved to 1e-10 by scipy."""
    from scipy.integrate import solve_ivp

    run = tumbling(device, 1.0 / 1000.0)
    seconds = 3.0
    run.run_for(seconds)
    R = rotation_matrices(run.body_q[:, 3:])
    omega = np.einsum("nji,nj->ni", R, run.body_qd[:, :3].astype(np.float64))
    for start, end in zip(SPINS, omega):
        truth = solve_ivp(
            lambda _, w: np.cross(MOMENTS * w, w) / MOMENTS, (0.0, seconds), start, rtol=1e-10, atol=1e-12
        )
        np.testing.assert_allclose(end, truth.y[:, -1], rtol=0.0, atol=5.0e-4)


@pytest.mark.parametrize("turn", [0.5, 2.5, 4.0, 10.0, 80.0])
def test_energy_stays_however_far_a_body_turns_in_a_step(device: str, turn: float):
    """Boxes of random proportions about random axes, and a plate of 2 mm, without forces: 240 steps."""
    rng = np.random.default_rng(4)
    dt = 1.0 / 240.0
    square = 10.0 ** rng.uniform(-4.0, -1.0, size=(100, 3))
    square[0] = [0.16, 0.04, 4.0e-6]
    moments = (square.sum(axis=1, keepdims=True) - square) / 3.0
    spins = rng.normal(size=(100, 3))
    spins *= turn / dt / np.linalg.norm(spins, axis=1, keepdims=True)
    builder = z_up(gravity=0.0)
    for of_body in moments:
        builder.add_body(mass=1.0, I_m=diagonal_inertia(*of_body))
    run = Run(builder.finalize(device), dt).start(joint_qd=np.hstack([spins, np.zeros((100, 3))]))
    energy = (moments * spins**2).sum(axis=1)
    momentum = np.linalg.norm(moments * spins, axis=1)
    for _ in range(10):
        run.run_for(0.1)
        R = rotation_matrices(run.body_q[:, 3:])
        omega = np.einsum("nji,nj->ni", R, run.body_qd[:, :3].astype(np.float64))
        # forces are rounded in proportion to the turn; thin plates and rods stretch errors by 1e3
        tolerance = 2.0e-4 * max(1.0, turn / 10.0)
        np.testing.assert_allclose((moments * omega**2).sum(axis=1), energy, rtol=tolerance)
        np.testing.assert_allclose(np.linalg.norm(moments * omega, axis=1), momentum, rtol=tolerance)


@pytest.mark.parametrize("solver", [FeatherstoneSolver, XPBDSolver, VBDSolver, SemiImplicitSolver])
def test_the_size_of_a_body_does_not_change_how_it_tumbles(device: str, solver: type):
    """Euler's equations are linear in the inertia; products of very small or large ones leave float32."""

    def spins(scale: float) -> np.ndarray:
        builder = z_up(gravity=0.0)
        for _ in SPINS:
            mass = np.clip(scale, 1.0e-18, 1.0e20)
            builder.add_body(mass=mass, I_m=diagonal_inertia(*(scale * MOMENTS)))
        model = builder.finalize(device)
        stepper, state, after = solver(model), model.state(), model.state()
        state.joint_qd.assign(np.hstack([SPINS, np.zeros((3, 3))]).astype(np.float32).ravel())
        newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
        for _ in range(120):
            stepper.step(model, state, after, None, None, 1.0 / 60.0)
            state, after = after, state
        return state.body_qd.numpy()[:, :3]

    expected = spins(1.0)
    for exponent in (-92, -46, 62, 94):
        np.testing.assert_allclose(spins(2.0**exponent), expected, rtol=1.0e-4, atol=1.0e-4)


def energy_error(model, rate: int) -> float:
    """Largest relative change of the kinetic energy with armature, over a second without gravity."""
    run = Run(model, 1.0 / rate).start(*random_coordinates(model, 1, speed=0.7))
    armature = model.joint_armature.numpy()

    def energy() -> float:
        kinetic = float(dynamics.kinetic_energy(model, run.state).numpy()[0])
        return kinetic + 0.5 * float(armature @ run.joint_qd**2)

    start = energy()
    return max(abs(energy() / start - 1.0) for _ in range(4) if run.run_for(0.25))


@pytest.mark.parametrize("base", [None, JointType.FREE])
def test_every_joint_type_keeps_the_energy(device: str, base: JointType | None):
    """A tree with every joint type in weightlessness: no joint makes or eats energy, to first order."""
    builder = random_model(4, base=base, armature=0.02)
    builder.gravity = 0.0
    model = builder.finalize(device)
    coarse, fine = energy_error(model, 480), energy_error(model, 1920)
    print(f"relative energy error after a second: {coarse:.1e} at 1/480 s, {fine:.1e} at 1/1920 s")
    assert coarse < 1.0e-2
    assert fine < 0.35 * coarse
