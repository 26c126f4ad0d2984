"""Impacts propagate as mechanics says."""

import numpy as np
import pytest
from scenes.running import STEPS_PER_SECOND, SceneRun

from newtonsim.examples import scenes
from newtonsim.examples.scenes.impacts import CRADLE_LENGTH

FALLEN = 0.5  # [rad]


@pytest.fixture(scope="module")
def dominoes(device: str) -> tuple[SceneRun, np.ndarray]:
    """Dominoes after six seconds, and when each of them had leaned over (50,) [s], inf if it never did."""
    run = SceneRun(scenes.domino_row(), device)
    times = np.full(50, np.inf)
    for step in range(1, 6 * STEPS_PER_SECOND + 1):
        tilts = run.step().tilts()
        times[(tilts > FALLEN) & ~np.isfinite(times)] = step / STEPS_PER_SECOND
    return run, times


def test_dominoes_fall_one_after_another(dominoes):
    run, times = dominoes
    assert np.isfinite(times).all()
    assert np.all(np.diff(times) > 0.0)
    assert np.abs(run.poses[:, 1]).max() < 5.0e-3
    assert np.abs(run.velocities).max() < 1.0e-2
    assert run.deepest() < 2.0e-4


def test_dominoes_come_to_lie_on_each_other(dominoes):
    """A fallen domino rests with its edge on the next one, which lies at the same angle (geometry)."""
    run, _ = dominoes
    half_thick, _, half_tall = scenes.DOMINO
    thick, tall, spacing = 2.0 * half_thick, 2.0 * half_tall, 0.1
    tilts = run.tilts()[5:-5]
    # faces are parallel, a spacing apart along the row and a thickness apart across
    expected = np.arccos(thick / spacing)
    assert tall * np.sin(expected) > spacing
    np.testing.assert_allclose(tilts, expected, atol=np.radians(2.0))


def test_wave_of_dominoes_runs_at_a_steady_speed(dominoes):
    _, times = dominoes
    steps = np.diff(times)[10:-2]
    assert np.ptp(steps) <= 2.0 / STEPS_PER_SECOND + 1.0e-9


@pytest.mark.parametrize(("push", "falls"), [(1.20, False), (1.35, True)])
def test_domino_tips_over_if_its_energy_suffices(push: float, falls: bool, device: str):
    """The critical push lifts the centre of mass right above the edge: I w^2 / 2 = m g (r - h)."""
    half_thick, _, half_tall = scenes.DOMINO
    r = np.hypot(half_thick, half_tall)
    critical = np.sqrt(2.0 * 9.81 * (r - half_tall) / (4.0 / 3.0 * r * r))
    assert (push > critical) == falls
    run = SceneRun(scenes.domino_row(count=1, push=push), device).step(3 * STEPS_PER_SECOND)
    assert (run.tilts()[0] > FALLEN) == falls


@pytest.mark.parametrize("raised", [1, 2])
def test_cradle_passes_the_momentum_on(raised: int, device: str):
    run = SceneRun(scenes.newtons_cradle(raised=raised), device)
    start = run.energy()
    # a quarter of the swing down, until the last ball is at the height of its swing
    swing = period(0.5)
    run.step(round(0.5 * swing * STEPS_PER_SECOND))
    angles = run.joint_q
    np.testing.assert_allclose(angles[-raised:], -0.5, atol=0.02)
    np.testing.assert_allclose(angles[:-raised], 0.0, atol=0.02)
    assert abs(run.energy() - start) < 0.02 * (start - lowest_energy(run))
    # and back
    run.step(round(0.5 * swing * STEPS_PER_SECOND))
    np.testing.assert_allclose(run.joint_q[:raised], 0.5, atol=0.03)
    np.testing.assert_allclose(run.joint_q[raised:], 0.0, atol=0.03)


def lowest_energy(run: SceneRun) -> float:
    """Energy [J] with all balls at rest at the bottom, 50 mm above z = 0."""
    return 9.81 * float(run.mass.sum()) * 0.05


def period(angle: float) -> float:
    """Period [s] of a ball of radius 25 mm on its rod that swings by an angle [rad]."""
    from scipy.special import ellipk

    arm = CRADLE_LENGTH + 0.4 * 0.025**2 / CRADLE_LENGTH
    return 4.0 * np.sqrt(arm / 9.81) * float(ellipk(np.sin(0.5 * angle) ** 2))
