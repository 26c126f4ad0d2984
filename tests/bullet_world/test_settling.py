"""Candidates in worlds of what they can touch alone move as they do in copies of the whole world."""

import numpy as np
import pytest

import newtonsim.pybullet_compat as p
import newtonsim.pybullet_compat.stand_ins.pybullet_data as pybullet_data
from newtonsim.bullet_world import Object, Use_shadow_world
from newtonsim.bullet_world.settling import alike, settle
from newtonsim.pybullet_compat.bullet_client import BulletClient

SECONDS = 0.5


def in_whole_worlds(item, rows):
    with item.world.shadows(len(rows)) as shadows:
        shadows.place(item, rows)
        shadows.simulate(SECONDS)
        return shadows.frames(item)


def level(*places):
    return np.array([[*place, 0, 0, 0, 1] for place in places], float)


@pytest.fixture
def cube(world):
    Object("table", "environment", "table/table.urdf", fixed_base=True)
    return Object("cube", "item", "cube_small.urdf", [0.3, 0.2, 0.65])


def test_what_stands_still_is_the_same_around_all_worlds(cube):
    """To the last bit, on the table, over its edge, and on the floor."""
    rows = level((0.3, 0.2, 0.651), (0.745, 0, 0.66), (2, 0, 0.03), (0, 0, 1), (0, 0.49, 0.64))
    rows[3, 3:] = [0.1, 0.7, 0.1, 0.7]
    rows[3, 3:] /= np.linalg.norm(rows[3, 3:])
    np.testing.assert_array_equal(settle(cube, rows, SECONDS), in_whole_worlds(cube, rows))


def test_what_comes_along_and_what_it_hits_is_there(world, cube):
    """A block slides into a candidate on the floor, others touch one and stand on it, one meets nothing."""
    sliding = Object("block", "item", "cube_small.urdf", [3, 0, 0.025])
    world.client.resetBaseVelocity(sliding.id, [3, 0, 0])
    Object("block", "item", "cube_small.urdf", [3, 1.2, 0.025])
    rows = level((3.2, 0, 0.025), (3.052, 1.2, 0.026), (3, 1.2, 0.076), (0, 0, 0.651))
    found, whole = settle(cube, rows, SECONDS), in_whole_worlds(cube, rows)
    np.testing.assert_allclose(found, whole, atol=2.0e-3)
    assert found[0, 0] > 3.25
    assert found[2, 2] == pytest.approx(0.075, abs=2.0e-3)


def test_what_is_held_goes_along(world, cube):
    other = Object("other", "item", "cube_small.urdf", [0.3, 0.3, 0.65])
    cube.attach(other)
    rows = level((0.3, 0.2, 0.651), (0.3, 0.45, 0.7))
    np.testing.assert_allclose(settle(cube, rows, SECONDS), in_whole_worlds(cube, rows), atol=1.0e-5)


@pytest.mark.parametrize("by_group", [False, True])
def test_what_does_not_collide_is_passed_through(world, cube, by_group):
    table = world.get_objects_by_name("table")[0]
    if by_group:
        world.client.setCollisionFilterGroupMask(cube.id, -1, 4, 2 + 8)
        world.client.setCollisionFilterGroupMask(table.id, -1, 16, 32)
    else:
        world.client.setCollisionFilterPair(cube.id, table.id, -1, -1, 0)
    rows = level((0.3, 0.2, 0.651))
    found = settle(cube, rows, SECONDS)
    np.testing.assert_allclose(found, in_whole_worlds(cube, rows), atol=1.0e-5)
    assert found[0, 2] < 0.4


def test_candidates_are_divided_by_what_they_have_met():
    met = np.zeros((3, 30), bool)
    met[0, :10] = met[1, 5:20] = True
    met[2, 21] = True
    found = [(objects.tolist(), places.tolist()) for objects, places in alike(met)]
    assert ([False, True, False], list(range(10, 20))) in found
    # the others are fewer than pay for a model of their own
    assert ([True, True, True], [*range(10), 21]) in found
    assert len(found) == 2
    assert alike(np.zeros((0, 5), bool)) == alike(np.zeros((2, 5), bool)) == []


def test_trials_do_not_know_of_each_other(world, cube):
    def fall():
        with Use_shadow_world() as shadow:
            twin = world.get_shadow_object(cube)
            twin.set_position_and_orientation([0.3, 0.2, 0.67], [0.1, 0.2, 0.0, 0.9])
            shadow.simulate(0.3)
            return twin.get_pose(), twin.get_orientation()

    first = fall()
    with Use_shadow_world() as shadow:
        shadow.simulate(0.3)
    assert fall() == first


def test_surroundings_have_no_say_in_queries():
    around, inside = BulletClient(p.DIRECT), BulletClient(p.DIRECT, num_worlds=2)
    for client in (around, inside):
        client.setAdditionalSearchPath(pybullet_data.getDataPath())
    floor = around.loadURDF("plane.urdf")
    cube = inside.loadURDF("cube_small.urdf", [0, 0, 0.1])
    inside.setGravity(0, 0, -10)
    inside.surround(around.standing_links([(floor, -1)]))
    inside.watch_bounds()
    inside.advance(240)
    assert np.asarray(inside.getBasePositionAndOrientation(cube)[0])[:, 2] == pytest.approx(0.025, abs=1.0e-3)
    lower, upper = inside.swept_bounds()
    assert lower.shape == (2, len(inside.shape_links), 3)
    assert np.all((lower[..., 2] < 0.001) & (upper[..., 2] > 0.124))  # from 0.1 m down to the floor
    for ask in (
        lambda: inside.getContactPoints(cube),
        lambda: inside.rayTest([0, 0, 1], [0, 0, -1]),
        lambda: inside.changeDynamics(cube, -1, lateralFriction=[0.1, 0.2]),
    ):
        with pytest.raises(p.error, match="surroundings"):
            ask()
    around.disconnect()
    inside.disconnect()
