"""Trajectories against PyBullet: falling, swinging, arms, forces, constraints, resting and sliding."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")
import newtonsim.pybullet_compat as compat  # noqa: E402
from newtonsim.pybullet_compat.clients.table import get_client  # noqa: E402

p = pybullet


def positions(both, body) -> tuple[np.ndarray, np.ndarray]:
    """Base positions in both worlds."""
    return tuple(np.array(answer[0]) for answer in both.getBasePositionAndOrientation(body))


def joint_values(both, body, joints, field: int = 0) -> np.ndarray:
    """One field of the joint states in both worlds (2, joints)."""
    return np.array([[state[field] for state in answer] for answer in both.getJointStates(body, joints)])


def box(both, position, half=(0.1, 0.1, 0.1), mass=1.0, rotation=(0.0, 0.0, 0.0, 1.0)) -> int:
    """A box of its own in both worlds."""
    shape = both.createCollisionShape(p.GEOM_BOX, halfExtents=half)[0]
    real, ours = both.createMultiBody(mass, shape, basePosition=position, baseOrientation=rotation)
    assert real == ours
    return real


@pytest.mark.parametrize("damping", [0.04, 0.0, 0.5])
def test_free_fall_with_damping(both, damping):
    body = box(both, [0.0, 0.0, 10.0])
    both.changeDynamics(body, -1, linearDamping=damping, angularDamping=damping)
    both.resetBaseVelocity(body, [1.0, 0.0, 2.0], [1.0, 2.0, 3.0])
    both.step(240)
    real, ours = positions(both, body)
    assert np.abs(real - ours).max() < 1e-3
    both.same("getBaseVelocity", body, tolerance=1e-3)


@pytest.mark.parametrize("change", [{"linearDamping": 0.0}, {"maxJointVelocity": 2.0}], ids=str)
def test_damping_and_top_speed_hold_for_the_whole_body(both, change):
    body = both.load("r2d2.urdf", [0.0, 0.0, 40.0])
    both.changeDynamics(body, 3, **change)
    both.step(120)
    real, ours = positions(both, body)
    assert np.abs(real - ours).max() < 1e-3


def test_pendulum(both):
    body = both.load("cartpole.urdf")
    for joint in (0, 1):
        both.setJointMotorControl2(body, joint, p.VELOCITY_CONTROL, force=0.0)
    both.resetJointState(body, 1, 1.0)
    for _ in range(8):
        both.step(30)
        values = joint_values(both, body, [0, 1])
        assert np.abs(values[0] - values[1]).max() < 5e-3
    assert np.abs(values[0] - values[1]).max() < 5e-3


CONTINUOUS = """<robot name="wheel"><link name="hub"/>
<link name="rim"><inertial><mass value="1"/>
<inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="continuous"><parent link="hub"/><child link="rim"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="30" velocity="4"/></joint></robot>"""


@pytest.mark.filterwarnings("ignore:.*has no <inertial>")
def test_continuous_joints_do_not_stop_at_limits(both, tmp_path):
    path = tmp_path / "wheel.urdf"
    path.write_text(CONTINUOUS)
    wheel = both.loadURDF(str(path), useFixedBase=True)[0]
    both.setJointMotorControl2(wheel, 0, p.VELOCITY_CONTROL, targetVelocity=4.0, force=20.0)
    both.step(120)
    real, ours = joint_values(both, wheel, [0])
    assert real[0] == pytest.approx(2.0, abs=0.05)
    assert ours == pytest.approx(real, abs=5e-3)
    both.same("getJointInfo", wheel, 0)


def test_default_motors_hold_an_arm(both):
    body = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    for joint in range(7):
        both.resetJointState(body, joint, 0.3)
    both.step(240)
    assert np.abs(joint_values(both, body, range(7))[1] - 0.3).max() < 1e-4


@pytest.mark.parametrize(
    "options",
    [{}, {"force": 300.0}, {"positionGain": 0.3, "velocityGain": 0.7}, {"maxVelocity": 0.5}, {"force": 20.0}],
    ids=str,
)
def test_position_servos_follow_the_same_way(both, options):
    """The error left behind agrees within 5 % of the way to go, at every tenth step."""
    body = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    target = np.array([0.4, 0.6, -0.5, -0.9, 0.3, 0.7, 0.2])
    for joint, value in enumerate(target):
        both.setJointMotorControl2(body, joint, p.POSITION_CONTROL, value, **options)
    for _ in range(12):
        both.step(10)
        real, ours = joint_values(both, body, range(7))
        assert np.abs(real - ours).max() < 0.05 * np.abs(target).max()
    both.step(200)
    real, ours = joint_values(both, body, range(7))
    assert np.abs(real - ours).max() < 2e-2


def test_velocity_servos_and_their_torque(both):
    body = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    speeds = [0.1, -0.2, 0.3, 0.2, -0.1, 0.4, 0.2]
    both.setJointMotorControlArray(
        body, range(7), p.VELOCITY_CONTROL, targetVelocities=speeds, forces=[200.0] * 7
    )
    both.step(100)
    velocity = joint_values(both, body, range(7), 1)
    assert np.abs(velocity[1] - speeds).max() < 1e-3
    torque = joint_values(both, body, range(7), 3)
    assert np.abs(torque[0] - torque[1]).max() < 0.05 * np.abs(torque[0]).max()


def test_torques_act_for_one_step_and_add_up(both):
    body = both.load("cartpole.urdf")
    for joint in (0, 1):
        both.setJointMotorControl2(body, joint, p.VELOCITY_CONTROL, force=0.0)
    both.setJointMotorControl2(body, 0, p.TORQUE_CONTROL, force=10.0)
    both.setJointMotorControl2(body, 0, p.TORQUE_CONTROL, force=5.0)
    both.step()
    both.same("getJointState", body, 0, tolerance=1e-5)
    both.step(20)
    both.same("getJointState", body, 0, tolerance=1e-3)


def test_substeps_make_motors_stronger(both):
    both.setPhysicsEngineParameter(numSubSteps=4)
    body = both.load("cartpole.urdf")
    both.setJointMotorControl2(body, 1, p.VELOCITY_CONTROL, force=0.0)
    both.setJointMotorControl2(body, 0, p.VELOCITY_CONTROL, targetVelocity=5.0, force=10.0)
    both.step(5)
    real, ours = joint_values(both, body, [0], 1)
    assert abs(real[0] - ours[0]) < 0.02 * abs(real[0])


@pytest.mark.parametrize("frame", [p.LINK_FRAME, p.WORLD_FRAME])
def test_external_forces_and_torques(both, frame):
    both.setGravity(0.0, 0.0, 0.0)
    body = box(both, [0.5, 0.2, 1.0], half=(0.1, 0.2, 0.3), rotation=(0.0, 0.0, 0.6, 0.8))
    for _ in range(10):
        both.applyExternalForce(body, -1, [0.1, 0.2, 0.3], [0.6, 0.25, 1.1], frame)
        both.applyExternalTorque(body, -1, [0.01, 0.02, 0.03], frame)
        both.step()
    both.same("getBaseVelocity", body, tolerance=1e-3)


def test_forces_on_links_of_a_robot(both):
    body = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    for joint in range(7):
        both.setJointMotorControl2(body, joint, p.VELOCITY_CONTROL, force=0.0)
        both.changeDynamics(body, joint, jointDamping=0.0)  # PyBullet's is explicit and unstable here
    both.setGravity(0.0, 0.0, 0.0)
    for _ in range(10):
        both.applyExternalForce(body, 6, [3.0, 0.0, 0.0], [0.0, 0.0, 0.0], p.LINK_FRAME)
        both.step()
    real, ours = joint_values(both, body, range(7), 1)
    assert np.abs(real - ours).max() < 0.01 * np.abs(real).max()


def test_force_sensors_carry_the_weight(both):
    body = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    for joint in range(7):
        both.enableJointForceTorqueSensor(body, joint)
        both.resetJointState(body, joint, 0.2 * joint)
        both.setJointMotorControl2(body, joint, p.POSITION_CONTROL, 0.2 * joint, force=500.0)
    both.step(200)
    for joint in range(7):
        real, ours = (np.array(state[2]) for state in both.getJointState(body, joint))
        assert np.abs(real - ours).max() < 0.01 * np.abs(real).max() + 0.05


@pytest.mark.parametrize("kind", [p.JOINT_POINT2POINT, p.JOINT_FIXED, p.JOINT_PRISMATIC])
def test_constraints_to_the_world(both, kind):
    body = box(both, [0.0, 0.0, 5.0])
    uid = both.createConstraint(body, -1, -1, -1, kind, [1, 0, 0], [0, 0, 0.2], [0, 0, 5.2])
    assert uid[0] == uid[1]
    both.applyExternalForce(body, -1, [50.0, 0.0, 0.0], [0.0, 0.0, 0.0], p.LINK_FRAME)
    both.step(120)
    real, ours = positions(both, body)
    assert np.abs(real - ours).max() < 0.02
    both.same("getConstraintInfo", uid[0])


def test_constraint_forces_carry_the_weight(both):
    body = box(both, [0.0, 0.0, 5.0], mass=2.0)
    uid = both.createConstraint(body, -1, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, 0, 5])[0]
    both.step(100)
    both.same("getConstraintState", uid, tolerance=0.05)
    other = box(both, [3.0, 0.0, 5.0], mass=2.0)
    uid = both.createConstraint(other, -1, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], [0, 0, 0.1], [3, 0, 5.1])[
        0
    ]
    both.step(100)
    both.same("getConstraintState", uid, tolerance=0.05)


def test_a_moved_constraint_drags_its_body(both):
    body = box(both, [0.0, 0.0, 5.0])
    uid = both.createConstraint(body, -1, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, 0, 5])[0]
    for k in range(100):
        both.changeConstraint(uid, [0.005 * k, 0.0, 5.0], maxForce=50.0)
        both.step()
    both.step(60)
    real, ours = positions(both, body)
    assert np.abs(ours - [0.495, 0.0, 5.0]).max() < 0.01
    assert np.abs(real - ours).max() < 0.01
    both.removeConstraint(uid)
    both.step(60)
    real, ours = positions(both, body)
    assert ours[2] < 4.8
    assert abs(real[2] - ours[2]) < 0.01


def test_gears_couple_speeds(both):
    body = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    both.setGravity(0.0, 0.0, 0.0)
    uid = both.createConstraint(body, 1, body, 2, p.JOINT_GEAR, [0, 1, 0], [0, 0, 0], [0, 0, 0])[0]
    both.changeConstraint(uid, gearRatio=-2.0, maxForce=10000.0)
    both.setJointMotorControl2(body, 2, p.VELOCITY_CONTROL, force=0.0)
    both.setJointMotorControl2(body, 1, p.VELOCITY_CONTROL, targetVelocity=0.5, force=100.0)
    both.step(100)
    real, ours = joint_values(both, body, [1, 2], 1)
    assert np.abs(real - ours).max() < 0.01


THINGS = ("cube.urdf", "sphere2.urdf", "r2d2.urdf", "capsule")
RESTING = [(name, thing) for name in ("plane.urdf", "plane_implicit.urdf") for thing in THINGS]


@pytest.mark.parametrize(("name", "thing"), [*RESTING, ("plane.urdf", "cube_small.urdf")])
def test_resting_heights(both, name, thing):
    """Without PyBullet's small cube on an implicit plane, which balances on an edge, on two points."""
    both.load(name)
    if thing == "capsule":
        shape = both.createCollisionShape(p.GEOM_CAPSULE, radius=0.1, height=0.4)[0]
        body = both.createMultiBody(
            1.0, shape, basePosition=[0, 0, 0.2], baseOrientation=[0.7071, 0, 0, 0.7071]
        )[0]
    else:
        body = both.load(thing, [0.0, 0.0, 0.6])
    both.step(480)
    real, ours = positions(both, body)
    assert abs(real[2] - ours[2]) < 1e-3


