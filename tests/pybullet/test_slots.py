"""Bodies and constraints that come and go while the engine lives on."""

import math

import numpy as np
import pytest

import newtonsim.pybullet_compat as p
from newtonsim.pybullet_compat.bullet_client import BulletClient
from newtonsim.pybullet_compat.clients.table import get_client
from newtonsim.pybullet_compat.stand_ins import pybullet_data
from newtonsim.solvers.geometric_stiffness import stiffened_bodies

G, DT = 9.81, 1.0 / 240.0


def open_world(**options) -> BulletClient:
    client = BulletClient(p.DIRECT, **options)
    client.setAdditionalSearchPath(pybullet_data.getDataPath())
    client.setGravity(0.0, 0.0, -G)
    return client


@pytest.fixture
def world():
    client = open_world()
    yield client
    client.disconnect()


def add_box(client, position, half=0.1, mass=1.0, velocity=(0.0, 0.0, 0.0)) -> int:
    shape = client.createCollisionShape(p.GEOM_BOX, halfExtents=[half] * 3)
    body = client.createMultiBody(mass, shape, basePosition=position)
    client.resetBaseVelocity(body, velocity)
    return body


def add_ground(client) -> int:
    return client.createMultiBody(0.0, client.createCollisionShape(p.GEOM_PLANE))


def step(client, count=1) -> None:
    for _ in range(count):
        client.stepSimulation()


def height(client, body) -> float:
    return client.getBasePositionAndOrientation(body)[0][2]


def engine_of(client):
    return get_client(client._client).engine


def graphs_of(client) -> list:
    return engine_of(client).simulator._replays


def falls(count: int) -> float:
    """How far a body without damping falls from rest in so many steps [m]."""
    return 0.5 * G * DT**2 * count * (count + 1)


def arm_at_work(client) -> int:
    """An arm under way to a posture, and a slot in which a box was before."""
    add_ground(client)
    arm = client.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    for joint in range(7):
        client.setJointMotorControl2(arm, joint, p.POSITION_CONTROL, 0.1 * joint, force=100.0)
    box = add_box(client, [0.5, 0.5, 0.1])  # what leans on the ground has warm starts, too
    visitor = add_box(client, [3.0, 3.0, 2.0], half=0.05)
    step(client, 30)
    client.removeBody(visitor)
    return arm if box else -1


def test_what_comes_and_goes_far_away_changes_no_bit_of_an_arm_at_work(world):
    other = open_world()
    arms = [arm_at_work(client) for client in (world, other)]
    engine, graphs, visitor = engine_of(world), graphs_of(world), -1
    seen = ([], [])
    for k in range(60):
        if k in (5, 30):
            visitor = add_box(world, [3.0, 3.0, 1.0 + k], half=0.05)
        if k in (20, 45):
            world.removeBody(visitor)
        for client, arm in zip((world, other), arms):
            # forces and torques that are pending when a body comes or goes still act in the next step
            client.applyExternalForce(arm, 6, [0, 0, 5.0], [0, 0, 0], p.LINK_FRAME)
        if k == 50:
            hold = world.createConstraint(arms[0], 6, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [9, 9, 9])
            world.removeConstraint(hold)  # builds anew, but not again
        step(world)
        step(other)
        for client, arm, states in zip((world, other), arms, seen):
            joints = client.getJointStates(arm, range(7))
            states.append((joints, client.getContactPoints()))
        if k == 49:
            assert engine_of(world) is engine
            assert graphs_of(world) is graphs
    assert seen[0][:50] == seen[1][:50]
    other.disconnect()


def test_an_applied_force_survives_what_comes_between_it_and_the_step(world):
    box = add_box(world, [0.0, 0.0, 10.0], mass=2.0)
    spare = add_box(world, [5.0, 0.0, 10.0])
    step(world)
    world.removeBody(spare)
    world.resetBaseVelocity(box, [0.0, 0.0, 0.0])
    world.applyExternalForce(box, -1, [480.0, 0.0, 0.0], [0.0, 0.0, 0.0], p.LINK_FRAME)
    add_box(world, [5.0, 0.0, 10.0])
    step(world)
    assert world.getBaseVelocity(box)[0][0] == pytest.approx(480.0 / 2.0 * DT, rel=1e-6)


