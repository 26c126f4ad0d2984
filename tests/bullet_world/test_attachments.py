"""Attachments: what moves, and by how much, when something is moved or simulated."""

import warnings
from itertools import pairwise

import numpy as np
import pytest

from newtonsim.bullet_world import BulletWorld, Object

QUARTER = [0.0, 0.0, 0.5**0.5, 0.5**0.5]


def cartons(*positions):
    return [Object(f"carton {i}", "milk", "milk.stl", position) for i, position in enumerate(positions)]


def test_pair_turns_about_the_moved_one(world):
    a, b = cartons([1, 0, 0], [1.5, 0, 0])
    a.attach(b)
    a.set_position_and_orientation([0, 0, 1], QUARTER)
    assert b.get_position() == pytest.approx([0, 0.5, 1])
    assert b.get_orientation() == pytest.approx(QUARTER)
    b.set_position_and_orientation([0, 0, 0], [0, 0, 0, 1])
    assert a.get_position() == pytest.approx([-0.5, 0, 0])


@pytest.mark.parametrize("name", ["arm.urdf", "offset.urdf"])
def test_offset_centre_of_mass(world, arm, offset, name):
    thing, milk = Object("thing", "thing", name, [1, 2, 3], QUARTER), *cartons([1, 2.3, 3])
    thing.attach(milk)
    assert thing.get_position_and_orientation() == [pytest.approx([1, 2, 3]), pytest.approx(QUARTER)]
    thing.set_position_and_orientation([0, 0, 0], [0, 0, 0, 1])
    assert milk.get_position() == pytest.approx([0.3, 0, 0])


def test_chain_of_four_from_the_middle(world):
    chain = cartons(*([x, 0, 0] for x in range(4)))
    for a, b in pairwise(chain):
        a.attach(b)
    chain[1].set_position_and_orientation([0, 0, 5], QUARTER)
    assert [c.get_position() for c in chain] == [pytest.approx([0, y, 5]) for y in (-1, 0, 1, 2)]


def test_ring(world):
    ring = cartons([0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0])
    for a, b in zip(ring, ring[1:] + ring[:1]):
        a.attach(b)
    ring[2].set_position([3, 1, 7])
    assert [c.get_position() for c in ring] == [
        pytest.approx(p) for p in ([2, 0, 7], [3, 0, 7], [3, 1, 7], [2, 1, 7])
    ]


def test_robot_tray_bottle(world, arm):
    robot = Object("robot", "robot", arm)
    tray, bottle = cartons([0.6, 0, 0], [0.6, 0.1, 0.2])
    robot.attach(tray, "gripper")
    tray.attach(bottle, loose=True)
    robot.set_joint_states({"shoulder": np.pi / 2, "slide": 0.1})
    assert tray.get_position() == pytest.approx([0, 0.7, 0])
    assert bottle.get_position() == pytest.approx([-0.1, 0.7, 0.2])
    bottle.set_position([-0.2, 0.7, 0.2])
    assert tray.get_position() == pytest.approx([0, 0.7, 0])
    robot.set_joint_state("shoulder", 0.0)
    assert bottle.get_position() == pytest.approx([0.7, 0.2, 0.2])


def test_link_of_the_other_object(world, arm):
    robot, (milk,) = Object("robot", "robot", arm), cartons([0.6, 0, 0])
    milk.attach(robot, link="gripper")
    robot.set_joint_state("slide", 0.3)
    assert milk.get_position() == pytest.approx([0.9, 0, 0])
    milk.set_position([0.9, 1, 0])
    assert robot.get_position() == pytest.approx([0, 1, 0])


def test_detach_and_attach_again_takes_the_new_place(world):
    a, b = cartons([0, 0, 0], [1, 0, 0])
    a.attach(b)
    b.detach(a)
    b.set_position([2, 0, 0])
    b.attach(a)
    a.set_position([0, 1, 0])
    assert b.get_position() == pytest.approx([2, 1, 0])


def test_removal_detaches_first(world):
    a, b, c = cartons([0, 0, 0], [1, 0, 0], [2, 0, 0])
    a.attach(b)
    c.attach(a)
    calls = []
    world.detachment_event += lambda *args: calls.append(args)
    a.remove()
    assert not b.attachments
    assert not c.attachments
    assert world.client.getNumConstraints() == 0
    assert calls == [(a, [a, b]), (a, [a, c])]


def test_what_cannot_be_attached(world, arm):
    a, b = cartons([0, 0, 0], [1, 0, 0])
    with pytest.raises(ValueError, match="itself"):
        a.attach(a)
    with pytest.raises(KeyError, match="hand"):
        a.attach(b, link="hand")
    with BulletWorld("DIRECT") as other, pytest.raises(ValueError, match="different worlds"):
        a.attach(Object("c", "milk", "milk.stl", world=other))
    assert not a.attachments
    assert world.client.getNumConstraints() == 0


def test_pair_without_gravity_moves_as_one(world):
    """Centre of mass goes straight, and the distance stays."""
    world.set_gravity([0, 0, 0])
    a, b = cartons([0, 0, 3], [0.5, 0, 3])
    a.attach(b)
    client = world.client
    for item in (a, b):
        client.changeDynamics(item.id, -1, linearDamping=0, angularDamping=0)

    def middle():
        return np.mean([client.getBasePositionAndOrientation(item.id)[0] for item in (a, b)], axis=0)

    before = middle()
    client.resetBaseVelocity(a.id, [0, 0, 1.0], [0, 0, 0])
    world.simulate(1)
    assert middle() - before == pytest.approx([0, 0, 0.5], abs=0.01)
    relative = a.get_frame().inverse() @ b.get_frame()
    assert relative.position == pytest.approx([0.5, 0, 0], abs=2e-3)
    assert abs(relative.orientation[3]) == pytest.approx(1, abs=1e-4)