def test_sliding_distance(both):
    both.load("plane.urdf")
    body = box(both, [0.0, 0.0, 0.1])
    both.step(10)
    both.resetBaseVelocity(body, [2.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    both.step(240)
    real, ours = positions(both, body)
    assert abs(real[0] - ours[0]) < 0.05 * real[0]


@pytest.mark.parametrize("side", [0.99, 1.01])
def test_slope_on_which_a_box_begins_to_slide(both, side):
    """At a friction of 0.5 x 1.0: tan(angle) 1 % below it holds, 1 % above it goes."""
    mu = 0.5
    angle = np.arctan(side * mu)
    turn = (0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2))
    slope = box(both, [0.0, 0.0, 0.0], half=(10.0, 1.0, 0.1), mass=0.0, rotation=turn)
    both.changeDynamics(slope, -1, lateralFriction=1.0)
    up = np.array([np.sin(angle), 0.0, np.cos(angle)])
    body = box(both, list(0.2 * up), half=(0.1, 0.1, 0.1), rotation=turn)
    both.changeDynamics(body, -1, lateralFriction=mu)
    both.step(240)
    ours = positions(both, body)[1]
    moved = np.linalg.norm(ours - 0.2 * up)
    assert (moved < 0.02) if side < 1.0 else (moved > 0.02)


def wheel(both, inertia: float, yaw: float) -> int:
    """A heavy carriage on one wheel that turns freely about its y axis, at rest on the ground."""
    tyre = both.createCollisionShape(p.GEOM_SPHERE, radius=0.1)[0]
    one = {"linkMasses": [1.0], "linkCollisionShapeIndices": [tyre], "linkVisualShapeIndices": [-1]}
    frames = {name: [[0.0, 0.0, 0.0]] for name in ("linkPositions", "linkInertialFramePositions")}
    turns = {name: [[0, 0, 0, 1]] for name in ("linkOrientations", "linkInertialFrameOrientations")}
    joint = {"linkParentIndices": [0], "linkJointTypes": [p.JOINT_REVOLUTE], "linkJointAxis": [[0, 1, 0]]}
    pose = ([0.0, 0.0, 0.1], p.getQuaternionFromEuler([0.0, 0.0, yaw]))
    body = both.createMultiBody(10.0, -1, -1, *pose, **one, **frames, **turns, **joint)[0]
    both.changeDynamics(body, -1, localInertiaDiagonal=[1.0e3] * 3, linearDamping=0.0, angularDamping=0.0)
    both.changeDynamics(body, 0, localInertiaDiagonal=[inertia] * 3, lateralFriction=0.5)
    both.setJointMotorControl2(body, 0, p.VELOCITY_CONTROL, force=0.0)
    return body


@pytest.mark.parametrize("cone", [1, 0])
@pytest.mark.parametrize("inertia", [0.004, 4.0])
@pytest.mark.parametrize(("yaw", "velocity"), [(0.0, [1.0, 1.0, 0.0]), (0.4, [2.0, 1.0, 0.0])])
def test_friction_of_a_wheel_that_skids(both, yaw, velocity, inertia, cone):
    both.load("plane.urdf")
    both.setPhysicsEngineParameter(enableConeFriction=cone, numSolverIterations=1000)
    body = wheel(both, inertia, yaw)
    both.step(5)
    both.resetBaseVelocity(body, velocity, [0.0, 0.0, 0.0])
    both.step(1)
    real, ours = (
        sum(c[10] * np.array(c[11]) + c[12] * np.array(c[13]) for c in points)
        for points in both.getContactPoints(body)
    )
    np.testing.assert_allclose(ours, real, atol=5.0e-3)
    both.step(60)
    both.same("getBaseVelocity", body, tolerance=1.0e-3)


def test_a_car_that_turns_by_skidding(both):
    """Half a second of a Husky's turn on the spot; PyBullet's wheels roll over the edges of their hulls."""
    both.load("plane.urdf")
    car = both.load("husky/husky.urdf", [0.0, 0.0, 0.1])
    both.step(50)
    for joint, side in zip((2, 3, 4, 5), (-5.0, 5.0, -5.0, 5.0)):
        both.setJointMotorControl2(car, joint, p.VELOCITY_CONTROL, targetVelocity=side, force=50.0)
    both.step(240)
    turned = [2.0 * np.arctan2(q[2], q[3]) for _, q in both.getBasePositionAndOrientation(car)]
    assert turned[0] > 0.5
    assert turned[1] == pytest.approx(turned[0], rel=0.2)


def test_a_car_that_its_rear_wheels_drive(both):
    """Two seconds of a curve on wheels that are hulls, whose corners touch the ground one after the other."""
    both.load("plane.urdf")
    car = both.load("racecar/racecar.urdf", [0.0, 0.0, 0.06])
    for joint in range(both.getNumJoints(car)[0]):
        name = both.getJointInfo(car, joint)[0][1].decode()
        if name.endswith("rear_wheel_joint"):
            both.setJointMotorControl2(car, joint, p.VELOCITY_CONTROL, targetVelocity=30.0, force=10.0)
        elif name.endswith("wheel_joint"):
            both.setJointMotorControl2(car, joint, p.VELOCITY_CONTROL, force=0.0)
        elif "steering_hinge" in name:
            both.setJointMotorControl2(car, joint, p.POSITION_CONTROL, targetPosition=0.4)
    both.step(480)
    turned = [2.0 * np.arctan2(q[2], q[3]) for _, q in both.getBasePositionAndOrientation(car)]
    assert turned[0] > 2.0
    assert turned[1] == pytest.approx(turned[0], rel=0.1)


def test_bouncing_height(both):
    """PyBullet adds what removes the penetration to the bounce and rises a tenth higher."""
    plane = both.load("plane.urdf")
    both.changeDynamics(plane, -1, restitution=0.9)
    body = both.load("sphere2.urdf", [0.0, 0.0, 2.0])
    both.changeDynamics(body, -1, restitution=0.9)
    top = np.zeros(2)
    for step in range(300):
        both.step()
        if step > 160:
            top = np.maximum(top, [x[2] for x in positions(both, body)])
    assert abs(top[0] - top[1]) < 0.15 * top[0]


def test_a_club_that_falls_rolls_alike_in_short_steps(both):
    """A box with a ball at its end, whose impacts differ by a step: 9 % in the first spin at 1/240 s.

    PyBullet stops it a step later, 8 mm deep, and adds the speed with which it is pushed out. What follows,
    as it rolls over an edge and nearly stands there, enlarges that.
    """
    both.load("plane.urdf")
    both.setTimeStep(1.0 / 4800.0)
    club = both.createCollisionShapeArray(
        shapeTypes=[p.GEOM_BOX, p.GEOM_SPHERE],
        halfExtents=[[0.1, 0.02, 0.02], [0.0, 0.0, 0.0]],
        radii=[0.0, 0.05],
        collisionFramePositions=[[0.0, 0.0, 0.0], [0.15, 0.0, 0.0]],
    )[0]
    body = both.createMultiBody(1.1, club, -1, [0.0, 0.8, 0.3], [0.1, 0.2, 0.0, 0.97])[0]
    for _ in range(4):
        both.step(1000)
        both.same("getBasePositionAndOrientation", body, tolerance=0.01)
        both.same("getBaseVelocity", body, tolerance=0.1)


def test_spherical_servos(both):
    body = both.load("humanoid/humanoid.urdf", [0.0, 0.0, 3.0], useFixedBase=True)
    turn = [0.0, 0.3, 0.0, np.sqrt(1 - 0.09)]
    both.setJointMotorControlMultiDof(
        body, 3, p.POSITION_CONTROL, targetPosition=turn, positionGain=1.0, force=[1000.0]
    )
    for _ in range(4):
        both.step(5)
        real, ours = (np.array(state[0]) for state in both.getJointStateMultiDof(body, 3))
        assert np.abs(real - ours * np.sign(real @ ours)).max() < 0.02


@pytest.mark.parametrize("ground", ["plane", "box"])
@pytest.mark.parametrize("spin", [450.0, -450.0])
def test_propellers_do_not_meet_what_is_below_them(both, ground, spin):
    """A tilted disc that turns by several radians in a step is as far from the ground after it as before."""
    rim = [[0.2 * np.cos(a), 0.2 * np.sin(a), z] for a in np.arange(24) * np.pi / 12 for z in (-0.005, 0.005)]
    kinds = {"plane": (p.GEOM_PLANE, {}), "box": (p.GEOM_BOX, {"halfExtents": [10.0, 10.0, 5.0]})}
    kind, options = kinds[ground]
    floor = both.createCollisionShape(kind, **options)[0]
    both.createMultiBody(0.0, floor, -1, [0.0, 0.0, 0.0 if ground == "plane" else -5.0])
    disc = both.createCollisionShape(p.GEOM_MESH, vertices=rim)[0]
    tilt = 0.17
    height = 0.03 + 0.2 * np.sin(tilt) + 0.005 * np.cos(tilt)
    turn = p.getQuaternionFromEuler([tilt, 0.0, 0.0])
    body = both.createMultiBody(1.0, disc, -1, [0.0, 0.0, height], turn)[0]
    both.changeDynamics(body, -1, linearDamping=0.0, angularDamping=0.0, maxJointVelocity=1000.0)
    both.setGravity(0.0, 0.0, 0.0)
    both.setTimeStep(1.0 / 120.0)
    axis = np.array([0.0, -np.sin(tilt), np.cos(tilt)])
    both.resetBaseVelocity(body, [0.0, 0.0, 0.0], (spin * axis).tolist())
    for _ in range(4):
        both.step()
        for velocity, _ in both.getBaseVelocity(body):
            assert np.linalg.norm(velocity) < 1e-4


@pytest.mark.parametrize("length", [1.0, 2.0, 0.5, 1.7320508])
@pytest.mark.parametrize("joint", [p.JOINT_REVOLUTE, p.JOINT_PRISMATIC])
def test_axes_that_are_no_unit_vectors(both, joint, length):
    """PyBullet takes them for the motion as they are, and turns by the angle all the same."""
    both.setGravity(0, 0, 0)
    shape = both.createCollisionShape(p.GEOM_SPHERE, radius=0.1)[0]
    body = both.createMultiBody(
        1.0,
        shape,
        linkMasses=[2.0],
        linkCollisionShapeIndices=[shape],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0, 0]],
        linkOrientations=[[0, 0, 0, 1]],
        linkInertialFramePositions=[[0.3, 0, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]],
        linkParentIndices=[0],
        linkJointTypes=[joint],
        linkJointAxis=[[0, 0.6 * length, 0.8 * length]],
    )[0]
    both.setJointMotorControl2(body, 0, p.VELOCITY_CONTROL, force=0.0)
    both.resetJointState(body, 0, 0.4, 1.5)
    both.same("getLinkState", body, 0, 1, 1)
    for _ in range(10):
        both.setJointMotorControl2(body, 0, p.TORQUE_CONTROL, force=0.2)
        both.step()
    both.same("getJointState", body, 0, tolerance=1e-5)
    both.same("getBaseVelocity", body, tolerance=1e-5)
    both.same("getLinkState", body, 0, 1, 1, tolerance=1e-5)
    both.setJointMotorControl2(body, 0, p.POSITION_CONTROL, 0.2, force=30.0)
    both.step(20)
    both.same("getJointState", body, 0, tolerance=1e-4)
    both.same("getBaseVelocity", body, tolerance=1e-4)


