"""Bad input: removed ids, NaN, infinities, wrong lengths and types: what is said, and what the world is then.

PyBullet takes many of these, and its world is spoilt or its process ends. Here whatever is refused is refused
as `error`, or as Python refuses arguments; the world is as before, and steps on.
"""

import math

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

import pybullet_data  # noqa: E402
from full_calls import add_link_on_ball_joint  # noqa: E402

import newtonsim.pybullet_compat as compat  # noqa: E402
from newtonsim.pybullet_compat.surface.signatures import SIGNATURES  # noqa: E402

p = pybullet
DATA = pybullet_data.getDataPath()
NAN, INF = math.nan, math.inf
V, Q = [0.1, 0.2, 0.3], [0.0, 0.0, 0.0, 1.0]
ARM, CUBE, GONE, BALL, HELD = 1, 2, 3, 4, 5
CONSTRAINT = 1
SEVEN = [0.1] * 7

CALLS = {
    "setGravity": {"gravX": 0.0, "gravY": 0.0, "gravZ": -9.0},
    "setTimeStep": {"timeStep": 0.004},
    "setPhysicsEngineParameter": {"fixedTimeStep": 0.005, "numSolverIterations": 30, "erp": 0.1}
    | {"contactERP": 0.1, "globalCFM": 0.0, "restitutionVelocityThreshold": 0.1, "contactSlop": 0.001},
    "setDefaultContactERP": {"defaultContactERP": 0.1},
    "resetBasePositionAndOrientation": {"bodyUniqueId": CUBE, "posObj": V, "ornObj": Q},
    "resetBaseVelocity": {"objectUniqueId": CUBE, "linearVelocity": V, "angularVelocity": V},
    "resetJointState": {"bodyUniqueId": ARM, "jointIndex": 2, "targetValue": 0.3, "targetVelocity": 0.1},
    "resetJointStateMultiDof": {"bodyUniqueId": BALL, "jointIndex": 0, "targetValue": Q, "targetVelocity": V},
    "resetJointStatesMultiDof": {"bodyUniqueId": ARM, "jointIndices": [1, 2]}
    | {"targetValues": [[0.1], [0.2]], "targetVelocities": [[0.1], [0.2]]},
    "enableJointForceTorqueSensor": {"bodyUniqueId": ARM, "jointIndex": 2, "enableSensor": 1},
    "setJointMotorControl2": {"bodyUniqueId": ARM, "jointIndex": 2, "controlMode": p.POSITION_CONTROL}
    | {"targetPosition": 0.1, "targetVelocity": 0.1, "force": 10.0, "positionGain": 0.1, "velocityGain": 0.5}
    | {"maxVelocity": 1.0},
    "setJointMotorControlArray": {"bodyUniqueId": ARM, "jointIndices": [1, 2], "controlMode": 2}
    | {"targetPositions": [0.1, 0.2], "targetVelocities": [0.1, 0.2], "forces": [10.0, 20.0]}
    | {"positionGains": [0.1, 0.2], "velocityGains": [0.1, 0.2]},
    "setJointMotorControlMultiDof": {"bodyUniqueId": BALL, "jointIndex": 0, "controlMode": 2}
    | {"targetPosition": Q, "targetVelocity": V, "force": [1.0, 1.0, 1.0]},
    "changeDynamics": {"bodyUniqueId": CUBE, "linkIndex": -1, "mass": 2.0, "lateralFriction": 0.3}
    | {"restitution": 0.1, "linearDamping": 0.1, "angularDamping": 0.1, "localInertiaDiagonal": V},
    "applyExternalForce": {"objectUniqueId": CUBE, "linkIndex": -1, "forceObj": V, "posObj": V, "flags": 1},
    "applyExternalTorque": {"objectUniqueId": CUBE, "linkIndex": -1, "torqueObj": V, "flags": 1},
    "changeConstraint": {"userConstraintUniqueId": CONSTRAINT, "jointChildPivot": V, "maxForce": 10.0},
    "createConstraint": {"parentBodyUniqueId": CUBE, "parentLinkIndex": -1, "childBodyUniqueId": -1}
    | {"childLinkIndex": -1, "jointType": p.JOINT_FIXED, "jointAxis": [0, 0, 1]}
    | {"parentFramePosition": [0, 0, 0], "childFramePosition": V, "parentFrameOrientation": Q},
    "createCollisionShape": {"shapeType": p.GEOM_BOX, "halfExtents": V, "collisionFramePosition": V},
    "createVisualShape": {"shapeType": p.GEOM_BOX, "halfExtents": V, "rgbaColor": [1, 0, 0, 1]},
    "createMultiBody": {"baseMass": 1.0, "baseCollisionShapeIndex": 1, "basePosition": V}
    | {"baseOrientation": Q, "baseInertialFramePosition": V, "batchPositions": [V, V]},
    "loadURDF": {"fileName": "cube_small.urdf", "basePosition": V, "baseOrientation": Q},
    "calculateInverseDynamics": {"bodyUniqueId": ARM, "objPositions": SEVEN, "objVelocities": SEVEN}
    | {"objAccelerations": SEVEN},
    "calculateJacobian": {"bodyUniqueId": ARM, "linkIndex": 6, "localPosition": [0.0, 0.0, 0.0]}
    | {"objPositions": SEVEN, "objVelocities": SEVEN, "objAccelerations": SEVEN},
    "calculateMassMatrix": {"bodyUniqueId": ARM, "objPositions": SEVEN},
    "getClosestPoints": {"bodyA": CUBE, "bodyB": ARM, "distance": 1.0, "linkIndexA": -1, "linkIndexB": -1},
    "getOverlappingObjects": {"aabbMin": [-1.0] * 3, "aabbMax": [1.0] * 3},
    "rayTest": {"rayFromPosition": [0.0, 0.0, 5.0], "rayToPosition": [0.0, 0.0, -5.0]},
    "setCollisionFilterPair": {"bodyUniqueIdA": CUBE, "bodyUniqueIdB": ARM, "linkIndexA": -1}
    | {"linkIndexB": -1, "enableCollision": 0},
}
"""A good call of each function; one argument after the other is replaced."""


