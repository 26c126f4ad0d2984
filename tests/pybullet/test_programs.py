"""Short programs in lockstep under both modules, where no call may differ: what random programs found."""

import contextlib

import pytest

pytest.importorskip("pybullet")

import pybullet_data

import newtonsim.pybullet_compat as compat
from newtonsim.pybullet_compat.comparison.differences import Tolerances
from newtonsim.pybullet_compat.comparison.lockstep import Lockstep

Q, ZERO = [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0]
BREAKING = 0.02
"""PyBullet's default distance of contacts that are kept [m]."""


@pytest.fixture
def run():
    """Both modules, with a world of gravity; in the end no call has differed."""
    found = Lockstep(Tolerances(absolute=2e-3, relative=5e-3))
    p = found.module
    client = p.connect(p.DIRECT)
    p.setAdditionalSearchPath(pybullet_data.getDataPath())
    p.setGravity(0, 0, -9.81)
    yield found
    # PyBullet keeps this one for all worlds of the process
    p.setPhysicsEngineParameter(contactBreakingThreshold=BREAKING)
    p.disconnect(client)
    assert found.first is None, str(found.first)


def solved(p) -> None:
    """Have PyBullet solve for the forces: its 50 sweeps leave those of an arm 4 % from the solution."""
    p.setPhysicsEngineParameter(numSolverIterations=500, solverResidualThreshold=0.0)


def sphere(p, position, mass=1.0) -> int:
    """A sphere of 0.1 m."""
    return p.createMultiBody(mass, p.createCollisionShape(p.GEOM_SPHERE, radius=0.1), -1, position)


def test_no_joints(run):
    p = run.module
    arm = p.loadURDF("kuka_iiwa/model.urdf")
    for body in (arm, 57):
        assert p.getJointStates(body, []) is None
        p.setJointMotorControlArray(body, [], p.POSITION_CONTROL)
        p.setJointMotorControlMultiDofArray(body, [], p.POSITION_CONTROL)
        p.resetJointStatesMultiDof(body, [], [])
    assert p.getJointStatesMultiDof(arm, []) is None
    for name in ("setJointMotorControlArray", "setJointMotorControlMultiDofArray"):
        with pytest.raises(p.error, match="mode"):
            getattr(p, name)(57, [], 77)
        with pytest.raises(p.error, match="sequence"):
            getattr(p, name)(57, None, p.POSITION_CONTROL)


def test_a_constraint_of_a_link_with_itself_does_nothing(run):
    p = run.module
    body = sphere(p, [0, 0, 1])
    for kind in (p.JOINT_FIXED, p.JOINT_POINT2POINT, p.JOINT_PRISMATIC):
        held = p.createConstraint(body, -1, body, -1, kind, [0, 0, 1], ZERO, ZERO)
        p.stepSimulation()
        p.getConstraintInfo(held)
        p.getConstraintState(held)
    p.removeConstraint(held)
    p.stepSimulation()
    p.getBasePositionAndOrientation(body)
    assert p.getNumConstraints() == 2


def test_the_last_step_is_known_after_bodies_come_and_go(run):
    p = run.module
    solved(p)
    arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    p.enableJointForceTorqueSensor(arm, 3)
    held = sphere(p, [3, 0, 1])
    constraint = p.createConstraint(held, -1, -1, -1, p.JOINT_POINT2POINT, ZERO, ZERO, [3, 0, 1])
    p.setJointMotorControl2(arm, 1, p.POSITION_CONTROL, 0.5, force=7.0)
    p.stepSimulation()

    def look():
        p.getJointState(arm, 1)
        p.getJointState(arm, 3)
        p.getJointStates(arm, range(4))
        p.getConstraintState(constraint)

    look()
    box = p.loadURDF("r2d2.urdf", [6, 0, 1])
    look()
    p.getClosestPoints(arm, box, 1.0)  # for which the engine is built
    look()
    p.removeBody(box)
    look()
    p.stepSimulation()
    look()
    assert abs(p.getJointState(arm, 1)[3]) == 7.0


def test_states_are_of_as_many_bodies(run):
    p = run.module
    first = sphere(p, [0, 0, 1])
    state = p.saveState()
    second = sphere(p, [1, 0, 1], mass=0.0)
    with pytest.raises(p.error, match="restore"):
        p.restoreState(state)
    p.removeBody(second)
    p.stepSimulation()
    p.restoreState(state)
    assert p.getBasePositionAndOrientation(first)[0] == (0, 0, 1)


