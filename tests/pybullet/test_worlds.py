"""Clients of several worlds: setters and getters for some of them, resets, and what may differ."""

import ast

import make_pybullet_stub
import numpy as np
import pytest

import newtonsim.pybullet_compat as p
from newtonsim.pybullet_compat.bullet_client import BulletClient
from newtonsim.pybullet_compat.stand_ins.pybullet_data import getDataPath
from newtonsim.pybullet_compat.surface.signatures import BY_WORLD, GETTERS, SETTERS

W = 4
Q = [0.0, 0.0, 0.0, 1.0]
CHOICES = {
    "an index": (2, [2]),
    "a list": ([3, 1], [3, 1]),
    "an array": (np.array([0, 2]), [0, 2]),
    "a mask": (np.array([False, True, True, False]), [1, 2]),
    "a list of booleans": ([True, False, False, True], [0, 3]),
    "an index of NumPy": (np.int64(1), [1]),
    "a range": (range(1, W), [1, 2, 3]),
    "none": ([], []),
}


@pytest.fixture
def sim():
    """Four worlds with a ground, an arm and a box above the ground."""
    client = BulletClient(p.DIRECT, num_worlds=W)
    client.setAdditionalSearchPath(getDataPath())
    client.setGravity(0.0, 0.0, -9.81)
    client.loadURDF("plane.urdf")
    client.arm = client.loadURDF("kuka_iiwa/model.urdf", [2, 0, 0], useFixedBase=True)
    shape = client.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1] * 3)
    client.box = client.createMultiBody(1.0, shape, -1, [0, 0, 1])
    yield client
    client.disconnect()


def single():
    """The same scene in one world."""
    client = BulletClient(p.DIRECT)
    client.setAdditionalSearchPath(getDataPath())
    client.setGravity(0.0, 0.0, -9.81)
    client.loadURDF("plane.urdf")
    client.loadURDF("kuka_iiwa/model.urdf", [2, 0, 0], useFixedBase=True)
    shape = client.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1] * 3)
    client.createMultiBody(1.0, shape, -1, [0, 0, 1])
    return client


@pytest.mark.parametrize("name", CHOICES)
def test_worlds_can_be_named_in_several_ways(sim, name):
    worlds, rows = CHOICES[name]
    sim.resetJointState(sim.arm, 1, 0.5, worlds=worlds)
    angles = sim.getJointState(sim.arm, 1)[0]
    assert angles.tolist() == [0.5 if row in rows else 0.0 for row in range(W)]
    own = sim.getJointState(sim.arm, 1, worlds=worlds)[0]
    assert np.array_equal(own, 0.5 if isinstance(worlds, (int, np.integer)) else [0.5] * len(rows))


@pytest.mark.parametrize(
    "worlds",
    [4, -1, [2, -1], [0, 0], [0, 7], [True], 1.5, [0.0], "a", None, [[0]], [[0], [1, 2]], [True] * 5],
)
def test_other_worlds_are_refused(sim, worlds):
    if worlds is None:
        assert sim.getJointState(sim.arm, 1, worlds=None)[0].shape == (W,)
        return
    for call in (
        lambda: sim.resetJointState(sim.arm, 1, 0.5, worlds=worlds),
        lambda: sim.getJointState(sim.arm, 1, worlds=worlds),
        lambda: sim.resetWorlds(worlds),
        lambda: sim.restore_worlds(sim.saveState(), worlds),
    ):
        with pytest.raises(p.error, match=r"worlds: expected .* 0 to 3"):
            call()
    assert not sim.getJointState(sim.arm, 1)[0].any()


