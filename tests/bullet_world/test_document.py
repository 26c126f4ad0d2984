"""The sentences of the reference document that say what happens, one by one."""

import sys
import threading
import time

import numpy as np
import pytest
from household import milk_carton

from newtonsim.bullet_world import BulletWorld, Object, Use_shadow_world, WorldExitedError


def test_several_worlds_have_different_scenes():
    with BulletWorld("DIRECT") as first, BulletWorld("DIRECT") as second:
        milk = Object("milk", "milk", "milk.stl", world=first)
        assert milk in first.objects
        assert [item.name for item in second.objects] == ["floor"]


def test_objects_by_name_and_id(world):
    a, b = Object("milk", "milk", "milk.stl"), Object("milk", "food", "milk.stl", [1, 0, 0])
    Object("cup", "cup", "milk.stl", [2, 0, 0])
    assert world.get_objects_by_name("milk") == [a, b]
    assert world.get_object_by_id(b.id) is b
    with pytest.raises(KeyError, match="77"):
        world.get_object_by_id(77)


def test_objects_by_type(world):
    milk = Object("a", "milk", "milk.stl")
    assert world.get_objects_by_type("milk") == [milk]
    assert [item.name for item in world.get_objects_by_type("environment")] == ["floor"]


def test_events_belong_to_their_world():
    with BulletWorld("DIRECT") as first, BulletWorld("DIRECT") as second:
        events = [
            event
            for w in (first, second)
            for event in (w.get_attachment_event(), w.get_detachment_event(), w.get_manipulation_event())
        ]
        assert len(set(map(id, events))) == 6


def test_gravity(world):
    milk = Object("milk", "milk", "milk.stl", [0, 0, 5])
    world.set_gravity([0, 3, 0])
    world.simulate(0.5)
    fallen = np.subtract(milk.get_position(), [0, 0, 5])
    assert fallen == pytest.approx([0, 0.5 * 3 * 0.25, 0], abs=0.02)


@pytest.mark.parametrize(
    ("seconds", "steps"), [(1.0, 240), (0.5, 120), (1 / 240, 1), (0.9 / 240, 0), (2.5 / 240, 2)]
)
def test_simulate_makes_the_steps_that_fit(world, seconds, steps):
    """Free fall of n steps of symplectic Euler without damping: g h² n (n + 1) / 2."""
    milk = Object("milk", "milk", "milk.stl", [0, 0, 20])
    world.client.changeDynamics(milk.id, -1, linearDamping=0, angularDamping=0)
    world.simulate(seconds)
    assert 20 - milk.get_position()[2] == pytest.approx(
        9.8 / 240**2 * steps * (steps + 1) / 2, rel=1e-3, abs=4e-6
    )


def test_spelling_of_the_document(world):
    assert world.simualte == world.simulate


def test_realtime(world):
    with pytest.warns(UserWarning, match="DIRECT"):
        world.set_realtime(True)
    assert world.client.getPhysicsEngineParameters()["useRealTimeSimulation"] == 1
    world.set_realtime(False)
    assert world.client.getPhysicsEngineParameters()["useRealTimeSimulation"] == 0


def test_current_world_is_the_last_one_and_falls_back():
    first, second, third = (BulletWorld("DIRECT") for _ in range(3))
    assert BulletWorld.current_bullet_world is third
    second.exit()
    assert BulletWorld.current_bullet_world is third
    third.exit()
    assert BulletWorld.current_bullet_world is first
    first.exit()
    assert BulletWorld.current_bullet_world is None
    with pytest.raises(WorldExitedError):
        Object("milk", "milk", "milk.stl")


def test_objects_go_into_the_current_world_or_the_named_one():
    with BulletWorld("DIRECT") as first, BulletWorld("DIRECT") as second:
        assert Object("a", "milk", "milk.stl").world is second
        assert Object("b", "milk", "milk.stl", world=first).world is first


def test_spawn_pose_and_colour(world):
    milk = Object("milk", "milk", "milk.stl", [1, 2, 3], [0, 0, 1, 0], color=[0.25, 0.5, 0.75, 1])
    assert milk.get_position() == pytest.approx([1, 2, 3])
    assert milk.get_orientation() == pytest.approx([0, 0, 1, 0])
    assert milk.get_color() == pytest.approx([0.25, 0.5, 0.75, 1])