@pytest.mark.parametrize("name", ["humanoid_symmetric", "humanoid", "ant"])
def test_one_step_of_walkers_from_mjcf_files(both, name):
    """Torques of all joints in flight; the axes of these files have lengths of 1, √2 and √6."""
    files = both.loadMJCF(f"mjcf/{name}.xml")[0]
    body = max(files, key=lambda uid: both.getNumJoints(uid)[0])
    joints = [j for j in range(both.getNumJoints(body)[0]) if both.getJointInfo(body, j)[0][2] == 0]
    for joint in joints:
        both.setJointMotorControl2(body, joint, p.VELOCITY_CONTROL, force=0.0)
    both.resetBasePositionAndOrientation(body, [0, 0, 5], [0, 0, 0, 1])
    rng = np.random.default_rng(0)
    for joint in joints:
        lower, upper = both.getJointInfo(body, joint)[0][8:10]
        both.resetJointState(body, joint, 0.5 * (lower + upper), rng.normal())
    both.setJointMotorControlArray(body, joints, p.TORQUE_CONTROL, forces=rng.normal(size=len(joints)) * 10)
    both.step()
    real, ours = joint_values(both, body, joints, 1)
    np.testing.assert_allclose(ours, real, atol=5e-5)
    both.same("getBaseVelocity", body, tolerance=1e-5)


