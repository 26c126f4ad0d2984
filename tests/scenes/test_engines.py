"""Scenes mean the same in other engines as the benchmark translates them, and behave alike there."""

import numpy as np
import pytest
from engines.contacts import MujocoEngine, NewtonsimEngine, PybulletEngine
from tasks.contacts import describe

from newtonsim.examples import scenes

DT = 1.0 / 240.0


@pytest.mark.parametrize("name", ["gripper", "ball_pit", "arch", "domino_row"])
@pytest.mark.parametrize("engine", [MujocoEngine, PybulletEngine])
def test_translation_keeps_places_and_masses(name: str, engine: type):
    pytest.importorskip("mujoco" if engine is MujocoEngine else "pybullet")
    model = getattr(scenes, name)().finalize("cpu")
    other, ours = engine(describe(model), DT), NewtonsimEngine(model, DT)
    np.testing.assert_allclose(other.positions(), ours.positions(), atol=1.0e-4)
    if engine is MujocoEngine:
        masses = other.model.body_mass[other.ids]
        np.testing.assert_allclose(masses, model.body_mass.numpy(), rtol=1.0e-5)
        moments = np.linalg.eigvalsh(model.body_inertia.numpy().astype(float))
        found = np.sort(other.model.body_inertia[other.ids], axis=1)
        np.testing.assert_allclose(found, moments, rtol=1.0e-3, atol=1.0e-9)


@pytest.mark.parametrize("name", ["gripper", "domino_row"])
@pytest.mark.parametrize("engine", [MujocoEngine, PybulletEngine])
def test_first_steps_agree(name: str, engine: type):
    """For a twentieth of a second nothing has happened that engines could differ about."""
    pytest.importorskip("mujoco" if engine is MujocoEngine else "pybullet")
    model = getattr(scenes, name)().finalize("cpu")
    other, ours = engine(describe(model), DT), NewtonsimEngine(model, DT)
    for each in (ours, other):
        if name == "gripper":
            each.aim(scenes.GripperScript().targets(0.0))
        each.step(12)
    np.testing.assert_allclose(other.positions(), ours.positions(), atol=1.0e-3)


def test_wave_of_dominoes_is_as_fast_as_in_mujoco():
    pytest.importorskip("mujoco")
    model = scenes.domino_row().finalize("cpu")
    ours, other = NewtonsimEngine(model, DT), MujocoEngine(describe(model), DT)
    assert wave_speed(ours) == pytest.approx(wave_speed(other), rel=0.02)


def wave_speed(engine) -> float:
    """Dominoes per second that sink by a millimetre, from the 15th to the 45th."""
    height, times = engine.positions()[:, 2], np.full(50, np.inf)
    for step in range(1, round(4.5 / DT)):
        engine.step(1)
        sunk = engine.positions()[:, 2] < height - 1.0e-3
        times[sunk & ~np.isfinite(times)] = step * DT
    return 30.0 / (times[45] - times[15])