def test_a_slot_is_taken_by_a_body_of_its_own_mass_place_and_surface(world):
    ground = add_ground(world)
    world.changeDynamics(ground, -1, lateralFriction=1.0)
    first = add_box(world, [0.0, 0.0, 0.1], mass=1.0)
    world.changeDynamics(first, -1, lateralFriction=0.9, linearDamping=0.0)
    step(world, 100)
    engine = engine_of(world)
    world.removeBody(first)
    step(world, 3)
    assert world.getContactPoints() == ()
    second = add_box(world, [0.4, 0.0, 0.1], mass=7.0, velocity=[2.0, 0.0, 0.0])
    world.changeDynamics(second, -1, lateralFriction=0.3, linearDamping=0.0, angularDamping=0.0)
    assert world.getDynamicsInfo(second, -1)[0] == 7.0
    step(world, 60)
    assert engine_of(world) is engine
    # weight, and Coulomb's deceleration
    force = sum(point[9] for point in world.getContactPoints(second))
    assert force == pytest.approx(7.0 * G, rel=1e-3)
    assert world.getBaseVelocity(second)[0][0] == pytest.approx(2.0 - 0.3 * G * 60 * DT, abs=0.03)
    # the default of what comes next is not what was set for the last one
    world.removeBody(second)
    third = add_box(world, [0.0, 0.0, 5.0])
    assert world.getDynamicsInfo(third, -1)[:2] == (1.0, 0.5)
    step(world, 24)
    damped = 5.0 - height(world, third)
    assert damped == pytest.approx(falls(24), rel=0.01)
    assert damped < falls(24)
    assert engine_of(world) is engine


def test_nothing_meets_an_empty_slot(world):
    add_ground(world)
    table = add_box(world, [0.0, 0.0, 0.1])
    ball = world.createMultiBody(
        1.0, world.createCollisionShape(p.GEOM_SPHERE, radius=0.05), basePosition=[0.0, 0.0, 0.26]
    )
    step(world, 50)
    assert height(world, ball) == pytest.approx(0.25, abs=2e-3)
    engine = engine_of(world)
    world.removeBody(table)
    assert world.rayTest([0.08, 0.0, 1.0], [0.08, 0.0, -1.0])[0][0] == 0
    overlaps = world.getOverlappingObjects([0.06, 0.06, 0.05], [0.09, 0.09, 0.1])
    assert table not in [body for body, _ in overlaps]
    assert not [point for point in world.getContactPoints() if table in point[1:3]]
    step(world, 200)
    assert height(world, ball) == pytest.approx(0.05, abs=2e-3)
    world.performCollisionDetection()
    assert len(world.getContactPoints()) == 1
    assert engine_of(world) is engine
    add_box(world, [0.0, 0.5, 0.1])
    assert world.rayTest([0.0, 0.5, 1.0], [0.0, 0.5, -1.0])[0][3][2] == pytest.approx(0.2, abs=1e-6)
    assert engine_of(world) is engine


def test_a_body_of_another_shape_finds_no_slot(world):
    add_ground(world)
    first = add_box(world, [0.0, 0.0, 0.1])
    step(world)
    engine = engine_of(world)
    world.removeBody(first)
    assert engine_of(world) is engine
    larger = add_box(world, [0.0, 0.0, 0.2], half=0.2)
    step(world, 50)
    assert engine_of(world) is not engine
    assert height(world, larger) == pytest.approx(0.2, abs=1e-3)