def hung_by_a_ball_joint(both, mass: float) -> int:
    """A sphere on a spherical joint to a base that stands."""
    shape = both.createCollisionShape(p.GEOM_SPHERE, radius=0.1)[0]
    return both.createMultiBody(
        linkMasses=[mass],
        linkCollisionShapeIndices=[shape],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0, 1]],
        linkOrientations=[[0, 0, 0, 1]],
        linkInertialFramePositions=[[0, 0, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]],
        linkParentIndices=[0],
        linkJointTypes=[p.JOINT_SPHERICAL],
        linkJointAxis=[[0, 0, 1]],
    )[0]


def test_default_motors_of_spherical_joints_pull_to_the_identity(both):
    body = hung_by_a_ball_joint(both, 1.0)
    both.resetJointStateMultiDof(body, 0, p.getQuaternionFromEuler([0.5, 0, 0]))
    for _ in range(20):
        both.step()
        (real, ours) = both.getJointStateMultiDof(body, 0)
        np.testing.assert_allclose(ours[0], real[0], atol=1e-6)
        np.testing.assert_allclose(ours[1], real[1], atol=1e-4)
    assert 0.0 < real[0][0] < 0.15


@pytest.mark.parametrize("time_step", [1.0 / 240.0, 1.0 / 1000.0])
def test_default_motors_of_spherical_joints_have_a_largest_impulse(both, time_step):
    body = hung_by_a_ball_joint(both, 1.0e4)
    both.setTimeStep(time_step)
    both.applyExternalTorque(body, 0, [0, 0, 1250.0 / time_step], p.WORLD_FRAME)
    both.step()
    real, ours = both.getJointStateMultiDof(body, 0)
    assert real[1][2] == pytest.approx(250.0 / 40.0)
    np.testing.assert_allclose(ours[1], real[1], atol=1e-4)
    np.testing.assert_allclose(ours[3], real[3], rtol=1e-4)