SET = {
    "setGravity": lambda s, v, **k: s.setGravity(v, 0.0, -30 * v, **k),
    "resetBasePositionAndOrientation": lambda s, v, **k: s.resetBasePositionAndOrientation(
        s.box, np.stack([v, 0 * v, 1 + v], -1), np.stack([0 * v, 0 * v, np.sin(v), np.cos(v)], -1), **k
    ),
    "resetBaseVelocity": lambda s, v, **k: s.resetBaseVelocity(s.box, np.stack([v, v, 0 * v], -1), **k),
    "resetJointState": lambda s, v, **k: s.resetJointState(s.arm, 1, v, 2 * v, **k),
    "resetJointStateMultiDof": lambda s, v, **k: s.resetJointStateMultiDof(
        s.arm, 1, v[..., None], v[..., None], **k
    ),
    "resetJointStatesMultiDof": lambda s, v, **k: s.resetJointStatesMultiDof(
        s.arm, [1, 3], [v[..., None], -v[..., None]], [v[..., None], v[..., None]], **k
    ),
    "setJointMotorControl2": lambda s, v, **k: s.setJointMotorControl2(
        s.arm, 1, p.POSITION_CONTROL, targetPosition=v, force=5000 * v, positionGain=v, **k
    ),
    "torque": lambda s, v, **k: s.setJointMotorControl2(s.arm, 1, p.TORQUE_CONTROL, force=100 * v, **k),
    "setJointMotorControlArray": lambda s, v, **k: s.setJointMotorControlArray(
        s.arm, [1, 3], p.POSITION_CONTROL, np.stack([v, -v], -1), forces=np.stack([90 * v, 80 * v], -1), **k
    ),
    "torques": lambda s, v, **k: s.setJointMotorControlArray(
        s.arm, [1, 3], p.TORQUE_CONTROL, forces=np.stack([90 * v, 80 * v], -1), **k
    ),
    "setJointMotorControlMultiDof": lambda s, v, **k: s.setJointMotorControlMultiDof(
        s.arm, 1, p.POSITION_CONTROL, v[..., None], force=100 * v[..., None], **k
    ),
    "setJointMotorControlMultiDofArray": lambda s, v, **k: s.setJointMotorControlMultiDofArray(
        s.arm, [1, 3], p.POSITION_CONTROL, [v[..., None], -v[..., None]], **k
    ),
    "applyExternalForce": lambda s, v, **k: s.applyExternalForce(
        s.box, -1, np.stack([50 * v, v, v], -1), np.stack([v, v, 1 + v], -1), p.WORLD_FRAME, **k
    ),
    "force in a link": lambda s, v, **k: s.applyExternalForce(
        s.arm, 3, np.stack([50 * v, v, v], -1), np.stack([v, v, v], -1), p.LINK_FRAME, **k
    ),
    "applyExternalTorque": lambda s, v, **k: s.applyExternalTorque(
        s.box, -1, np.stack([v, v, v], -1), p.LINK_FRAME, **k
    ),
    "mass": lambda s, v, **k: s.changeDynamics(s.arm, 3, mass=10 * v, **k),
    "inertia": lambda s, v, **k: s.changeDynamics(
        s.box, -1, localInertiaDiagonal=np.stack([v / 99, v / 30, v / 30], -1), **k
    ),
    "damping": lambda s, v, **k: s.changeDynamics(s.box, -1, linearDamping=9 * v, angularDamping=v, **k),
    "joint damping": lambda s, v, **k: s.changeDynamics(s.arm, 1, jointDamping=90 * v, **k),
    "joint limits": lambda s, v, **k: s.changeDynamics(
        s.arm, 1, jointLowerLimit=-v, jointUpperLimit=v / 90, **k
    ),
    "changeConstraint": lambda s, v, **k: s.changeConstraint(hold(s), maxForce=20 * v, **k),
    "pivot": lambda s, v, **k: s.changeConstraint(hold(s), np.stack([v, v, 1 + 0 * v], -1), **k),
    "frame": lambda s, v, **k: s.changeConstraint(
        fix(s), None, np.stack([0 * v, 0 * v, np.sin(v), np.cos(v)], -1), **k
    ),
}
"""Setters with a number (or one for each world) in an argument."""


def hold(sim) -> int:
    """A constraint that holds the box, the same in later calls."""
    if not sim.getNumConstraints():
        sim.createConstraint(2, -1, -1, -1, p.JOINT_POINT2POINT, [0] * 3, [0] * 3, [0, 0, 1])
    return sim.getConstraintUniqueId(0)


def fix(sim) -> int:
    """A constraint that holds the box and its axes, the same in later calls."""
    if not sim.getNumConstraints():
        sim.createConstraint(2, -1, -1, -1, p.JOINT_FIXED, [0] * 3, [0] * 3, [0, 0, 1])
    return sim.getConstraintUniqueId(0)


HOLDS = {"changeConstraint": hold, "pivot": hold, "frame": fix}
"""What has to be there in worlds that are not named as well."""


def push(sim) -> None:
    """Loosen the motors of the arm and set all in motion, in all worlds."""
    for joint in range(7):
        sim.setJointMotorControl2(sim.arm, joint, p.VELOCITY_CONTROL, force=0)
        sim.resetJointState(sim.arm, joint, 0.0, 0.5 + 0.1 * joint)
    sim.resetBaseVelocity(sim.box, [0.1, 0.2, 0.3], [3.0, 2.0, 1.0])


def state(sim, body_arm: int, box: int) -> list[np.ndarray]:
    """Coordinates and velocities of both bodies, a row for each world."""
    angles = [sim.getJointState(body_arm, joint)[:2] for joint in range(7)]
    parts = [*sim.getBasePositionAndOrientation(box), *sim.getBaseVelocity(box)]
    return [np.atleast_1d(np.asarray(x)) for pair in angles for x in pair] + [np.asarray(x) for x in parts]


