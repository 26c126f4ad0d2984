"""Scripts that come with PyBullet run under the real module and under ours, and end up alike.

A sample of those that `scripts.py` runs, one of each kind; docs/pybullet_scripts.md has all of them.
"""

import pytest
import scripts

pytest.importorskip("pybullet_examples")
pytest.importorskip("gym")

ALIKE = {
    "pybullet_examples.biped2d_pybullet": 1e-3,
    "pybullet_examples.constraint": 2e-3,
    "pybullet_examples.createObstacleCourse": 1e-3,
    "pybullet_examples.humanoidMotionCapture": 0.05,
    "pybullet_examples.inverse_dynamics": 1e-3,
    "pybullet_examples.jacobian": 1e-3,
    "pybullet_examples.mimicJointConstraint": 1e-3,
    "pybullet_examples.pdControl": 1e-3,
    "pybullet_examples.soccerball": 1e-3,
    "pybullet_examples.switchConstraintSolver": 2e-3,
    "pybullet_examples.testrender_np": 1e-3,
    "pybullet_examples.video_sync_mp4": 2e-3,
    "pybullet_robots.laikago.laikago": 0.01,
}
"""Scripts, and how far apart [m] any base or link may end up."""

PATIENCE = 300
"""Seconds that a busy machine may take for the steps of a script."""

FEWER_STEPS = {"pybullet_examples.testrender_np": 100}
"""Scripts whose every step draws one curve more with matplotlib; the robot has landed by then."""

RUN = (
    "pybullet_examples.snake",
    "pybullet_examples.inverse_kinematics_husky_kuka",
    "env:AntBulletEnv-v0",
    "env:KukaBulletEnv-v0",
    "env:MinitaurBulletEnv-v0",
    "env:CartPoleBulletEnv-v1",
)
"""What must run; it is chaotic, or goes by the clock."""


@pytest.mark.slow
@pytest.mark.parametrize("script", ALIKE)
def test_a_script_ends_alike(tmp_path, script):
    steps = FEWER_STEPS.get(script, scripts.STEPS)
    real, ours = (scripts.run(engine, script, tmp_path, PATIENCE, steps) for engine in ("real", "ours"))
    assert scripts.ran(real)
    assert scripts.ran(ours), ours
    assert real["steps"] == ours["steps"]
    assert scripts.distance(real, ours) < ALIKE[script]


@pytest.mark.slow
@pytest.mark.parametrize("script", RUN)
def test_a_script_runs(tmp_path, script):
    report = scripts.run("ours", script, tmp_path, PATIENCE)
    assert report["outcome"] == "steps", report