def pendulum(p, at, mass, links=1):
    """A sphere with links on hinges."""
    shape = p.createCollisionShape(p.GEOM_SPHERE, radius=0.1)
    return p.createMultiBody(
        mass,
        shape,
        -1,
        at,
        linkMasses=[1.0] * links,
        linkCollisionShapeIndices=[shape] * links,
        linkVisualShapeIndices=[-1] * links,
        linkPositions=[[0, 0, 0.5]] * links,
        linkOrientations=[[0, 0, 0, 1]] * links,
        linkInertialFramePositions=[[0, 0, 0]] * links,
        linkInertialFrameOrientations=[[0, 0, 0, 1]] * links,
        linkParentIndices=list(range(links)),
        linkJointTypes=[p.JOINT_REVOLUTE] * links,
        linkJointAxis=[[0, 1, 0]] * links,
    )


@pytest.mark.parametrize("gone", [0, 2])
@pytest.mark.parametrize(
    "comes", [sphere, lambda p, at: sphere(p, at, mass=0.0), lambda p, at: pendulum(p, at, 0.0, 2)]
)
@pytest.mark.parametrize("mass", [0.0, 1.0])
def test_states_go_to_bodies_in_their_order(run, gone, comes, mass):
    """Not by their ids; the last body takes the place of one that is removed."""
    p = run.module
    bodies = [sphere(p, [0, 0, 1]), pendulum(p, [2, 0, 1], mass), sphere(p, [4, 0, 1])]
    p.resetJointState(bodies[1], 0, 0.3)
    state = p.saveState()
    p.removeBody(bodies[gone])
    comes(p, [8, 0, 1])
    for body in bodies:
        p.resetBasePositionAndOrientation(body, [body, 5, 5], [0, 0, 0, 1])
    for joint in range(p.getNumJoints(bodies[1])):
        p.resetJointState(bodies[1], joint, 0.7)
    with contextlib.suppress(p.error):
        p.restoreState(state)
    for _ in range(2):
        for body in bodies:
            p.getBasePositionAndOrientation(body)
            p.getBaseVelocity(body)
            p.getJointStates(body, range(p.getNumJoints(body)))
        p.stepSimulation()


@pytest.mark.parametrize("threshold", [None, 0.05])
def test_overlapping_objects_are_those_near_the_last_search(run, threshold):
    p = run.module
    if threshold is not None:
        p.setPhysicsEngineParameter(contactBreakingThreshold=threshold)
    p.setGravity(0, 0, 0)
    ball, bare = sphere(p, [0, 0, 1]), p.createMultiBody(1.0, -1, -1, [1, 0, 1])
    cube = p.loadURDF("cube_small.urdf", [2, 0, 1])
    p.resetBaseVelocity(ball, [2.4, 0, 0])
    p.resetBaseVelocity(cube, [2.4, 0, 0])

    def look(*bodies):
        for body in bodies:
            lower, upper = p.getAABB(body)
            middle = [(a + b) / 2 for a, b in zip(lower[1:], upper[1:])]
            for away in (0.001, 0.008, 0.012, 0.018, 0.022, 0.028, 0.032, 0.048, 0.052):
                p.getOverlappingObjects([upper[0] + away, *middle], [upper[0] + away + 1e-3, *middle])
                p.getOverlappingObjects([lower[0] - away - 1e-3, *middle], [lower[0] - away, *middle])

    new = sphere(p, [4, 0, 1])
    look(ball, bare, cube, new)
    p.stepSimulation()
    look(ball, bare, cube, new)
    p.stepSimulation()
    look(ball, bare, cube, new)
    p.resetBasePositionAndOrientation(ball, [0, 1, 1], Q)
    look(ball)
    newer = sphere(p, [6, 0, 1])
    look(newer)
    p.performCollisionDetection()
    look(newer)


def test_a_moving_obstacle_is_where_it_is_asked_for(run):
    p = run.module
    p.setGravity(0, 0, 0)
    box, other = p.loadURDF("cube_small.urdf", [0, 0, 1], useFixedBase=True), sphere(p, [1, 0, 1])
    p.stepSimulation()
    p.resetBaseVelocity(box, [0.2, 0, 0], ZERO)
    p.getClosestPoints(box, other, 5.0)  # before the step that moves it
    for _ in range(3):
        p.stepSimulation()
        p.getClosestPoints(box, other, 5.0)
        p.getOverlappingObjects([-1, -1, 0], [2, 1, 2])
        sphere(p, [0, p.getNumBodies(), 1])
    p.getBasePositionAndOrientation(box)


