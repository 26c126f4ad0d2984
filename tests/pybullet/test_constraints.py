"""Constraints that scripts create: how fast errors go away, how strong they are, the forces they report."""

import numpy as np
import pytest

pytest.importorskip("pybullet")

import pybullet as p
from pybullet_both import Both
from pybullet_utils.bullet_client import BulletClient as PyBulletClient

import newtonsim.pybullet_compat as compat
from newtonsim.pybullet_compat.bullet_client import BulletClient

KINDS = (p.JOINT_POINT2POINT, p.JOINT_FIXED)
ZERO = [0.0, 0.0, 0.0]


@pytest.fixture
def both():
    """Two empty worlds without gravity, of which PyBullet's solves for the forces."""
    found = Both(gravity=0.0)
    found.setPhysicsEngineParameter(numSolverIterations=500, solverResidualThreshold=0.0)
    yield found
    found.close()


def cube(both, position, mass=1.0, turn=(0.0, 0.0, 0.0, 1.0)) -> int:
    """A cube of 0.2 m."""
    shape = both.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1] * 3)[0]
    return both.createMultiBody(mass, shape, -1, position, turn)[0]


def speeds(both, body) -> tuple[np.ndarray, np.ndarray]:
    """Velocities (6,) of a body in both worlds."""
    real, ours = (np.concatenate(answer) for answer in both.getBaseVelocity(body))
    return real, ours


def agree(both, bodies, uid=None, share=2e-3) -> None:
    """Velocities of bodies and the forces of a constraint are the same but for a share of them."""
    answers = [speeds(both, body) for body in bodies]
    if uid is not None:
        answers.append(tuple(map(np.array, both.getConstraintState(uid))))
    for real, ours in answers:
        assert np.abs(real - ours).max() <= share * np.abs(real).max() + 1e-3, f"{ours} is not {real}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("erp", [None, 0.5])
@pytest.mark.parametrize("substeps", [0, 4])
def test_a_step_removes_a_share_of_the_error(both, kind, erp, substeps):
    """Of twins too, which go half of the way each."""
    both.setPhysicsEngineParameter(numSubSteps=substeps)
    if erp is not None:
        both.setPhysicsEngineParameter(erp=erp)
    alone, left, right = (cube(both, [x, 0.0, 0.0]) for x in (0.0, 2.0, 4.0))
    both.createConstraint(alone, -1, -1, -1, kind, ZERO, ZERO, [0.01, 0.02, 0.03])
    both.createConstraint(left, -1, right, -1, kind, ZERO, [1.0, 0.0, 0.0], [-1.001, 0.0, 0.0])
    both.step()
    agree(both, (alone, left, right), share=0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("given", "step", "later"), [(None, 1 / 240, None), (33.0, 1 / 100, 1 / 500)])
def test_constraints_are_as_strong_as_they_were_made(both, kind, fixed, given, step, later):
    """Each axis of the world has its limit: an impulse, which stays as the time of a step changes."""
    both.setTimeStep(step)
    target = [0.5, -0.03, 0.02]
    body = cube(both, ZERO)
    post = cube(both, [3.0, 1.0, 0.0], mass=0.0) if fixed else -1
    at = np.array(target) - [3.0, 1.0, 0.0] if fixed else target
    uid = both.createConstraint(body, -1, post, -1, kind, ZERO, [0.0, 0.0, 0.1], list(at))[0]
    if given is not None:
        both.changeConstraint(uid, maxForce=given)
    if later is not None:
        both.setTimeStep(later)
    both.same("getConstraintInfo", uid)
    both.step()
    agree(both, [body], uid, share=0.01)


