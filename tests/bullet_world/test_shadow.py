"""Shadows are never stale, never leak, and leave nothing behind."""

import gc
import resource
import threading
import time
from itertools import combinations

import numpy as np
import pytest

from newtonsim.bullet_world import BulletWorld, Object, Use_shadow_world
from newtonsim.bullet_world.attachments import attachments_of
from newtonsim.bullet_world.shadows import Shadows
from newtonsim.bullet_world.snapshots import gravity_of


def assert_same(world, shadow):
    """Everything of both worlds is equal, to the last bit."""
    twins = {item: world.get_shadow_object(item) for item in world.objects}
    assert set(twins.values()) == set(shadow.objects)
    assert gravity_of(world) == gravity_of(shadow)
    for item, twin in twins.items():
        assert (item.name, item.type, item.id) == (twin.name, twin.type, twin.id)
        assert item.state() == twin.state()
        assert known_of(item) == known_of(twin)
    holds = {(twins[a.parent], twins[a.child], a.loose, a.offset) for a in attachments_of(world.objects)}
    assert holds == {(a.parent, a.child, a.loose, a.offset) for a in attachments_of(shadow.objects)}
    assert constraints_of(world) == constraints_of(shadow)


def known_of(item):
    """Links, boxes, dynamics and motors of an object."""
    client, links = item.client, item.links
    return (
        [item.get_link_position_and_orientation(name) for name in links],
        [item.get_AABB(name) for name in links],
        [client.getDynamicsInfo(item.id, link) for link in links.values()],
        client.getJointStates(item.id, list(item.joints.values())),
    )


def constraints_of(world):
    client = world.client
    ids = [client.getConstraintUniqueId(k) for k in range(client.getNumConstraints())]
    return [(uid, client.getConstraintInfo(uid), client.getConstraintState(uid)) for uid in ids]


def touches_of(world):
    """Contact points of the last step, of a pass now, and closest points of all pairs."""
    client, ids = world.client, [item.id for item in world.objects]
    before = client.getContactPoints()
    client.performCollisionDetection()
    near = [client.getClosestPoints(a, b, 0.3) for a, b in combinations(ids, 2)]
    return before, client.getContactPoints(), near


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


def test_what_is_simulated_is_the_same(world, arm):
    """After any change, a world and its shadow answer alike, and go on alike, to the last bit."""
    rng = np.random.default_rng(3)
    robot = Object("robot", "robot", arm, [0, 0, 0.5])
    cartons = [Object(f"milk {i}", "milk", "milk.stl", [0.2 * i, 0.3, 0.1 + 0.25 * i]) for i in range(3)]
    client = world.client
    changes = [
        lambda item: item.set_position(rng.uniform(0.0, 1.0, 3)),
        lambda item: robot.set_joint_state("slide", rng.uniform(0.0, 0.5)),
        lambda item: robot.detach(item) if item in robot.attachments else robot.attach(item, "gripper"),
        lambda item: client.changeDynamics(item.id, -1, mass=rng.uniform(0.1, 1), linearDamping=0.1),
        lambda item: client.changeDynamics(item.id, -1, lateralFriction=rng.uniform(), restitution=0.5),
        lambda item: client.setJointMotorControl2(robot.id, 1, client.POSITION_CONTROL, rng.uniform(0, 0.5)),
        lambda item: client.setCollisionFilterPair(item.id, cartons[0].id, -1, -1, int(rng.integers(2))),
        lambda item: client.setTimeStep(1.0 / rng.choice([120, 240])),
        lambda item: client.applyExternalForce(item.id, -1, rng.normal(size=3), [0, 0, 0], client.LINK_FRAME),
    ]
    for _ in range(45):
        item = cartons[rng.integers(3)]
        changes[rng.integers(len(changes))](item)
        with Use_shadow_world() as shadow:
            if rng.integers(2):
                assert_same(world, shadow)
                assert touches_of(world) == touches_of(shadow)
            twin = world.get_shadow_object(item)
            for each in (world, shadow):
                each.simulate(0.03)
            assert_same(world, shadow)
            assert touches_of(world) == touches_of(shadow)
            twin.client.changeDynamics(twin.id, -1, mass=3.0, lateralFriction=0.1)  # is undone
            twin.client.setGravity(0, 1, 0)
            if rng.integers(4) == 0:
                Object("stranger", "milk", "milk.stl")