def test_a_growing_scene_is_built_of_the_order_of_log_n_times(world, monkeypatch):
    add_ground(world)
    client, engines = get_client(world._client), []
    make = client._make_engine
    monkeypatch.setattr(client, "_make_engine", lambda world: engines.append(make(world)) or engines[-1])
    boxes = []
    for k in range(32):
        boxes.append(add_box(world, [0.3 * (k % 8), 0.3 * (k // 8), 0.15]))
        step(world, 3)
    assert len(engines) <= 2 + math.log2(32)
    step(world, 100)
    assert np.allclose([height(world, box) for box in boxes], 0.1, atol=1e-3)
    force = sum(point[9] for point in world.getContactPoints())
    assert force == pytest.approx(32 * G, rel=1e-3)


def test_what_explodes_leaves_nothing_in_its_slot(world):
    add_ground(world)
    box = add_box(world, [0.0, 0.0, 0.1])
    bomb = add_box(world, [3.0, 0.0, 1.0], half=0.05)
    step(world, 10)
    world.applyExternalForce(bomb, -1, [1.0, 0.0, 0.0], [0, 0, 0], p.LINK_FRAME)
    engine = engine_of(world)
    forces = engine._force.host
    forces[forces != 0.0] = np.inf  # which functions of the facade refuse
    with pytest.warns(RuntimeWarning, match="non-finite"):
        step(world)
    world.removeBody(bomb)
    step(world, 10)
    assert engine_of(world) is engine
    assert np.isfinite(engine.simulator.state.body_q.numpy()).all()
    assert height(world, box) == pytest.approx(0.1, abs=1e-3)
    fresh = add_box(world, [3.0, 0.0, 1.0], half=0.05)
    step(world, 24)
    assert 1.0 - height(world, fresh) == pytest.approx(falls(24), rel=0.01)


@pytest.mark.parametrize("kind", [p.JOINT_FIXED, p.JOINT_POINT2POINT, p.JOINT_PRISMATIC])
def test_a_constraint_takes_the_slot_of_another_one(world, kind):
    boxes = [add_box(world, [k, 0.0, 1.0]) for k in range(3)]

    def hold(k):
        axis = [1, 0, 0] if kind == p.JOINT_PRISMATIC else [0, 0, 0]
        return world.createConstraint(boxes[k], -1, -1, -1, kind, axis, [0, 0, 0], [k, 0.0, 1.0])

    first = hold(0)
    step(world, 48)
    engine, graphs = engine_of(world), graphs_of(world)
    assert height(world, boxes[0]) == pytest.approx(1.0, abs=2e-3)
    world.removeConstraint(first)
    for k, box in enumerate(boxes):
        world.resetBasePositionAndOrientation(box, [k, 0.0, 1.0], [0, 0, 0, 1])
        world.resetBaseVelocity(box, [0, 0, 0], [0, 0, 0])
    second = hold(2)
    assert world.getConstraintState(second) == pytest.approx([0.0] * len(world.getConstraintState(second)))
    step(world, 48)
    assert engine_of(world) is engine
    assert graphs_of(world) is graphs
    for k in (0, 1):
        assert 1.0 - height(world, boxes[k]) == pytest.approx(falls(48), rel=0.02)
    assert height(world, boxes[2]) == pytest.approx(1.0, abs=2e-3)
    force = np.linalg.norm(world.getConstraintState(second)[:3])
    assert force == pytest.approx(G, rel=1e-2)


def test_a_pick_and_place_is_that_of_pybullet(both):
    """A gripper takes one box after the other along, both of which come and go."""
    both.load("plane.urdf")
    hand = both.load("cube_small.urdf", [0, 0, 0.6])
    both.createConstraint(hand, -1, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, 0, 0.6])
    for cycle in range(3):
        box = both.load("cube_small.urdf", [0, 0, 0.5])
        grasp = both.createConstraint(
            hand, -1, box, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, -0.05], [0, 0, 0.05]
        )
        assert grasp[0] == grasp[1]
        both.step(60)
        held = both.getBasePositionAndOrientation(box)
        assert np.allclose(held[0][0], held[1][0], atol=2e-3)
        both.removeConstraint(grasp[0])
        both.step(40)
        dropped = both.getBasePositionAndOrientation(box)
        assert np.allclose(dropped[0][0], dropped[1][0], atol=3e-3), cycle
        both.removeBody(box)
        both.step(2)


def test_a_body_that_comes_heeds_the_filters_of_those_that_are_there(world):
    ghost, solid = add_box(world, [0, 0, 0.1], mass=0.0), add_box(world, [1, 0, 0.1], mass=0.0)
    visitor = add_box(world, [0, 0, 3.0], half=0.05)
    step(world)
    engine = engine_of(world)
    world.removeBody(visitor)
    world.setCollisionFilterGroupMask(ghost, -1, 0, 0)
    visitor = add_box(world, [0, 0, 0.3], half=0.05)
    step(world, 96)
    assert height(world, visitor) < -0.3
    world.removeBody(visitor)
    visitor = add_box(world, [1, 0, 0.3], half=0.05)
    world.setCollisionFilterPair(visitor, solid, -1, -1, 0)
    step(world, 96)
    assert height(world, visitor) < -0.3
    world.removeBody(visitor)
    visitor = add_box(world, [1, 0, 0.3], half=0.05)  # its unique id is that of the one before
    step(world, 96)
    assert height(world, visitor) == pytest.approx(0.25, abs=1e-3)
    assert engine_of(world) is engine


def hold_hand(client, arm):
    return client.createConstraint(arm, 6, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0.3, 0.0, 0.8])


def hang_hand(client, arm):
    return client.createConstraint(arm, 6, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], [0, 0, 0], [0.3, 0.0, 0.8])