def test_defaults_of_the_constructor(world):
    milk = Object("milk", "milk", "milk.stl")
    assert milk.get_position_and_orientation() == [pytest.approx([0, 0, 0]), pytest.approx([0, 0, 0, 1])]
    assert milk.get_color() == pytest.approx([1, 1, 1, 1])


@pytest.mark.parametrize("suffix", ["stl", "obj"])
def test_meshes_become_urdfs_with_one_link(world, folder, suffix):
    milk_carton().export(folder / f"carton.{suffix}")
    carton = Object("carton", "milk", f"carton.{suffix}")
    assert carton.path.endswith(".urdf")
    assert len(carton.links) == 1
    low, high = carton.get_AABB()
    assert np.subtract(high, low) == pytest.approx([0.07, 0.07, 0.2], abs=7e-3)  # hulls have 3 mm around them


def test_pose_setters_and_getters(world):
    milk = Object("milk", "milk", "milk.stl")
    milk.set_position([1, 2, 3])
    milk.set_orientation([0, 0, 1, 1])
    assert milk.get_pose() == milk.get_position() == pytest.approx([1, 2, 3])
    assert milk.get_orientation() == pytest.approx([0, 0, 0.5**0.5, 0.5**0.5])
    milk.set_position_and_orientation([4, 5, 6], [1, 0, 0, 0])
    assert milk.get_position_and_orientation() == [pytest.approx([4, 5, 6]), pytest.approx([1, 0, 0, 0])]


def test_links_and_joints_by_name(world, arm):
    robot = Object("robot", "robot", arm)
    assert robot.get_joint_id("slide") == 1
    assert robot.get_link_id("gripper") == 1
    robot.set_joint_state("shoulder", np.pi / 2)
    robot.set_joint_state("slide", 0.25)
    assert robot.get_joint_state("slide") == pytest.approx(0.25)
    assert robot.get_link_position("gripper") == pytest.approx([0, 0.75, 0])
    turn = [0, 0, 0.5**0.5, 0.5**0.5]
    assert robot.get_link_orientation("gripper") == pytest.approx(turn)
    assert robot.get_link_position_and_orientation("gripper") == [
        pytest.approx([0, 0.75, 0]),
        pytest.approx(turn),
    ]


def test_attachments_are_the_same_seen_from_both_sides(world, arm):
    robot, fork = Object("robot", "robot", arm), Object("fork", "fork", "milk.stl", [1, 0, 0])
    robot.attach(fork)
    assert robot.attachments[fork] is fork.attachments[robot]
    assert robot.cids[fork] == fork.cids[robot]
    assert world.client.getConstraintInfo(robot.cids[fork])[4] == world.client.JOINT_FIXED


def test_attach_at_a_link_follows_the_hand(world, arm):
    robot, fork = Object("robot", "robot", arm), Object("fork", "fork", "milk.stl", [0.6, 0, 0])
    robot.attach(fork, link="gripper", loose=False)
    robot.set_joint_state("shoulder", np.pi / 2)
    assert fork.get_position() == pytest.approx([0, 0.6, 0])


def test_attach_again_returns_without_altering_anything(world, arm):
    robot, fork = Object("robot", "robot", arm), Object("fork", "fork", "milk.stl", [0.6, 0, 0])
    calls = []
    world.attachment_event += lambda *args: calls.append(args)
    robot.attach(fork, "gripper")
    before = robot.attachments[fork]
    fork.attach(robot)
    assert robot.attachments[fork] is before
    assert world.client.getNumConstraints() == 1
    assert len(calls) == 1


def test_loose_attachment_is_one_way(world):
    tray, bottle = Object("tray", "tray", "milk.stl"), Object("bottle", "bottle", "milk.stl", [0, 0, 0.5])
    tray.attach(bottle, loose=True)
    bottle.set_position([0.25, 0, 0.5])
    assert tray.get_position() == pytest.approx([0, 0, 0])
    tray.set_position([0, 1, 0])
    assert bottle.get_position() == pytest.approx([0.25, 1, 0.5])