def test_the_bound_of_a_constraint_is_an_impulse_in_each_substep(both):
    both.setPhysicsEngineParameter(numSubSteps=4)
    body = cube(both, ZERO)
    uid = both.createConstraint(body, -1, -1, -1, p.JOINT_POINT2POINT, ZERO, ZERO, [50.0, -3.0, 0.2])[0]
    both.changeConstraint(uid, maxForce=20.0)
    both.step()
    agree(both, [body], uid)
    assert np.allclose(speeds(both, body)[1][:3], np.array([20.0, -20.0, 20.0]) / 240.0, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pivot_far_away_drags_with_the_same_force_along_each_axis(both, kind):
    turn = p.getQuaternionFromEuler([0.3, 0.5, 0.7])
    body = cube(both, ZERO, turn=turn)
    uid = both.createConstraint(
        body, -1, -1, -1, kind, ZERO, [0.0, 0.02, 0.1], [3.0, 1.0, -2.0], childFrameOrientation=turn
    )[0]
    both.changeConstraint(uid, maxForce=10.0)
    for k in range(4):
        both.step()
        agree(both, [body], uid, share=0.02)
        both.changeConstraint(uid, [3.0, 1.0, -2.0 + 2.0 * k], turn, maxForce=10.0)


@pytest.mark.parametrize("ratio", [-1.0, 2.0])
@pytest.mark.parametrize("limit", [None, 2.0])
def test_gears(both, ratio, limit):
    shape = both.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1] * 3)[0]
    body = both.createMultiBody(
        0.0,
        shape,
        linkMasses=[1.0] * 2,
        linkCollisionShapeIndices=[shape] * 2,
        linkVisualShapeIndices=[-1] * 2,
        linkPositions=[[0.0, 0.0, 0.5], [0.0, 0.0, -0.5]],
        linkOrientations=[[0.0, 0.0, 0.0, 1.0]] * 2,
        linkInertialFramePositions=[ZERO] * 2,
        linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]] * 2,
        linkParentIndices=[0, 0],
        linkJointTypes=[p.JOINT_REVOLUTE] * 2,
        linkJointAxis=[[0.0, 0.0, 1.0]] * 2,
    )[0]
    both.setJointMotorControlArray(body, [0, 1], p.VELOCITY_CONTROL, forces=[0.0, 0.0])
    uid = both.createConstraint(body, 0, body, 1, p.JOINT_GEAR, [0.0, 0.0, 1.0], ZERO, ZERO)[0]
    both.changeConstraint(uid, gearRatio=ratio)
    if limit is not None:
        both.changeConstraint(uid, maxForce=limit)
    both.setJointMotorControl2(body, 0, p.TORQUE_CONTROL, force=30.0)
    both.step()
    both.same("getJointStates", body, [0, 1], tolerance=1e-4)
    both.same("getConstraintState", uid, tolerance=1e-4)
    for other in (-3.0, 0.0):
        both.changeConstraint(uid, gearRatio=other)
        both.same("getConstraintState", uid, tolerance=1e-4)


def pinion_box(both):
    """A body of three wheels side by side, the third turned by 0.1 rad, without motors."""
    shape = both.createCollisionShape(p.GEOM_SPHERE, radius=0.1)[0]
    count = 3
    body = both.createMultiBody(
        0.0,
        shape,
        linkMasses=[1.0, 2.0, 3.0],
        linkCollisionShapeIndices=[shape] * count,
        linkVisualShapeIndices=[-1] * count,
        linkPositions=[[1.0, 0.0, 0.0]] * count,
        linkOrientations=[[0.0, 0.0, 0.0, 1.0]] * count,
        linkInertialFramePositions=[ZERO] * count,
        linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]] * count,
        linkParentIndices=[0] * count,
        linkJointTypes=[p.JOINT_REVOLUTE] * count,
        linkJointAxis=[[0.0, 0.0, 1.0]] * count,
    )[0]
    both.setJointMotorControlArray(body, range(count), p.VELOCITY_CONTROL, forces=[0.0] * count)
    both.resetJointState(body, 2, 0.1)
    return body


@pytest.mark.parametrize("erp", [None, 0.1])
@pytest.mark.parametrize("link", [0, 1, 2])
def test_gears_follow_an_auxiliary_link(both, link, erp):
    """Which is any joint of the body, and one that they couple too; a negative link changes nothing."""
    body = pinion_box(both)
    gear = both.createConstraint(body, 0, body, 1, p.JOINT_GEAR, [0.0, 0.0, 1.0], ZERO, ZERO)[0]
    both.changeConstraint(gear, gearRatio=-2.0, maxForce=1.0e5)
    for k in range(5):
        if k == 1:
            both.changeConstraint(gear, gearAuxLink=link, **({} if erp is None else {"erp": erp}))
        if k == 3:
            both.changeConstraint(gear, gearAuxLink=-1)
        both.setJointMotorControlArray(body, range(3), p.TORQUE_CONTROL, forces=[0.01, 0.02, 0.05])
        both.step()
        both.same("getJointStates", body, [0, 1, 2], tolerance=1e-5)
        both.same("getConstraintState", gear, tolerance=2e-5)
    both.same("getConstraintInfo", gear)


