"""createCollisionShape, createVisualShape and createMultiBody in the real module and in ours."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

from bound_modules import bind  # noqa: E402
from pybullet_both import DATA, compare  # noqa: E402

import newtonsim.pybullet_compat as compat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
TETRAHEDRON = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
FACES = [0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2]
FRAME = {"collisionFramePosition": [0.1, 0.2, -0.3], "collisionFrameOrientation": [0.1, 0.2, 0.3, 0.9]}
SHAPES = {
    "sphere": {"shapeType": 2, "radius": 0.3},
    "default sphere": {"shapeType": 2},
    "box": {"shapeType": 3, "halfExtents": [0.1, 0.2, 0.3]},
    "box with wrong extents": {"shapeType": 3, "halfExtents": [0.1, 0.2]},
    "capsule": {"shapeType": 7, "radius": 0.1, "height": 0.6},
    "cylinder": {"shapeType": 4, "radius": 0.1, "height": 0.6},
    "plane": {"shapeType": 6, "planeNormal": [0, 2, 0]},
    "placed sphere": {"shapeType": 2, "radius": 0.3, **FRAME},
    "placed box": {"shapeType": 3, "halfExtents": [0.1, 0.2, 0.3], **FRAME},
    "placed capsule": {"shapeType": 7, "radius": 0.1, "height": 0.6, **FRAME},
    "placed cylinder": {"shapeType": 4, "radius": 0.1, "height": 0.6, **FRAME},
    "mesh": {"shapeType": 5, "fileName": "cube.obj", "meshScale": [0.1, 0.2, 0.3]},
    "placed mesh": {"shapeType": 5, "fileName": "cube.obj", "meshScale": [0.1, 0.2, 0.3], **FRAME},
    "STL": {"shapeType": 5, "fileName": "l_finger_tip.stl"},
    "groups": {"shapeType": 5, "fileName": "teddy2_VHACD_CHs.obj", "meshScale": [0.1, 0.1, 0.1]},
    "surface": {"shapeType": 5, "fileName": "cube.obj", "flags": 1},
    "points": {"shapeType": 5, "vertices": TETRAHEDRON, "meshScale": [2, 2, 2]},
    "triangles": {"shapeType": 5, "vertices": TETRAHEDRON, "indices": FACES},
}


@pytest.fixture
def pair(both):
    both.modules = bind(both)
    return both


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("frame", [[0.0, 0.0, 0.0], [0.05, -0.1, 0.2]])
def test_collision_shape(pair, name, frame):
    answers = []
    for module in pair.modules:
        shape = module.createCollisionShape(**SHAPES[name])
        body = module.createMultiBody(2.0, shape, -1, [1, 2, 3], [0, 0, 0.6, 0.8], frame)
        collisions = module.getCollisionShapeData(body, -1)
        dynamics = module.getDynamicsInfo(body, -1)
        answers.append(
            (
                shape,
                body,
                [shape[2:] for shape in collisions],
                dynamics[0],
                dynamics[2:],
                module.getVisualShapeData(body),
                module.getBasePositionAndOrientation(body),
            )
        )
    ours, real = answers
    if name == "triangles":  # a surface that moves has no meaningful inertia
        ours, real = (*ours[:4], *ours[5:]), (*real[:4], *real[5:])
    tolerance = 1.0e-4 if name in ("STL", "groups") else 2.0e-6  # hulls are rounded to a grid
    compare(real, ours, tolerance, name)


def test_shapes_that_are_refused(pair):
    calls = (
        {"shapeType": 99},
        {"shapeType": 5},
        {"shapeType": 5, "fileName": "missing.obj"},
        {"shapeType": 2, "radius": 0.0},
        {"shapeType": 2, "radius": -1.0},
        {"shapeType": 9},
    )
    for call in calls:
        messages = []
        for module, kind in zip(pair.modules, (compat.error, pybullet.error), strict=True):
            with pytest.raises(kind) as caught:
                module.createCollisionShape(**call)
            messages.append(str(caught.value))
        assert messages[0] == messages[1], call


def test_visual_shapes(pair):
    made = []
    for module in pair.modules:
        ids = [
            module.createVisualShape(2, radius=0.2, rgbaColor=[1, 0, 0, 0.5]),
            module.createVisualShape(4, radius=0.1, length=0.7, visualFramePosition=[1, 2, 3]),
            module.createVisualShape(5, fileName="duck.obj", meshScale=[0.1, 0.2, 0.3]),
            module.createVisualShape(5, fileName="missing.obj"),
            module.createVisualShape(5, vertices=TETRAHEDRON, indices=FACES, rgbaColor=[1, 1, 0]),
        ]
        bodies = [module.createMultiBody(1.0, -1, shape) for shape in ids]
        made.append((ids, [module.getVisualShapeData(body) for body in bodies]))
    compare(made[1], made[0], 1.0e-6, "visual shapes")


def test_several_shapes_at_once(pair):
    made = []
    for module in pair.modules:
        collision = module.createCollisionShapeArray(
            shapeTypes=[2, 3, 7],
            radii=[0.1, 0.2, 0.3],
            halfExtents=[[1, 1, 1], [0.1, 0.2, 0.3], [1, 1, 1]],
            lengths=[1, 2, 3],
            collisionFramePositions=[[0, 0, 0], [1, 0, 0], [2, 0, 0]],
        )
        visual = module.createVisualShapeArray(
            shapeTypes=[2, 3],
            radii=[0.1, 0.2],
            halfExtents=[[1, 1, 1], [0.1, 0.2, 0.3]],
            visualFramePositions=[[0, 0, 0], [1, 0, 0]],
            rgbaColors=[[1, 0, 0, 1], [0, 1, 0, 1]],
        )
        body = module.createMultiBody(1.0, collision, visual)
        collisions = [shape[2:] for shape in module.getCollisionShapeData(body, -1)]
        made.append((collisions, module.getVisualShapeData(body), module.getDynamicsInfo(body, -1)[2:5]))
    compare(made[1], made[0], 1.0e-6, "arrays")


def chain(module) -> int:
    """A tree with every kind of joint."""
    ball = module.createCollisionShape(2, radius=0.1)
    box = module.createCollisionShape(3, halfExtents=[0.1, 0.2, 0.3], collisionFramePosition=[0.1, 0, 0])
    seen = module.createVisualShape(3, halfExtents=[0.1, 0.1, 0.1])
    return module.createMultiBody(
        2.0,
        ball,
        -1,
        [1, 2, 3],
        [0, 0, 0.6, 0.8],
        [0.1, 0.2, 0.3],
        [0, 0.6, 0, 0.8],
        [1.0, 2.0, 0.5, 0.7],
        [ball, box, -1, -1],
        [-1, seen, seen, -1],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]],
        [[0, 0, 0, 1], [0, 0, 0.6, 0.8], [0, 0, 0, 1], [0, 0, 0, 1]],
        [[0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1], [0, 0, 0]],
        [[0, 0, 0, 1], [0, 0, 0, 1], [0.6, 0, 0, 0.8], [0, 0, 0, 1]],
        [0, 1, 1, 0],
        [pybullet.JOINT_REVOLUTE, pybullet.JOINT_PRISMATIC, pybullet.JOINT_FIXED, pybullet.JOINT_SPHERICAL],
        [[0, 0, 2], [0, 1, 1], [1, 0, 0], [1, 0, 0]],
    )


def test_links(pair):
    answers = []
    for module in pair.modules:
        body = chain(module)
        count = module.getNumJoints(body)
        answers.append(
            (
                module.getBodyInfo(body),
                [module.getJointInfo(body, k) for k in range(count)],
                [module.getDynamicsInfo(body, k) for k in range(-1, count)],
                [module.getLinkState(body, k)[:6] for k in range(count)],
                [module.getVisualShapeData(body)],
                module.getBasePositionAndOrientation(body),
            )
        )
    compare(answers[1], answers[0], 1.0e-6, "links")


def test_links_in_another_order_than_the_tree(pair):
    answers = []
    for module in pair.modules:
        n = 3
        same = {
            "linkMasses": [1.0] * n,
            "linkCollisionShapeIndices": [-1] * n,
            "linkVisualShapeIndices": [-1] * n,
            "linkPositions": [[0, 0, 1]] * n,
            "linkOrientations": [[0, 0, 0, 1]] * n,
            "linkInertialFramePositions": [[0, 0, 0]] * n,
            "linkInertialFrameOrientations": [[0, 0, 0, 1]] * n,
            "linkJointTypes": [0] * n,
            "linkJointAxis": [[0, 0, 1]] * n,
        }
        bodies = [
            module.createMultiBody(1.0, linkParentIndices=parents, **same)
            for parents in ([0, 0, 1], [2, 0, 1], [0, 1, 2])
        ]
        answers.append([[module.getJointInfo(b, k) for k in range(n)] for b in bodies])
    compare(answers[1], answers[0], 1.0e-6, "order")


def test_wrong_link_arrays(pair):
    for module, kind in zip(pair.modules, (compat.error, pybullet.error), strict=True):
        with pytest.raises(kind, match=r"All link arrays need to be same size\."):
            module.createMultiBody(1.0, linkMasses=[1.0, 1.0])


def test_unknown_shapes_count_as_none(pair):
    made = []
    for module in pair.modules:
        body = module.createMultiBody(1.0, 77, 78)
        made.append((body, module.getCollisionShapeData(body, -1), module.getVisualShapeData(body)))
    compare(made[1], made[0], 0.0, "unknown shapes")


def test_shape_ids(pair):
    answers = []
    for module in pair.modules:
        first = [module.createCollisionShape(2), module.createVisualShape(2), module.createCollisionShape(2)]
        module.createMultiBody(1.0, first[0])
        module.removeCollisionShape(first[0])  # in use: stays
        module.removeCollisionShape(first[2])
        module.removeCollisionShape(55)
        again = [module.createCollisionShape(2), module.createCollisionShape(2), module.createVisualShape(2)]
        module.resetSimulation()
        answers.append((first, again, module.createCollisionShape(2), module.createVisualShape(2)))
    compare(answers[1], answers[0], 0.0, "ids")


def test_batch(pair):
    ours, real = (
        module.createMultiBody(
            1.0, module.createCollisionShape(2), batchPositions=[[0, 0, 0], [1, 0, 0], [2, 0, 5]]
        )
        for module in pair.modules
    )
    assert tuple(ours) == tuple(real)
    mine = pair.modules[0]
    places = [mine.getBasePositionAndOrientation(body)[0] for body in ours]
    assert places == [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (2.0, 0.0, 5.0)]


@pytest.mark.parametrize("frame", [{}, {"collisionFramePosition": [0.2, 0.1, 0.5]}])
def test_height_fields_under_rays(pair, frame):
    # all heights differ, so that a wrong order, a wrong diagonal or a wrong middle is seen
    rows, columns = 4, 5
    heights = [0.01 * ((7 * k * k + 3 * k) % 19) for k in range(rows * columns)]
    xy = np.stack(np.meshgrid(np.linspace(-0.43, 0.43, 9), np.linspace(-0.71, 0.71, 9)), -1).reshape(-1, 2)
    starts = [[x, y, 3.0] for x, y in xy]
    ends = [[x, y, -3.0] for x, y in xy]
    hits = []
    for module in pair.modules:
        shape = module.createCollisionShape(
            9,
            heightfieldData=heights,
            numHeightfieldRows=rows,
            numHeightfieldColumns=columns,
            meshScale=[0.3, 0.4, 2.0],
            **frame,
        )
        module.createMultiBody(0.0, shape)
        module.performCollisionDetection()
        hits.append(
            np.array(
                [hit[3] if hit[0] >= 0 else (9.0, 9.0, 9.0) for hit in module.rayTestBatch(starts, ends)]
            )
        )
    assert (hits[1][:, 2] < 3.0).sum() > 50
    np.testing.assert_allclose(hits[0], hits[1], atol=1.0e-4)


def test_height_field_from_a_picture(pair):
    boxes = []
    for module in pair.modules:
        shape = module.createCollisionShape(
            9, fileName="heightmaps/wm_height_out.png", meshScale=[0.1, 0.1, 24.0]
        )
        boxes.append(module.getAABB(module.createMultiBody(0.0, shape)))
    compare(boxes[1], boxes[0], 1.0e-3, "height field")


def test_new_heights_for_a_height_field():
    client = compat.connect(compat.DIRECT)
    try:
        call = {"numHeightfieldRows": 3, "numHeightfieldColumns": 3, "physicsClientId": client}
        shape = compat.createCollisionShape(9, heightfieldData=[0.0] * 9, **call)
        body = compat.createMultiBody(0.0, shape, physicsClientId=client)
        new = [0.0] * 4 + [1.0] + [0.0] * 4
        assert (
            compat.createCollisionShape(9, heightfieldData=new, replaceHeightfieldIndex=shape, **call)
            == shape
        )
        hit = compat.rayTest([0, 0, 5], [0, 0, -5], physicsClientId=client)[0]
        assert hit[0] == body
        assert hit[3][2] == pytest.approx(0.5, abs=1.0e-5)
    finally:
        compat.disconnect(client)


def test_hulls_of_groups_leave_gaps_between_them(pair, tmp_path):
    # two boxes in one file: one hull with a bridge, or two with a gap, by whether they are groups
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    sides = [(1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4)]
    hits = {}
    for mark in ("", "o", "g", "usemtl"):
        lines = []
        for number, offset in enumerate((-3, 3)):
            lines += [f"{mark} part{number}"] if mark else []
            lines += [f"v {x + offset} {y} {z}" for x, y, z in corners]
            lines += ["f " + " ".join(str(c + 8 * number) for c in side) for side in sides]
        path = tmp_path / f"two{mark}.obj"
        path.write_text("\n".join(lines))
        for module in pair.modules:
            module.resetSimulation()
            body = module.createMultiBody(0.0, module.createCollisionShape(5, fileName=str(path)))
            module.performCollisionDetection()
            rays = [(x, 0.0) for x in (-6.0, -3.0, 0.0, 3.0, 6.0)]
            answers = module.rayTestBatch([(x, y, 9.0) for x, y in rays], [(x, y, -9.0) for x, y in rays])
            hits.setdefault(mark, []).append(
                ([a[0] for a in answers], len(module.getCollisionShapeData(body, -1)))
            )
    for mark, (ours, real) in hits.items():
        assert ours == real, mark
    assert hits[""][1][0][2] == 0
    assert hits["o"][1][0][2] == -1


def test_vhacd(tmp_path):
    pytest.importorskip("coacd")
    outline = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 3), (0, 3)]  # an L, which is two boxes
    lines = [f"v {x} {y} {z}" for z in (0, 1) for x, y in outline]
    lines += [f"f {k + 1} {(k + 1) % 6 + 1} {(k + 1) % 6 + 7} {k + 7}" for k in range(6)]
    lines += ["f 4 3 2 1", "f 6 5 4 1", "f 7 8 9 10", "f 7 10 11 12"]
    path, out, log = tmp_path / "l.obj", tmp_path / "parts.obj", tmp_path / "log.txt"
    path.write_text("\n".join(lines))
    client = compat.connect(compat.DIRECT)
    try:
        compat.vhacd(str(path), str(out), str(log), physicsClientId=client)
        groups = [line for line in out.read_text().splitlines() if line.startswith("o ")]
        assert len(groups) == 2
        assert log.read_text()
        shape = compat.createCollisionShape(5, fileName=str(out), physicsClientId=client)
        compat.createMultiBody(0.0, shape, physicsClientId=client)
        for x, y, top in ((0.5, 2.0, 1.0), (1.5, 0.5, 1.0), (1.6, 2.0, None)):
            hit = compat.rayTest([x, y, 5.0], [x, y, -5.0], physicsClientId=client)[0]
            assert (hit[3][2] == pytest.approx(top, abs=0.02)) if top else hit[0] == -1
    finally:
        compat.disconnect(client)


def test_bases_differ_between_worlds():
    client = compat.connect(compat.DIRECT, options="--num_worlds=3")
    try:
        places = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 2.0], [0.0, 2.0, 3.0]])
        body = compat.loadURDF(f"{DATA}/r2d2.urdf", places, physicsClientId=client)
        position, _ = compat.getBasePositionAndOrientation(body, physicsClientId=client)
        np.testing.assert_allclose(position, places, atol=1.0e-6)
        ball = compat.createMultiBody(1.0, basePosition=places, physicsClientId=client)
        position, _ = compat.getBasePositionAndOrientation(ball, physicsClientId=client)
        np.testing.assert_allclose(position, places, atol=1.0e-6)
    finally:
        compat.disconnect(client)


@pytest.mark.parametrize("name", ["heights.png", "heights.txt"])
def test_height_fields_of_files_lie_the_same_way(tmp_path, name):
    """Rays meet the same heights in both modules, of a picture and of a square table of numbers."""
    from PIL import Image
    from pybullet_both import Both

    rng, path = np.random.default_rng(1), str(tmp_path / name)
    if name.endswith("png"):
        pixels = (rng.random((6, 9)) * 255).astype(np.uint8)
        Image.fromarray(np.stack([pixels] * 3, axis=-1)).save(path)
    else:
        np.savetxt(path, rng.random((7, 7)), fmt="%.6f", delimiter=",")
    both = Both()
    shape = both.createCollisionShape(pybullet.GEOM_HEIGHTFIELD, fileName=path, meshScale=[1.0, 1.0, 1.0])[0]
    both.createMultiBody(0.0, shape)
    starts = [[x, y, 50.0] for x in np.arange(-1.8, 2.0, 0.7) for y in np.arange(-1.8, 2.0, 0.7)]
    hits = both.rayTestBatch(starts, [[x, y, -50.0] for x, y, _ in starts])
    real, ours = ([hit[3][2] for hit in found] for found in hits)
    assert np.ptp(real) > 0.3
    assert np.allclose(real, ours, atol=2e-3)
    both.close()
