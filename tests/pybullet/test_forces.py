"""Forces that scripts apply: what comes between them and the step, and the pose that they are turned by."""

from collections.abc import Callable

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")
p = pybullet

INERTIAL = (
    '<inertial><origin xyz="{} {} 0"/><mass value="{}"/>'
    '<inertia ixx="{}" ixy="0" ixz="0" iyy="{}" iyz="0" izz="{}"/></inertial>'
)
HOVER = 0.027 * 9.81 / 4.0


def velocities(both, body: int) -> np.ndarray:
    """(v, ω) of a base in both worlds (2, 6)."""
    return np.array([np.concatenate(answer) for answer in both.getBaseVelocity(body)])


def pair_of_spheres(both, joint: int) -> int:
    """Two spheres of 1 kg at the same place, joined by a joint about z without a motor."""
    shape = both.createCollisionShape(p.GEOM_SPHERE, radius=0.1)[0]
    body = both.createMultiBody(
        1.0,
        shape,
        linkMasses=[1.0],
        linkCollisionShapeIndices=[shape],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0, 0]],
        linkOrientations=[[0, 0, 0, 1]],
        linkInertialFramePositions=[[0, 0, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]],
        linkParentIndices=[0],
        linkJointTypes=[joint],
        linkJointAxis=[[0, 0, 1]],
    )[0]
    both.changeDynamics(body, -1, linearDamping=0.0, angularDamping=0.0)
    if joint == p.JOINT_REVOLUTE:
        both.setJointMotorControl2(body, 0, p.VELOCITY_CONTROL, force=0.0)
    return body


def constrain(both) -> int:
    """Hold the second cube where it is."""
    return both.createConstraint(1, -1, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [1, 0, 0])[0]