def test_a_mass_frees_a_base_that_was_loaded_fixed(run):
    p = run.module
    arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    p.stepSimulation()
    p.getDynamicsInfo(arm, -1)
    p.changeDynamics(arm, -1, mass=2.0)
    p.getDynamicsInfo(arm, -1)
    p.stepSimulation()
    assert p.getBaseVelocity(arm)[0][2] < -0.03  # it falls
    assert len(p.calculateMassMatrix(arm, [0.0] * 7)) == 13


def test_contacts_that_were_looked_for_are_kept_when_a_body_comes(run):
    p = run.module
    p.loadURDF("plane.urdf")
    ball, gone = sphere(p, [0, 0, 0.1]), sphere(p, [3, 0, 9])
    for _ in range(120):  # until it rests
        p.stepSimulation()
    p.removeBody(gone)  # which leaves a slot
    p.performCollisionDetection()
    sphere(p, [6, 0, 0.1])
    assert {point[1:3] for point in p.getContactPoints()} == {(0, ball)}
    p.performCollisionDetection()
    assert len({point[1:3] for point in p.getContactPoints()}) == 2


@pytest.mark.parametrize("arm", ["kuka_iiwa/model.urdf", "franka_panda/panda.urdf"])
def test_motors_hold_against_the_damping_of_their_joints(run, arm):
    """The last link of the Kuka would be thrown about by its damping alone: 0.5 N m s, 240 times a second."""
    p = run.module
    solved(p)
    body = p.loadURDF(arm, useFixedBase=True)
    joints = [j for j in range(p.getNumJoints(body)) if p.getJointInfo(body, j)[2] == p.JOINT_REVOLUTE]
    for joint in joints:
        p.resetJointState(body, joint, -0.2, 0.4)
        p.setJointMotorControl2(body, joint, p.POSITION_CONTROL, -0.5, force=87.0, positionGain=0.05)
    for _ in range(4):
        p.stepSimulation()
        p.getJointStates(body, joints)


def test_joints_without_motors_are_damped_by_the_rates_that_they_have(run):
    p = run.module
    body = p.loadURDF("franka_panda/panda.urdf", useFixedBase=True)
    joints = range(6)
    for joint in joints:
        p.resetJointState(body, joint, -0.2, 0.4)
        p.setJointMotorControl2(body, joint, p.VELOCITY_CONTROL, force=0.0)
        p.changeDynamics(body, joint, jointDamping=0.03 * joint)
    for _ in range(4):
        p.stepSimulation()
        p.getJointStates(body, joints)


def test_damping_that_would_throw_a_joint_about_brings_it_to_rest():
    """PyBullet's is at 100 rad/s after ten steps."""
    client = compat.connect(compat.DIRECT)
    compat.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=client)
    arm = compat.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True, physicsClientId=client)
    compat.setJointMotorControl2(arm, 6, compat.VELOCITY_CONTROL, force=0.0, physicsClientId=client)
    compat.resetJointState(arm, 6, 0.0, 1.0, physicsClientId=client)
    for _ in range(20):
        compat.stepSimulation(physicsClientId=client)
        assert -0.1 < compat.getJointState(arm, 6, physicsClientId=client)[1] < 1.0
    assert abs(compat.getJointState(arm, 6, physicsClientId=client)[1]) < 1e-3
    compat.disconnect(client)


@pytest.mark.parametrize(
    ("start", "rate", "force"),
    [(0.0, 1.1, 2.6), (-0.001, 1.0, 1000.0), (0.01, 0.0, 100.0), (-0.38, -1.0, 100.0), (-0.1, 1.0, 100.0)],
)
def test_motors_pull_in_vain_at_limits(run, start, rate, force):
    """The gripper of the r2d2 slides between -0.38 and 0 m; beyond, it comes back against its motor."""
    p = run.module
    solved(p)
    body = p.loadURDF("r2d2.urdf", [0, 0, 1], useFixedBase=True)
    p.resetJointState(body, 8, start)
    p.setJointMotorControl2(body, 8, p.VELOCITY_CONTROL, targetVelocity=rate, force=force)
    for _ in range(3):
        p.stepSimulation()
        p.getJointState(body, 8)
        p.getJointStates(body, [8, 8])
        p.getJointStateMultiDof(body, 8)


@pytest.mark.parametrize("many", [False, True])
def test_what_motors_pulled_with_stays_when_they_are_set_anew(run, many):
    """A slider stands beyond its limit, so that its motor tells what it wanted to do in the last step."""
    p = run.module
    solved(p)
    body = p.loadURDF("r2d2.urdf", [0, 0, 1], useFixedBase=True)
    p.resetJointState(body, 8, 0.01)
    for force in (100.0, 40.0):
        p.stepSimulation()
        if many:
            p.setJointMotorControlArray(body, [8, 9], p.POSITION_CONTROL, [-0.2, 0.1], forces=[force, 1.0])
        else:
            p.setJointMotorControl2(body, 8, p.POSITION_CONTROL, targetPosition=-0.2572, force=force)
        p.getJointState(body, 8)
        p.getJointStates(body, [8, 9])