@pytest.mark.parametrize("name", SET)
def test_setters_reach_the_worlds_that_are_named(sim, name):
    """Each world goes as a client of its own goes that was given its value, or none."""
    rows, values = [3, 1], np.array([0.3, 0.45])
    push(sim)
    HOLDS.get(name, push)(sim)
    for _ in range(2):
        SET[name](sim, values, worlds=rows)
        for _ in range(3):
            sim.stepSimulation()
    many = state(sim, sim.arm, sim.box)
    alone = []
    for value in (*values, None):
        client = single()
        client.arm, client.box = 1, 2
        push(client)
        HOLDS.get(name, push)(client)
        for _ in range(2):
            if value is not None:
                SET[name](client, np.float64(value))
            for _ in range(3):
                client.stepSimulation()
        alone.append(state(client, 1, 2))
        client.disconnect()
    moved = False
    for found, *expected in zip(many, *alone):
        untouched = expected[2].reshape(found[0].shape)
        for row, value in zip((3, 1, 0, 2), (expected[0], expected[1], untouched, untouched)):
            assert np.allclose(found[row], value.reshape(found[row].shape), atol=2e-4), name
        moved |= not np.allclose(found[3], untouched, atol=1e-3)
    assert moved  # the value matters


def test_getters_return_what_belongs_to_worlds(sim):
    sim.resetBasePositionAndOrientation(sim.box, np.c_[np.zeros((W, 2)), [0.09, 1, 2, 3]], Q)
    sim.stepSimulation()
    assert len(sim.getContactPoints(sim.box, worlds=0)) >= 1
    calls = {
        **{name: (sim.box,) for name in ("getBasePositionAndOrientation", "getBaseVelocity", "getAABB")},
        **{name: (sim.arm, 3) for name in ("getLinkState", "getJointState", "getJointStateMultiDof")},
        **{name: (sim.arm, [1, 3]) for name in ("getLinkStates", "getJointStates", "getJointStatesMultiDof")},
        "getDynamicsInfo": (sim.box, -1),
        "getContactPoints": (sim.box,),
        "getClosestPoints": (sim.box, sim.arm, 5.0),
        "getOverlappingObjects": ([-1, -1, 0.5], [1, 1, 1.5]),
        "rayTest": ([0, 0, 5], [0, 0, 0]),
        "rayTestBatch": ([[0, 0, 5]], [[0, 0, 0]]),
        "getConstraintState": (hold(sim),),
        "getConstraintInfo": (hold(sim),),
        "getPhysicsEngineParameters": (),
    }
    sim.setGravity([0, 0, -3.0], worlds=3)
    assert set(calls) == GETTERS

    def rows(answer, row):
        if isinstance(answer, tuple):
            return tuple(rows(part, row) for part in answer)
        if isinstance(answer, dict):
            return {key: rows(part, row) for key, part in answer.items()}
        return answer[row] if isinstance(answer, np.ndarray) and len(answer) == W else answer

    for name, args in calls.items():
        full, some, one = (getattr(sim, name)(*args, **k) for k in ({}, {"worlds": [3, 0]}, {"worlds": 3}))
        if name in BY_WORLD:
            assert some == (full[3], full[0])
            assert one == full[3]
            continue
        np.testing.assert_equal(one, rows(full, 3))
        np.testing.assert_equal(some, rows(full, [3, 0]))
    assert len(sim.getContactPoints(sim.box, worlds=0)) >= 1
    assert sim.getContactPoints(sim.box, worlds=3) == ()


def test_every_setter_is_tried():
    assert {name for call in SET.values() for name in call.__code__.co_names} >= SETTERS


def test_worlds_begin_anew(sim):
    """Worlds that are reset fall as they fell the first time, and the others go on."""
    bodies = sim.loadURDF("cube_small.urdf", np.c_[3 + np.arange(W), np.zeros(W), np.full(W, 2.0)])

    def run(count):
        seen = []
        for _ in range(count):
            sim.stepSimulation()
            seen.append([sim.getBasePositionAndOrientation(b)[0] for b in (sim.box, bodies)])
        return np.array(seen)  # (steps, bodies, W, 3)

    sim.setJointMotorControl2(sim.arm, 1, p.POSITION_CONTROL, 0.3)
    first = run(40)
    sim.applyExternalForce(sim.box, -1, [1000, 0, 0], [0, 0, 0], p.LINK_FRAME)  # waits for the next step
    sim.resetWorlds([0, 3])
    assert np.array_equal(
        sim.getBasePositionAndOrientation(bodies)[0][:, 2] == 2.0, [True, False, False, True]
    )
    assert not sim.getJointState(sim.arm, 1, worlds=[0, 3])[0].any()
    again = run(40)
    assert np.allclose(again[:, :, [0, 3]], first[:, :, [0, 3]], atol=1e-6)
    assert (again[-1, 0, [1, 2], 0] > 0.5).all()  # the force reached those that went on
    sim.resetWorlds(np.ones(W, bool))
    assert np.allclose(run(40), first, atol=1e-6)


def test_some_worlds_are_restored_by_their_indices(sim):
    start = sim.saveState()
    for _ in range(30):
        sim.stepSimulation()
    low = sim.getBasePositionAndOrientation(sim.box)[0][:, 2]
    sim.restore_worlds(start, [3, 1])
    heights = sim.getBasePositionAndOrientation(sim.box)[0][:, 2]
    assert np.array_equal(heights, [low[0], 1.0, low[2], 1.0])
    sim.restore_worlds(start, 0)
    assert sim.getBasePositionAndOrientation(sim.box, worlds=0)[0][2] == 1.0


