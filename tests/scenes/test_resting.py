"""What ought to rest does, for ten seconds at 1/240 s, to a millimetre."""

import functools

import numpy as np
import pytest
import warp as wp
from scenes.running import SceneRun

import newtonsim
from newtonsim.examples import scenes

HELD = 1.0e-3  # [m]
DEEPEST = 2.0e-4  # [m]

FROM_THE_START = {
    "pyramid": scenes.box_pyramid,
    "wall": scenes.box_wall,
    "stack": scenes.box_stack,
    "stack, heavy on light": functools.partial(scenes.box_stack, ratio=0.01),
    "card house": scenes.card_house,
    "arch": scenes.arch,
}


@pytest.mark.parametrize("name", FROM_THE_START)
def test_rests_where_it_was_put(name: str, device: str):
    run = SceneRun(FROM_THE_START[name](), device)
    assert run.drift(10.0) < HELD
    assert run.deepest() < DEEPEST
    assert np.abs(run.velocities).max() < 1.0e-2


def test_light_boxes_bear_ten_thousand_times_their_weight(device: str):
    """Eight towers that are crooked by a micrometre; the least tilt of the load would push them over."""
    half, count, towers = 0.025, 10, 8
    crooked = 1.0e-6 * np.random.default_rng(0).normal(size=(towers, count, 2))
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.set_ground_plane(mu=1.0)
    for tower in range(towers):
        world = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        for i in range(count):
            place = (*crooked[tower, i], half * (2 * i + 1))
            body = world.add_body(origin=wp.transform(place, wp.quat_identity()))
            mass = 1000.0 if i == count - 1 else 0.1
            world.add_shape_box(body, hx=half, hy=half, hz=half, density=mass / (2.0 * half) ** 3, mu=1.0)
        scene.add_builder(world)
    run = SceneRun(scene, device)
    # most of it in the first steps, in which impulses find their sizes
    assert run.drift(2.0) < HELD
    assert np.abs(run.velocities).max() < 1.0e-2


def pyramid_of_bricks(courses: int, load: float) -> newtonsim.ModelBuilder:
    """A pyramid of bricks of 5 kg in running bond, 20 mm apart, of which the highest weighs `load` [kg]."""
    half, gap, brick = (0.2, 0.1, 0.1), 0.02, 5.0
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.set_ground_plane(mu=0.5)
    for course in range(courses):
        count = courses - course
        for i in range(count):
            place = ((2.0 * half[0] + gap) * (i - 0.5 * (count - 1)), 0.0, half[2] * (2 * course + 1))
            body = scene.add_body(origin=wp.transform(place, wp.quat_identity()))
            density = (brick if count > 1 else load) / (8.0 * half[0] * half[1] * half[2])
            scene.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2], density=density, mu=0.5)
    return scene


def test_loads_that_sink_in_are_told(device: str):
    """Bricks of 5 kg under 200 tons, more than single precision resolves."""
    model = pyramid_of_bricks(7, 2.0e5).finalize(device)
    simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 1.0 / 240.0)

    def sink() -> None:
        for _ in range(24):
            simulator.step(10)

    with pytest.warns(RuntimeWarning, match="sink into each other under a load"):
        sink()


@pytest.mark.parametrize(("courses", "load"), [(7, 500.0), (7, 5000.0), (10, 1000.0)])
def test_courses_of_bricks_bear_heavy_loads(courses: int, load: float, device: str):
    run = SceneRun(pyramid_of_bricks(courses, load), device)
    assert run.drift(2.0) < HELD
    assert run.deepest() < DEEPEST
    assert np.abs(run.velocities).max() < 1.0e-3
    contacts, body = run.solver.contacts, run.model.shape_body.numpy()
    shapes = np.stack([contacts.rigid_contact_shape0.numpy(), contacts.rigid_contact_shape1.numpy()])
    count = contacts.world_count.numpy()[0]
    on_ground = (body[shapes[:, :count]] == -1).any(axis=0)
    force = np.abs(run.solver.contact_forces().numpy()[:count][on_ground, 2]).sum()
    weight = 9.81 * (5.0 * (courses * (courses + 1) / 2 - 1) + load)
    assert force == pytest.approx(weight, rel=1.0e-3)


