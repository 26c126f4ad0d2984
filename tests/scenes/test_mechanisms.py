"""A linkage stays closed, and a gripper holds what it lifts."""

import numpy as np
import pytest
from scenes.running import DT, STEPS_PER_SECOND, SceneRun

from newtonsim.examples import scenes
from newtonsim.geometry.transforms import transform_inverse, transform_multiply

CRANK, COUPLER, ROCKER, GROUND = scenes.FOUR_BAR


def loop_error(q: np.ndarray) -> float:
    """Distance [m] of the coupler's end from the rocker's, by plane trigonometry."""
    angle = q[0] + q[1]
    coupler = CRANK * np.array([np.cos(q[0]), np.sin(q[0])]) + COUPLER * np.array(
        [np.cos(angle), np.sin(angle)]
    )
    rocker = np.array([GROUND, 0.0]) + ROCKER * np.array([np.cos(q[2]), np.sin(q[2])])
    return float(np.linalg.norm(coupler - rocker))


def test_driven_linkage_turns_and_stays_closed(device: str):
    run = SceneRun(scenes.four_bar(), device)
    q = np.array([run.step().joint_q.copy() for _ in range(10 * STEPS_PER_SECOND)])
    assert max(map(loop_error, q)) < 1.0e-4
    # the drive turns it once a second, up to what the weight of the links makes it lag
    assert abs(q[-1, 0] - q[0, 0] - 2.0 * np.pi * (len(q) - 1) * DT) < 0.2
    # the rocker turns round where crank and coupler are in one line (law of cosines)
    for length, reached in ((COUPLER - CRANK, q[:, 2].max()), (COUPLER + CRANK, q[:, 2].min())):
        cosine = (ROCKER**2 + GROUND**2 - length**2) / (2.0 * ROCKER * GROUND)
        assert abs(np.pi - np.arccos(cosine) - reached) < 2.0e-3


def test_passive_linkage_keeps_its_energy_and_stays_closed(device: str):
    run = SceneRun(scenes.four_bar(speed=None), device)
    start, energies, errors = run.energy(), [], []
    for _ in range(STEPS_PER_SECOND):
        run.step(10)
        energies.append(run.energy())
        errors.append(loop_error(run.joint_q))
    assert max(errors) < 1.0e-4
    assert np.ptp(run.joint_q) > 0.5  # it has swung
    assert np.abs(np.array(energies) - start).max() < 0.02 * start


@pytest.mark.parametrize("grasped", scenes.GRASPED)
def test_gripper_holds_what_it_lifts(grasped: str, device: str):
    run = SceneRun(scenes.gripper(grasped), device)
    script, palm = scenes.GripperScript(), run.model.body_key.index("palm")
    lifted = round((script.closing + script.lifting + 0.2) * STEPS_PER_SECOND)
    for step in range(lifted):
        run.simulator.control.joint_act.assign(script.targets(step * DT))
        run.step()
    assert abs(run.poses[-1, 2] - 0.025 - script.height) < 2.0e-3
    grasp = transform_multiply(transform_inverse(run.poses[palm]), run.poses[-1])
    held, drift = run.drift(10.0), transform_multiply(transform_inverse(run.poses[palm]), run.poses[-1])
    assert held < 1.0e-3
    assert np.linalg.norm(drift[:3] - grasp[:3]) < 1.0e-3
    # both fingers do what the drive of one does
    fingers = run.joint_q[1:3]
    assert abs(fingers[0] - fingers[1]) < 1.0e-4
    assert abs(fingers[0] - 0.025) < 1.0e-3