def gear_joints(client, arm):
    gear = client.createConstraint(arm, 1, arm, 3, p.JOINT_GEAR, [0, 0, 1], [0, 0, 0], [0, 0, 0])
    client.changeConstraint(gear, gearRatio=1.0, maxForce=50.0)
    return gear


def hold_nothing(client, arm):
    return client.createConstraint(0, -1, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, 0, 0])


def drop_box(client, arm):
    return add_box(client, [2.0, 0.0, 1.0])


def put_wall(client, arm):
    return add_box(client, [2.0, 0.0, 1.0], mass=0.0)


def load_robot(client, arm):
    return client.loadURDF("r2d2.urdf", [3.0, 0.0, 1.0])


@pytest.mark.parametrize("order", ["make, remove", "make, ask, remove", "two, crossed"])
@pytest.mark.parametrize(
    "make", [hold_hand, hang_hand, gear_joints, hold_nothing, drop_box, put_wall, load_robot]
)
def test_what_comes_and_goes_between_two_steps_builds_no_engine_again(world, make, order):
    """The bits of an arm at work are those of an arm without visitors, but for the constraints on it."""
    remove = world.removeBody if make in (drop_box, put_wall, load_robot) else world.removeConstraint
    add_ground(world)
    arm = world.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    step(world, 3)
    for cycle in range(6):
        first = make(world, arm)
        if order == "make, ask, remove":
            world.getLinkState(arm, 6)
            world.rayTest([0, 0, 3], [0, 0, -1])
        if order == "two, crossed":
            second = make(world, arm)
            remove(first)
            first = make(world, arm)
            remove(second)
        remove(first)
        step(world)
        if cycle == 2:  # of the first ones the engine learns what room it needs
            engine, graphs = engine_of(world), graphs_of(world)
    assert engine_of(world) is engine
    assert graphs_of(world) is graphs


def test_a_gear_that_comes_and_goes_is_that_of_pybullet(both):
    arm = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    for joint in (1, 3):
        both.setJointMotorControl2(arm, joint, p.VELOCITY_CONTROL, force=0.0)
    both.step(2)
    for ratio in (1.0, -2.0, 0.5):
        gear = both.createConstraint(arm, 1, arm, 3, p.JOINT_GEAR, [0, 0, 1], [0, 0, 0], [0, 0, 0])
        assert gear[0] == gear[1]
        both.step()
        both.changeConstraint(gear[0], gearRatio=ratio, maxForce=200.0)
        both.step(20)
        for real, ours in zip(*both.getJointStates(arm, [1, 3])):
            assert ours[:2] == pytest.approx(real[:2], abs=1e-3)
        both.removeConstraint(gear[0])
        both.step(5)
    client = get_client(both.ids[1])
    engine = client.engine
    gear = both.createConstraint(arm, 1, arm, 3, p.JOINT_GEAR, [0, 0, 1], [0, 0, 0], [0, 0, 0])
    both.changeConstraint(gear[0], gearRatio=1.0, maxForce=200.0)
    both.step()
    assert client.engine is engine