def build(module, client: int) -> None:
    """A plane, an arm, a cube, a ball joint, a cube on a constraint, and the id of a cube that is gone."""
    call = {"physicsClientId": client}
    module.setAdditionalSearchPath(DATA, **call)
    module.setGravity(0.0, 0.0, -9.81, **call)
    module.loadURDF("plane.urdf", **call)
    module.loadURDF("kuka_iiwa/model.urdf", [2, 0, 0], useFixedBase=True, **call)
    for y in (0, 1):
        module.loadURDF("cube_small.urdf", [0, y, 0.5], **call)
    shape = module.createCollisionShape(p.GEOM_SPHERE, radius=0.1, **call)
    add_link_on_ball_joint(module, shape, call)
    module.loadURDF("cube_small.urdf", [0, -1, 0.5], **call)
    module.createConstraint(HELD, -1, -1, -1, p.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, -1, 0.5], **call)
    module.createCollisionShape(p.GEOM_BOX, halfExtents=V, **call)
    module.removeBody(GONE, **call)
    module.stepSimulation(**call)


def bad_values(kind: str, value: object) -> list:
    """What to replace an argument with, by the kind that the table of signatures gives it."""
    if kind == "i":
        return [GONE, -1, -2, 1000, 2**31 - 1, 0.5, None, "1"]
    if kind == "d":
        return [NAN, INF, -INF, -1.0, 0.0, None, "1", [1.0, 2.0]]
    if kind == "s":
        return ["", "nothing", "a\0b", None, 5]
    found = ["", (), None, 5, "abc", {}, [[1, 2, 3]], np.ones((256, 3))]
    if isinstance(value, list) and not isinstance(value[0], list):
        n = len(value)
        found += [value[:-1], [*value, 1.0], [NAN] * n, [INF] * n, ["a"] * n, [None] * n, [value] * n]
        found += [np.ones((256, n)), [1000] * n, [0.5] * n]
    elif isinstance(value, list):
        m = len(value[0])
        found += [value[:-1], [*value, value[0]], [[NAN] * m] * len(value), [["a"] * m] * len(value)]
        found += [[None] * len(value), [[*row, 1.0] for row in value]]
    return found