BETWEEN: dict[str, Callable] = {
    "loadURDF": lambda both: both.load("cube_small.urdf", [0, 2, 0]),
    "createMultiBody": lambda both: both.createMultiBody(1.0),
    "removeBody": lambda both: both.removeBody(1),
    "createConstraint": constrain,
    "removeConstraint": lambda both: both.removeConstraint(1),
    "restoreState": lambda both: both.restoreState(0),
    "setCollisionFilterPair": lambda both: both.setCollisionFilterPair(0, 1, -1, -1, 0),
    "changeDynamics": lambda both: both.changeDynamics(0, -1, lateralFriction=0.3),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_forces_outlast_changes_of_the_scene(both, name):
    both.setGravity(0, 0, 0)
    cube, _ = both.load("cube_small.urdf"), both.load("cube_small.urdf", [1, 0, 0])
    arm = both.load("kuka_iiwa/model.urdf", [3, 0, 0], useFixedBase=True)
    both.setJointMotorControl2(arm, 5, p.VELOCITY_CONTROL, force=0.0)
    both.changeDynamics(arm, 5, jointDamping=0.0)  # it is implicit here
    if name == "removeConstraint":
        constrain(both)
    if name == "restoreState":
        both.saveState()
    both.applyExternalForce(cube, -1, [1, 0, 0], [0, 0, 0], p.LINK_FRAME)
    both.applyExternalTorque(cube, -1, [0.001, 0, 0], p.WORLD_FRAME)
    both.setJointMotorControl2(arm, 5, p.TORQUE_CONTROL, force=1.0)
    BETWEEN[name](both)
    both.step()
    real, ours = velocities(both, cube)
    assert real[0] > 0.04
    assert real[3] > 0.03
    np.testing.assert_allclose(ours, real, atol=1e-7)
    real, ours = (answer[1] for answer in both.getJointState(arm, 5))
    assert real > 0.1
    assert ours == pytest.approx(real, rel=5e-3)
    both.step()
    both.same("getBaseVelocity", cube, tolerance=1e-6)  # and they act once


def test_forces_go_with_their_body_and_with_the_world(both):
    cube = both.load("cube_small.urdf", [0, 0, 9])
    both.applyExternalForce(cube, -1, [1, 0, 0], [0, 0, 0], p.LINK_FRAME)
    both.removeBody(cube)
    assert both.load("cube_small.urdf", [0, 0, 9]) == cube
    both.step()
    both.same("getBaseVelocity", cube)
    both.applyExternalForce(cube, -1, [1, 0, 0], [0, 0, 0], p.LINK_FRAME)
    both.resetSimulation()
    both.load("cube_small.urdf", [0, 0, 9])
    both.step()
    both.same("getBaseVelocity", cube)


def test_forces_outlast_a_base_that_becomes_free(both):
    both.setGravity(0, 0, 0)
    body = pair_of_spheres(both, p.JOINT_FIXED)
    both.changeDynamics(body, -1, mass=0.0)
    both.applyExternalForce(body, 0, [1, 0, 0], [0, 0, 0], p.WORLD_FRAME)
    both.changeDynamics(body, -1, mass=1.0)
    both.step()
    real, ours = velocities(both, body)
    assert real[0] > 1e-3
    np.testing.assert_allclose(ours, real, atol=1e-7)


AFTER_A_STEP: dict[str, Callable] = {
    "nothing": lambda both, body: None,
    "another step": lambda both, body: both.step(),
    "a load": lambda both, body: both.load("cube_small.urdf", [3, 0, 0]),
    "a placed base": lambda both, body: both.resetBasePositionAndOrientation(
        body, [0, 0, 0], [0, 0, 0.3, 0.954]
    ),
    "a base with a new velocity": lambda both, body: both.resetBaseVelocity(body, [0, 0, 0], [0, 0, 0]),
    "link states": lambda both, body: both.getLinkState(body, 0, 1),
    "forward kinematics": lambda both, body: both.getLinkState(body, 0, 0, 1),
    "forward kinematics of several": lambda both, body: both.getLinkStates(body, [0], 0, 1),
    "a restored state": lambda both, body: both.restoreState(both.saveState()[0]),
}


@pytest.mark.parametrize("between", AFTER_A_STEP)
@pytest.mark.parametrize("joint", [p.JOINT_FIXED, p.JOINT_REVOLUTE])
def test_forces_on_links_turn_by_the_pose_that_pybullet_has(both, joint, between):
    """The pose at the start of the last step, unless somebody asked PyBullet for a newer one."""
    both.setGravity(0, 0, 0)
    body = pair_of_spheres(both, joint)
    if joint == p.JOINT_REVOLUTE:
        both.resetJointState(body, 0, 0.0, 24.0)
    else:
        both.resetBaseVelocity(body, [0, 0, 0], [0, 0, 24.0])
    both.step()
    AFTER_A_STEP[between](both, body)
    both.applyExternalForce(body, 0, [240, 0, 0], [0, 0, 0], p.LINK_FRAME)
    both.step()
    real, ours = velocities(both, body)
    assert np.linalg.norm(real[:3]) > 0.4
    np.testing.assert_allclose(ours[:3], real[:3], atol=1e-5)


@pytest.mark.parametrize("link", [-1, 0])
def test_points_in_the_world_are_seen_from_the_pose_that_pybullet_has(both, link):
    both.setGravity(0, 0, 0)
    body = pair_of_spheres(both, p.JOINT_FIXED)
    both.resetBaseVelocity(body, [24.0, 0, 0])
    both.step()
    both.applyExternalForce(body, link, [0, 24.0, 0], [0, 0, 0], p.WORLD_FRAME)
    both.step()
    real, ours = velocities(both, body)
    np.testing.assert_allclose(ours, real, rtol=1e-4, atol=1e-5)


def test_a_drone_with_massless_rotors(both, tmp_path):
    """Thrust along the rotors, as pybullet_drones applies it; a milligram more or a late turn shows."""
    rotors = ((0.028, -0.028), (-0.028, -0.028), (-0.028, 0.028), (0.028, 0.028))
    text = f'<robot name="d"><link name="base">{INERTIAL.format(0, 0, 0.027, 1.4e-5, 1.4e-5, 2.17e-5)}</link>'
    for n, place in enumerate([*rotors, (0, 0)]):
        text += f'<link name="l{n}">{INERTIAL.format(*place, 0, 0, 0, 0)}</link>'
        text += f'<joint name="j{n}" type="fixed"><parent link="base"/><child link="l{n}"/></joint>'
    (tmp_path / "drone.urdf").write_text(text + "</robot>")
    flags = p.URDF_USE_INERTIA_FROM_FILE
    drones = [both.load(str(tmp_path / "drone.urdf"), [x, 0, 1], flags=flags) for x in (0, 5)]
    for _ in range(25):
        for drone, more in zip(drones, (0.0, 1e-4)):
            for rotor, sign in enumerate((1, 1, -1, -1)):
                thrust = [0, 0, HOVER + 1e-5 + sign * more]
                both.applyExternalForce(drone, rotor, thrust, [0, 0, 0], p.LINK_FRAME)
        both.step()
    real, ours = velocities(both, drones[0])
    assert real[2] == pytest.approx(25 / 240 * 4e-5 / 0.027, rel=0.01)
    assert ours[2] == pytest.approx(real[2], rel=2e-3)
    real, ours = velocities(both, drones[1])
    assert abs(real[1]) > 1e-4
    assert ours[1] == pytest.approx(real[1], rel=2e-3)
