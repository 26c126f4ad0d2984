"""Bodies and joints against PyBullet: ids, frames, names, limits, errors."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

import newtonsim.pybullet_compat as compat  # noqa: E402

ROBOTS = ("r2d2.urdf", "kuka_iiwa/model.urdf", "husky/husky.urdf", "laikago/laikago_toes.urdf")


ALL_ROBOTS = (*ROBOTS, "humanoid/humanoid.urdf", "franka_panda/panda.urdf", "cartpole.urdf")


@pytest.mark.parametrize("name", ALL_ROBOTS)
def test_joints_have_the_same_names_types_frames_and_limits(both, name):
    body = both.load(name, [1.0, 2.0, 3.0], [0.0, 0.3, 0.0, 0.95])
    count = both.same("getNumJoints", body)
    both.same("getBodyInfo", body)
    both.same("getBasePositionAndOrientation", body)
    for joint in range(count):
        both.same("getJointInfo", body, joint, tolerance=1e-6)
        both.same("getLinkState", body, joint, tolerance=1e-5)
        both.same("getDynamicsInfo", body, joint, tolerance=1e-5)
    both.same("getDynamicsInfo", body, -1, tolerance=1e-5)


@pytest.mark.parametrize("name", ROBOTS)
def test_link_states_follow_reset_joints(both, name):
    body = both.load(name, [0.0, 0.0, 1.0], useFixedBase=True)
    rng = np.random.default_rng(3)
    for joint in range(both.getNumJoints(body)[0]):
        both.resetJointState(body, joint, rng.uniform(-0.5, 0.5), rng.uniform(-1.0, 1.0))
    links = list(range(both.getNumJoints(body)[0]))
    both.same("getLinkStates", body, links, computeLinkVelocity=1, tolerance=2e-5)
    both.same("getJointStates", body, links)


def test_freed_ids_are_used_again_last_in_first_out(both):
    for x in range(4):
        both.load("cube_small.urdf", [x, 0.0, 1.0])
    both.removeBody(1)
    both.removeBody(2)
    assert both.load("cube_small.urdf") == 2
    assert both.load("cube_small.urdf") == 1
    assert [both.same("getBodyUniqueId", i) for i in range(4)] == [0, 3, 2, 1]
    both.same("getNumBodies")
    both.same("getBodyUniqueId", 4)
    both.removeBody(0)
    assert [both.same("getBodyUniqueId", i) for i in range(3)] == [1, 3, 2]


def test_bodies_count_by_their_ids_after_a_synchronisation(both):
    for x in range(6):
        both.load("cube_small.urdf", [x, 0.0, 1.0])
    for uid in (1, 3):
        both.removeBody(uid)
    assert [both.same("getBodyUniqueId", i) for i in range(4)] == [0, 5, 2, 4]
    both.syncBodyInfo()
    assert [both.same("getBodyUniqueId", i) for i in range(4)] == [0, 2, 4, 5]
    both.load("cube_small.urdf")
    both.removeBody(0)
    assert [both.same("getBodyUniqueId", i) for i in range(4)] == [3, 2, 4, 5]


def test_the_base_pose_is_that_of_the_centre_of_mass(both):
    body = both.load("cartpole.urdf", [1.0, 2.0, 3.0])
    both.same("getBasePositionAndOrientation", body)
    robot = both.load("r2d2.urdf", [1.0, 2.0, 3.0])
    both.resetBasePositionAndOrientation(robot, [4.0, 5.0, 6.0], [0.0, 0.0, 2.0, 2.0])
    both.same("getBasePositionAndOrientation", robot)
    both.resetBasePositionAndOrientation(robot, [4.0, 5.0, 6.0], [0.0, 0.0, 0.6, -0.8])
    assert both.getBasePositionAndOrientation(robot)[1][1] == pytest.approx((0.0, 0.0, -0.6, 0.8))
    both.resetBaseVelocity(robot, [1.0, 2.0, 3.0], [0.1, 0.2, 0.3])
    both.same("getBaseVelocity", robot)
    both.resetBaseVelocity(robot, angularVelocity=[0.3, 0.2, 0.1])
    both.same("getBaseVelocity", robot)


CALLS = [
    ("getBodyInfo", (99,)),
    ("getBasePositionAndOrientation", (99,)),
    ("getBaseVelocity", (99,)),
    ("getNumJoints", (99,)),
    ("getJointInfo", (99, 0)),
    ("getJointInfo", (0, 99)),
    ("getLinkState", (99, 0)),
    ("getLinkState", (0, 99)),
    ("getLinkState", (0, -1)),
    ("getJointState", (99, 0)),
    ("getJointState", (0, 99)),
    ("getJointState", (0, -1)),
    ("getJointStates", (0, [0, 99])),
    ("getJointStates", (0, 0)),
    ("getJointStateMultiDof", (0, 99)),
    ("resetJointState", (0, 99, 0.0)),
    ("resetJointState", (99, 0, 0.0)),
    ("resetBasePositionAndOrientation", (99, [0, 0, 0], [0, 0, 0, 1])),
    ("resetBasePositionAndOrientation", (0, [0, 0], [0, 0, 0, 1])),
    ("resetBasePositionAndOrientation", (0, [0, 0, 0], [0, 0, 1])),
    ("resetBaseVelocity", (0,)),
    ("resetBaseVelocity", (99, [0, 0, 0])),
    ("computeDofCount", (99,)),
    ("computeDofCount", (0,)),
    ("getDynamicsInfo", (99, 0)),
    ("getDynamicsInfo", (0, 99)),
    ("changeDynamics", (99, 0, 1.0)),
    ("changeDynamics", (0, 99, 1.0)),
    ("setJointMotorControl2", (99, 0, pybullet.POSITION_CONTROL)),
    ("setJointMotorControl2", (0, 99, pybullet.POSITION_CONTROL)),
    ("setJointMotorControl2", (0, 0, 77)),
    ("setJointMotorControlArray", (0, [0, 1], pybullet.POSITION_CONTROL, [0.0])),
    ("setJointMotorControlArray", (0, [0, 99], pybullet.POSITION_CONTROL, [0.0, 1.0])),
    ("setJointMotorControlArray", (0, 0, pybullet.POSITION_CONTROL, [0.0])),
    ("setJointMotorControlArray", (0, [], pybullet.POSITION_CONTROL)),
    ("enableJointForceTorqueSensor", (0, 99)),
    ("applyExternalForce", (99, 0, [0, 0, 1], [0, 0, 0], pybullet.WORLD_FRAME)),
    ("applyExternalForce", (0, 0, [0, 0, 1], [0, 0, 0], 99)),
    ("applyExternalForce", (0, 0, [0, 0], [0, 0, 0], 1)),
    ("getConstraintInfo", (99,)),
    ("getConstraintState", (99,)),
    ("changeConstraint", (99, [0, 0, 0])),
    ("removeConstraint", (99,)),
    ("getConstraintUniqueId", (0,)),
    ("createConstraint", (99, -1, -1, -1, 4, [0, 0, 0], [0, 0, 0], [0, 0, 0])),
    ("createConstraint", (0, 99, -1, -1, 4, [0, 0, 0], [0, 0, 0], [0, 0, 0])),
    ("createConstraint", (0, -1, -1, -1, 99, [0, 0, 0], [0, 0, 0], [0, 0, 0])),
    ("restoreState", (99,)),
    ("removeState", (99,)),
    ("removeBody", (99,)),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{name}{args}" for name, args in CALLS])
def test_wrong_ids_and_values_have_the_same_outcome(both, name, arguments):
    """The same value, or an error with the same text."""
    both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    outcomes = []
    for module, client in zip((pybullet, compat), both.ids):
        try:
            outcomes.append(getattr(module, name)(*arguments, physicsClientId=client))
        except (pybullet.error, compat.error) as problem:
            outcomes.append(f"error: {problem}")
    assert outcomes[0] == outcomes[1]


def test_spherical_joints_are_read_and_reset_by_quaternions(both):
    body = both.load("humanoid/humanoid.urdf", [0.0, 0.0, 3.0])
    turn = [0.0, 0.6, 0.0, 0.8]
    both.resetJointStateMultiDof(body, 1, turn, [1.0, 2.0, 3.0])
    both.same("getJointStateMultiDof", body, 1, tolerance=1e-6)
    both.resetJointStatesMultiDof(body, [2, 3], [[0.6, 0.0, 0.0, 0.8], turn], [[1, 0, 0], [0, 1, 0]])
    both.same("getJointStatesMultiDof", body, [0, 1, 2, 3], tolerance=1e-6)
    links = list(range(both.getNumJoints(body)[0]))
    both.same("getLinkStates", body, links, 1, tolerance=2e-5)


def test_mass_moves_with_the_inertia_of_the_shapes(both):
    body = both.load("sphere2.urdf", [0.0, 0.0, 3.0])
    both.changeDynamics(body, -1, mass=5.0)
    both.same("getDynamicsInfo", body, -1)
    both.changeDynamics(body, -1, localInertiaDiagonal=[1.0, 2.0, 3.0])
    both.changeDynamics(body, -1, lateralFriction=-1, restitution=0.3, rollingFriction=0.2)
    both.changeDynamics(body, -1, contactStiffness=1e4, contactDamping=10)
    both.same("getDynamicsInfo", body, -1)
    robot = both.load("kuka_iiwa/model.urdf")
    both.changeDynamics(robot, 3, jointLowerLimit=-0.5, jointUpperLimit=0.5, jointDamping=0.9)
    both.same("getJointInfo", robot, 3)


def test_reset_simulation_keeps_the_time_step(both):
    both.load("cube.urdf")
    both.setTimeStep(0.01)
    both.setPhysicsEngineParameter(numSubSteps=3, numSolverIterations=77)
    both.same("getPhysicsEngineParameters")
    both.resetSimulation()
    both.same("getPhysicsEngineParameters")
    both.same("getNumBodies")
    assert both.load("cube.urdf") == 0


def test_bodies_without_shapes_fall_and_do_not_turn(both):
    body = both.createMultiBody(baseMass=2.0, basePosition=[0.0, 0.0, 5.0])[0]
    both.applyExternalTorque(body, -1, [1.0, 0.0, 0.0], pybullet.WORLD_FRAME)
    both.step(10)
    both.same("getBasePositionAndOrientation", body, tolerance=1e-5)
    both.same("getBaseVelocity", body, tolerance=1e-5)


def test_links_without_shapes_do_not_turn_about_themselves(both):
    shape = both.createCollisionShape(pybullet.GEOM_SPHERE, radius=0.1)[0]
    body = both.createMultiBody(
        1.0,
        shape,
        basePosition=[0.0, 0.0, 5.0],
        linkMasses=[1.0],
        linkCollisionShapeIndices=[-1],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0.3, 0.0, 0.0]],
        linkOrientations=[[0.0, 0.0, 0.0, 1.0]],
        linkInertialFramePositions=[[0.0, 0.0, 0.0]],
        linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]],
        linkParentIndices=[0],
        linkJointTypes=[pybullet.JOINT_REVOLUTE],
        linkJointAxis=[[0.0, 0.0, 1.0]],
    )[0]
    both.setJointMotorControl2(body, 0, pybullet.VELOCITY_CONTROL, force=0.0)
    for _ in range(10):
        both.setJointMotorControl2(body, 0, pybullet.TORQUE_CONTROL, force=0.01)
        both.stepSimulation()
    real, ours = both.getJointState(body, 0)
    assert abs(ours[0] - real[0]) < 1e-4
    both.same("getBasePositionAndOrientation", body, tolerance=1e-4)


def test_dynamics_infos_follow_changes(both):
    body = both.load("sphere2.urdf", [0.0, 0.0, 3.0])
    for mass in (1.0, 0.0, 3.0):
        both.changeDynamics(body, -1, mass=mass, restitution=0.1 * mass)
        both.same("getDynamicsInfo", body, -1)


def test_ids_of_constraints_are_not_used_again(both):
    first, second = both.load("cube_small.urdf"), both.load("cube_small.urdf", [1.0, 0.0, 0.0])
    held = [-1, -1, -1, pybullet.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    for body in (first, second):
        both.same("createConstraint", body, *held)
    both.removeConstraint(1)
    both.same("createConstraint", first, *held)
    both.removeBody(first)
    both.same("getNumConstraints")
    both.same("createConstraint", both.load("cube_small.urdf"), *held)
    assert [both.same("getConstraintUniqueId", i) for i in range(2)] == [2, 4]
