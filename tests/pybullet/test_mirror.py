"""Clients that become like another one."""

import numpy as np
import pytest

import newtonsim.pybullet_compat as p
from newtonsim.pybullet_compat.bullet_client import BulletClient
from newtonsim.pybullet_compat.stand_ins import pybullet_data


@pytest.fixture
def clients():
    made = [BulletClient(p.DIRECT), BulletClient(p.DIRECT)]
    yield made
    for client in made:
        client.disconnect()


def scene(client):
    client.setAdditionalSearchPath(pybullet_data.getDataPath())
    client.setGravity(0, 0, -9.8)
    client.loadURDF("plane.urdf")
    arm = client.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    cube = client.loadURDF("cube_small.urdf", [0.5, 0, 0.1])
    client.changeVisualShape(cube, -1, rgbaColor=[1, 0, 0, 1])
    return arm, cube


def answers(client, arm, cube):
    return (
        client.getBasePositionAndOrientation(cube),
        client.getBaseVelocity(cube),
        client.getJointStates(arm, range(7)),
        client.getLinkStates(arm, range(7), True),
        client.getContactPoints(),
        client.getVisualShapeData(cube),
        client.getPhysicsEngineParameters(),
    )


@pytest.mark.parametrize("steps", [0, 7])
def test_answers_and_steps_are_the_same(clients, steps):
    first, second = clients
    arm, cube = scene(first)
    for joint in range(7):
        first.setJointMotorControl2(arm, joint, p.POSITION_CONTROL, 0.2 * joint, force=50)
    for _ in range(steps):
        first.stepSimulation()
    second.mirror(first._client)
    assert answers(first, arm, cube) == answers(second, arm, cube)
    for _ in range(10):
        for client in clients:
            client.stepSimulation()
        assert answers(first, arm, cube) == answers(second, arm, cube)


def test_what_was_changed_here_is_undone_and_does_not_reach_the_other(clients):
    first, second = clients
    arm, cube = scene(first)
    before = answers(first, arm, cube)
    for _ in range(2):
        second.mirror(first._client)
        assert answers(second, arm, cube) == before
        more = second.loadURDF("cube_small.urdf")
        second.removeBody(arm)
        second.changeDynamics(cube, -1, mass=5)
        second.setCollisionFilterGroupMask(cube, -1, 0, 0)
        second.setPhysicsEngineParameter(numSubSteps=3, erp=0.7)
        second.stepSimulation()
        assert more not in [first.getBodyUniqueId(k) for k in range(first.getNumBodies())]
        assert answers(first, arm, cube) == before
        assert first.getDynamicsInfo(cube, -1)[0] != 5


def test_ids_go_on_alike(clients):
    first, second = clients
    _, cube = scene(first)
    first.removeBody(cube)
    second.mirror(first._client)
    assert second.loadURDF("cube_small.urdf") == cube == first.loadURDF("cube_small.urdf")


def test_many_worlds_become_like_one(clients):
    first, _ = clients
    arm, cube = scene(first)
    first.changeDynamics(cube, -1, mass=3, lateralFriction=0.1)
    first.resetJointState(arm, 2, 0.5)
    many = BulletClient(p.DIRECT, num_worlds=3, device="cpu")
    many.mirror(first._client, [arm, cube])
    assert many.getNumBodies() == 2
    np.testing.assert_array_equal(many.getDynamicsInfo(cube, -1)[0], [3, 3, 3])
    for _ in range(20):
        many.stepSimulation()
        first.stepSimulation()
    position, _ = many.getBasePositionAndOrientation(cube)
    np.testing.assert_array_equal(position, position[[0, 0, 0]])
    np.testing.assert_allclose(many.getJointState(arm, 2)[0], first.getJointState(arm, 2)[0], atol=1e-5)
    many.resetWorlds([0, 2])
    position = many.getBasePositionAndOrientation(cube)[0]
    assert position[[0, 2]].tolist() == [[0.5, 0.0, 0.1]] * 2  # where it was loaded
    assert position[1] != pytest.approx([0.5, 0.0, 0.1], abs=1e-3)
    assert many.getJointState(arm, 2, worlds=[0, 2])[0].tolist() == [0.0, 0.0]
    many.disconnect()


def test_what_cannot_be_mirrored(clients):
    first, second = clients
    with pytest.raises(p.error, match="itself"):
        first.mirror(first._client)
    many = BulletClient(p.DIRECT, num_worlds=2, device="cpu")
    with pytest.raises(p.error, match="one world"):
        second.mirror(many._client)
    many.disconnect()
    with pytest.raises(p.error):
        second.mirror(999)