def test_a_body_that_is_frozen_and_freed_is_that_of_pybullet(both):
    """It hangs at a constraint and at a force, and is moved while it is frozen."""
    both.load("plane.urdf")
    box = both.load("cube_small.urdf", [0, 0, 0.5])
    rope = both.createConstraint(box, -1, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], [0, 0, 0.1], [0, 0, 0.6])
    client = get_client(both.ids[1])
    engines = []
    for cycle in range(5):
        both.applyExternalForce(box, -1, [1.0, 0, 0], [0, 0, 0], p.LINK_FRAME)
        both.step(5)
        both.changeDynamics(box, -1, mass=0.0)
        both.step(2)
        both.resetBasePositionAndOrientation(box, [0, 0, 0.5], [0, 0, 0, 1])
        both.changeDynamics(box, -1, mass=0.1)
        both.applyExternalForce(box, -1, [0, 1.0, 0], [0, 0, 0], p.LINK_FRAME)
        both.step(10)
        engines.append(client.engine)
        for real, ours in zip(*both.getBasePositionAndOrientation(box)):
            assert ours == pytest.approx(real, abs=2e-3), cycle
    assert engines[-1] is engines[1]
    both.removeConstraint(rope[0])
    both.step(24)
    real, ours = both.getBasePositionAndOrientation(box)
    assert ours[0] == pytest.approx(real[0], abs=3e-3)
    assert client.engine is engines[-1]


def test_limits_that_change_while_the_engine_lives_are_those_of_pybullet(both):
    arm = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    both.step()
    engine = get_client(both.ids[1]).engine
    for low in (-0.1, -0.3, -0.6):
        both.changeDynamics(arm, 1, jointLowerLimit=low, jointUpperLimit=0.3)
        both.setJointMotorControl2(arm, 1, p.VELOCITY_CONTROL, targetVelocity=-2.0, force=100.0)
        both.step(120)
        real, ours = both.getJointState(arm, 1)
        assert ours[0] == pytest.approx(real[0], abs=2e-3)
        assert real[0] == pytest.approx(low, abs=0.02)
    assert get_client(both.ids[1]).engine is engine


@pytest.mark.parametrize("file", ["r2d2.urdf", "kuka_iiwa/model.urdf"])
def test_a_robot_takes_the_slot_of_the_one_before(world, file):
    def load(client) -> int:
        robot = client.loadURDF(file, [0, 0, 0.5])
        for joint in range(7):
            client.setJointMotorControl2(robot, joint, p.POSITION_CONTROL, 0.3, force=20.0)
        return robot

    world.loadURDF("plane.urdf")
    robot = load(world)
    for joint in range(7):
        world.setJointMotorControl2(robot, joint, p.VELOCITY_CONTROL, targetVelocity=-5.0, force=300.0)
    step(world, 60)
    world.applyExternalTorque(robot, -1, [0, 0, 100.0], p.LINK_FRAME)
    world.removeBody(robot)
    other = open_world()
    other.loadURDF("plane.urdf")
    engine, seen = engine_of(world), ([], [])
    robots = [load(client) for client in (world, other)]
    for client, robot, states in zip((world, other), robots, seen):
        for _ in range(60):
            step(client)
            states.append(
                (client.getBasePositionAndOrientation(robot), client.getJointStates(robot, range(7)))
            )
    assert engine_of(world) is engine
    assert seen[0] == seen[1]
    other.disconnect()


def test_many_worlds_share_their_slots():
    client = open_world(num_worlds=3, device="cpu")
    add_ground(client)
    first = add_box(client, [0.0, 0.0, 0.1])
    step(client, 5)
    engine = engine_of(client)
    client.removeBody(first)
    starts = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 2.0], [2.0, 0.0, 3.0]])
    second = add_box(client, [0.0, 0.0, 1.0], mass=2.0, velocity=np.zeros((3, 3)))
    client.resetBasePositionAndOrientation(second, starts, [0, 0, 0, 1])
    hold = client.createConstraint(second, -1, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, 0, 1.0])
    client.removeConstraint(hold)
    step(client, 24)
    fallen = starts - client.getBasePositionAndOrientation(second)[0]
    assert np.allclose(fallen[:, 2], falls(24), rtol=0.02)
    assert np.allclose(fallen[:, :2], 0.0, atol=1e-6)
    assert engine is not None
    client.disconnect()