def test_a_car_with_differentials_drives(both):
    """Its gears are those of the script racecar_differential.py that comes with PyBullet."""
    both.setGravity(0.0, 0.0, -9.81)
    both.load("plane.urdf")
    car = both.load("racecar/racecar_differential.urdf", [0, 0, 0.2])
    for joint in range(20):
        both.setJointMotorControl2(car, joint, p.VELOCITY_CONTROL, force=0.0)
    for hinge in (0, 2):
        both.setJointMotorControl2(car, hinge, p.POSITION_CONTROL, targetPosition=0.0, force=10.0)
    gears = [(9, 11, 1), (10, 13, -1), (9, 13, -1), (16, 18, 1), (16, 19, -1), (17, 19, -1)]
    for a, b, ratio, *auxiliary in [*gears, (1, 18, -1, 15), (3, 19, -1, 15)]:
        uid = both.createConstraint(car, a, car, b, p.JOINT_GEAR, [0, 1, 0], ZERO, ZERO)[0]
        link = {"gearAuxLink": auxiliary[0]} if auxiliary else {}
        both.changeConstraint(uid, gearRatio=ratio, maxForce=10000.0, **link)
    for ring in (8, 15):
        both.setJointMotorControl2(car, ring, p.VELOCITY_CONTROL, targetVelocity=10.0, force=5.0)
    both.step(240)
    real, ours = (velocity[0][0] for velocity in both.getBaseVelocity(car))
    assert real > 0.45
    assert abs(ours - real) < 0.05 * real  # wheels roll from facet to facet


@pytest.mark.parametrize("axis", [[1, 0, 0], [0, 1, 0], [0, 0, -1], [1, 1, 0], [1, 2, 3], [2, 0, 0], ZERO])
def test_forces_across_a_slide(both, axis):
    """What slides along no axis does not turn."""
    body = cube(both, ZERO)
    uid = both.createConstraint(body, -1, -1, -1, p.JOINT_PRISMATIC, axis, ZERO, ZERO)[0]
    both.applyExternalForce(body, -1, [20.0, 30.0, 50.0], ZERO, p.WORLD_FRAME)
    both.applyExternalTorque(body, -1, [1.0, 2.0, 3.0], p.WORLD_FRAME)
    both.step()
    agree(both, [body], uid)


@pytest.mark.parametrize("kind", [p.JOINT_FIXED, p.JOINT_PRISMATIC])
@pytest.mark.parametrize("two", [False, True])
def test_moments_are_told_in_the_joint_frame_of_the_parent(both, kind, two):
    turn, frame = (p.getQuaternionFromEuler(angles) for angles in ([0.3, 0.5, 0.7], [-0.4, 0.2, 0.9]))
    body = cube(both, ZERO, turn=turn)
    child = cube(both, ZERO, turn=(0.0, 0.0, 0.0, 1.0)) if two else -1
    both.setCollisionFilterPair(body, child, -1, -1, 0)
    there = p.multiplyTransforms(ZERO, turn, ZERO, frame)[1]
    uid = both.createConstraint(body, -1, child, -1, kind, [1, 2, 3], ZERO, ZERO, frame, there)[0]
    both.applyExternalTorque(body, -1, [1.0, 0.3, -0.2], p.WORLD_FRAME)
    both.step()
    agree(both, [body], uid)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [2.0, 1e5])
@pytest.mark.parametrize("frames", [False, True])
def test_links_that_are_apart_are_pushed_each_at_its_own_pivot(both, kind, limit, frames):
    """Along axes of the world, and about those of the parent's joint frame by Euler angles."""
    turns = [
        p.getQuaternionFromEuler(angles)
        for angles in ([0.3, -0.5, 0.7], [-0.6, 0.2, 0.4], [0.2, 0.1, -0.3], [0.5, 0.3, 0.6])
    ]
    pair = cube(both, ZERO, turn=turns[0]), cube(both, [1.3, 0.5, -0.4], mass=2.0, turn=turns[1])
    own = turns[2:] if frames else [[0.0, 0.0, 0.0, 1.0]] * 2
    pivots = [0.1, 0.02, 0.03], [-0.2, 0.05, 0.1]
    uid = both.createConstraint(pair[0], -1, pair[1], -1, kind, ZERO, *pivots, *own)[0]
    both.changeConstraint(uid, maxForce=limit)
    for _ in range(3):
        both.step()
        agree(both, pair, uid, share=0.01)