@pytest.mark.parametrize("convex", [True, False])
def test_bolt_comes_to_rest_in_the_box(convex: bool, device: str):
    run = SceneRun(scenes.bolt_in_box(convex), device).step(3 * 240)
    assert run.drift(10.0) < HELD
    assert run.deepest() < DEEPEST
    x, y, z = run.poses[0, :3]
    # the shaft has a radius of 15 mm and the head one of 26 mm to its flats
    assert max(abs(x), abs(y)) < 0.12
    assert 0.01 < z < 0.03


def test_humanoid_comes_to_rest_on_the_hills(device: str):
    run = SceneRun(scenes.humanoid_on_terrain(), device).step(8 * 240)
    assert run.drift(10.0) < HELD
    assert run.deepest() < DEEPEST
    hills = scenes.hills()
    rows = np.interp(-run.poses[:, 1], np.linspace(-2.0, 2.0, hills.heights.shape[0]), np.arange(61))
    columns = np.interp(run.poses[:, 0], np.linspace(-2.0, 2.0, hills.heights.shape[1]), np.arange(61))
    ground = hills.heights[np.rint(rows).astype(int), np.rint(columns).astype(int)]
    height = run.poses[:, 2] - ground
    assert height.min() > 0.0
    assert height.max() < 0.35


@pytest.mark.parametrize(("friction", "stands"), [(0.26, False), (0.34, True)])
def test_arch_stands_from_the_friction_that_limit_analysis_asks_for(
    friction: float, stands: bool, device: str
):
    assert arch_can_stand(friction) == stands
    run = SceneRun(scenes.arch(friction=friction), device)
    crown = run.poses[3, 2]
    run.step(3 * 240)
    assert (run.poses[3, 2] > crown - HELD) == stands


def arch_can_stand(friction: float, stones: int = 7, radius: float = 0.5, thickness: float = 0.15) -> bool:
    """Whether forces within the friction cones at both ends of every joint can balance all weights.

    Source: R. K. Livesley, Limit analysis of structures formed from rigid blocks, 1978.
    """
    from scipy.optimize import linprog

    angle = np.linspace(np.pi, 0.0, stones + 1)
    ray = np.column_stack([np.cos(angle), np.sin(angle)])
    onward = np.column_stack([np.sin(angle), -np.cos(angle)])  # across each joint, towards the next stone
    ends = [radius - 0.5 * thickness, radius + 0.5 * thickness]
    balance, weights = np.zeros((3 * stones, 4 * (stones + 1))), np.zeros(3 * stones)
    for k in range(stones):
        middle = np.mean([r * ray[j] for r in ends for j in (k, k + 1)], axis=0)
        weights[3 * k + 1] = 1.0
        for joint, sign in ((k, 1.0), (k + 1, -1.0)):
            for i, r in enumerate(ends):
                arm = r * ray[joint] - middle
                for column, along in ((i, onward[joint]), (2 + i, ray[joint])):
                    moment = arm[0] * along[1] - arm[1] * along[0]
                    balance[3 * k : 3 * k + 3, 4 * joint + column] += sign * np.array([*along, moment])
    cones = np.zeros((4 * (stones + 1), 4 * (stones + 1)))
    for n, (joint, i, sign) in enumerate(np.ndindex(stones + 1, 2, 2)):
        cones[n, 4 * joint + i] = -friction
        cones[n, 4 * joint + 2 + i] = 1.0 - 2.0 * sign
    bounds = [(0.0, None), (0.0, None), (None, None), (None, None)] * (stones + 1)
    found = linprog(np.zeros(len(bounds)), cones, np.zeros(len(cones)), balance, weights, bounds)
    return found.status == 0


@pytest.mark.parametrize(("friction", "stands"), [(0.15, False), (0.22, True)])
def test_card_house_stands_from_the_friction_that_statics_asks_for(
    friction: float, stands: bool, device: str
):
    run = SceneRun(scenes.card_house(friction=friction), device)
    roof = run.poses[-1, 2]
    run.step(3 * 240)
    assert (run.poses[-1, 2] > roof - HELD) == stands