@pytest.mark.parametrize(("start", "force"), [(-0.02, 3.0), (-0.26, 100.0), (0.2, 100.0)])
def test_torques_make_light_joints_no_faster_than_their_greatest_velocity(run, start, force):
    """4.7 N m would turn a part of r2d2's gripper at 210 rad/s; motors and limits act against 100 rad/s."""
    p = run.module
    solved(p)
    body = p.loadURDF("r2d2.urdf", [0, 0, 1], useFixedBase=True)
    p.setJointMotorControl2(body, 11, p.POSITION_CONTROL, -0.054, force=force)
    p.setJointMotorControl2(body, 11, p.TORQUE_CONTROL, force=4.7)
    p.resetJointState(body, 11, start, 0.2)
    p.stepSimulation()
    p.getJointState(body, 11)


def test_limits_carry_what_motors_would_hold(run):
    p = run.module
    solved(p)
    body = p.loadURDF("r2d2.urdf", [0, 0, 1])
    p.resetBaseVelocity(body, [0, 0, 0], [1.0, 0.7, -0.2])  # it throws the gripper outwards
    p.stepSimulation()
    p.getJointState(body, 8)


def test_restoring_leaves_the_torques_of_the_last_step(run):
    p = run.module
    solved(p)
    arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    fresh = p.saveState()
    p.setJointMotorControl2(arm, 1, p.POSITION_CONTROL, 0.5, force=7.0)
    p.stepSimulation()
    stepped = p.saveState()
    for _ in range(4):
        p.stepSimulation()
    p.setJointMotorControl2(arm, 1, p.POSITION_CONTROL, 0.5, force=3.0)
    p.stepSimulation()
    for state in (stepped, fresh):
        p.restoreState(state)
        assert p.getJointStates(arm, range(7))[1][3] == 3.0
    p.stepSimulation()
    p.getJointStates(arm, range(7))


def test_sensors_measure_from_the_step_after_they_were_switched_on(run):
    p = run.module
    solved(p)
    arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    p.enableJointForceTorqueSensor(arm, 1, 1)
    for _ in range(3):
        p.stepSimulation()
    p.enableJointForceTorqueSensor(arm, 3, 1)
    p.enableJointForceTorqueSensor(arm, 1, 1)
    p.getJointStates(arm, range(7))
    sphere(p, [5, 0, 1])
    assert p.getJointState(arm, 3)[2] == (0.0,) * 6
    p.getJointState(arm, 1)
    p.stepSimulation()
    p.getJointStates(arm, range(7))


def test_sensors_are_read_before_the_first_step(run):
    """Also those of a body that came after the last step, where something has asked for the engine."""
    p = run.module
    arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    for _ in range(2):
        p.enableJointForceTorqueSensor(arm, 0, 1)
        p.rayTest([5, 5, 5], [5, 5, 0])
        p.getJointState(arm, 0)
        p.getJointStates(arm, [0])
        p.getJointStateMultiDof(arm, 0)
        p.stepSimulation()
        arm = p.loadURDF("kuka_iiwa/model.urdf", [5, 0, 0], useFixedBase=True)


def test_sensors_measure_in_axes_of_the_start_of_a_step(run):
    """A chain whose motors turn it by 2 degrees in a step."""
    p = run.module
    solved(p)
    shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1, 0.2, 0.3])
    places = {"linkPositions": [[0, -0.1, -0.3], [0.2, 0.1, 0.2]], "linkOrientations": [Q, Q]}
    frames = {"linkInertialFramePositions": [[0, 0.1, 0], ZERO], "linkInertialFrameOrientations": [Q, Q]}
    joints = {"linkParentIndices": [0, 1], "linkJointTypes": [0, 0], "linkJointAxis": [[1, 0, 0], [0, 1, 0]]}
    shapes = {"linkCollisionShapeIndices": [shape, shape], "linkVisualShapeIndices": [-1, -1]}
    chain = p.createMultiBody(
        0.0, shape, -1, [0, 0, 1], linkMasses=[1.5, 0.7], **shapes, **places, **frames, **joints
    )
    for joint, speed in enumerate((8.0, -5.0)):
        p.enableJointForceTorqueSensor(chain, joint)
        p.setJointMotorControl2(chain, joint, p.VELOCITY_CONTROL, targetVelocity=speed, force=1e5)
    p.stepSimulation()
    p.resetBasePositionAndOrientation(chain, [0, 0, 2], [1, 0, 0, 0])
    p.getJointStates(chain, [0, 1])


