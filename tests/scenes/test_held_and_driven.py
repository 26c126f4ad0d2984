"""Cubes stay in moving hands, wheels share the weight of a car, and a chain stays where it lies."""

import numpy as np
import pytest
from scenes.running import DT, STEPS_PER_SECOND, SceneRun
from tasks.contact_motion import GRAVITY, Cars, HeldCubes, chain

from newtonsim.geometry.transforms import quat_multiply, quat_rotate, transform_point

SLIP = 5.0e-4  # [m]
TILT = 4.0e-4  # [rad]
JERK = 2.0e-5  # [m] in a step
CREEP = 1.0e-2  # [m]
SHARE = 0.1  # of a quarter of the weight
UNEVEN = 0.02  # of it, of what no balance of forces tells


@pytest.mark.parametrize("seed", [0, 2])
def test_cubes_stay_in_moving_hands(seed: int, device: str):
    cubes = HeldCubes(32, seed)
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
    # a step that ends unsolved turns a cube by tenths of a millimetre at once
    assert np.linalg.norm(np.diff(held, axis=0), axis=-1).max() < JERK


def test_points_of_a_face_want_what_a_rigid_body_can_do(device: str):
    """However far from each other their gaps are, as long as all count as closed."""
    cubes = HeldCubes(32, 2)
    run = SceneRun(cubes.build(), device)
    contacts, rows = run.solver.contacts, run.solver.constraints.rows.contact
    tilted = 0
    for step in range(STEPS_PER_SECOND // 2):
        run.simulator.control.joint_act.assign(cubes.targets(step * DT))
        run.step()
    q = run.joint_q.reshape(cubes.worlds, -1)
    q[:, -4:] = quat_multiply(q[:, -4:], (*(0.5 * TILT,) * 3, 1.0))
    run.simulator.state.joint_q.assign(q.ravel())
    run.step()
    starts, counts = contacts.world_start.numpy(), contacts.world_count.numpy()
    face = (
        contacts.rigid_contact_shape0.numpy() + run.model.shape_count * contacts.rigid_contact_shape1.numpy()
    )
    place, target = rows.place.numpy(), rows.target.numpy()[:, 0]
    gap, closing = contacts.rigid_contact_distance.numpy(), rows.impact.numpy()[:, 1]
    for world in range(cubes.worlds):
        mine = np.arange(starts[world], starts[world] + counts[world])
        for name in np.unique(face[mine]):
            points = mine[(face[mine] == name) & (closing[mine] == 0.0)]
            if len(points) == 4 and np.ptp(gap[points]) > 5.0e-6:
                tilted += 1
                terms = np.column_stack([np.ones(4), place[points] - place[points].mean(axis=0)])
                fit = terms @ np.linalg.lstsq(terms, target[points], rcond=1.0e-4)[0]
                assert np.abs(target[points] - fit).max() < 1.0e-6
    assert tilted > cubes.worlds


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
def test_wheels_bear_their_share_of_the_weight_each(wheels: str, device: str):
    """A quarter, and what speeding up moves from the front to the rear; nothing from corner to corner."""
    cars = Cars(8)
    run = SceneRun(cars.build(), device)
    mine = slice(0 if wheels == "spheres" else 1, None, 2)
    loads, shifts = [], []
    for step in range(3 * STEPS_PER_SECOND):
        before = run.velocities
        run.simulator.control.joint_act.assign(cars.targets(step * DT))
        run.step()
        loads.append(cars.loads(run.solver)[mine])
        shifts.append(load_transfer(cars, run, (run.velocities - before) / DT)[mine])
    expected = 1.0 + np.array(shifts)[..., None] * (1.0, 1.0, -1.0, -1.0)
    assert np.abs(np.array(loads) - expected)[STEPS_PER_SECOND // 2 :].max() < UNEVEN
    driving = np.array(loads[round((cars.STAND + cars.SPEED_UP) / DT) :])
    assert np.ptp(driving, axis=-1).max() < SHARE
    assert np.abs(driving.mean(axis=2) - 1.0).max() < 0.01
    speed = run.velocities.reshape(cars.worlds, cars.BODIES, 6)[mine, 0, 3]
    np.testing.assert_allclose(speed, cars.SPEED, rtol=0.01)


def test_a_load_that_is_shared_anew_is_swept_again(device: str):
    """That is no change of a sweep: neither what is left unsolved, nor a reason for Newton's method."""
    cars, few = Cars(4), SceneRun(Cars(4).build(), device)
    few.solver.options.iterations = 4
    run = SceneRun(cars.build(), device)
    for step in range(STEPS_PER_SECOND):
        for one in (few, run):
            one.simulator.control.joint_act.assign(cars.targets(step * DT))
            one.step()
        assert few.solver.constraints.residual.numpy().max() < 0.1
        assert run.solver.constraints.factorizations.numpy().max() == 0


def load_transfer(cars: Cars, run: SceneRun, acceleration: np.ndarray) -> np.ndarray:
    """What each rear wheel bears more than a quarter of the weight, over that quarter (worlds,).

    From the balance of moments about the axis of a car through the ground below its middle.

    Args:
        cars: The worlds.
        run: The run; the wheels of a car are its last four bodies.
        acceleration: Of all bodies (bodies, 6) [rad/s² and m/s²].
    """
    shape = (cars.worlds, cars.BODIES)
    push = (run.mass * run.poses[:, 2] * acceleration[:, 3]).reshape(shape).sum(axis=1)
    turn = (run.inertia[:, 1, 1] * acceleration[:, 1]).reshape(shape).sum(axis=1)
    x = run.poses[:, 0].reshape(shape)
    base = x[:, 3] - x[:, 1]
    return 2.0 * (push + turn) / base / (GRAVITY * cars.mass)


@pytest.mark.parametrize("bend", [0.0, 1.0])
def test_a_chain_stays_where_it_lies(bend: float, device: str):
    run = SceneRun(chain(60, bend), device)
    assert run.drift(5.0) < CREEP
    assert np.abs(run.velocities).max() < 1.0e-2