def test_a_shadow_goes_on_to_the_bit_after_bodies_came_and_went(world):
    shadow = open_world()
    add_ground(world)
    boxes = [add_box(world, [0.0, 0.0, 0.1 + 0.2 * k]) for k in range(3)]
    hold = world.createConstraint(boxes[0], -1, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, 0, 0.1])
    step(world, 20)
    world.removeBody(boxes.pop(1))
    world.removeConstraint(hold)
    step(world, 20)
    shadow.mirror(world._client)
    boxes.append(add_box(world, [0.0, 0.0, 0.7], mass=3.0))
    world.createConstraint(boxes[-1], -1, boxes[0], -1, p.JOINT_POINT2POINT, [0] * 3, [0] * 3, [0, 0, 0.6])
    step(world, 7)
    shadow.mirror(world._client)
    for _ in range(20):
        found = []
        for client in (world, shadow):
            step(client)
            poses = [client.getBasePositionAndOrientation(box) for box in boxes]
            found.append((poses, client.getContactPoints()))
        assert found[0] == found[1]
    engine = engine_of(shadow)
    for k in range(3):  # as a world of reasoning follows one that goes on
        world.removeBody(boxes.pop())
        boxes.append(add_box(world, [0.1 * k, 0.0, 0.5], mass=2.0 + k))
        step(world, 3)
        shadow.mirror(world._client)
        for _ in range(5):
            found = []
            for client in (world, shadow):
                step(client)
                poses = [client.getBasePositionAndOrientation(box) for box in boxes]
                found.append((poses, client.getContactPoints()))
            assert found[0] == found[1]
        assert engine_of(shadow) is engine
    shadow.disconnect()


def play(client, steps=80, friction=0.7) -> list:
    """An episode: a robot, a pile with a filtered pair and a constraint, from an empty world."""
    client.resetSimulation()
    client.setGravity(0.0, 0.0, -G)
    ground = add_ground(client)
    client.changeDynamics(ground, -1, lateralFriction=friction)
    robot = client.loadURDF("r2d2.urdf", [1.0, 0.0, 0.5])
    client.setJointMotorControl2(robot, 2, p.VELOCITY_CONTROL, targetVelocity=5.0, force=20.0)
    boxes = [add_box(client, [0.03 * k, 0.0, 0.1 + 0.2 * k], mass=1.0 + k) for k in range(3)]
    client.setCollisionFilterPair(robot, boxes[0], -1, -1, 0)
    client.createConstraint(boxes[2], -1, -1, -1, p.JOINT_POINT2POINT, [0] * 3, [0] * 3, [0.06, 0.0, 0.6])
    seen = []
    for _ in range(steps):
        client.stepSimulation()
        poses = [client.getBasePositionAndOrientation(body) for body in (robot, *boxes)]
        seen.append((poses, client.getJointStates(robot, range(15)), client.getContactPoints()))
    return seen


def test_an_episode_after_a_reset_is_that_of_a_fresh_world_to_the_bit(world):
    play(world, steps=37, friction=0.2)
    engine, graphs = engine_of(world), graphs_of(world)
    world.setPhysicsEngineParameter(contactERP=0.05, numSolverIterations=80)
    world.changeDynamics(2, -1, mass=9.0, linearDamping=0.5)
    world.applyExternalForce(2, -1, [50.0, 0.0, 0.0], [0.0, 0.0, 0.0], p.LINK_FRAME)
    again = play(world)
    assert engine_of(world) is engine
    assert len(graphs) == len(graphs_of(world))
    fresh = open_world()
    assert again == play(fresh)
    fresh.disconnect()


def test_a_reset_to_another_scene_finds_nothing_of_the_last_one(world):
    play(world, steps=5)
    engine = engine_of(world)
    world.resetSimulation()
    box = add_box(world, [0.0, 0.0, 1.0])
    step(world, 24)
    assert height(world, box) == 1.0  # no gravity
    assert world.getNumBodies() == 1
    assert world.rayTest([1.0, 0.0, 5.0], [1.0, 0.0, -5.0])[0][0] == -1
    world.setGravity(0.0, 0.0, -G)
    step(world, 24)
    assert 1.0 - height(world, box) == pytest.approx(falls(24), rel=0.01)
    assert engine is not None


