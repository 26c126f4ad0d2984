"""Files that are loaded again: what is kept of them, and what is not shared between bodies."""

import gc
from collections import Counter

import numpy as np
import pytest

import newtonsim.pybullet_compat as compat
from newtonsim.pybullet_compat.stand_ins import pybullet_data


def test_a_file_is_read_again_when_it_or_what_it_refers_to_has_changed(tmp_path):
    robot, mesh = tmp_path / "ball.urdf", tmp_path / "part.obj"
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
    faces = "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"

    def write_mesh(scale: float) -> None:
        lines = [f"v {x} {y} {z}" for x, y, z in (scale * corners).tolist()]
        mesh.write_text("\n".join(lines) + "\n" + faces)

    def write_robot(mass: float) -> None:
        shape = '<geometry><mesh filename="part.obj"/></geometry>'
        inertial = f'<inertial><mass value="{mass}"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
        robot.write_text(
            f'<robot name="r"><link name="l">{inertial}<collision>{shape}</collision></link></robot>'
        )

    client = compat.connect(compat.DIRECT)
    try:
        for mass, scale, write in (
            (1.0, 1.0, lambda: (write_robot(1.0), write_mesh(1.0))),
            (1.0, 1.0, lambda: None),
            (1.0, 3.0, lambda: write_mesh(3.0)),
            (22.0, 3.0, lambda: write_robot(22.0)),
        ):
            write()
            body = compat.loadURDF(str(robot), physicsClientId=client)
            lower, upper = compat.getAABB(body, physicsClientId=client)
            assert compat.getDynamicsInfo(body, -1, physicsClientId=client)[0] == mass
            assert np.subtract(upper, lower) == pytest.approx(scale, rel=0.02)
        mesh.unlink()
        with pytest.raises(compat.error), pytest.warns(UserWarning, match="not found"):
            compat.loadURDF(str(robot), physicsClientId=client)
    finally:
        compat.disconnect(client)


def test_bodies_of_one_file_share_neither_looks_nor_filters():
    client = compat.connect(compat.DIRECT)
    compat.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=client)
    try:
        first, second = (
            compat.loadURDF("cube_small.urdf", [0, 0, z], physicsClientId=client) for z in (0.0, 0.5)
        )
        look = compat.getVisualShapeData(second, physicsClientId=client)
        compat.changeVisualShape(first, -1, rgbaColor=[1, 0, 0, 1], physicsClientId=client)
        compat.setCollisionFilterGroupMask(first, -1, 0, 0, physicsClientId=client)
        third = compat.loadURDF("cube_small.urdf", [0, 0, 1.0], physicsClientId=client)
        assert compat.getVisualShapeData(second, physicsClientId=client) == look
        assert compat.getVisualShapeData(third, physicsClientId=client)[0][7] == look[0][7]
        reached = compat.rayTest([0, 0, 2.0], [0, 0, 0.7], physicsClientId=client)[0][0]
        assert reached == third
    finally:
        compat.disconnect(client)


def test_a_client_that_comes_and_goes_leaves_no_objects_behind():
    """After an arm, boxes that are removed and a reset: of each class of ours, as many objects as before."""

    def play() -> None:
        client = compat.connect(compat.DIRECT)
        call = {"physicsClientId": client}
        try:
            compat.setAdditionalSearchPath(pybullet_data.getDataPath(), **call)
            for _ in range(2):
                compat.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True, **call)
                shape = compat.createCollisionShape(compat.GEOM_BOX, halfExtents=[0.1] * 3, **call)
                box = compat.createMultiBody(1.0, shape, basePosition=[0, 2, 0.5], **call)
                compat.stepSimulation(**call)
                compat.removeBody(box, **call)
                compat.stepSimulation(**call)
                compat.resetSimulation(**call)
        finally:
            compat.disconnect(client)

    def held() -> Counter[str]:
        gc.collect()
        kinds = (type(thing) for thing in gc.get_objects())
        return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("newtonsim"))

    play()
    play()
    before = held()
    play()
    play()
    assert held() - before == Counter()


def test_what_one_body_of_a_file_was_told_is_unknown_to_the_next():
    """Motors, masses, damping, limits, sensors and joint angles, with a motor that depends on the step."""
    client = compat.connect(compat.DIRECT)
    call = {"physicsClientId": client}
    compat.setAdditionalSearchPath(pybullet_data.getDataPath(), **call)

    def facts(arm: int) -> tuple:
        joints = range(compat.getNumJoints(arm, **call))
        asked = (compat.getJointInfo, compat.getJointState, compat.getDynamicsInfo, compat.getLinkState)
        return tuple(ask(arm, joint, **call) for ask in asked for joint in joints)

    def load(x: float) -> int:
        return compat.loadURDF("kuka_iiwa/model.urdf", [x, 0, 0], useFixedBase=True, **call)

    try:
        first = load(0.0)
        known = facts(first)
        compat.changeDynamics(
            first, 3, mass=7.0, jointDamping=0.3, linearDamping=0.9, lateralFriction=0.1, **call
        )
        compat.changeDynamics(
            first, 2, jointLowerLimit=-0.1, jointUpperLimit=0.1, maxJointVelocity=3.0, **call
        )
        compat.enableJointForceTorqueSensor(first, 3, **call)
        compat.resetJointState(first, 3, 0.7, 0.2, **call)
        compat.setJointMotorControl2(first, 3, compat.POSITION_CONTROL, 1.0, force=3.0, **call)
        compat.setTimeStep(0.01, **call)
        compat.stepSimulation(**call)
        second = load(0.0)
        assert facts(second) == known
        compat.resetJointState(second, 6, 0.0, 90.0, **call)
        compat.setGravity(0, 0, -9.81, **call)
        compat.stepSimulation(**call)
        assert abs(compat.getJointState(second, 6, **call)[3]) <= 1.0 / 0.01 * (1 + 1e-6)  # 1 N m s a step
        third = load(2.0)
        np.testing.assert_allclose(
            np.subtract(compat.getLinkState(third, 6, **call)[0], known[-1][0]), [2.0, 0.0, 0.0], atol=1e-12
        )
    finally:
        compat.disconnect(client)
