"""Shadows are never stale, never leak, and leave nothing behind."""

import gc
import resource
import threading
import time

import numpy as np
import pytest

from newtonsim.bullet_world import BulletWorld, Object, Use_shadow_world
from newtonsim.bullet_world.attachments import attachments_of
from newtonsim.bullet_world.snapshots import gravity_of


def assert_same(world, shadow):
    """Everything of both worlds is equal, to the last bit."""
    twins = {item: world.get_shadow_object(item) for item in world.objects}
    assert set(twins.values()) == set(shadow.objects)
    assert gravity_of(world) == gravity_of(shadow)
    for item, twin in twins.items():
        assert (item.name, item.type) == (twin.name, twin.type)
        assert item.state() == twin.state()
    holds = {(twins[a.parent], twins[a.child], a.loose, a.offset) for a in attachments_of(world.objects)}
    assert holds == {(a.parent, a.child, a.loose, a.offset) for a in attachments_of(shadow.objects)}
    assert shadow.client.getNumConstraints() == len(holds)


def test_never_stale(world, arm):
    """A thousand random changes; the shadow is entered after each."""
    rng = np.random.default_rng(7)
    things = [
        Object("robot", "robot", arm),
        *(Object(f"milk {i}", "milk", "milk.stl", [i, 0, 0]) for i in (1, 2)),
    ]
    threads, entries = threading.active_count(), []

    def change():
        item = things[rng.integers(len(things))]
        kind = rng.integers(8)
        if kind == 0:
            item.set_position(rng.normal(size=3))
        elif kind == 1:
            item.set_orientation(rng.normal(size=4))
        elif kind == 2:
            things[0].set_joint_state("slide", rng.uniform(0, 0.5))
        elif kind == 3:
            other = things[rng.integers(len(things))]
            if other in item.attachments:
                item.detach(other)
            elif other is not item:
                item.attach(other, loose=bool(rng.integers(2)))
        elif kind == 4:
            item.set_color(rng.uniform(size=4))
        elif kind == 5 and len(things) > 2:
            things.pop().remove()
        elif kind == 6 and len(things) < 3:
            things.append(Object("milk", "milk", "milk.stl", rng.normal(size=3)))
        else:
            world.client.resetBaseVelocity(item.id, *rng.normal(size=(2, 3)))
            world.set_gravity(rng.normal(size=3))

    for _ in range(1000):
        change()
        start = time.perf_counter()
        with Use_shadow_world() as shadow:
            entries.append(time.perf_counter() - start)
            assert_same(world, shadow)
            twin = shadow.objects[-1]
            twin.set_position(rng.normal(size=3))  # lasts until the next entry
    assert threading.active_count() == threads
    print(f"mean entry {1e3 * np.mean(entries):.2f} ms")


def test_the_same_after_simulation(world, arm):
    robot, milk = Object("robot", "robot", arm, [0, 0, 0.5]), Object("milk", "milk", "milk.stl", [0, 0, 1])
    for _ in range(5):
        world.simulate(0.1)
        with Use_shadow_world() as shadow:
            assert_same(world, shadow)
            shadow.simulate(0.1)
    assert milk.get_position()[2] < 1
    assert robot.get_position()[2] < 0.5


def test_edits_of_the_shadow_do_not_leak(world, arm):
    robot, milk = Object("robot", "robot", arm), Object("milk", "milk", "milk.stl", [0.6, 0, 0])
    robot.attach(milk, "gripper")
    before = [item.state() for item in world.objects]
    with Use_shadow_world() as shadow:
        twin = world.get_shadow_object(milk)
        Object("stranger", "milk", "milk.stl")
        twin.detach(world.get_shadow_object(robot))
        twin.set_color([0, 0, 0, 1])
        shadow.set_gravity([0, 0, 5])
        shadow.simulate(0.5)
        world.get_shadow_object(robot).remove()
    assert [item.state() for item in world.objects] == before
    assert milk in robot.attachments
    assert [item.name for item in world.objects] == ["floor", "robot", "milk"]
    with Use_shadow_world() as shadow:
        assert_same(world, shadow)


def test_blocks_nest_and_survive_errors(world):
    milk = Object("milk", "milk", "milk.stl")

    def fail():
        with Use_shadow_world() as shadow:
            world.get_shadow_object(milk).set_position([1, 1, 1])
            with Use_shadow_world() as again:
                assert again is shadow
                assert world.get_shadow_object(milk).get_position() == pytest.approx([1, 1, 1])
            assert BulletWorld.current_bullet_world is shadow
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert BulletWorld.current_bullet_world is world


def test_two_worlds_in_two_threads():
    """Each thread has its own current world, and its own shadow."""
    errors, heights = [], {}
    barrier = threading.Barrier(2)

    def work(height):
        try:
            with BulletWorld("DIRECT") as world:
                barrier.wait(60)
                milk = Object("milk", "milk", "milk.stl", [0, 0, height])
                assert milk.world is world
                for _ in range(5):
                    with Use_shadow_world() as shadow:
                        assert shadow is world.shadow_world
                        shadow.simulate(0.05)
                    assert BulletWorld.current_bullet_world is world
                    world.simulate(0.05)
                heights[height] = milk.get_position()[2]
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(h,)) for h in (3.0, 5.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert heights[5.0] - heights[3.0] == pytest.approx(2.0, abs=1e-5)


@pytest.mark.slow
def test_two_hundred_worlds_leave_nothing():
    def cycle(count):
        for _ in range(count):
            with BulletWorld("DIRECT") as world:
                Object("milk", "milk", "milk.stl", [0, 0, 1])
                with Use_shadow_world():
                    pass
                world.simulate(1 / 240)
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, threading.active_count()

    memory, threads = cycle(50)
    later, same = cycle(150)
    assert same == threads
    assert later - memory < 30e3  # kB: less than 0.2 MB a world


def test_two_threads_in_one_shadow_take_turns(world):
    milk, errors = Object("milk", "milk", "milk.stl"), []

    def work(height):
        token = BulletWorld.current_bullet_world
        for _ in range(30):
            with Use_shadow_world() as shadow:
                twin = token.get_shadow_object(milk)
                twin.set_position([0, 0, height])
                shadow.simulate(0.02)
                if abs(twin.get_position()[2] - height) > 0.1:
                    errors.append(twin.get_position())

    threads = [threading.Thread(target=work, args=(h,)) for h in (5.0, 50.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_shadow_of_a_file_that_has_changed(world, folder, arm):
    robot = Object("robot", "robot", arm)
    (folder / arm).write_text("<robot/>")
    with Use_shadow_world() as shadow:
        assert_same(world, shadow)
        assert world.get_shadow_object(robot).links == robot.links


def test_an_ended_shadow_is_made_again(world):
    milk = Object("milk", "milk", "milk.stl")
    with Use_shadow_world() as shadow:
        shadow.exit()
    with Use_shadow_world() as again:
        assert again is not shadow
        assert world.get_shadow_object(milk).world is again
