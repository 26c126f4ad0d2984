"""Motors that are set together act as motors that are set one by one."""

from itertools import permutations

import numpy as np
import pytest

import newtonsim.pybullet_compat as p

ORDERS = {"following": [0, 1, 2, 3], "scattered": [3, 0, 2], "twice": [1, 2, 1], "single": [2]}


@pytest.fixture
def arms():
    """Two arms of four joints in clients of their own; the third joint has limits, the last one slides."""
    clients = []
    for _ in range(2):
        client = p.connect(p.DIRECT)
        p.setGravity(0, 0, -9.8, physicsClientId=client)
        shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.05, 0.05, 0.2], physicsClientId=client)
        links = 4
        body = p.createMultiBody(
            0,
            shape,
            linkMasses=[1.0] * links,
            linkCollisionShapeIndices=[shape] * links,
            linkVisualShapeIndices=[-1] * links,
            linkPositions=[[0.3, 0.0, 0.1]] * links,
            linkOrientations=[[0.0, 0.0, 0.0, 1.0]] * links,
            linkInertialFramePositions=[[0.0, 0.0, 0.0]] * links,
            linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]] * links,
            linkParentIndices=range(links),
            linkJointTypes=[p.JOINT_REVOLUTE] * 3 + [p.JOINT_PRISMATIC],
            linkJointAxis=[[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]],
            physicsClientId=client,
        )
        p.changeDynamics(body, 2, jointLowerLimit=-0.1, jointUpperLimit=0.1, physicsClientId=client)
        clients.append(client)
    yield clients
    for client in clients:
        p.disconnect(client)


def states(client: int) -> np.ndarray:
    return np.array([state[:2] for state in p.getJointStates(0, range(4), physicsClientId=client)])


@pytest.mark.parametrize("mode", [p.POSITION_CONTROL, p.VELOCITY_CONTROL, p.TORQUE_CONTROL])
@pytest.mark.parametrize("order", ORDERS)
def test_an_array_is_as_good_as_single_calls(arms: list[int], mode: int, order: str):
    together, alone = arms
    joints = ORDERS[order]
    random = np.random.default_rng(1)
    for client in arms:
        for joint in range(4):  # the motors that hold joints after loading would hide torques
            p.setJointMotorControl2(0, joint, p.VELOCITY_CONTROL, force=0.0, physicsClientId=client)
    for step in range(20):
        if step == 10:  # a new engine: what was found for the old one is of no use
            for client in arms:
                p.createMultiBody(0, basePosition=[5, 5, 5], physicsClientId=client)
        targets, speeds, forces, gains = random.uniform(0.1, 2.0, (4, len(joints)))
        p.setJointMotorControlArray(
            0, joints, mode, targets, speeds, forces, gains / 10.0, physicsClientId=together
        )
        for k, joint in enumerate(joints):
            p.setJointMotorControl2(
                0, joint, mode, targets[k], speeds[k], forces[k], gains[k] / 10.0, physicsClientId=alone
            )
        for client in arms:
            p.stepSimulation(physicsClientId=client)
    assert np.abs(states(together)).max() > 1e-3
    np.testing.assert_array_equal(states(together), states(alone))
    singles = [p.getJointState(0, joint, physicsClientId=together) for joint in joints]
    assert p.getJointStates(0, joints, physicsClientId=together) == tuple(singles)


def test_changed_limits_hold_for_groups(arms: list[int]):
    client, joints = arms[0], [0, 1, 2]
    for upper in (0.1, 0.5):
        p.changeDynamics(0, 2, jointLowerLimit=-0.1, jointUpperLimit=upper, physicsClientId=client)
        for _ in range(200):
            p.setJointMotorControlArray(
                0, joints, p.POSITION_CONTROL, [0.0, 0.0, 2.0], physicsClientId=client
            )
            p.stepSimulation(physicsClientId=client)
        assert p.getJointState(0, 2, physicsClientId=client)[0] == pytest.approx(upper, abs=1e-3)


@pytest.mark.parametrize("joints", [[0, 4], [-1], 3, None, [0.5]])
def test_wrong_joints_are_refused(arms: list[int], joints: object):
    with pytest.raises(p.error):
        p.setJointMotorControlArray(0, joints, p.VELOCITY_CONTROL, physicsClientId=arms[0])


def test_groups_of_any_order_are_remembered(arms: list[int]):
    for joints in permutations(range(4)):
        expected = tuple(p.getJointState(0, joint, physicsClientId=arms[0]) for joint in joints)
        assert p.getJointStates(0, joints, physicsClientId=arms[0]) == expected