def bad_calls(name: str) -> list[dict]:
    """The good call of a function with one bad argument, for each argument and value."""
    good = CALLS[name]
    kinds = {parameter.name: parameter.kind for parameter in SIGNATURES[name].parameters}
    return [{**good, key: bad} for key in good for bad in bad_values(kinds[key], good[key])]


def world(client: int) -> tuple:
    """All numbers of a world of ours that a call could change."""
    call = {"physicsClientId": client}
    bodies = [compat.getBodyUniqueId(i, **call) for i in range(compat.getNumBodies(**call))]
    poses = [compat.getBasePositionAndOrientation(body, **call) for body in bodies]
    speeds = [compat.getBaseVelocity(body, **call) for body in bodies]
    joints = [
        [state[:2] for state in compat.getJointStatesMultiDof(body, range(count), **call)]
        for body in bodies
        if (count := compat.getNumJoints(body, **call))
    ]
    settings = sorted(compat.getPhysicsEngineParameters(**call).items())
    return bodies, poses, speeds, joints, settings, compat.getNumConstraints(**call)


def numbers(nested) -> list[float]:
    """All numbers in nested tuples and lists."""
    if isinstance(nested, (tuple, list)):
        return [number for item in nested for number in numbers(item)]
    return [] if isinstance(nested, str) else [float(nested)]


@pytest.fixture
def client():
    """A client of ours with the scene."""
    number = compat.connect(compat.DIRECT)
    build(compat, number)
    yield number
    compat.disconnect(number)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_what_is_refused_changes_nothing_and_the_world_goes_on(client, name):
    saved = compat.saveState(physicsClientId=client)
    for arguments in bad_calls(name):
        before = world(client)
        refusal = None
        try:
            getattr(compat, name)(**arguments, physicsClientId=client)
        except compat.error as problem:
            refusal = problem
        except (TypeError, OverflowError, SystemError) as problem:  # as the real module does
            refusal = problem
        except ValueError as problem:
            if "null character" not in str(problem):
                raise
            refusal = problem
        after = world(client)
        if refusal is not None:
            assert after == before, f"{arguments}: {refusal}"
        compat.stepSimulation(physicsClientId=client)
        assert np.isfinite(numbers(world(client))).all(), arguments
        if after[0] != before[0] or after[4:] != before[4:] or name == "changeDynamics":
            compat.resetSimulation(physicsClientId=client)
            compat.setTimeStep(1.0 / 240.0, physicsClientId=client)
            build(compat, client)
            saved = compat.saveState(physicsClientId=client)
        compat.restoreState(saved, physicsClientId=client)


READERS = {
    "getBodyInfo": {"bodyUniqueId": CUBE},
    "getBasePositionAndOrientation": {"bodyUniqueId": CUBE},
    "getBaseVelocity": {"bodyUniqueId": CUBE},
    "getBodyUniqueId": {"serialIndex": 0},
    "getNumJoints": {"bodyUniqueId": ARM},
    "getJointInfo": {"bodyUniqueId": ARM, "jointIndex": 2},
    "getJointState": {"bodyUniqueId": ARM, "jointIndex": 2},
    "getJointStateMultiDof": {"bodyUniqueId": ARM, "jointIndex": 2},
    "getJointStates": {"bodyUniqueId": ARM, "jointIndices": [1, 2]},
    "getLinkState": {"bodyUniqueId": ARM, "linkIndex": 2},
    "getDynamicsInfo": {"bodyUniqueId": ARM, "linkIndex": 2},
    "getConstraintInfo": {"constraintUniqueId": CONSTRAINT},
    "getConstraintUniqueId": {"serialIndex": 0},
    "getContactPoints": {"bodyA": CUBE, "bodyB": ARM},
    "getCollisionShapeData": {"objectUniqueId": ARM, "linkIndex": 2},
    "computeDofCount": {"bodyUniqueId": ARM},
    "getNumUserData": {"bodyUniqueId": CUBE},
}
SETTERS = {
    "resetBasePositionAndOrientation": {"bodyUniqueId"},
    "resetBaseVelocity": {"objectUniqueId"},
    "resetJointState": {"bodyUniqueId", "jointIndex"},
    "resetJointStateMultiDof": {"bodyUniqueId", "jointIndex"},
    "resetJointStatesMultiDof": {"bodyUniqueId", "targetValues", "targetVelocities"},
    "enableJointForceTorqueSensor": {"bodyUniqueId", "jointIndex"},
    "setJointMotorControl2": {"bodyUniqueId", "jointIndex", "controlMode"},
    "setJointMotorControlArray": {"bodyUniqueId", "controlMode", "targetPositions", "targetVelocities"}
    | {"forces", "positionGains", "velocityGains"},
    "changeDynamics": {"bodyUniqueId"},
    "applyExternalForce": {"objectUniqueId", "flags"},
    "applyExternalTorque": {"objectUniqueId", "flags"},
    "changeConstraint": {"userConstraintUniqueId"},
}
"""Arguments of functions that change something, for which the real module refuses or ignores bad values."""
IDS = [GONE, -1, -2, 1000]
LISTS = [[0.1], [0.1, 0.2, 0.3, 0.4, 0.5], (), 5]