HINGE = """<robot name="r">
<link name="a"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="b"><inertial><mass value="1"/><origin xyz=".3 0 0"/>
<inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="{kind}"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>
<limit lower="-0.5" upper="0.4" effort="100" velocity="10"/></joint></robot>"""
MEETINGS = {
    "comes inwards": (0.42, -3.0, {}),
    "is beyond": (0.42, 0.0, {}),
    "is below": (-0.52, 0.0, {}),
    "is just near enough": (0.439, 0.0, {}),
    "is too far": (0.441, 0.0, {}),
    "goes out from far": (0.5, 5.0, {}),
    "hits the upper limit": (0.385, 4.0, {}),
    "hits the lower limit": (-0.485, -4.0, {}),
    "lets a step pass": (0.39, 9.0, {}),
    "is beyond with another erp": (0.42, 0.0, {"erp": 0.6}),
    "is too far without split impulses": (0.56, 0.0, {"useSplitImpulse": 0}),
    "hits in substeps": (0.385, 4.0, {"numSubSteps": 4}),
    "is beyond in short steps": (0.42, 0.0, {"fixedTimeStep": 0.001}),
    "hits in long steps": (0.3, 4.0, {"fixedTimeStep": 0.02}),
}
"""Where a joint is, how fast, and parameters of the physics engine."""


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
@pytest.mark.parametrize("name", MEETINGS)
def test_joints_meet_their_limits(both, tmp_path, name, kind):
    """Inside nothing acts; beyond a share of the violation goes in a step, up to 4 cm or 0.04 rad."""
    path = tmp_path / "hinge.urdf"
    path.write_text(HINGE.format(kind=kind))
    arm = both.load(str(path), useFixedBase=True, flags=p.URDF_USE_INERTIA_FROM_FILE)
    both.setGravity(0.0, 0.0, 0.0)
    both.setJointMotorControl2(arm, 0, p.VELOCITY_CONTROL, force=0)
    both.step()  # parameters change in an engine that steps
    place, speed, parameters = MEETINGS[name]
    both.setPhysicsEngineParameter(**parameters)
    both.resetJointState(arm, 0, place, speed)
    for _ in range(8):
        both.step()
        both.same("getJointState", arm, 0, tolerance=3e-5)


