"""Soft bodies against PyBullet, and against what is known of them."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")
p = pybullet

import pybullet_data  # noqa: E402

import newtonsim.pybullet_compat as compat  # noqa: E402
from newtonsim.pybullet_compat.clients.table import TABLE  # noqa: E402

CLOTH = {"scale": 0.5, "mass": 1.0, "useMassSpring": 1, "springDampingAllDirections": 1}
CORNERS = (15, 19, 20, 24)
_CUBE = np.array([[0, 1, 3, 4], [1, 2, 3, 6], [1, 4, 5, 6], [3, 4, 6, 7], [1, 3, 4, 6]])


@pytest.fixture
def soft(both):
    """Two empty deformable worlds with gravity."""
    both.resetSimulation(p.RESET_USE_DEFORMABLE_WORLD)
    both.setGravity(0.0, 0.0, -10.0)
    return both


def points(both, body) -> np.ndarray:
    """Simulated points in both worlds (2, n, 3)."""
    return np.array([answer[1] for answer in both.getMeshData(body, flags=p.MESH_DATA_SIMULATION_MESH)])


def cloth(both, position=(0.0, 0.0, 2.0), **options) -> int:
    """The same cloth in both worlds."""
    real, ours = both.loadSoftBody("cloth_z_up.obj", basePosition=position, **{**CLOTH, **options})
    assert real == ours
    return real


def block(path, cells: int = 4, size: float = 1.0) -> str:
    """Write a block of tetrahedra about the origin; returns the name of the file."""
    line = range(cells + 1)
    at = [(x, y, z) for z in line for y in line for x in line]
    number = {key: k for k, key in enumerate(at)}
    rows = []
    for x, y, z in at:
        if cells not in (x, y, z):
            ring = [(0, 0), (1, 0), (1, 1), (0, 1)]
            eight = [number[x + i, y + j, z + k] for k in (0, 1) for i, j in ring]
            if (x + y + z) % 2:  # mirrored, so that the diagonals of neighbours meet
                eight = [eight[k] for k in (1, 0, 3, 2, 5, 4, 7, 6)]
            rows += [[eight[k] for k in four] for four in _CUBE.tolist()]
    corners = (np.array(at) / cells - 0.5) * size
    for row in rows:
        a, b, c, d = corners[row]
        if np.dot(np.cross(b - a, c - a), d - a) < 0.0:
            row[0], row[1] = row[1], row[0]
    return _write(path, corners, rows)


def _write(path, corners: np.ndarray, tetrahedra: list) -> str:
    text = ["# vtk DataFile Version 2.0", "test", "ASCII", "DATASET UNSTRUCTURED_GRID"]
    text += [f"POINTS {len(corners)} double", *(" ".join(map(str, point)) for point in corners.tolist())]
    text += [f"CELLS {len(tetrahedra)} {5 * len(tetrahedra)}"]
    text += ["4 " + " ".join(map(str, row)) for row in tetrahedra]
    text += [f"CELL_TYPES {len(tetrahedra)}", *["10"] * len(tetrahedra)]
    path.write_text("\n".join(text) + "\n")
    return str(path)


def plate(both, position=(0.0, 0.0, -0.5), half=(3.0, 3.0, 0.5), mass=0.0) -> int:
    """A box in both worlds."""
    shape = both.createCollisionShape(p.GEOM_BOX, halfExtents=half)[0]
    real, ours = both.createMultiBody(mass, shape, basePosition=position)
    assert real == ours
    return real


def test_what_a_soft_body_answers(soft):
    """Names, numbers, order of points and triangles: exactly; poses to 1e-6."""
    plate(soft)
    turned = (0.5, 0.5, 0.5, 0.5)
    body = cloth(soft, (1.0, 2.0, 3.0), baseOrientation=turned, springElasticStiffness=40.0)
    soft.same("getBodyInfo", body)
    soft.same("getNumJoints", body)
    soft.same("getNumBodies")
    soft.same("getBodyUniqueId", 1)
    soft.same("getMeshData", body, flags=p.MESH_DATA_SIMULATION_MESH)
    soft.same("getBasePositionAndOrientation", body)
    assert [info[10] for info in soft.getDynamicsInfo(body, -1)] == [3, 3]
    soft.step()
    soft.same("getMeshData", body, tolerance=1e-5)
    soft.same("getMeshData", body, flags=p.MESH_DATA_SIMULATION_MESH, tolerance=1e-5)
    soft.same("getAABB", body, tolerance=1e-3)
    assert compat.getTetraMeshData(body) == compat.getMeshData(body, flags=p.MESH_DATA_SIMULATION_MESH)
    with pytest.raises(compat.error, match="getTetraMeshData failed"):
        compat.getTetraMeshData(0)


def test_triangles_of_volumes_have_the_same_order(soft, tmp_path):
    name = block(tmp_path / "block.vtk", 2)
    real, ours = soft.loadSoftBody(name, useNeoHookean=1)
    assert real == ours
    soft.step()
    soft.same("getMeshData", real, tolerance=1e-5)
    soft.same("getBodyInfo", real)


def test_a_seen_mesh_follows_the_simulated_one(soft, tmp_path):
    name = block(tmp_path / "block.vtk", 2)
    arguments = {"simFileName": name, "useNeoHookean": 1, "NeoHookeanMu": 1e3, "NeoHookeanLambda": 1e3}
    (tmp_path / "seen.obj").write_text("v 0.1 0 0\nv 0 0.2 0.3\nv -0.4 0 0.1\nv 0 0 0\nf 3 2 1\nf 1 2 4\n")
    body = soft.loadSoftBody(str(tmp_path / "seen.obj"), basePosition=(0, 0, 1), **arguments)[0]
    soft.step(24)
    soft.same("getMeshData", body, tolerance=1e-4)
    soft.same("getBodyInfo", body)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("loadSoftBody", ("no_such_file.obj",)),
        ("createSoftBodyAnchor", (1, 25)),
        ("createSoftBodyAnchor", (0, 1)),
        ("createSoftBodyAnchor", (7, 1)),
        ("getMeshData", (7,)),
        ("resetMeshData", (1, [[0.0, 0.0, 0.0]])),
        ("resetMeshData", (1, 5)),
        ("resetMeshData", (0, [[0.0, 0.0, 0.0]])),
    ],
)
def test_wrong_arguments_raise_the_same_error(soft, function, arguments):
    plate(soft)
    cloth(soft)
    messages = []
    for module, client in zip((pybullet, compat), soft.ids):
        with pytest.raises(module.error) as caught:
            getattr(module, function)(*arguments, physicsClientId=client)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("wrong", [{"mass": -1.0}, {"collisionMargin": np.nan}, {"scale": 0.0}], ids=str)
def test_impossible_numbers_are_named(wrong):
    client = compat.connect(compat.DIRECT)
    try:
        compat.setAdditionalSearchPath(pybullet_data.getDataPath())
        with pytest.raises(compat.error, match=next(iter(wrong))):
            compat.loadSoftBody("cloth_z_up.obj", **wrong)
        assert compat.getNumBodies() == 0
        body = compat.loadSoftBody("cloth_z_up.obj")
        with pytest.raises(compat.error, match="resetMeshData failed"):
            compat.resetMeshData(body, np.full((25, 3), np.nan))
    finally:
        compat.disconnect(client)


def test_free_fall(soft):
    """As rigid bodies of an engine that updates velocities first fall: g h² n (n + 1) / 2."""
    body = cloth(soft, springElasticStiffness=40.0)
    soft.step(120)
    fallen = 2.0 - points(soft, body)[:, :, 2]
    assert np.abs(fallen - 10.0 / 240.0**2 * 120 * 121 / 2).max() < 1e-4


@pytest.mark.parametrize("stiffness", [40.0, 400.0])
def test_hanging_cloth_sags_the_same_way(soft, stiffness):
    """2 cm on the way down, where the sag is 10 to 45 cm, and 5 mm at rest."""
    body = cloth(soft, springElasticStiffness=stiffness, springDampingStiffness=0.5)
    for corner in CORNERS:
        soft.createSoftBodyAnchor(body, corner)
    for _ in range(6):
        soft.step(40)
        real, ours = points(soft, body)
        assert np.abs(real - ours).max() < 0.02
    soft.step(600)
    real, ours = points(soft, body)
    assert np.abs(real - ours).max() < 5e-3


def test_bending_springs_carry(soft):
    """Cloth held on one side; without springs between points two edges apart it would hang down."""
    body = cloth(soft, springElasticStiffness=100.0, springDampingStiffness=1.0, springBendingStiffness=20.0)
    high = np.flatnonzero(points(soft, body)[0][:, 0] > 0.2)
    for node in high.tolist():
        soft.createSoftBodyAnchor(body, node)
    for _ in range(6):
        soft.step(30)
        real, ours = points(soft, body)
        assert np.abs(real - ours).max() < 0.02
    assert 2.0 - ours[:, 2].min() < 0.5


@pytest.mark.parametrize("stiffness", [0.1, 40.0])
def test_position_based_cloth_does_not_stretch(both, stiffness):
    """In a world that is not deformable the stiffness has no effect; the sag is below 4 cm in 50."""
    both.setGravity(0.0, 0.0, -10.0)
    body = cloth(both, springElasticStiffness=stiffness)
    for corner in CORNERS:
        both.createSoftBodyAnchor(body, corner)
    both.step(240)
    real, ours = points(both, body)
    assert 0.005 < 2.0 - ours[:, 2].min() < 0.04
    assert abs(real[:, 2].min() - ours[:, 2].min()) < 0.02


def test_cloth_lies_on_the_ground(soft):
    soft.load("plane.urdf")
    body = cloth(soft, (0.0, 0.0, 0.3), springElasticStiffness=40.0, frictionCoeff=0.5)
    soft.step(240)
    real, ours = points(soft, body)
    assert np.abs(real[:, 2] - ours[:, 2]).max() < 0.01
    assert np.abs(ours[:, 2] - 0.02).max() < 1e-3


def test_cloth_over_a_sphere(soft):
    """Wide triangles on a small sphere: their inside carries, the points stay above it."""
    ball = soft.createCollisionShape(p.GEOM_SPHERE, radius=0.3)[0]
    soft.createMultiBody(0, ball, basePosition=[0.0, 0.0, 0.5])
    options = {"springElasticStiffness": 40.0, "collisionMargin": 0.04, "frictionCoeff": 0.5}
    body = cloth(soft, (0.0, 0.0, 1.0), springDampingStiffness=0.1, **options)
    soft.step(480)
    real, ours = points(soft, body)
    for measure in (np.min, np.max, np.mean):
        assert abs(measure(real[:, 2]) - measure(ours[:, 2])) < 0.01


@pytest.mark.parametrize("pull", [(0, 0, -100), (0, 0, 150), (20, 0, 0), (60, 0, -40)], ids=str)
@pytest.mark.parametrize("moduli", [(1000.0, 1000.0), (1000.0, 5000.0)], ids=str)
def test_stress_of_a_tetrahedron(soft, tmp_path, moduli, pull):
    """One corner of a tetrahedron that is held at the others, under its weight, to 0.3 %."""
    name = _write(tmp_path / "one.vtk", np.concatenate([np.zeros((1, 3)), np.eye(3)]), [[0, 1, 2, 3]])
    arguments = {"useNeoHookean": 1, "NeoHookeanMu": moduli[0], "NeoHookeanLambda": moduli[1]}
    soft.setGravity(*pull)
    body = soft.loadSoftBody(name, mass=4.0, NeoHookeanDamping=0.1, collisionMargin=0.001, **arguments)[0]
    for node in (0, 1, 2):
        soft.createSoftBodyAnchor(body, node)
    soft.step(720)
    real, ours = points(soft, body)
    assert np.abs(real - ours).max() < 3e-3
    assert np.abs(ours[3] - [0.0, 0.0, 1.0]).max() > 0.05


def test_a_cube_rests_on_a_soft_block(soft, tmp_path):
    plate(soft)
    moduli = {"NeoHookeanMu": 2000.0, "NeoHookeanLambda": 4000.0, "NeoHookeanDamping": 0.1}
    options = {"mass": 2.0, "useNeoHookean": 1, "collisionMargin": 0.01, "frictionCoeff": 0.5, **moduli}
    body = soft.loadSoftBody(block(tmp_path / "block.vtk"), basePosition=[0, 0, 0.52], **options)[0]
    cube = plate(soft, (0.0, 0.0, 1.2), (0.3, 0.3, 0.1), 2.0)
    soft.step(480)
    real, ours = (answer[0][2] for answer in soft.getBasePositionAndOrientation(cube))
    assert abs(real - ours) < 0.01
    real, ours = points(soft, body)
    assert abs(real[:, 2].mean() - ours[:, 2].mean()) < 0.01


def test_a_soft_block_bounces_and_rests(soft, tmp_path):
    """Dropped from 30 cm: 2 cm apart after the impact, 3 mm at rest, 2 cm lower than if it were rigid."""
    plate(soft)
    moduli = {"NeoHookeanMu": 180.0, "NeoHookeanLambda": 600.0, "NeoHookeanDamping": 0.05}
    options = {"mass": 3.0, "useNeoHookean": 1, "collisionMargin": 0.006, "frictionCoeff": 0.5, **moduli}
    body = soft.loadSoftBody(block(tmp_path / "block.vtk"), basePosition=[0, 0, 0.8], **options)[0]
    soft.step(72)
    real, ours = points(soft, body)[:, :, 2].mean(axis=1)
    assert abs(real - ours) < 0.02
    soft.step(720)
    real, ours = points(soft, body)[:, :, 2].mean(axis=1)
    assert ours < 0.49
    assert abs(real - ours) < 3e-3


def test_cloth_on_other_shapes(soft):
    """A convex mesh and a capsule that lies: 1 cm."""
    hull = soft.createCollisionShape(
        p.GEOM_MESH, fileName=pybullet_data.getDataPath() + "/cube.obj", meshScale=[2.0, 2.0, 0.5]
    )[0]
    soft.createMultiBody(0, hull, basePosition=[0.0, 0.0, -0.25])
    capsule = soft.createCollisionShape(p.GEOM_CAPSULE, radius=0.3, height=2.0)[0]
    across = [0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)]
    soft.createMultiBody(0, capsule, basePosition=[5.0, 0.0, -0.3], baseOrientation=across)
    options = {"springElasticStiffness": 40.0, "springDampingStiffness": 0.3, "frictionCoeff": 0.5}
    bodies = [cloth(soft, (x, 0.0, 0.3), **options) for x in (0.0, 5.0)]
    for _ in range(3):
        soft.step(60)
        for body in bodies:
            real, ours = points(soft, body)
            assert abs(real[:, 2].mean() - ours[:, 2].mean()) < 0.01
            assert abs(real[:, 2].min() - ours[:, 2].min()) < 0.015


@pytest.mark.parametrize("reach", [0.1, 0.6])
def test_a_robot_holds_a_cloth(reach: float):
    """Draped over the arm, or beside it: the held point stays at the hand to 1 mm, the arm carries 1 kg.

    What hangs beside the arm is carried by the hand alone.
    """
    client = compat.connect(compat.DIRECT)
    try:
        compat.setAdditionalSearchPath(pybullet_data.getDataPath())
        compat.resetSimulation(compat.RESET_USE_DEFORMABLE_WORLD)
        compat.setGravity(0.0, 0.0, -10.0)
        arm = compat.loadURDF("kuka_iiwa/model.urdf", [0.0, 0.0, 1.0], useFixedBase=True)
        compat.resetJointState(arm, 3, -1.0)
        hand = np.array(compat.getLinkState(arm, 6)[0])
        body = compat.loadSoftBody("cloth_z_up.obj", hand.tolist(), **CLOTH, springElasticStiffness=200.0)
        start = np.array(compat.getTetraMeshData(body)[1])
        node = int(np.argmin(np.linalg.norm(start - hand, axis=1)))
        compat.createSoftBodyAnchor(body, node, arm, 6, [0.0, 0.0, reach])
        carrying = (0,) if reach < 0.5 else (0, 6)
        for joint in carrying:
            compat.enableJointForceTorqueSensor(arm, joint)
        loads = []
        for step in range(720):
            compat.stepSimulation()
            if step >= 600:
                loads.append([np.linalg.norm(compat.getJointState(arm, joint)[2][:3]) for joint in carrying])
        position, rotation = compat.getLinkState(arm, 6)[:2]
        goal = compat.multiplyTransforms(position, rotation, [0.0, 0.0, reach], [0.0, 0.0, 0.0, 1.0])[0]
        assert np.linalg.norm(np.array(compat.getTetraMeshData(body)[1][node]) - goal) < 1e-3
        links = [compat.getDynamicsInfo(arm, link)[0] for link in range(compat.getNumJoints(arm))]
        weights = [10.0 * (1.0 + sum(links[joint:])) for joint in carrying]
        assert np.abs(np.mean(loads, axis=0) - weights).max() < 0.1
        assert np.std(loads, axis=0).max() < 0.1
    finally:
        compat.disconnect(client)


def test_soft_bodies_lie_on_each_other(soft):
    """Two cloths, the sum of their margins apart: 4 mm from PyBullet where its repulsion is stiff."""
    plate(soft)
    options = {"springElasticStiffness": 40.0, "springDampingStiffness": 0.3, "frictionCoeff": 0.5}
    options |= {"useFaceContact": 1, "useSelfCollision": 1, "repulsionStiffness": 800.0}
    cloth(soft, (0.0, 0.0, 0.1), **options)
    upper = cloth(soft, (0.013, 0.017, 0.4), **options)
    soft.step(480)
    real, ours = points(soft, upper)
    assert abs(ours[:, 2].mean() - 0.06) < 1e-3
    assert abs(real[:, 2].mean() - ours[:, 2].mean()) < 4e-3


@pytest.mark.parametrize("meets_itself", [False, True])
def test_a_folded_cloth_meets_itself_if_asked(meets_itself):
    """One half falls on the other: through it, or twice its margin above it, where PyBullet soon sinks in."""
    client = compat.connect(compat.DIRECT)
    try:
        compat.setAdditionalSearchPath(pybullet_data.getDataPath())
        compat.resetSimulation(compat.RESET_USE_DEFORMABLE_WORLD)
        compat.setGravity(0.0, 0.0, -10.0)
        compat.createMultiBody(
            0.0, compat.createCollisionShape(compat.GEOM_BOX, halfExtents=[3.0, 3.0, 0.02])
        )
        options = {"springElasticStiffness": 40.0, "springDampingStiffness": 0.3, "frictionCoeff": 0.5}
        options["useSelfCollision"] = int(meets_itself)
        body = compat.loadSoftBody("cloth_z_up.obj", [0.0, 0.0, 0.06], **CLOTH, **options)
        x = np.array(compat.getTetraMeshData(body)[1])
        upper = x[:, 0] > 0.01
        x[upper, 0] = 0.1 - x[upper, 0]
        x[upper, 2] += 0.15
        compat.resetMeshData(body, x.tolist())
        for _ in range(480):
            compat.stepSimulation()
        height = np.array(compat.getTetraMeshData(body)[1])[:, 2]
        assert np.abs(height[~upper] - 0.04).max() < 2e-3
        if meets_itself:
            assert 0.065 < height[upper].min() < height[upper].max() < 0.085
        else:
            assert np.abs(height[upper] - 0.04).max() < 2e-3
    finally:
        compat.disconnect(client)


@pytest.mark.parametrize(("cloth_mu", "ground_mu"), [(0.5, 0.5), (0.0, 1.0), (1.0, 0.3), (0.8, 0.9)])
def test_sliding_friction_is_the_product(soft, cloth_mu, ground_mu):
    """Cloth that is pulled by 4 m/s² along and pressed by 10 m/s² against the ground: 2 mm from the law of
    Coulomb, and 3 cm from PyBullet, which holds it less at first.
    """
    ground = plate(soft)
    soft.changeDynamics(ground, -1, lateralFriction=ground_mu)
    body = cloth(soft, (0.0, 0.0, 0.021), springElasticStiffness=40.0, frictionCoeff=cloth_mu)
    soft.step(120)
    start = points(soft, body)[:, :, 0].mean(axis=1)
    soft.setGravity(4.0, 0.0, -10.0)
    soft.step(120)
    moved = points(soft, body)[:, :, 0].mean(axis=1) - start
    expected = max(4.0 - 10.0 * cloth_mu * ground_mu, 0.0) * 120 * 121 / 2 / 240**2
    assert abs(moved[1] - expected) < 2e-3
    assert abs(moved[0] - moved[1]) < 0.03


def test_a_rigid_body_hangs_on_a_cloth(soft):
    """The box swings with a period of seconds, over more than a metre: 5 cm apart after 0.6 s."""
    box = soft.load("cube.urdf", [0, 1, 2], useMaximalCoordinates=True)
    body = cloth(soft, springElasticStiffness=40.0, springDampingStiffness=0.1, frictionCoeff=0.5)
    names = list(points(soft, body)[0].round(3).tolist())
    left, right = names.index([-0.5, 0.5, 2.0]), names.index([0.5, 0.5, 2.0])
    for anchor in ((names.index([-0.5, -0.5, 2.0]),), (names.index([0.5, -0.5, 2.0]),)):
        soft.createSoftBodyAnchor(body, *anchor)
    soft.createSoftBodyAnchor(body, right, box, -1, [0.5, -0.5, 0.0])
    soft.createSoftBodyAnchor(body, left, box, -1, [-0.5, -0.5, 0.0])
    soft.same("getNumConstraints")
    soft.step(144)
    real, ours = (np.array(answer[0]) for answer in soft.getBasePositionAndOrientation(box))
    assert np.linalg.norm(real - [0.0, 1.0, 2.0]) > 0.5
    assert np.abs(real - ours).max() < 0.05


def test_a_ball_on_a_trampoline(soft):
    """It falls 10 cm, sinks in by 14 cm and comes up again: 6 cm apart in half a second."""
    options = {"springElasticStiffness": 400.0, "springDampingStiffness": 0.05, "frictionCoeff": 0.5}
    body = cloth(soft, (0.0, 0.0, 1.0), **options)
    start = points(soft, body)[0]
    for node in np.flatnonzero((np.abs(start[:, :2]) > 0.45).all(axis=1)).tolist():
        soft.createSoftBodyAnchor(body, node)
    shape = soft.createCollisionShape(p.GEOM_SPHERE, radius=0.2)[0]
    ball = soft.createMultiBody(1.0, shape, basePosition=[0.0, 0.0, 1.3])[0]
    heights = []
    for _ in range(8):
        soft.step(15)
        heights.append([answer[0][2] for answer in soft.getBasePositionAndOrientation(ball)])
    real, ours = np.array(heights).T
    assert ours.min() < 0.9
    assert ours[-1] > ours.min() + 0.1
    assert np.abs(real - ours).max() < 0.06


def test_points_and_bodies_exchange_momentum():
    """A cloth flies into a free box without gravity: the total momentum stays, and the box is moved."""
    client = compat.connect(compat.DIRECT)
    try:
        compat.setAdditionalSearchPath(pybullet_data.getDataPath())
        compat.resetSimulation(compat.RESET_USE_DEFORMABLE_WORLD)
        shape = compat.createCollisionShape(compat.GEOM_BOX, halfExtents=[0.3, 0.3, 0.1])
        box = compat.createMultiBody(2.0, shape, basePosition=[0.1, 0.05, -0.2])
        compat.changeDynamics(box, -1, linearDamping=0.0, angularDamping=0.0)
        options = {**CLOTH, "springElasticStiffness": 40.0, "frictionCoeff": 0.5}
        body = compat.loadSoftBody("cloth_z_up.obj", **options)
        compat.resetBaseVelocity(body, [0.3, 0.0, -1.0])
        for _ in range(120):
            compat.stepSimulation()
        hit = np.array(compat.getBaseVelocity(box)[0])
        momentum = 2.0 * hit + np.array(compat.getBaseVelocity(body)[0])
        assert hit[2] < -0.1
        assert hit[0] > 0.01
        assert np.abs(momentum - [0.3, 0.0, -1.0]).max() < 1e-3
    finally:
        compat.disconnect(client)


def test_anchors_let_go(soft):
    body = cloth(soft, springElasticStiffness=40.0)
    anchors = [soft.createSoftBodyAnchor(body, node) for node in (15, 19)]
    assert anchors == [(1, 1), (2, 2)]
    soft.step(50)
    assert np.abs(points(soft, body)[:, 15] - points(soft, body)[0, 15]).max() < 1e-6
    for real, ours in anchors:
        assert real == ours
        soft.removeConstraint(real)
    soft.same("getNumConstraints")
    held = points(soft, body)[:, 15, 2]
    soft.step(50)
    assert (points(soft, body)[:, 15, 2] < held - 0.1).all()
    assert soft.createSoftBodyAnchor(body, 3) == (3, 3)


def test_bodies_are_moved_and_removed(soft):
    body = cloth(soft, springElasticStiffness=40.0)
    soft.resetBasePositionAndOrientation(body, [0.0, 1.0, 5.0], [0.0, 0.0, 0.6, 0.8])
    soft.same("getBasePositionAndOrientation", body)
    soft.same("getMeshData", body, flags=p.MESH_DATA_SIMULATION_MESH)
    soft.resetBaseVelocity(body, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    soft.step()
    soft.same("getMeshData", body, flags=p.MESH_DATA_SIMULATION_MESH, tolerance=1e-4)
    shape = points(soft, body)[0] + [0.0, 0.0, 1.0]
    soft.resetMeshData(body, shape.tolist())
    assert np.abs(points(soft, body) - shape).max() < 1e-6
    soft.removeBody(body)
    soft.same("getNumBodies")
    assert soft.load("cube.urdf") == body


def test_deformable_of_a_urdf_file(soft, tmp_path):
    block(tmp_path / "block.vtk", 2)
    (tmp_path / "soft.urdf").write_text(
        '<robot name="jelly"><deformable name="jelly"><inertial><mass value="2"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
        '<collision_margin value="0.01"/><friction value="0.5"/>'
        '<neohookean mu="1000" lambda="2000" damping="0.1"/><visual filename="block.vtk"/>'
        "</deformable></robot>"
    )
    plate(soft)
    body = soft.load(str(tmp_path / "soft.urdf"), [0.0, 0.0, 0.8])
    soft.step(20)
    soft.same("getMeshData", body, flags=p.MESH_DATA_SIMULATION_MESH, tolerance=1e-3)
    soft.step(220)
    real, ours = points(soft, body)
    assert abs(real[:, 2].mean() - ours[:, 2].mean()) < 0.01


def test_worlds_and_restored_states_agree_bit_by_bit():
    results = []
    for worlds in (1, 5):
        client = compat.connect(compat.DIRECT, options=f"--num_worlds={worlds} --device=cpu")
        try:
            compat.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=client)
            compat.resetSimulation(compat.RESET_USE_DEFORMABLE_WORLD, physicsClientId=client)
            compat.setGravity(0.0, 0.0, -10.0, physicsClientId=client)
            box = compat.loadURDF("cube.urdf", [0, 0, 1.2], physicsClientId=client)
            options = {**CLOTH, "springElasticStiffness": 400.0, "frictionCoeff": 0.5}
            body = compat.loadSoftBody("cloth_z_up.obj", [0, 0, 2], **options, physicsClientId=client)
            compat.createSoftBodyAnchor(body, 15, box, physicsClientId=client)
            for _ in range(60):
                compat.stepSimulation(physicsClientId=client)
            state = compat.saveState(physicsClientId=client)
            for _ in range(2):
                compat.restoreState(state, physicsClientId=client)
                for _ in range(30):
                    compat.stepSimulation(physicsClientId=client)
                results.append(np.array(compat.getMeshData(body, flags=1, physicsClientId=client)[1]))
            if worlds > 1:
                _check_masked_restore(client, body, state)
        finally:
            compat.disconnect(client)
    assert results[2].shape == (5, 25, 3)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[2], results[3])
    assert np.array_equal(np.broadcast_to(results[0], (5, 25, 3)), results[2])


def _check_masked_restore(client: int, body: int, state: int):
    """Two of five worlds go back to a state, the others stay."""
    before = compat.getMeshData(body, flags=1, physicsClientId=client)[1]
    mask = np.array([False, True, False, True, False])
    TABLE[client].restore_worlds(state, mask)
    after = compat.getMeshData(body, flags=1, physicsClientId=client)[1]
    assert np.array_equal(after[~mask], before[~mask])
    compat.restoreState(state, physicsClientId=client)
    restored = compat.getMeshData(body, flags=1, physicsClientId=client)[1]
    assert np.array_equal(after[mask], restored[mask])
    assert not np.array_equal(before[mask], restored[mask])


def test_a_state_in_a_file_brings_soft_bodies_back(tmp_path):
    client = compat.connect(compat.DIRECT)
    try:
        compat.setAdditionalSearchPath(pybullet_data.getDataPath())
        compat.setGravity(0.0, 0.0, -10.0)
        body = compat.loadSoftBody("cloth_z_up.obj", [0.0, 0.0, 1.0])
        for _ in range(20):
            compat.stepSimulation()
        wanted = compat.getTetraMeshData(body)
        compat.saveBullet(str(tmp_path / "state.bullet"))
        for _ in range(20):
            compat.stepSimulation()
        assert compat.getTetraMeshData(body) != wanted
        compat.restoreState(fileName=str(tmp_path / "state.bullet"))
        assert compat.getTetraMeshData(body) == wanted
    finally:
        compat.disconnect(client)