def outcome(module, client: int, name: str, arguments: dict) -> object:
    """What a call answers: the value, or kind and text of the exception."""
    try:
        return getattr(module, name)(**arguments, physicsClientId=client)
    except module.error as problem:
        return "error", str(problem)
    except Exception as problem:
        return type(problem).__name__, str(problem)


@pytest.mark.parametrize("name", [*READERS, *SETTERS])
def test_refusals_are_those_of_the_real_module(name):
    clients = [(module, module.connect(module.DIRECT)) for module in (pybullet, compat)]
    for module, client in clients:
        build(module, client)
    good = READERS.get(name) or CALLS[name]
    for key in SETTERS.get(name, good):
        for bad in LISTS if isinstance(good[key], list) and name in SETTERS else IDS:
            if isinstance(good[key], list) and name in READERS:
                bad = [bad, 1]
            arguments = {**good, key: bad}
            real, ours = (outcome(module, client, name, arguments) for module, client in clients)
            if real is None or isinstance(real, int) or (real and real[0] in ("error", "TypeError")):
                assert ours == real, arguments
            else:
                assert type(ours) is type(real), arguments
                assert len(ours) == len(real), arguments
    for module, client in clients:
        module.disconnect(client)


@pytest.mark.filterwarnings("ignore")
def test_a_pose_for_each_world_is_refused_in_one_world(client):
    """Arrays (W, 3) are for clients of W worlds."""
    many = np.ones((256, 3))
    for call in (
        lambda: compat.createCollisionShape(p.GEOM_BOX, halfExtents=many, physicsClientId=client),
        lambda: compat.createMultiBody(1.0, basePosition=many, physicsClientId=client),
        lambda: compat.loadURDF("cube_small.urdf", many, physicsClientId=client),
        lambda: compat.resetBasePositionAndOrientation(CUBE, many, Q, physicsClientId=client),
        lambda: compat.resetBaseVelocity(CUBE, many, physicsClientId=client),
        lambda: compat.applyExternalForce(CUBE, -1, many, V, 1, physicsClientId=client),
    ):
        with pytest.raises(compat.error):
            call()


def test_numbers_that_single_precision_cannot_hold_are_refused(client):
    at = {"physicsClientId": client}
    ball = compat.createCollisionShape(p.GEOM_SPHERE, radius=1e6, **at)
    giant = compat.createMultiBody(1.0, ball, -1, [1e7, 0, 0], **at)
    refused = {
        "mass must be 0 or from": [{"mass": 1e-19}],
        "mass must be at most 1e.20 in size": [{"mass": 1e21}],
        "localInertiaDiagonal must be 0 or from": [{"localInertiaDiagonal": [1.0, 1.0, 1e31]}],
        "lateralFriction must be at most 1e.20 in size": [{"lateralFriction": 1e21}],
        "jointDamping must be at most 1e.20 in size": [{"jointDamping": 1e21}],
    }
    for message, cases in refused.items():
        for wrong in cases:
            with pytest.raises(compat.error, match=message):
                compat.changeDynamics(CUBE, -1, **wrong, **at)
    with pytest.raises(compat.error, match="moments of inertia"):
        compat.changeDynamics(giant, -1, mass=1e19, **at)
    with pytest.raises(compat.error, match="moments of inertia"):
        compat.createMultiBody(1e19, ball, **at)
    with pytest.raises(compat.error, match=r"baseMass must be at most 1e.20 in size"):
        compat.createMultiBody(1e21, ball, **at)
    with pytest.raises(compat.error, match="masses must be 0"):
        compat.createMultiBody(1e-19, ball, **at)
    with pytest.raises(compat.error, match="timeStep must be at most"):
        compat.setTimeStep(1001.0, **at)
    compat.stepSimulation(**at)
    assert np.isfinite(compat.getBasePositionAndOrientation(giant, **at)[0]).all()