@pytest.mark.parametrize("swap", [False, True])
def test_detached_objects_are_independent(world, arm, swap):
    robot, fork = Object("robot", "robot", arm), Object("fork", "fork", "milk.stl", [0.6, 0, 0])
    robot.attach(fork)
    (fork.detach if swap else robot.detach)(robot if swap else fork)
    assert not robot.attachments
    assert not fork.attachments
    assert world.client.getNumConstraints() == 0
    robot.set_position([5, 5, 5])
    assert fork.get_position() == pytest.approx([0.6, 0, 0])
    with pytest.raises(KeyError, match="fork"):
        robot.detach(fork)


def test_example_of_the_shadow_world(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.warns(UserWarning, match="no display"):
        world = BulletWorld()
    milk = Object("milk", "milk", "milk.stl")

    shadow_milk = world.get_shadow_object(milk)
    with Use_shadow_world():
        shadow_milk.set_position([0, 0, 1])
        BulletWorld.current_bullet_world.simulate(10)
        assert BulletWorld.current_bullet_world is world.shadow_world

    assert milk.get_position() == pytest.approx([0, 0, 0])
    low, _ = shadow_milk.get_AABB()
    assert low[2] == pytest.approx(0, abs=5e-3)  # it has fallen onto the floor of the shadow
    assert BulletWorld.current_bullet_world is world
    world.exit()


def test_mapping_of_both_worlds(world, arm):
    milk = Object("milk", "milk", "milk.stl")
    shadow = world.get_shadow_object(milk)
    assert shadow.world is world.shadow_world
    assert world.get_bullet_object_for_shadow(shadow) is milk
    with pytest.raises(ValueError, match="milk"):
        world.get_shadow_object(shadow)
    with pytest.raises(ValueError, match="milk"):
        world.get_bullet_object_for_shadow(milk)


def test_direct_world_only_changes_by_methods(world):
    milk = Object("milk", "milk", "milk.stl", [0, 0, 1])
    time.sleep(0.05)
    assert milk.get_position() == pytest.approx([0, 0, 1])
    world.simulate(0.1)
    assert milk.get_position()[2] < 1


def test_events_are_called(world, arm):
    robot, fork = Object("robot", "robot", arm), Object("fork", "fork", "milk.stl", [0.6, 0, 0])
    calls = []
    for event in (world.get_attachment_event(), world.get_detachment_event(), world.get_manipulation_event()):
        event += lambda *args: calls.append(args)
    robot.attach(fork)
    robot.detach(fork)
    fork.set_position([0, 0, 1])
    robot.set_joint_state("slide", 0.1)
    assert calls == [(robot, [robot, fork]), (robot, [robot, fork]), (fork, [fork]), (robot, [robot])]


def test_collisions_are_found_by_a_step(world):
    milk = Object("milk", "milk", "milk.stl")
    floor = world.get_objects_by_name("floor")[0]
    assert world.client.getContactPoints(milk.id, floor.id) == ()
    world.simulate(1 / 240)
    assert world.client.getContactPoints(milk.id, floor.id)


def test_exit_collects_threads():
    before = threading.active_count()
    for _ in range(3):
        world = BulletWorld("DIRECT")
        Object("milk", "milk", "milk.stl")
        with Use_shadow_world():
            pass
        world.exit()
        world.exit()
    assert threading.active_count() == before


def test_chain_of_attachments_follows_a_joint(world, arm):
    """Objects that are attached to attached ones are updated recursively."""
    robot, tray = Object("robot", "robot", arm), Object("tray", "tray", "milk.stl", [0.6, 0, 0])
    bottle = Object("bottle", "bottle", "milk.stl", [0.6, 0, 0.4])
    robot.attach(tray, link="gripper")
    tray.attach(bottle)
    robot.set_joint_state("shoulder", np.pi / 2)
    assert bottle.get_position() == pytest.approx([0, 0.6, 0.4])
    robot.set_position([1, 0, 0])
    assert bottle.get_position() == pytest.approx([1, 0.6, 0.4])
    robot.set_orientation([0, 0, 0, 1])
    assert bottle.get_position() == pytest.approx([1, 0.6, 0.4])
