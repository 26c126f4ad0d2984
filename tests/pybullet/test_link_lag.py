"""Where getLinkState says that links are: before the last step, until something places them."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

from newtonsim.pybullet_compat.bullet_client import BulletClient  # noqa: E402

Q = [0.0, 0.0, 0.0, 1.0]


def chain(p, floating: bool) -> int:
    """A base with two hinged links whose frames are turned and off their joints, in quick motion."""
    p.createCollisionShape(pybullet.GEOM_BOX, halfExtents=[0.1, 0.1, 0.1])
    turn = pybullet.getQuaternionFromEuler([0.3, 0.2, 0.1])
    p.createMultiBody(
        float(floating),
        0,
        basePosition=[0, 0, 1],
        baseInertialFramePosition=[0.02, 0.01, 0],
        linkMasses=[1, 1],
        linkCollisionShapeIndices=[0, 0],
        linkVisualShapeIndices=[-1, -1],
        linkPositions=[[0.3, 0, 0], [0.3, 0, 0.1]],
        linkOrientations=[Q, Q],
        linkInertialFramePositions=[[0.05, 0.02, 0]] * 2,
        linkInertialFrameOrientations=[turn, turn],
        linkParentIndices=[0, 1],
        linkJointTypes=[pybullet.JOINT_REVOLUTE] * 2,
        linkJointAxis=[[0, 0, 1], [0, 1, 0]],
    )
    for joint, (angle, speed) in enumerate([(0.3, 5.0), (-0.4, -4.0)]):
        p.setJointMotorControl2(0, joint, pybullet.VELOCITY_CONTROL, force=0)
        p.resetJointState(0, joint, angle, speed)
    if floating:
        p.resetBaseVelocity(0, [1, 2, 3], [1, -2, 0.5])
    return 0


QUIET = {
    "nothing": lambda both, body: None,
    "queries": lambda both, body: (both.getAABB(body, 1), both.rayTest([0, 0, 5], [0, 0, 0])),
    "kinematics": lambda both, body: both.calculateInverseKinematics(body, 1, [1, 0, 1]),
    "joint states": lambda both, body: both.getJointStates(body, [0, 1]),
    "link velocity": lambda both, body: both.getLinkState(body, 1, 1),
    "another body is placed": lambda both, body: both.resetBasePositionAndOrientation(1, [5, 5, 5], Q),
    "a mass": lambda both, body: both.changeDynamics(body, 0, mass=2.0),
    "a motor": lambda both, body: both.setJointMotorControl2(body, 0, pybullet.POSITION_CONTROL, 1.0),
    "a body comes": lambda both, body: both.createMultiBody(1.0, basePosition=[0, 9, 0]),
    "a body goes": lambda both, body: both.removeBody(1),
    "a constraint": lambda both, body: both.createConstraint(
        body, 1, -1, -1, pybullet.JOINT_POINT2POINT, [0] * 3, [0] * 3, [0, 0, 1]
    ),
    "a saved state": lambda both, body: both.saveState(),
}
"""After these links are still told to be where they were before the last step."""
REFRESHING = {
    "forward kinematics": lambda both, body: both.getLinkState(body, 0, 0, 1),
    "forward kinematics of several": lambda both, body: both.getLinkStates(body, [0], 0, 1),
    "a joint is set": lambda both, body: both.resetJointState(body, 0, 1.0, 2.0),
    "joints are set": lambda both, body: both.resetJointStatesMultiDof(body, [1], [[0.5]], [[0.7]]),
    "the base is placed": lambda both, body: both.resetBasePositionAndOrientation(body, [1, 1, 1], Q),
    "the base is pushed": lambda both, body: both.resetBaseVelocity(body, [0, 0, 1.0]),
    "a state is restored": lambda both, body: both.restoreState(both.saveState()[0]),
}
"""After these they are told to be where the coordinates say."""


MOTIONS = [(name, floating) for name in (*QUIET, *REFRESHING) for floating in (True, False)]
MOTIONS.remove(("the base is pushed", False))  # what is fixed stays here


@pytest.mark.parametrize(("name", "floating"), MOTIONS)
def test_links_lag_by_a_step_until_they_are_placed(both, name, floating):
    """Poses are those before the last step's integration, velocities are turned along with them."""
    body = chain(both, floating)
    both.createMultiBody(1.0, 0, basePosition=[3, 0, 1])
    both.setPhysicsEngineParameter(numSubSteps=0 if name != "queries" else 3)
    both.step(3)
    before = both.same("getLinkStates", body, [0, 1], 1, tolerance=5e-6)
    {**QUIET, **REFRESHING}[name](both, body)
    after = both.same("getLinkState", body, 1, 1, tolerance=5e-6)
    assert (np.abs(np.subtract(after[0], before[1][0])).max() < 1e-9) == (name in QUIET)
    assert both.same("getLinkState", body, 1, 0, tolerance=5e-6) == after[:6]
    if name not in ("a mass", "a constraint"):  # these change the motion
        both.step()
        both.same("getLinkStates", body, [0, 1], 1, tolerance=5e-5)
        both.same("getLinkStates", body, [0, 1], 1, 1, tolerance=5e-5)


def test_worlds_lag_alike():
    """Each of several worlds tells what a client of its own tells."""
    speeds = np.array([1.0, -3.0, 6.0])
    many = BulletClient(pybullet.DIRECT, num_worlds=3)
    chain(many, True)
    many.resetJointState(0, 0, 0.3, speeds)
    for _ in range(3):
        many.stepSimulation()
    lagging, fresh = many.getLinkState(0, 1, 1), many.getLinkState(0, 1, 1, 1)
    assert np.abs(lagging[0] - fresh[0]).max() > 1e-3
    for world, speed in enumerate(speeds):
        one = BulletClient(pybullet.DIRECT)
        chain(one, True)
        one.resetJointState(0, 0, 0.3, speed)
        for _ in range(3):
            one.stepSimulation()
        for answers, kind in ((lagging, 0), (fresh, 1)):
            for found, expected in zip(answers, one.getLinkState(0, 1, 1, kind), strict=True):
                row = found[world] if np.ndim(found) == 2 else found
                assert row == pytest.approx(np.array(expected), abs=1e-5)
        one.disconnect()
    many.disconnect()


PLACING = {
    "a joint is set": lambda p: p.resetJointState(0, 0, 1.0, worlds=[1]),
    "the base is pushed": lambda p: p.resetBaseVelocity(0, [0, 0, 1.0], worlds=1),
    "worlds start anew": lambda p: p.resetWorlds([1]),
}


@pytest.mark.parametrize("name", PLACING)
def test_links_of_other_worlds_go_on_lagging(name):
    many = BulletClient(pybullet.DIRECT, num_worlds=3)
    chain(many, True)
    for _ in range(2):
        for _ in range(2):
            many.stepSimulation()
        before = many.getLinkState(0, 1, 1)[0]
        PLACING[name](many)
        after, fresh = many.getLinkState(0, 1, 1)[0], many.getLinkState(0, 1, 1, 1)[0]
        assert (after[[0, 2]] == before[[0, 2]]).all()
        assert (after[1] == fresh[1]).all()
        assert np.abs(fresh - before)[[0, 2]].max(axis=1).min() > 1e-4
    many.disconnect()