@pytest.mark.parametrize("child", ["world", "static", "without inertia"])
def test_what_cannot_turn_tells_no_moment(both, child):
    turn = p.getQuaternionFromEuler([0.3, -0.5, 0.7])
    body = both.createMultiBody(0.5, -1, -1, ZERO, turn)[0]
    other = -1
    if child != "world":
        mass, shape = (0.0, both.createCollisionShape(p.GEOM_SPHERE)[0]) if child == "static" else (1.0, -1)
        other = both.createMultiBody(mass, shape, -1, [2.0, 0.1, 0.2])[0]
    uid = both.createConstraint(body, -1, other, -1, p.JOINT_FIXED, ZERO, ZERO, ZERO)[0]
    both.changeConstraint(uid, maxForce=47.0)
    both.step()
    agree(both, [body], uid)
    assert both.getConstraintState(uid)[1][3:] == (0.0, 0.0, 0.0)


def test_a_slide_is_along_an_axis_of_the_parent_itself(both):
    turn, frame = (p.getQuaternionFromEuler(angles) for angles in ([0.3, 0.5, 0.7], [-0.4, 0.2, 0.9]))
    body = cube(both, ZERO, turn=turn)
    there = p.multiplyTransforms(ZERO, turn, ZERO, frame)[1]
    uid = both.createConstraint(body, -1, -1, -1, p.JOINT_PRISMATIC, [1, 2, 3], ZERO, ZERO, frame, there)[0]
    both.applyExternalForce(body, -1, [20.0, 30.0, 50.0], ZERO, p.WORLD_FRAME)
    both.step()
    agree(both, [body], uid)


@pytest.mark.parametrize("moved", [False, True])
def test_moments_stay_as_they_were_told_when_the_scene_grows(both, moved):
    """Of links that turn, in the frame that was at the start of the step."""
    pair = [cube(both, ZERO, turn=p.getQuaternionFromEuler([0.3, 0.5, 0.7])) for _ in range(2)]
    both.setCollisionFilterPair(*pair, -1, -1, 0)
    uid = both.createConstraint(pair[0], -1, pair[1], -1, p.JOINT_FIXED, ZERO, ZERO, ZERO)[0]
    for body in pair:
        both.resetBaseVelocity(body, ZERO, [20.0, -10.0, 5.0])
    both.applyExternalTorque(pair[0], -1, [1.0, 0.3, -0.2], p.WORLD_FRAME)
    both.step()
    agree(both, pair, uid)
    told = both.getConstraintState(uid)[1]
    if moved:
        both.resetBasePositionAndOrientation(pair[0], ZERO, [0.0, 0.0, 0.0, 1.0])
    both.createMultiBody(
        1.0,
        linkMasses=[1.0] * 9,
        linkCollisionShapeIndices=[-1] * 9,
        linkVisualShapeIndices=[-1] * 9,
        linkPositions=[[5.0, 0.0, 1.0]] * 9,
        linkOrientations=[[0.0, 0.0, 0.0, 1.0]] * 9,
        linkInertialFramePositions=[ZERO] * 9,
        linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]] * 9,
        linkParentIndices=list(range(9)),
        linkJointTypes=[p.JOINT_REVOLUTE] * 9,
        linkJointAxis=[[0.0, 0.0, 1.0]] * 9,
    )
    both.getBaseVelocity(pair[0])
    assert both.getConstraintState(uid)[1] == pytest.approx(told, abs=1e-6)