@pytest.mark.parametrize("half", [(0.1, 1e-6, 1e-6), (0.1, 1e5, 0.3), (0.1, 0.2, -0.3)])
def test_boxes_of_odd_sizes_fall(half):
    """Needles and walls have moments that single precision cannot tell from 0; signs do not count."""
    client = compat.connect(compat.DIRECT)
    call = {"physicsClientId": client}
    try:
        compat.setGravity(0.0, 0.0, -10.0, **call)
        shape = compat.createCollisionShape(compat.GEOM_BOX, halfExtents=half, **call)
        body = compat.createMultiBody(1.0, shape, basePosition=[0.0, 0.0, 1.0], **call)
        moments = [(np.sum(np.square(half)) - x * x) / 3.0 for x in half]
        np.testing.assert_allclose(compat.getDynamicsInfo(body, -1, **call)[2], moments, rtol=1e-6)
        compat.resetBaseVelocity(body, [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], **call)
        for _ in range(24):
            compat.stepSimulation(**call)
        fallen = 10.0 / 240.0**2 * 24 * 25 / 2
        height = compat.getBasePositionAndOrientation(body, **call)[0][2]
        assert height == pytest.approx(1.0 - fallen, rel=5e-3)
        assert np.isfinite(compat.getBaseVelocity(body, **call)).all()
    finally:
        compat.disconnect(client)


def test_gravity_and_time_steps_are_bounded_and_steps_go_on(client):
    for wrong in (1e-40, 1e-13, 1e30):
        with pytest.raises(compat.error, match="timeStep must be at"):
            compat.setTimeStep(wrong, physicsClientId=client)
    with pytest.raises(compat.error, match=r"gravity must be at most 1e.12 m/s\^2"):
        compat.setGravity(0.0, 0.0, 1e15, physicsClientId=client)
    compat.stepSimulation(physicsClientId=client)


def test_a_zero_quaternion_and_a_restitution_above_one_leave_a_world_that_steps():
    client = compat.connect(compat.DIRECT)
    at = {"physicsClientId": client}
    shape = compat.createCollisionShape(compat.GEOM_SPHERE, radius=0.1, **at)
    ball = compat.createMultiBody(
        1.0, shape, linkMasses=[1.0], linkCollisionShapeIndices=[shape], linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0, 0.5]], linkOrientations=[[0, 0, 0, 1]], linkInertialFramePositions=[[0, 0, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]], linkParentIndices=[0],
        linkJointTypes=[compat.JOINT_SPHERICAL], linkJointAxis=[[0, 0, 1]], **at,
    )  # fmt: skip
    compat.resetJointStateMultiDof(ball, 0, [0, 0, 0, 0], **at)
    with pytest.raises(compat.error, match="restitution must be from 0 to 1"):
        compat.changeDynamics(ball, -1, restitution=1.5, **at)
    compat.applyExternalForce(ball, 0, [0, 0, 1], [0, 0, 0], compat.LINK_FRAME, **at)
    compat.stepSimulation(**at)
    assert np.linalg.norm(compat.getJointStateMultiDof(ball, 0, **at)[0]) == pytest.approx(1.0, abs=1e-5)
    compat.disconnect(client)


def test_errors_of_the_solver_s_options_name_the_argument(client):
    for name in ("erp", "contactERP"):
        with pytest.raises(compat.error, match=rf"^{name}: expected a number from 0 to 1, got 2\.0$"):
            compat.setPhysicsEngineParameter(**{name: 2.0}, physicsClientId=client)
    compat.stepSimulation(physicsClientId=client)