@pytest.mark.parametrize("removed", [0, 1])
def test_removal_of_an_attached_object_whose_contacts_nobody_read(world, removed):
    pair = [Object(f"carton {i}", "milk", "milk.stl") for i in range(2)]
    for i, item in enumerate(pair):
        item.set_position([i, 0, 0], base=True)
    pair[0].attach(pair[1])
    world.simulate(0.1)
    with Use_shadow_world():
        pass
    pair[removed].remove()
    with Use_shadow_world() as shadow:
        assert_same(world, shadow)
        touches = world.client.getContactPoints()
        assert touches == shadow.client.getContactPoints()
        assert touches  # of the other one with the floor
        world.get_shadow_object(pair[1 - removed]).remove()
        assert shadow.client.getContactPoints() == ()


def test_random_changes_of_structure(world):
    """Objects come, go, hold each other and are simulated; the shadow is entered, and simulated at times."""
    rng, things = np.random.default_rng(11), []
    for i in range(40):
        change = rng.integers(5)
        if change == 0 or len(things) < 3:
            things.append(Object(f"carton {i}", "milk", "milk.stl", [*rng.uniform(-1, 1, 2), 0.1]))
        elif change == 1:
            things.pop(rng.integers(len(things))).remove()
        elif change == 2:
            world.simulate(0.005)
        else:
            a, b = (things[k] for k in rng.choice(len(things), 2, replace=False))
            a.detach(b) if b in a.attachments else a.attach(b)
        with Use_shadow_world() as shadow:
            if rng.integers(4) == 0:
                shadow.simulate(0.005)
            elif rng.integers(4) == 0:
                assert_same(world, shadow)
                assert world.client.getContactPoints() == shadow.client.getContactPoints()


def test_constraints_and_bodies_of_the_client_are_mirrored(world):
    client, milk = world.client, Object("milk", "milk", "milk.stl", [0, 0, 1])
    shape = client.createCollisionShape(client.GEOM_BOX, halfExtents=[0.1, 0.1, 0.1])
    box = client.createMultiBody(1.0, shape, basePosition=[1, 0, 1])
    ball = client.JOINT_POINT2POINT
    client.createConstraint(milk.id, -1, -1, -1, ball, [0, 0, 0], [0, 0, 0.1], [0, 0, 1.1])
    with Use_shadow_world() as shadow:
        assert constraints_of(world) == constraints_of(shadow)
        for each in (world, shadow):
            each.simulate(0.2)
        poses = [each.client.getBasePositionAndOrientation(box) for each in (world, shadow)]
        assert poses[0] == poses[1]
        assert poses[0][0][2] < 1.0  # it falls
        assert_same(world, shadow)
        assert world.get_shadow_object(milk).get_position() == pytest.approx(
            [0, 0, 0.9], abs=2e-2
        )  # it hangs


def test_many_shadows_hold_bodies_of_the_client(world):
    shape = world.client.createCollisionShape(world.client.GEOM_BOX, halfExtents=[0.1, 0.1, 0.1])
    box = world.client.createMultiBody(1.0, shape, basePosition=[1, 0, 1])
    with world.shadows(2) as shadows:
        assert shadows.client.getNumBodies() == 2
        position, _ = shadows.client.getBasePositionAndOrientation(box)
        assert np.array_equal(position, [[1, 0, 1]] * 2)
    with Shadows(world, 2, world.objects) as shadows:
        assert shadows.client.getNumBodies() == 1


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


def test_two_threads_build_and_ask_at_once(arm):
    """Engines, collision passes and queries are made while the other thread makes its own."""
    errors, found = [], {}

    def work(number):
        try:
            with BulletWorld("DIRECT") as world:
                robot, milk = Object("robot", "robot", arm), Object("milk", "milk", "milk.stl", [0.6, 0, 0.3])
                answers = []
                for _ in range(8):
                    robot.attach(milk, "gripper")
                    world.simulate(0.02)
                    with Use_shadow_world() as shadow:
                        twin = world.get_shadow_object(milk)
                        answers += [twin.contact_points(), twin.contact_points()]
                        answers.append(shadow.client.getClosestPoints(twin.id, 0, 1.0))
                    robot.detach(milk)
                    answers.append(milk.get_position())
                found[number] = answers
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert found[0] == found[1]


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