def test_a_stretched_linkage_is_not_pulled_violently(both):
    """A pivot out of reach, with force without limit: PyBullet's links fly off at their greatest speed."""
    shape = both.createCollisionShape(p.GEOM_BOX, halfExtents=[0.25, 0.03, 0.03])[0]
    arm = both.createMultiBody(
        0.0,
        linkMasses=[1.0] * 2,
        linkCollisionShapeIndices=[shape] * 2,
        linkVisualShapeIndices=[-1] * 2,
        linkPositions=[ZERO, [0.5, 0.0, 0.0]],
        linkOrientations=[[0.0, 0.0, 0.0, 1.0]] * 2,
        linkInertialFramePositions=[[0.25, 0.0, 0.0]] * 2,
        linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]] * 2,
        linkParentIndices=[0, 1],
        linkJointTypes=[p.JOINT_REVOLUTE] * 2,
        linkJointAxis=[[0.0, 0.0, 1.0]] * 2,
    )[0]
    both.setJointMotorControlArray(arm, [0, 1], p.VELOCITY_CONTROL, forces=[0.0, 0.0])
    both.resetJointState(arm, 0, 0.001)
    both.resetJointState(arm, 1, -0.0015)
    pivots = [0.25, 0.0, 0.0], [1.05, 0.0, 0.0]
    uid = both.createConstraint(arm, 1, -1, -1, p.JOINT_POINT2POINT, ZERO, *pivots)[0]
    both.changeConstraint(uid, maxForce=1e9)
    both.step()
    real, ours = ([state[1] for state in states] for states in both.getJointStates(arm, [0, 1]))
    assert np.abs(real).max() > 50.0
    assert np.sign(real).tolist() == np.sign(ours).tolist()
    assert np.abs(ours).max() < 5.0


def test_forces_of_closed_legs_are_those_that_move_them():
    """Nothing moves across the plane of a minitaur's leg, nor along a leg that is stretched.

    In the plane PyBullet's force is the same. Across it, its sweeps leave some newtons that grow slowly.
    """
    both = Both()
    both.load("plane.urdf")
    robot = both.load("quadruped/minitaur.urdf", [0, 0, 0.3], flags=p.URDF_USE_INERTIA_FROM_FILE)
    infos = both.getJointInfo
    joints = {infos(robot, j)[0][1].decode(): j for j in range(both.getNumJoints(robot)[0])}
    links = {infos(robot, j)[0][12].decode(): j for j in joints.values()}
    for joint in joints.values():
        both.setJointMotorControl2(robot, joint, p.VELOCITY_CONTROL, force=0.0)
    knees = []
    for leg in ("front_left", "front_right", "back_left", "back_right"):
        ends = [links[f"lower_leg_{leg}{side}_link"] for side in "RL"]
        pivots = [0, 0.005, 0.2], [0, 0.01, 0.2]
        knees.append(
            both.createConstraint(robot, ends[0], robot, ends[1], p.JOINT_POINT2POINT, ZERO, *pivots)[0]
        )
    for step in range(121):
        for name, joint in joints.items():
            if name.startswith("motor"):
                target = 1.57 if "left" in name else -1.57
                both.setJointMotorControl2(
                    robot, joint, p.POSITION_CONTROL, target, positionGain=0.1, velocityGain=0.5, force=3.5
                )
        both.step()
        if step % 20 == 0:
            real, ours = map(np.array, both.getConstraintState(knees[0]))
            assert ours[0] == pytest.approx(real[0], abs=0.6), step  # 0.54 in the first step
            assert np.linalg.norm(ours) < 20.0, step
            heights = [answer[0][2] for answer in both.getBasePositionAndOrientation(robot)]
            assert heights[1] == pytest.approx(heights[0], abs=1e-3)
    both.close()