def test_a_filter_that_the_last_scene_had_not_counts_after_a_reset(world):
    for collides in (True, False):
        world.resetSimulation()
        world.setGravity(0.0, 0.0, -G)
        table = add_box(world, [0.0, 0.0, 0.1], mass=0.0)
        ball = add_box(world, [0.0, 0.0, 0.4], half=0.05)
        if not collides:
            world.setCollisionFilterPair(table, ball, -1, -1, 0)
        step(world, 120)
        assert (height(world, ball) > 0.2) == collides


def test_a_scene_that_is_made_again_needs_no_new_capture(world):
    """And neither does one that goes back to before its first step; both tell of the steps after that."""

    def build() -> int:
        world.setGravity(0.0, 0.0, -G)
        add_ground(world)
        return add_box(world, [0.0, 0.0, 0.0999])

    box = build()
    fresh = world.saveState()
    world.stepSimulation()
    points, captured = world.getContactPoints(box), world.simulator._captured
    assert points
    for again in (lambda: world.restoreState(fresh), lambda: (world.resetSimulation(), build())):
        again()
        world.stepSimulation()
        assert world.getContactPoints(box) == points
        assert world.simulator._captured is captured


@pytest.mark.parametrize("change", [{"lateralFriction": 0.0}, {"mass": 50.0}], ids=str)
def test_a_body_in_the_slot_of_one_that_was_changed_is_as_made(world, change):
    """Whoever had the slot before: 1 kg with a friction of 0.5 stays on a slope, and weighs 9.81 N."""
    world.setGravity(0.2 * G, 0.0, -G)
    add_ground(world)
    shape = world.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1] * 3)
    for changed in (False, True, False, False):
        box = world.createMultiBody(1.0, shape, basePosition=[0.0, 0.0, 0.1])
        step(world, 30)
        if changed:
            world.changeDynamics(box, -1, **change)
            step(world, 2)
        else:
            assert abs(world.getBasePositionAndOrientation(box)[0][0]) < 1.0e-3
            weight = sum(point[9] for point in world.getContactPoints(box))
            assert weight == pytest.approx(G, rel=1.0e-2)
        world.removeBody(box)
        step(world, 1)


def test_a_shape_with_the_id_of_one_that_was_removed(world):
    for half in (0.1, 0.3):
        shape = world.createCollisionShape(world.GEOM_BOX, halfExtents=[half] * 3)
        assert shape == 0
        body = world.createMultiBody(1.0, shape)
        assert world.getCollisionShapeData(body, -1)[0][3] == pytest.approx([2.0 * half] * 3)
        assert world.getDynamicsInfo(body, -1)[2] == pytest.approx([2.0 / 3.0 * half**2] * 3)
        world.removeBody(body)
        world.removeCollisionShape(shape)


# -- loads on light bodies -----------------------------------------------------------------------------------

LINKS, LINK, LIGHT, HEAVY, ANGLE = 10, 0.1, 0.02, 20.0, math.pi / 3.0
ALONG = np.array([math.sin(ANGLE), 0.0, -math.cos(ANGLE)])