def test_boxes_slide_by_the_friction_of_their_world(sim):
    """A box loses mu g t of its speed; what changeDynamics is told of two worlds leaves the others."""
    sim.changeDynamics(0, -1, lateralFriction=1.0)
    sim.changeDynamics(
        sim.box, -1, lateralFriction=0.5, linearDamping=0.0, contactStiffness=1e5, contactDamping=1e3
    )
    sim.changeDynamics(sim.box, -1, lateralFriction=[0.1, 0.8], restitution=0.3, worlds=[3, 1])
    sim.changeDynamics(sim.box, -1, contactStiffness=2e5, contactDamping=2e3, frictionAnchor=1, worlds=0)
    friction = np.array([0.5, 0.8, 0.5, 0.1])
    info = sim.getDynamicsInfo(sim.box, -1)
    assert np.array_equal(info[1], friction)
    assert info[5].tolist() == [0.0, 0.3, 0.0, 0.3]
    assert info[8].tolist() == [2e3, 1e3, 1e3, 1e3]
    assert info[9].tolist() == [2e5, 1e5, 1e5, 1e5]
    sim.resetBasePositionAndOrientation(sim.box, [0, 0, 0.1], Q)
    sim.resetBaseVelocity(sim.box, [2.0, 0, 0])
    for _ in range(24):
        sim.stepSimulation()
    assert sim.getBaseVelocity(sim.box)[0][:, 0] == pytest.approx(2.0 - friction * 9.81 * 0.1, abs=0.03)


def test_a_quaternion_of_zeros_turns_its_own_world_alone(sim):
    turns = np.array([[0, 0, 0, 0], [2, 0, 0, 0], Q, [0, 0, 3, 4]])
    sim.resetBasePositionAndOrientation(sim.box, [0, 0, 1], turns)
    expected = [Q, [1, 0, 0, 0], Q, [0, 0, 0.6, 0.8]]
    assert sim.getBasePositionAndOrientation(sim.box)[1] == pytest.approx(np.array(expected))


@pytest.mark.parametrize("steps", [0, 1])
def test_soft_bodies_are_placed_in_some_worlds(steps):
    client = BulletClient(p.DIRECT, num_worlds=W)
    client.setAdditionalSearchPath(getDataPath())
    client.resetSimulation(p.RESET_USE_DEFORMABLE_WORLD)
    cloth = client.loadSoftBody("cloth_z_up.obj", basePosition=[0, 0, 1], mass=1.0, useMassSpring=1)
    for _ in range(steps):
        client.stepSimulation()
    client.resetBaseVelocity(cloth, [1, 0, 0], [0, 0, 2])
    client.resetBasePositionAndOrientation(cloth, [[0, 0, 5], [0, 0, 6]], Q, worlds=[3, 1])
    assert client.getBasePositionAndOrientation(cloth)[0][:, 2] == pytest.approx([1, 6, 1, 5], abs=1e-5)
    assert client.getBaseVelocity(cloth)[0][:, 0] == pytest.approx([1, 0, 1, 0], abs=1e-5)  # it stops
    client.resetBaseVelocity(cloth, [[0, 3, 0], [0, 4, 0]], [0, 0, 7], worlds=[1, 2])
    linear, angular = client.getBaseVelocity(cloth)
    assert linear[:, :2] == pytest.approx(np.array([[1, 0], [0, 3], [0, 4], [0, 0]]), abs=1e-5)
    assert angular[:, 2] == pytest.approx([2, 7, 7, 0], abs=1e-4)
    client.disconnect()


def test_constraints_give_way_at_the_limit_of_their_world(sim):
    """A held box of 1 kg stays where its constraint bears 9.81 N, and falls elsewhere."""
    held = hold(sim)
    limits = np.array([0.0, 5.0, 20.0, 500.0])
    sim.changeConstraint(held, maxForce=limits)
    assert np.array_equal(sim.getConstraintInfo(held)[10], limits)
    for _ in range(24):
        sim.stepSimulation()
    speed = sim.getBaseVelocity(sim.box)[0][:, 2]
    missing = np.minimum(limits - 9.81, 0.0)
    assert np.allclose(speed, missing * 0.1, atol=0.01)
    sim.loadURDF("cube_small.urdf", [5, 5, 5])  # the model is built anew
    sim.changeConstraint(held, maxForce=0.0, worlds=3)
    before = sim.getBaseVelocity(sim.box)[0][:, 2]
    sim.stepSimulation()
    change = sim.getBaseVelocity(sim.box)[0][:, 2] - before
    assert np.allclose(change * 240, [-9.81, -4.81, 0.0, -9.81], atol=0.1)  # damping of 0.04
    assert sim.getConstraintInfo(held)[10].tolist() == [0.0, 5.0, 20.0, 0.0]