@pytest.mark.parametrize("start", [2.6, -2.6])
def test_limits_do_not_push_back_what_is_far_beyond_them(both, start: float):
    """A joint that was put far beyond its limit stays there; a motor brings it back, and not further out."""
    arm = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    for joint in range(7):
        both.setJointMotorControl2(arm, joint, p.VELOCITY_CONTROL, force=0)
    both.setGravity(0.0, 0.0, 0.0)
    both.resetJointState(arm, 1, start)
    for speed in (0.0, np.sign(start), -np.sign(start)):
        if speed:
            both.setJointMotorControl2(arm, 1, p.VELOCITY_CONTROL, targetVelocity=speed, force=300)
        both.step(60)
        values = joint_values(both, arm, [1])
        assert np.abs(values[0] - values[1]).max() < 1e-3


def test_ant_sinks_with_its_ankles_beyond_their_limits(both):
    """The file's start pose is outside the limits of the ankles."""
    both.load("plane.urdf")
    (ant,), _ = both.loadMJCF("mjcf/ant.xml")
    for joint in range(pybullet.getNumJoints(ant, physicsClientId=both.ids[0])):
        both.setJointMotorControl2(ant, joint, p.VELOCITY_CONTROL, force=0)
    both.step(240)
    real, ours = positions(both, ant)
    assert np.abs(real - ours).max() < 5e-3


