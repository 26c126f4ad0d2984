"""Cubes stay in moving hands, wheels share the weight of a car, and a chain stays where it lies."""

import numpy as np
import pytest
from scenes.running import DT, STEPS_PER_SECOND, SceneRun
from tasks.contact_motion import GRAVITY, Cars, HeldCubes, chain

from newtonsim.geometry.transforms import quat_rotate, transform_point

SLIP = 5.0e-4  # [m]
CREEP = 1.0e-2  # [m]
SHARE = 0.1  # of a quarter of the weight


def test_cubes_stay_in_moving_hands(device: str):
    cubes = HeldCubes(32)
    run = SceneRun(cubes.build(), device)
    corners, palms = [], []
    for step in range(STEPS_PER_SECOND):
        run.simulator.control.joint_act.assign(cubes.targets(step * DT))
        run.step()
        corners.append(cubes.corners(run.poses))
        palms.append(run.poses.reshape(cubes.worlds, cubes.BODIES, 7)[:, 3])
    assert spare_friction(cubes, np.array(palms)) > 1.2
    held = np.array(corners[STEPS_PER_SECOND // 5 :])
    assert np.linalg.norm(held - held[0], axis=-1).max() < SLIP


def spare_friction(cubes: HeldCubes, palms: np.ndarray) -> float:
    """Friction that Coulomb's law allows over that which moves the cubes with the palms, where it is least.

    Args:
        cubes: The worlds.
        palms: Poses of the palms after each step (steps, worlds, 7).
    """
    place = transform_point(palms, np.broadcast_to([cubes.HAND, 0.0, 0.0], (*palms.shape[:2], 3)))
    apart = 4  # steps, or else differences show the rounding of the positions
    now = slice(apart, -apart)
    acceleration = (place[2 * apart :] - 2.0 * place[now] + place[: -2 * apart]) / (apart * DT) ** 2
    pull = acceleration + np.array([0.0, 0.0, GRAVITY])
    across = quat_rotate(palms[now, :, 3:], np.broadcast_to([0.0, 1.0, 0.0], pull.shape))
    normal = np.sum(pull * across, axis=-1)
    along = cubes.mass * np.linalg.norm(pull - normal[..., None] * across, axis=-1)
    # springs share what is pulled across; beside a given force all of it is missing at the other finger
    given = np.arange(cubes.worlds) % 2 == 1
    missing = (cubes.mass + 2.0 * cubes.FINGER_MASS) * np.abs(normal)
    assert np.all(missing < cubes.squeeze)
    total = 2.0 * cubes.squeeze - np.where(given, missing, 0.0)
    return float((cubes.friction * total / along).min())


@pytest.mark.parametrize("wheels", ["spheres", "cylinders"])
def test_wheels_bear_a_quarter_of_the_weight_each(wheels: str, device: str):
    cars = Cars(8)
    run = SceneRun(cars.build(), device)
    mine = slice(0 if wheels == "spheres" else 1, None, 2)
    loads = []
    for step in range(3 * STEPS_PER_SECOND):
        run.simulator.control.joint_act.assign(cars.targets(step * DT))
        run.step()
        loads.append(cars.loads(run.solver)[mine])
    standing = loads[round(cars.STAND / DT) - 1]
    assert np.abs(standing - 1.0).max() < SHARE
    assert np.ptp(standing, axis=1).max() < SHARE
    driving = np.array(loads[round((cars.STAND + cars.SPEED_UP) / DT) :])
    assert np.abs(driving.mean(axis=0) - 1.0).max() < SHARE
    assert np.abs(driving.mean(axis=2) - 1.0).max() < 0.01
    speed = run.velocities.reshape(cars.worlds, cars.BODIES, 6)[mine, 0, 3]
    np.testing.assert_allclose(speed, cars.SPEED, rtol=0.01)


@pytest.mark.parametrize("bend", [0.0, 1.0])
def test_a_chain_stays_where_it_lies(bend: float, device: str):
    run = SceneRun(chain(60, bend), device)
    assert run.drift(5.0) < CREEP
    assert np.abs(run.velocities).max() < 1.0e-2