def test_boxes_fall_by_the_gravity_of_their_world(sim):
    """Without damping v = g n dt; what is told of two worlds leaves the others, and a vector is for all."""
    gravity = np.array([[0, 0, -9.81], [0, 0, -3.7], [1.0, 0, -1.6], [0, 2.0, 0]])
    sim.changeDynamics(sim.box, -1, linearDamping=0.0)
    sim.stepSimulation()  # gravity changes in a model that steps

    def fall(g):
        sim.resetBaseVelocity(sim.box, [0, 0, 0])
        for _ in range(12):
            sim.stepSimulation()
        assert sim.getBaseVelocity(sim.box)[0] == pytest.approx(g / 20, abs=1e-4)

    sim.setGravity(gravity)
    fall(gravity)
    told = sim.getPhysicsEngineParameters()
    assert [told[f"gravityAcceleration{axis}"].tolist() for axis in "XYZ"] == gravity.T.tolist()
    assert sim.getPhysicsEngineParameters(worlds=1)["gravityAccelerationZ"] == -3.7
    sim.setGravity(0, 0, [-5.0, -6.0], worlds=[3, 0])
    gravity[[3, 0]] = [[0, 0, -5.0], [0, 0, -6.0]]
    sim.loadURDF("cube_small.urdf", [5, 5, 5])  # the model is built anew
    fall(gravity)
    q = np.zeros((W, 7))
    torque = sim.calculateInverseDynamics(sim.arm, q + 0.5, q, q)
    for row, g in enumerate(gravity):
        sim.setGravity(*g)
        assert torque[row] == pytest.approx(sim.calculateInverseDynamics(sim.arm, q + 0.5, q, q)[0], abs=1e-9)
    sim.setGravity([0, 0, -9.81])
    assert sim.getPhysicsEngineParameters()["gravityAccelerationZ"] == -9.81
    fall(np.tile([0, 0, -9.81], (W, 1)))
    sim.setGravity(gravity)
    sim.resetSimulation()
    assert sim.getPhysicsEngineParameters()["gravityAccelerationZ"] == 0.0


def test_negative_numbers_leave_their_own_world(sim):
    sim.changeDynamics(sim.box, -1, mass=[2.0, -1, 3.0, -1], lateralFriction=[-1, 0.1, -1, 0.2])
    info = sim.getDynamicsInfo(sim.box, -1)
    assert info[0].tolist() == [2.0, 1.0, 3.0, 1.0]
    assert info[1].tolist() == [0.5, 0.1, 0.5, 0.2]
    sim.changeDynamics(sim.box, -1, localInertiaDiagonal=np.ones((2, 3)), worlds=[1, 2])
    assert sim.getDynamicsInfo(sim.box, -1)[2][:, 0] == pytest.approx([2 / 150, 1.0, 1.0, 1 / 150])


def test_one_world_can_be_named():
    """A client of one world takes worlds=0 and [0], answers as it does without, and refuses others."""
    client = single()
    for worlds in (0, [0], [True]):
        client.resetBaseVelocity(2, [1.0, 2.0, 3.0], worlds=worlds)
        client.resetJointState(1, 1, 0.25, worlds=worlds)
        client.changeDynamics(2, -1, mass=3.0, worlds=worlds)
        client.setGravity(0.0, 0.0, -1.0, worlds=worlds)
        assert client.getBaseVelocity(2, worlds=worlds) == ((1.0, 2.0, 3.0), (0.0, 0.0, 0.0))
        assert client.getJointState(1, 1, worlds=worlds) == client.getJointState(1, 1)
    assert client.getDynamicsInfo(2, -1, worlds=0)[0] == 3.0
    assert client.getPhysicsEngineParameters(worlds=0)["gravityAccelerationZ"] == -1.0
    client.resetBaseVelocity(2, [[4.0, 5.0, 6.0]], worlds=[0])  # a row for each named world
    client.resetJointState(1, 1, [0.5], worlds=[0])
    client.resetJointState(1, 1, 9.0, worlds=[])
    assert p.getBaseVelocity(2, worlds=0, physicsClientId=client._client)[0] == (4.0, 5.0, 6.0)
    assert client.getJointState(1, 1)[0] == 0.5
    for worlds in (1, [0, 0], -1, [1], "a", 0.0):
        for call in (client.getJointState, lambda *a, **k: client.resetJointState(*a, 0.5, **k)):
            with pytest.raises(p.error, match="worlds: expected an index or indices of the only world, 0"):
                call(1, 1, worlds=worlds)
    with pytest.raises(p.error, match="linearVelocity"):
        client.resetBaseVelocity(2, [[4.0, 5.0, 6.0]])
    client.disconnect()