@pytest.mark.parametrize("between", [None, p.VELOCITY_CONTROL])
def test_a_top_speed_stays_until_velocity_control(both, between):
    body = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    both.setJointMotorControl2(body, 0, p.POSITION_CONTROL, 1.0, force=500.0, maxVelocity=0.5)
    if between is not None:
        both.setJointMotorControl2(body, 0, between, targetVelocity=0.0)
    both.setJointMotorControlArray(body, [0], p.POSITION_CONTROL, targetPositions=[1.0], forces=[500.0])
    both.step(5)
    real, ours = joint_values(both, body, [0], 1)
    assert abs(real[0] - ours[0]) < 0.01 * real[0]


def test_static_bodies_with_a_velocity_carry_others(both):
    """A conveyor belt, which PyBullet moves as a kinematic body."""
    belt = box(both, [0.0, 0.0, 0.0], half=(5.0, 1.0, 0.1), mass=0.0)
    body = box(both, [0.0, 0.0, 0.2])
    both.step(20)
    both.resetBaseVelocity(belt, [0.5, 0.0, 0.0])
    both.step(120)
    both.same("getBaseVelocity", belt, tolerance=1e-6)
    for thing in (belt, body):
        real, ours = positions(both, thing)
        assert np.abs(real - ours).max() < 0.01
    assert positions(both, body)[1][0] > 0.15
    both.resetBaseVelocity(belt, [0.0, 0.0, 0.0])
    both.step(60)
    real, ours = positions(both, body)
    assert np.abs(real - ours).max() < 0.01