def swing_on_rope(client, make) -> tuple[np.ndarray, np.ndarray]:
    """Let a load of 20 kg swing from 60 degrees on ten light bars, tied at points, that were made before.

    Args:
        client: A world without gravity so far.
        make: Ties them, given the bodies and the function that makes one tie.

    Returns:
        Distance of the load from the anchor [m], and energy above the start over that of the swing.
    """
    client.setGravity(0.0, 0.0, 0.0)
    bar = client.createCollisionShape(p.GEOM_BOX, halfExtents=[0.01, 0.01, 0.5 * LINK])
    ball = client.createCollisionShape(p.GEOM_SPHERE, radius=0.05)
    turn = p.getQuaternionFromEuler([0.0, -ANGLE, 0.0])
    bodies = [client.createMultiBody(LIGHT, bar, -1, ((k + 0.5) * LINK * ALONG), turn) for k in range(LINKS)]
    bodies.append(client.createMultiBody(HEAVY, ball, -1, LINKS * LINK * ALONG))
    for body in bodies:
        client.changeDynamics(body, -1, linearDamping=0.0, angularDamping=0.0)
        client.setCollisionFilterGroupMask(body, -1, 0, 0)
    client.stepSimulation()

    def tie(k: int) -> None:
        """Tie a body to the one before, or the first to the world."""
        upper, here = [0.0, 0.0, 0.5 * LINK], [0.0, 0.0, -0.5 * LINK]
        if k == 0:
            ends = bodies[0], -1, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], upper, [0, 0, 0]
        else:
            point = upper if k < LINKS else [0.0, 0.0, 0.0]
            ends = bodies[k - 1], -1, bodies[k], -1, p.JOINT_POINT2POINT, [0, 0, 0], here, point
        client.changeConstraint(client.createConstraint(*ends), maxForce=1.0e5)

    make(bodies, tie)
    client.setGravity(0.0, 0.0, -G)
    lengths, energies = [], []
    for _ in range(480):
        client.stepSimulation()
        x, v = client.getBasePositionAndOrientation(bodies[-1])[0], client.getBaseVelocity(bodies[-1])[0]
        lengths.append(float(np.linalg.norm(x)))
        energies.append(HEAVY * (G * x[2] + 0.5 * np.dot(v, v)))
    swing = HEAVY * G * LINKS * LINK * (1.0 - math.cos(ANGLE))
    return np.array(lengths), (np.array(energies) - energies[0]) / swing


@pytest.mark.parametrize("steps", [1, 3])
def test_a_light_rope_that_is_tied_step_by_step_keeps_length_and_energy(world, steps):
    """At 1/240 s the tension tears bars of 20 g apart, unless the solver knows that they are light."""

    def make(bodies, tie):
        for k in range(len(bodies)):
            tie(k)
            step(world, steps)

    lengths, energies = swing_on_rope(world, make)
    # eleven ties remove a fifth of their errors in a step, and each lags by g h² / 0.2; the bars weigh 1 %
    assert np.abs(lengths - LINKS * LINK).max() < 0.005
    assert np.abs(energies).max() < 0.03


def test_a_bar_that_another_mass_makes_too_light_is_calmed(world):
    """The solver that lives on calms the bodies that one made for the new mass would."""
    bar = world.createCollisionShape(p.GEOM_BOX, halfExtents=[0.01, 0.01, 0.05])
    bar = world.createMultiBody(LIGHT, bar, basePosition=[0, 0, -0.05])
    load = add_box(world, [0, 0, -0.2], mass=1e-3)
    top, bottom, none = [0, 0, 0.05], [0, 0, -0.05], [0, 0, 0]
    world.createConstraint(bar, -1, -1, -1, p.JOINT_POINT2POINT, none, top, none)
    world.createConstraint(bar, -1, load, -1, p.JOINT_POINT2POINT, none, bottom, [0, 0, 0.1])
    step(world)
    engine = engine_of(world)
    assert not stiffened_bodies(engine.model).any()
    world.changeDynamics(load, -1, mass=HEAVY)
    step(world)
    assert engine_of(world) is engine
    light = stiffened_bodies(engine.model)
    assert light.any()
    assert (engine.solver.constraints.stiffness.view.light.numpy() == light).all()


def test_what_only_follows_asks_for_nothing(world):
    """A solver looks for light bodies when loads may pass on, which takes longer than a small step."""
    box, other = add_box(world, [0, 0, 1]), add_box(world, [1, 0, 1])
    step(world)
    hold = world.createConstraint(box, -1, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], [0, 0, 0], [0, 0, 1])
    step(world)
    world.removeConstraint(hold)
    step(world)
    engine = engine_of(world)
    world.createConstraint(box, -1, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], [0, 0, 0], [0, 0, 1])
    assert engine_of(world) is engine
    assert not engine.loads_changed
    world.createConstraint(box, -1, other, -1, p.JOINT_POINT2POINT, [0, 0, 0], [1, 0, 0], [0, 0, 0])
    step(world)
    world.changeDynamics(other, -1, mass=2.0)
    assert engine_of(world).loads_changed