@pytest.mark.parametrize("kind", [*KINDS, p.JOINT_PRISMATIC])
@pytest.mark.parametrize("later", [False, True])
def test_each_world_has_its_own_frames_as_worlds_of_pybullet(kind, later):
    """Of the parent, of the child, and orientations; made before the first step or after it."""
    half = [0.1, 0.2, 0.3]
    at = np.array([[0.0, 0.0, 0.1], [0.05, 0.0, 0.0], [0.0, -0.1, 0.2]])
    to = np.array([[0.0, 0.0, 1.1], [0.06, 0.01, 1.0], [0.0, -0.1, 1.25]])
    turns = np.array([p.getQuaternionFromEuler([0.05 * w, 0.0, 0.1 * w]) for w in range(3)])
    frames = {"childFrameOrientation": turns, "parentFrameOrientation": turns[::-1].copy()}
    if kind == p.JOINT_PRISMATIC:
        frames, turns = {}, np.array([0.0, 0.0, 0.0, 1.0])
    axis = [1, 0, 0] if kind == p.JOINT_PRISMATIC else ZERO

    def start(client):
        client.setGravity(1.0, 0, -9.81)
        shape = client.createCollisionShape(p.GEOM_BOX, halfExtents=half)
        assert client.createMultiBody(2.0, shape, basePosition=[0, 0, 1]) == body
        for _ in range(int(later)):
            client.stepSimulation()

    body = 0
    ours = BulletClient(compat.DIRECT, num_worlds=3, device="cpu")
    start(ours)
    held = ours.createConstraint(body, -1, -1, -1, kind, axis, at, to, **frames)
    info = ours.getConstraintInfo(held)
    assert np.array_equal(info[6], at)
    assert np.array_equal(info[7], to)
    assert np.allclose(info[9], turns)
    for _ in range(30):
        ours.stepSimulation()
    positions, rotations = ours.getBasePositionAndOrientation(body)
    forces = ours.getConstraintState(held)
    for w in range(3):
        real = PyBulletClient(p.DIRECT)
        real.setPhysicsEngineParameter(numSolverIterations=500, solverResidualThreshold=0.0)
        start(real)
        mine = {name: rows[w].tolist() for name, rows in frames.items()}
        constraint = real.createConstraint(
            body, -1, -1, -1, kind, axis, at[w].tolist(), to[w].tolist(), **mine
        )
        for _ in range(30):
            real.stepSimulation()
        place, turn = real.getBasePositionAndOrientation(body)
        assert positions[w] == pytest.approx(place, abs=1e-3)
        assert abs(rotations[w] @ np.array(turn)) == pytest.approx(1.0, abs=1e-4)
        told = np.array(real.getConstraintState(constraint))
        assert forces[w] == pytest.approx(told, abs=0.02 * np.abs(told).max() + 0.05)
        real.disconnect()
    ours.disconnect()


def test_frames_of_other_shapes_are_refused():
    client = BulletClient(compat.DIRECT, num_worlds=3, device="cpu")
    body = client.createMultiBody(1.0)

    def hold(kind=p.JOINT_FIXED, **given):
        frames = {"parentFramePosition": ZERO, "childFramePosition": ZERO, **given}
        return client.createConstraint(body, -1, -1, -1, kind, [1, 0, 0], **frames)

    for given in (
        {"parentFramePosition": np.zeros((2, 3))},
        {"childFramePosition": np.zeros((3, 4))},
        {"childFrameOrientation": np.zeros((4, 4))},
        {"parentFrameOrientation": [0.0, np.nan, 0.0, 1.0]},
    ):
        (name,) = given
        with pytest.raises(compat.error, match=f"Cannot convert {name}. Shapes are"):
            hold(**given)
    turns = np.array([p.getQuaternionFromEuler([0.1 * w, 0.0, 0.0]) for w in range(3)])
    with pytest.raises(compat.error, match="parentFrameOrientation: that of a prismatic joint is the same"):
        hold(p.JOINT_PRISMATIC, parentFrameOrientation=turns)
    assert client.getNumConstraints() == 0
    client.disconnect()


@pytest.mark.parametrize("axis", [[0, 0, 1], [1, 0, 0]], ids=["across its turn", "along"])
@pytest.mark.parametrize("world", [False, True])
def test_slides_that_straighten_a_turned_frame(both, world, axis):
    """The frames turn by half a radian within some steps, at speeds that a row has to be right about."""
    both.setPhysicsEngineParameter(numSolverIterations=1000, solverResidualThreshold=0.0)
    shape = both.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1, 0.15, 0.2])[0]
    bodies = [both.createMultiBody(1.0, shape, basePosition=[0.8 * k, 0.0, 1.0])[0] for k in range(2)]
    child, pivot = (-1, [0.0, 0.0, 1.0]) if world else (bodies[1], [-0.8, 0.0, 0.0])
    frames = (ZERO, pivot, [0, 0, 0, 1], p.getQuaternionFromEuler([0.0, 0.5, 0.0]))
    both.createConstraint(bodies[0], -1, child, -1, p.JOINT_PRISMATIC, axis, *frames)
    for _ in range(3):
        both.step(10)
        for body in bodies:
            real, ours = (np.hstack(pose) for pose in both.getBasePositionAndOrientation(body))
            np.testing.assert_allclose(ours, real, atol=2.0e-4)