def test_turning_static_bodies(both):
    table = box(both, [0.0, 0.0, 0.0], half=(1.0, 1.0, 0.1), mass=0.0)
    both.resetBaseVelocity(table, [0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    both.step(100)
    both.same("getBasePositionAndOrientation", table, tolerance=1e-3)


@pytest.mark.filterwarnings("error")
def test_a_fixed_base_with_a_mass_moves_as_it_is_told(both):
    """Nothing becomes NaN, which the solver would warn of; another body lies on it and is carried along."""
    block = both.load("cube_small.urdf", [0.0, 0.0, 1.0], useFixedBase=True)
    rider = both.load("cube_small.urdf", [0.0, 0.0, 1.05])
    both.resetBaseVelocity(block, [0.2, 0.0, 0.0])
    both.step(48)
    both.same("getBasePositionAndOrientation", block, tolerance=1e-5)
    both.same("getBaseVelocity", block, tolerance=1e-5)
    both.same("getDynamicsInfo", block, -1)
    real, ours = both.getBasePositionAndOrientation(rider)
    assert real[0][0] > 0.02
    assert np.allclose(real[0], ours[0], atol=3e-3)
    both.changeDynamics(block, -1, lateralFriction=0.3)
    both.step(5)
    assert np.isfinite(get_client(both.ids[1]).state.joint_q.numpy()).all()


def test_a_time_step_of_zero_stands_still_and_a_negative_one_is_refused(both):
    """PyBullet goes back in time with a negative one."""
    both.load("plane.urdf")
    box = both.load("cube_small.urdf", [0, 0, 1])
    arm = both.load("kuka_iiwa/model.urdf", [1, 0, 0], useFixedBase=True)
    both.setJointMotorControl2(arm, 2, p.POSITION_CONTROL, 1.0, force=100.0)
    both.resetBaseVelocity(box, [1, 2, 3], [0.1, 0, 0])
    both.step()
    for set_step in (both.setTimeStep, lambda dt: both.setPhysicsEngineParameter(fixedTimeStep=dt)):
        assert set_step(0) == (None, None)
        both.applyExternalForce(box, -1, [50.0, 0, 0], [0, 0, 0], p.LINK_FRAME)
        both.step(3)
        both.setPhysicsEngineParameter(fixedTimeStep=-1.0)  # which leaves it as it is
        both.same("getPhysicsEngineParameters")
        both.same("getBasePositionAndOrientation", box, tolerance=1e-5)
        both.same("getBaseVelocity", box, tolerance=1e-4)
        assert np.diff(joint_values(both, arm, [2]), axis=0) == pytest.approx(0.0, abs=1e-5)
        for dt in (1.0 / 240.0, 1.0 / 100.0):
            both.setTimeStep(dt)
            both.step()
            both.same("getBasePositionAndOrientation", box, tolerance=1e-5)
            both.same("getBaseVelocity", box, tolerance=1e-4)  # 50 N are 2 m/s in a step
    with pytest.raises(compat.error, match="timeStep must not be negative"):
        compat.setTimeStep(-0.01, physicsClientId=both.ids[1])
    both.same("getPhysicsEngineParameters")


def test_stiffness_and_damping_of_contacts_go_together(both):
    box = both.load("cube_small.urdf", [0, 0, 1])
    for one in ({"contactStiffness": 100.0}, {"contactDamping": 0.0, "contactStiffness": -1.0}):
        for module, client in zip((pybullet, compat), both.ids):
            with pytest.raises(module.error, match="needs to be set together"):
                module.changeDynamics(box, -1, lateralFriction=0.9, **one, physicsClientId=client)
    both.changeDynamics(box, -1, contactStiffness=-1.0)
    both.changeDynamics(box, -1, contactStiffness=1e4, contactDamping=10.0)
    both.same("getDynamicsInfo", box, -1)


def test_no_sweeps_are_reported(both):
    both.setPhysicsEngineParameter(numSolverIterations=0)
    both.same("getPhysicsEngineParameters")
    both.setPhysicsEngineParameter(numSolverIterations=-1)
    both.same("getPhysicsEngineParameters")