def test_a_plane_with_mass_beside_its_origin_falls_without_turning(client):
    at = {"physicsClientId": client}
    shape = compat.createCollisionShape(p.GEOM_PLANE, **at)
    frame = {"basePosition": [0.0, 0.0, -500.0], "baseInertialFramePosition": V}
    plane = compat.createMultiBody(1.0, shape, **frame, **at)
    compat.changeDynamics(plane, -1, linearDamping=0.0, **at)
    compat.setGravity(0.0, 0.0, -10.0, **at)
    for _ in range(24):
        compat.stepSimulation(**at)
    position, turned = compat.getBasePositionAndOrientation(plane, **at)
    fallen = 10.0 / 240.0**2 * 24 * 25 / 2
    np.testing.assert_allclose(position, [V[0], V[1], V[2] - 500.0 - fallen], rtol=0.0, atol=1e-4)
    assert turned == (0.0, 0.0, 0.0, 1.0)


TURNED_ABOUT_NOTHING = """<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="turn" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 0"/>
  <limit effort="1" velocity="1" lower="0" upper="1"/></joint></robot>"""


def test_a_joint_about_an_axis_of_length_zero_is_refused_when_it_is_loaded(client, tmp_path):
    at = {"physicsClientId": client}
    (tmp_path / "turn.urdf").write_text(TURNED_ABOUT_NOTHING)
    count = compat.getNumBodies(**at)
    with pytest.raises(compat.error, match="joint 'turn': the axis has length zero"):
        compat.loadURDF(str(tmp_path / "turn.urdf"), **at)
    assert compat.getNumBodies(**at) == count
    compat.stepSimulation(**at)


def test_a_jacobian_at_no_point_is_refused_by_name(client):
    for wrong, message in (([0.0, NAN, 0.0], "is not a number"), ([0.0, INF, 0.0], "must be finite")):
        with pytest.raises(compat.error, match=f"localPosition {message}"):
            compat.calculateJacobian(ARM, 6, wrong, SEVEN, SEVEN, SEVEN, physicsClientId=client)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("points", "indices"),
    [([V], None), ([V, Q[:3]], None), ([V, Q[:3], [1.0, 0.0, 0.0]], []), ([V] * 3, [0, 1, 2])],
)
def test_meshes_of_few_points_are_where_those_of_pybullet_are(points, indices):
    boxes = []
    for module in (p, compat):
        at = {"physicsClientId": module.connect(module.DIRECT)}
        mesh = {"vertices": points} | ({} if indices is None else {"indices": indices})
        body = module.createMultiBody(1.0, module.createCollisionShape(p.GEOM_MESH, **mesh, **at), **at)
        module.stepSimulation(**at)
        boxes.append(module.getAABB(body, **at))
        module.disconnect(**at)
    np.testing.assert_allclose(boxes[1], boxes[0], rtol=0.0, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_meshes_with_less_than_a_triangle_are_refused_when_they_are_made(client):
    """PyBullet's process ends at the step."""
    for make in (compat.createCollisionShape, compat.createVisualShape):
        with pytest.raises(compat.error, match=f"{make.__name__} failed"):
            make(p.GEOM_MESH, vertices=[V, V, V], indices=[0, 1], physicsClientId=client)


def test_infinite_angles_turn_by_no_number_as_in_pybullet():
    calls = {
        "getQuaternionFromEuler": [([INF, 0.0, 0.0],), ([0.0, -INF, 0.0],)],
        "getQuaternionFromAxisAngle": [([0.0, 0.0, 1.0], INF)],
        "getQuaternionSlerp": [(Q, [0.0, 0.6, 0.0, 0.8], INF), (Q, Q, INF), (Q, [INF, 0.0, 0.0, 1.0], 0.5)],
        "computeViewMatrixFromYawPitchRoll": [([0.0, 0.0, 0.0], 1.0, INF, 0.0, 0.0, 2)],
        "computeProjectionMatrixFOV": [(INF, 1.0, 0.1, 9.0)],
    }
    for name, cases in calls.items():
        for arguments in cases:
            ours, theirs = (getattr(module, name)(*arguments) for module in (compat, p))
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7, err_msg=name)