def test_motors_at_limits_forget_what_they_bore_in_the_step_before(run):
    """The gripper rests at its limit, which and its motor may not go on pressing against each other."""
    p = run.module
    robot = p.loadURDF("r2d2.urdf", [0, 0, 2])
    p.setJointMotorControl2(robot, 9, p.TORQUE_CONTROL, force=9.914)
    p.stepSimulation()
    assert p.getJointState(robot, 9)[3] < -2.0
    for _ in range(2):
        p.stepSimulation()
        assert abs(p.getJointState(robot, 9)[3]) < 1e-6
    for change in (lambda: p.resetJointState(robot, 3, 0.2), lambda: p.resetBaseVelocity(robot, [1, 0, 0])):
        p.stepSimulation()
        change()
        assert abs(p.getJointState(robot, 9)[3]) < 1e-6


@pytest.mark.parametrize("ask_before", [False, True])
def test_impulses_of_the_last_step_are_told_over_the_time_of_steps(run, ask_before):
    """Those of motors and contacts, of which the time may have changed since; not what sensors measured."""
    p = run.module
    solved(p)
    p.loadURDF("plane.urdf")
    box = p.loadURDF("cube_small.urdf", [0, 0, 0.025])
    arm = p.loadURDF("kuka_iiwa/model.urdf", [1, 0, 0], useFixedBase=True)
    gripper = p.loadURDF("r2d2.urdf", [3, 0, 2], useFixedBase=True)
    p.enableJointForceTorqueSensor(arm, 1)
    p.resetJointState(arm, 1, 0.7)
    p.setJointMotorControl2(gripper, 9, p.VELOCITY_CONTROL, targetVelocity=-1.0, force=3.0)
    p.setJointMotorControl2(arm, 1, p.POSITION_CONTROL, 0.7, force=200.0)

    def ask() -> float:
        for robot, joint in ((arm, 1), (gripper, 9)):
            p.getJointState(robot, joint)
        points = p.getContactPoints(box)
        return sum(point[9] for point in points)

    for _ in range(5):
        p.stepSimulation()
    if ask_before:
        ask()
    p.setTimeStep(1 / 480)
    assert ask() == pytest.approx(2 * 0.1 * 9.81, rel=1e-3)
    p.loadURDF("cube_small.urdf", [5, 0, 1])
    p.setPhysicsEngineParameter(fixedTimeStep=1 / 120)
    ask()
    p.setTimeStep(1 / 480)
    for substeps in (1, 3):
        p.setPhysicsEngineParameter(numSubSteps=substeps)
        ask()
        p.stepSimulation()
        ask()


def test_motors_keep_their_largest_impulse_in_steps_of_another_length(run):
    """The force that was given times the time of steps then; of an arm of 0.5 m and 1 kg, which turns."""
    p = run.module
    shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1, 0.15, 0.2])
    link = {"linkMasses": [1.0], "linkCollisionShapeIndices": [shape], "linkVisualShapeIndices": [-1]}
    place = {"linkPositions": [[0.5, 0, 0]], "linkOrientations": [Q], "linkParentIndices": [0]}
    frame = {"linkInertialFramePositions": [[0.5, 0, 0]], "linkInertialFrameOrientations": [Q]}
    joint = {"linkJointTypes": [p.JOINT_REVOLUTE], "linkJointAxis": [[0, 1, 0]]}
    set_motor = (
        lambda arm: p.setJointMotorControl2(arm, 0, p.POSITION_CONTROL, -1.0, force=3.0),
        lambda arm: p.setJointMotorControlArray(arm, [0], p.VELOCITY_CONTROL, [-1.0], forces=[3.0]),
        lambda arm: p.setJointMotorControlMultiDof(arm, 0, p.POSITION_CONTROL, [-1.0], force=[3.0]),
        lambda arm: None,
    )
    arms = []
    for k, motor in enumerate(set_motor):
        arms.append(p.createMultiBody(0.0, -1, -1, [0, 2.0 * k, 1], **link, **place, **frame, **joint))
        motor(arms[-1])
    for time_step in (1 / 240, 1 / 480, 0.01, 1 / 240):
        p.setTimeStep(time_step)
        p.stepSimulation()
        for arm in arms:
            p.getJointState(arm, 0)
            p.getJointStateMultiDof(arm, 0)
    assert p.getJointState(arms[0], 0)[3] == pytest.approx(-3.0)
