"""Pendulums of which the motion is known in closed form."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, add_hinge, diagonal_inertia, many, quaternion, z_up

from newtonsim import dynamics

MASS, LENGTH, INERTIA, ARMATURE = 1.3, 0.5, 0.02, 0.05
AMPLITUDES = (0.02, 1.0, 2.5)


def exact_period(amplitude: float, armature: float) -> float:
    """T = 4 K(sin²(θ/2)) √(I / m g l) of a rigid pendulum; armature adds to I."""
    from scipy.special import ellipk

    inertia = INERTIA + MASS * LENGTH**2 + armature
    return 4.0 * ellipk(math.sin(0.5 * amplitude) ** 2) * math.sqrt(inertia / (MASS * GRAVITY * LENGTH))


def measured_periods(times: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Mean time between upward zero crossings, one per column."""
    periods = []
    for angle in angles.T:
        before = np.flatnonzero((angle[:-1] < 0.0) & (angle[1:] >= 0.0))
        crossings = times[before] - angle[before] * (times[1] - times[0]) / (
            angle[before + 1] - angle[before]
        )
        periods.append(np.diff(crossings).mean())
    return np.array(periods)


@pytest.mark.parametrize("armature", [0.0, ARMATURE])
def test_period_of_a_pendulum(device: str, armature: float):
    world = z_up()
    add_hinge(world, mass=MASS, length=LENGTH, inertia=INERTIA, armature=armature)
    model = many(world, len(AMPLITUDES)).finalize(device)
    dt = 1.0 / 240.0
    run = Run(model, dt).start(joint_q=AMPLITUDES)
    (angles,) = run.record(2000, "joint_q")
    periods = measured_periods(np.arange(len(angles)) * dt, angles)
    expected = [exact_period(amplitude, armature) for amplitude in AMPLITUDES]
    np.testing.assert_allclose(periods, expected, rtol=1.0e-4)


def test_a_pendulum_keeps_its_energy(device: str):
    """Ten seconds of a double pendulum that swings wide."""
    world = z_up()
    link = add_hinge(world, mass=MASS, length=LENGTH, inertia=INERTIA)
    add_hinge(
        world,
        parent=link,
        mass=1.0,
        length=0.3,
        parent_xform=wp.transform((0.0, 0.0, -1.0), wp.quat_identity()),
    )
    model = world.finalize(device)
    run = Run(model, 1.0 / 1000.0).start(joint_q=[1.0, -0.5])

    def energy() -> float:
        kinetic = dynamics.kinetic_energy(model, run.state).numpy()[0]
        return float(kinetic + dynamics.potential_energy(model, run.state).numpy()[0])

    before = energy()
    energies = []
    for _ in range(20):
        run.run_for(0.5)
        energies.append(energy())
    swing = (MASS * LENGTH + 1.0 * 1.3) * GRAVITY
    drift = np.abs(np.array(energies) - before).max() / swing
    print(f"double pendulum: energy stays within {drift:.2e} of the weight times height")
    assert drift < 2.0e-3


@pytest.mark.parametrize("joint", ["ball", "universal"])
def test_conical_pendulum_circles_at_its_angle(device: str, joint: str):
    """Steady precession Ω of a point mass on a rod: Ω² = g / (l cos θ)."""
    length, theta, point = 0.8, 0.6, 1.0e-6
    world = z_up()
    body = world.add_body(mass=1.0, com=wp.vec3(0.0, 0.0, -length), I_m=diagonal_inertia(point, point, point))
    rate = math.sqrt(GRAVITY / (length * math.cos(theta)))
    if joint == "ball":
        world.add_joint_ball(-1, body, armature=0.0)
        q, qd = quaternion((0.0, 1.0, 0.0), theta), (0.0, 0.0, rate)
    else:
        world.add_joint_universal(-1, body, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), armature=0.0)
        # Tilted about y by θ, moving sideways: only the first axis turns, at Ω sin θ / cos θ.
        q, qd = (0.0, theta), (rate * math.tan(theta), 0.0)
    run = Run(world.finalize(device), 1.0 / 2000.0).start(q, qd)
    heights = []
    for _ in range(20):
        run.run_for(0.1)
        pose = run.body_q[0].astype(np.float64)
        heights.append(np.array(wp.transform_point(wp.transform(*pose), wp.vec3(0.0, 0.0, -length))))
    position = np.array(heights)
    np.testing.assert_allclose(position[:, 2], -length * math.cos(theta), rtol=0.0, atol=5.0e-3)
    np.testing.assert_allclose(np.hypot(*position[:, :2].T), length * math.sin(theta), rtol=0.0, atol=5.0e-3)
    angle = np.unwrap(np.arctan2(position[:, 1], position[:, 0]))
    assert abs(abs(angle[-1] - angle[0]) / 1.9 - rate) < 1.0e-2 * rate