def test_dropped_pair_lands_together(world):
    a, b = cartons([0, 0, 0.5], [0.2, 0, 0.5])
    a.attach(b)
    world.simulate(2)
    assert a.get_AABB()[0][2] == pytest.approx(0, abs=3e-3)
    assert b.get_AABB()[0][2] == pytest.approx(0, abs=3e-3)
    relative = a.get_frame().inverse() @ b.get_frame()
    assert relative.position == pytest.approx([0.2, 0, 0], abs=2e-3)


def test_loose_offset_holds_in_simulation_after_it_was_renewed(world):
    world.set_gravity([0, 0, 0])
    tray, bottle = cartons([0, 0, 3], [0.5, 0, 3])
    tray.attach(bottle, loose=True)
    bottle.set_position([0.5, 0.5, 3])
    world.simulate(0.5)
    assert bottle.get_position() == pytest.approx([0.5, 0.5, 3], abs=2e-3)
    assert tray.get_position() == pytest.approx([0, 0, 3], abs=2e-3)


def test_simulated_hand_carries(world, arm):
    """A servo moves the slide; what the hand holds goes as far."""
    world.set_gravity([0, 0, 0])
    # on the floor the carton would be pressed against it, and rub
    robot, (milk,) = Object("robot", "robot", arm, [0, 0, 1], fixed_base=True), cartons([0.8, 0, 1])
    robot.attach(milk, "gripper")
    client = world.client
    client.setJointMotorControl2(robot.id, 1, client.POSITION_CONTROL, targetPosition=0.3, force=100)
    world.simulate(2)
    assert robot.get_joint_state("slide") == pytest.approx(0.3, abs=1e-3)
    assert milk.get_position() == pytest.approx([1.1, 0, 1], abs=2e-3)


def test_what_is_held_inside_a_hand_stays_there(world, arm):
    """Both overlap, and do not push each other away; after detaching they do."""
    world.set_gravity([0, 0, 0])
    robot, (milk,) = Object("robot", "robot", arm, [0, 0, 2], fixed_base=True), cartons([0.05, 0, 1.95])
    robot.attach(milk)
    world.simulate(0.5)
    assert milk.get_position() == pytest.approx([0.05, 0, 1.95], abs=1e-3)
    robot.detach(milk)
    world.simulate(0.5)
    assert np.linalg.norm(np.subtract(milk.get_position(), [0.05, 0, 1.95])) > 0.02


@pytest.mark.parametrize("mass", [0.1, 5.0])
def test_what_is_held_does_not_sag(world, mass):
    """A robot holds a carton out under gravity: its hand gives way, the carton stays in the hand."""
    robot = Object("robot", "robot", "kuka_iiwa/model.urdf", fixed_base=True)
    hand = "lbr_iiwa_link_7"
    x, y, z = robot.get_link_position(hand)
    (milk,) = cartons([x + 0.3, y, z])
    world.client.changeDynamics(milk.id, -1, mass=mass)
    robot.attach(milk, hand)
    before = robot.link_frame(hand).inverse() @ milk.get_frame()
    world.simulate(1)
    after = robot.link_frame(hand).inverse() @ milk.get_frame()
    assert after.position == pytest.approx(before.position, abs=2e-6)


def test_ring_that_a_motor_would_tear_apart_stays_calm(world, arm):
    """The hand and the base hold the same two cartons: the slide is stuck, and nothing flies away."""
    robot = Object("robot", "robot", arm, [0, 0, 1], fixed_base=True)
    a, b = cartons([0.5, 0.2, 1], [0.2, 0.4, 1])
    robot.attach(a, "gripper")
    a.attach(b)
    b.attach(robot)
    client = world.client
    client.setJointMotorControl2(robot.id, 1, client.POSITION_CONTROL, targetPosition=0.4, force=100)
    fastest = 0.0
    for _ in range(240):
        client.stepSimulation()
        fastest = max(fastest, *(np.linalg.norm(client.getBaseVelocity(item.id)[0]) for item in (a, b)))
    assert fastest < 0.2
    assert a.get_position() == pytest.approx([0.5, 0.2, 1], abs=0.02)
    assert b.get_position() == pytest.approx([0.2, 0.4, 1], abs=0.02)


def test_a_ring_through_a_joint_is_not_kept(world, arm):
    robot, (box, other) = Object("robot", "robot", arm), cartons([0.6, 0, 0], [0.6, 0.5, 0])
    robot.attach(box, "gripper")
    box.attach(other)
    other.attach(robot, "upper")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot.set_position([1, 0, 0])
        robot.set_joint_state("shoulder", 0.5)  # turns both links
    with pytest.warns(UserWarning, match="'carton 0' and 'carton 1' cannot be maintained"):
        robot.set_joint_state("slide", 0.1)


def test_which_link_a_name_means(world, arm):
    robot, second, (milk,) = (
        Object("a", "robot", arm),
        Object("b", "robot", arm, [0, 2, 0]),
        cartons([1, 0, 0]),
    )
    assert "base" in robot.links
    assert "base" in milk.links
    robot.set_joint_state("shoulder", 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        milk.attach(robot, "base")
        robot.attach(second, None)
    assert (milk.attachments[robot].parent_link, milk.attachments[robot].child_link) == (None, "base")
    robot.detach(second)
    with pytest.warns(UserWarning, match="both 'a' and 'b' have a link 'upper'; that of 'a' is meant"):
        robot.attach(second, "upper")
    assert robot.attachments[second].parent_link == "upper"