THREE = np.ones(3)
REFUSED = {
    "targetPosition": lambda s: s.setJointMotorControl2(s.arm, 1, p.POSITION_CONTROL, targetPosition=THREE),
    "targetValue": lambda s: s.resetJointState(s.arm, 1, THREE),
    "mass": lambda s: s.changeDynamics(s.box, -1, mass=THREE),
    "maxForce": lambda s: s.changeConstraint(hold(s), maxForce=THREE),
    "jointChildPivot": lambda s: s.changeConstraint(hold(s), np.ones((3, 3))),
    "jointChildFrameOrientation": lambda s: s.changeConstraint(hold(s), None, np.ones((3, 4))),
    "localInertiaDiagonal": lambda s: s.changeDynamics(s.box, -1, localInertiaDiagonal=np.ones((3, 3))),
    "lateralFriction": lambda s: s.changeDynamics(s.box, -1, lateralFriction=[1.0, [2.0]]),
    "gravZ": lambda s: s.setGravity(0, 0, THREE),
    "gravX": lambda s: s.setGravity(np.ones((3, 3))),
    "targetPosition of a link": lambda s: s.calculateInverseKinematics(s.arm, 6, np.ones((3, 3))),
    "targetOrientation": lambda s: s.calculateInverseKinematics(s.arm, 6, np.ones((W, 3)), np.ones((3, 4))),
    "targetPositions": lambda s: s.calculateInverseKinematics2(s.arm, [6], np.ones((3, 1, 3))),
    "restPoses": lambda s: s.calculateInverseKinematics(
        s.arm, 6, [0.5, 0, 0.5], None, [-1] * 7, [1] * 7, [2] * 7, np.ones((3, 7))
    ),
    "objPositions": lambda s: s.calculateInverseDynamics(s.arm, np.ones((3, 7)), [0] * 7, [0] * 7),
    "objVelocities": lambda s: s.calculateJacobian(s.arm, 6, [0] * 3, [0] * 7, np.ones((3, 7)), [0] * 7),
    "targetVelocity": lambda s: s.resetJointStateMultiDof(s.arm, 1, [0.5], np.ones((3, 1))),
    "targetValues": lambda s: s.resetJointStatesMultiDof(s.arm, [1, 2], [[0.5], np.ones((3, 1))]),
    "position": lambda s: s.resetBasePositionAndOrientation(s.box, np.ones((3, 3)), Q),
    "linearVelocity": lambda s: s.resetBaseVelocity(s.box, np.ones((5, 3))),
    "force": lambda s: s.applyExternalForce(s.box, -1, np.ones((3, 2)), [0, 0, 0], 1),
    "forces": lambda s: s.setJointMotorControlArray(s.arm, [1, 2], 2, forces=np.ones((3, 2))),
    "one coordinate": lambda s: s.setJointMotorControlMultiDof(s.arm, 1, 2, np.ones((3, 1))),
    "basePosition": lambda s: s.loadURDF("cube_small.urdf", np.ones((3, 3))),
}
FOR_ALL = {
    "globalScaling": lambda s: s.loadSDF("kiva_shelf/model.sdf", globalScaling=np.ones(W)),
    "heightfieldTextureScaling": lambda s: s.createCollisionShape(
        p.GEOM_SPHERE, heightfieldTextureScaling=np.ones(W)
    ),
    "timeStep": lambda s: s.setTimeStep(np.ones(W)),
    "gearRatio": lambda s: s.changeConstraint(hold(s), gearRatio=np.ones(W)),
    "relativePositionTarget": lambda s: s.changeConstraint(hold(s), relativePositionTarget=np.ones(W)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_shapes_are_named(sim, name):
    with pytest.raises(p.error, match=rf"{name.split()[0]}.*\({W},"):
        REFUSED[name](sim)
    with pytest.raises(p.error, match=r"worlds"):
        sim.changeDynamics(sim.box, -1, mass=1.0, worlds=[9])


def test_what_is_no_number_is_named(sim):
    for value in (np.nan, np.float64(np.nan), np.full(W, np.nan)):
        with pytest.raises(p.error, match="mass is not a number"):
            sim.changeDynamics(sim.box, -1, mass=value)
    for name, value in (("mass", np.inf), ("localInertiaDiagonal", [1.0, np.nan, 1.0])):
        with pytest.raises(p.error, match=f"{name} must be finite"):
            sim.changeDynamics(sim.box, -1, **{name: value})


def test_what_cannot_differ_so_is_refused(sim):
    with pytest.raises(
        p.error, match=r"frictionAnchor: expected one integer for all worlds, got shape \(4,\)"
    ):
        sim.changeDynamics(sim.box, -1, frictionAnchor=np.ones(W, int))
    with pytest.raises(p.error, match="mass: a base is static, with mass 0, in all worlds or in none"):
        sim.changeDynamics(sim.box, -1, mass=[0.0, 1.0, 1.0, 1.0])
    with pytest.raises(p.error, match="mass: a base is static"):
        sim.changeDynamics(sim.box, -1, mass=0.0, worlds=2)
    with pytest.raises(p.error, match="erp: gears are the same in all worlds"):
        sim.changeConstraint(hold(sim), erp=0.5, worlds=2)
    assert sim.getDynamicsInfo(sim.box, -1)[0].tolist() == [1.0] * W


SIZES = np.array([0.1, 0.2, 0.3, 0.15])
SHAPES = {
    "sphere": (p.GEOM_SPHERE, {"radius": SIZES}),
    "box": (p.GEOM_BOX, {"halfExtents": np.stack([SIZES, 2.0 * SIZES, SIZES], 1)}),
    "capsule": (p.GEOM_CAPSULE, {"radius": SIZES, "height": 0.3}),
    "cylinder": (p.GEOM_CYLINDER, {"radius": 0.2, "height": 2.0 * SIZES}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_have_the_sizes_of_their_world(sim, name):
    """Each world is like a client of one world with such a shape: moments, bounds, forces, where it lies."""
    kind, sizes = SHAPES[name]
    several = _dropped(sim, kind, sizes)
    for world in range(W):
        own = {key: values if np.ndim(values) == 0 else values[world] for key, values in sizes.items()}
        single = BulletClient(p.DIRECT)
        try:
            alone = _dropped(single, kind, own)
        finally:
            single.disconnect()
        for found, expected in zip(several, alone, strict=True):
            np.testing.assert_allclose(np.asarray(found)[world], np.asarray(expected), atol=2e-5)


def _dropped(client, kind: int, sizes: dict) -> list:
    """What a client says of a body of 2 kg that lies on a plane after a second."""
    client.resetSimulation()
    client.setGravity(0.0, 0.0, -9.81)
    ground = client.createMultiBody(0.0, client.createCollisionShape(p.GEOM_PLANE))
    shape = client.createCollisionShape(kind, collisionFramePosition=[0.02, 0.0, 0.0], **sizes)
    body = client.createMultiBody(2.0, shape, -1, [0.0, 0.0, 0.5])
    told = [client.getDynamicsInfo(body, -1)[2], *client.getAABB(body)]
    client.changeDynamics(body, -1, mass=1.0, angularDamping=0.99, rollingFriction=0.01)
    told.append(client.getDynamicsInfo(body, -1)[2])
    for _ in range(240):
        client.stepSimulation()
    points = client.getContactPoints(body, ground)
    worlds = points if client.num_worlds > 1 else [points]
    forces = [sum(point[9] for point in each) for each in worlds]
    told.append(forces if client.num_worlds > 1 else forces[0])
    told += [client.getBasePositionAndOrientation(body)[0], *client.getAABB(body)]
    size = client.getCollisionShapeData(body, -1)[0][3]
    several = client.num_worlds > 1
    return [*told, np.broadcast_to(size, (W, 3)) if several else size]


@pytest.mark.filterwarnings("ignore")
def test_sizes_by_world_are_checked(sim):
    for name, values in (("radius", np.ones(W + 1)), ("height", np.ones((W, 1)))):
        with pytest.raises(
            p.error, match=rf"{name}: expected a number, or one for each world in shape \({W},\)"
        ):
            sim.createCollisionShape(p.GEOM_CAPSULE, **{name: values})
    with pytest.raises(
        p.error, match=rf"halfExtents: expected 3 numbers, or a row for each .* \({W}, 3\), got"
    ):
        sim.createCollisionShape(p.GEOM_BOX, halfExtents=np.ones((W + 1, 3)))
    with pytest.raises(p.error, match="radius"):
        sim.createCollisionShape(p.GEOM_SPHERE, radius=[0.1, 0.2, 0.0, 0.1])
    shape = sim.createCollisionShape(p.GEOM_SPHERE, radius=SIZES)
    with pytest.raises(p.error, match="the same in all worlds"):
        sim.getClosestPoints(sim.box, -1, 10.0, collisionShapeB=shape)
    sim.stepSimulation()


VECTORS_FOR_ALL = {
    "halfExtents": lambda s, v: s.createVisualShape(p.GEOM_BOX, halfExtents=v),
    "meshScale": lambda s, v: s.createCollisionShape(p.GEOM_MESH, fileName="duck.obj", meshScale=v),
    "jointAxis": lambda s, v: s.createConstraint(2, -1, -1, -1, p.JOINT_PRISMATIC, v, [0] * 3, [0] * 3),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", VECTORS_FOR_ALL)
def test_vectors_that_cannot_differ_are_named(sim, name):
    with pytest.raises(p.error, match=rf"{name}.*3.*the same in all worlds") as refusal:
        VECTORS_FOR_ALL[name](sim, np.ones((W, 3)))
    assert name != "jointAxis" or f"({W}, 3)" in str(refusal.value)


@pytest.mark.parametrize("name", FOR_ALL)
def test_what_cannot_differ_is_named(sim, name):
    with pytest.raises(p.error, match=rf"{name}: expected one number for all worlds, got shape \({W},\)"):
        FOR_ALL[name](sim)


def test_what_a_client_has_is_listed(sim):
    names = dir(sim)
    extra = {
        "resetWorlds",
        "restore_worlds",
        "advance",
        "surround",
        "num_worlds",
        "model",
        "solver",
        "mirror",
    }
    assert extra | {"loadURDF", "stepSimulation", "POSITION_CONTROL", "disconnect"} <= set(names)
    assert all(hasattr(sim, name) for name in extra)
    assert len(names) == len(set(names))


def test_the_stub_for_editors_is_up_to_date():
    """If this fails: python tools/make_pybullet_stub.py && ruff format newtonsim"""
    written = make_pybullet_stub.PATH.read_text()
    assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(make_pybullet_stub.stub()))
    (client,) = [node for node in ast.parse(written).body if isinstance(node, ast.ClassDef)]
    methods = {node.name: node for node in client.body if isinstance(node, ast.FunctionDef)}
    assert set(make_pybullet_stub.SIGNATURES) <= set(methods)
    for name, node in methods.items():
        takes = "worlds" in [argument.arg for argument in node.args.kwonlyargs]
        assert takes == (name in SETTERS | GETTERS)
        assert ast.get_docstring(node) or name.startswith("__")


def test_what_is_negative_stays_in_its_own_world(sim):
    """A mass that stays keeps the inertia that it was given, and a force that stays drops no other."""
    inertia = np.array([0.5, 0.6, 0.7])
    sim.changeDynamics(sim.box, -1, localInertiaDiagonal=inertia)
    sim.changeDynamics(sim.box, -1, mass=[2.0, -1.0, 3.0, -1.0])
    mass, _, found, *_ = sim.getDynamicsInfo(sim.box, -1)
    assert mass.tolist() == [2.0, 1.0, 3.0, 1.0]
    assert (found[[1, 3]] == inertia).all()
    assert found[[0, 2]] == pytest.approx(np.outer([2.0, 3.0], np.full(3, 0.2**2 / 6.0)))
    held = hold(sim)
    sim.changeConstraint(held, maxForce=9.0)
    sim.changeConstraint(held, maxForce=[5.0, -1.0, 7.0, -1.0])
    assert sim.getConstraintInfo(held)[10].tolist() == [5.0, 9.0, 7.0, 9.0]


@pytest.mark.parametrize(
    "vectors", [[[1.0, 2.0], [3.0]], ["a", "b", "c"], np.zeros((W, 2)), np.zeros((W + 1, 3))]
)
def test_gravity_that_is_no_vectors_is_refused(sim, vectors):
    with pytest.raises(p.error, match=rf"gravX: expected .* vectors in shape \(3,\) or \({W}, 3\), got "):
        sim.setGravity(vectors)
    assert sim.getPhysicsEngineParameters()["gravityAccelerationZ"] == -9.81


def test_a_client_of_one_world_takes_rows_for_it():
    """What is written for chosen worlds of any number runs with one, too."""
    sim, row = single(), {"worlds": [0]}
    box, held = 2, sim.createConstraint(2, -1, -1, -1, p.JOINT_FIXED, [0] * 3, [0] * 3, [0] * 3)
    sim.setGravity(np.array([[1.0, 2.0, -3.0]]), **row)
    assert sim.getPhysicsEngineParameters()["gravityAccelerationY"] == 2.0
    sim.setGravity([0.0, 0.0, -4.0], **row)
    assert sim.getPhysicsEngineParameters()["gravityAccelerationZ"] == -4.0
    sim.changeConstraint(held, [[0.1, 0.2, 0.3]], [[0.0, 0.0, 2.0, 0.0]], [5.0], **row)
    info = sim.getConstraintInfo(held)
    assert (info[7], info[9], info[10]) == ((0.1, 0.2, 0.3), (0.0, 0.0, 1.0, 0.0), 5.0)
    sim.removeConstraint(held)
    sim.setJointMotorControlArray(1, [0, 1], p.VELOCITY_CONTROL, targetVelocities=[[0.5, 0.25]], **row)
    sim.resetBaseVelocity(box, [[1.0, 0.0, 0.0]], **row)
    for _ in range(20):
        sim.stepSimulation()
    assert [state[1] for state in sim.getJointStates(1, [0, 1])] == pytest.approx([0.5, 0.25], abs=1e-3)
    with pytest.raises(TypeError):  # as without worlds, and in PyBullet
        sim.setGravity([0.0, 0.0, -4.0])
    sim.disconnect()


@pytest.mark.parametrize("method", [p.DIRECT, p.TCP])
def test_options_with_an_open_quotation_are_refused(method):
    where = ("localhost", 1) if method == p.TCP else ()
    with pytest.raises(p.error, match="A quotation in the options does not end"):
        p.connect(method, *where, options="--device='cpu")


def test_limits_in_the_model_are_those_of_the_joints(sim):
    """Steps leave them as they are, and have those that a user writes there."""
    lower, upper = (getattr(sim.model, f"joint_limit_{side}").numpy() for side in ("lower", "upper"))
    assert upper[1] == pytest.approx(sim.getJointInfo(sim.arm, 1)[9])
    sim.setJointMotorControl2(sim.arm, 1, p.VELOCITY_CONTROL, targetVelocity=3.0, force=1e3)
    sim.stepSimulation()
    assert (sim.model.joint_limit_lower.numpy() == lower).all()
    assert (sim.model.joint_limit_upper.numpy() == upper).all()
    bounds = upper.reshape(W, -1).copy()
    bounds[:, 1] = [0.1, 0.2, 0.3, 0.4]
    sim.model.joint_limit_upper.assign(bounds.ravel())
    sim.advance(120)
    assert sim.getJointState(sim.arm, 1)[0] == pytest.approx(bounds[:, 1], abs=5e-3)
