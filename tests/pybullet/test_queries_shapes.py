"""Rays, boxes about links and data of shapes against PyBullet."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

import newtonsim.pybullet_compat as compat  # noqa: E402

ROTATION = [0.1825742, 0.3651484, 0.5477226, 0.7302967]
MISS = (-1, -1, 1.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
CUBE = [[x, y, z] for x in (-0.1, 0.1) for y in (-0.2, 0.2) for z in (-0.3, 0.3)]
SHEET = {"vertices": [[-3, -3, 0], [3, -3, 0], [3, 3, 0.5], [-3, 3, 0]], "indices": [0, 1, 2, 0, 2, 3]}
FIELD = {
    "meshScale": [0.3, 0.2, 1.0],
    "heightfieldData": list(np.linspace(0.0, 1.0, 48)),
    "numHeightfieldRows": 8,
    "numHeightfieldColumns": 6,
}
SHAPES = {
    "sphere": (pybullet.GEOM_SPHERE, {"radius": 0.3}),
    "box": (pybullet.GEOM_BOX, {"halfExtents": [0.1, 0.2, 0.3]}),
    "capsule": (pybullet.GEOM_CAPSULE, {"radius": 0.1, "height": 0.5}),
    "cylinder": (pybullet.GEOM_CYLINDER, {"radius": 0.1, "height": 0.5}),
    "hull": (pybullet.GEOM_MESH, {"vertices": CUBE}),
    "plane": (pybullet.GEOM_PLANE, {"planeNormal": [0.0, 0.6, 0.8]}),
    "surface": (pybullet.GEOM_MESH, {**SHEET, "flags": pybullet.GEOM_FORCE_CONCAVE_TRIMESH}),
    "field": (pybullet.GEOM_HEIGHTFIELD, FIELD),
}
URDFS = ("cube.urdf", "sphere2.urdf", "plane.urdf", "r2d2.urdf", "table/table.urdf", "kuka_iiwa/model.urdf")


def body(both, kind, position=(0.0, 0.0, 0.0), mass=None, rotation=(0.0, 0.0, 0.0, 1.0), **more):
    """Make a body of one shape in both worlds."""
    number, options = SHAPES[kind]
    shape = both.createCollisionShape(number, **{**options, **more})[0]
    mass = mass if mass is not None else float(kind not in ("plane", "surface", "field"))
    return both.createMultiBody(mass, shape, -1, position, rotation)[0]


@pytest.mark.parametrize("kind", SHAPES)
def test_rays_on_shapes(both, kind):
    """A fan of rays through a turned shape: the same hits, points within 1 mm, normals within 2 degrees."""
    body(both, kind, [0.1, -0.2, 0.3], rotation=ROTATION)
    rng = np.random.default_rng(1)
    starts = rng.normal(size=(200, 3))
    starts *= 2.0 / np.linalg.norm(starts, axis=1, keepdims=True)
    ends = -starts + rng.uniform(-0.3, 0.3, (200, 3))
    real, ours = both.rayTestBatch(starts.tolist(), ends.tolist())
    differ = [a[:2] != b[:2] for a, b in zip(real, ours)]
    assert sum(differ) <= 3  # rays that graze an edge
    hits = [(a, b) for a, b, other in zip(real, ours, differ) if not other and a[0] >= 0]
    assert len(hits) > 20
    assert np.array([b[2] for _, b in hits]) == pytest.approx(np.array([a[2] for a, _ in hits]), abs=1e-3)
    apart = np.array([np.subtract(a[3], b[3]) for a, b in hits])
    assert np.median(np.abs(apart).max(axis=1)) < 1e-3
    cosines = np.array([np.dot(a[4], b[4]) for a, b in hits])
    assert np.median(cosines) > 0.9999
    assert np.mean(cosines > 0.9994) > 0.95


@pytest.mark.parametrize("kind", ["box", "cylinder"])
def test_normals_turn_near_edges(both, kind):
    """Rays along x and z that meet a face 0.1 to 3 mm from an edge: PyBullet rounds edges of 1 mm."""
    width, height = {"box": (0.1, 0.3), "cylinder": (0.1, 0.25)}[kind]
    body(both, kind, mass=0.0)
    starts, ends = [], []
    for off in (1e-4, 4e-4, 8e-4, 1.2e-3, 3e-3):
        edge = np.array([-width, 0.0, -height])
        for shift, along in (
            (np.array([0.0, 0.0, off]), [1.0, 0, 0]),
            (np.array([off, 0.0, 0.0]), [0, 0, 1.0]),
        ):
            starts.append((edge + shift - along).tolist())
            ends.append((edge + shift + along).tolist())
    real, ours = both.rayTestBatch(starts, ends)
    assert [hit[0] for hit in real] == [hit[0] for hit in ours] == [0] * len(starts)
    turned = np.array([hit[4] for hit in ours])
    assert turned == pytest.approx(np.array([hit[4] for hit in real]), abs=0.02)
    assert np.ptp(turned[:, 0]) > 0.9
    assert both.rayTest(starts[0], ends[0])[1][0][4] == pytest.approx(tuple(turned[0]), abs=1e-6)


@pytest.mark.parametrize("size", [2e-4, 5e3, 4e4, 1e7])
@pytest.mark.parametrize("kind", ["box", "cylinder"])
def test_normals_of_faces_are_those_of_faces_at_any_size(both, kind, size):
    """Solids thinner than a rounded edge, and those where float32 does not resolve one."""
    more = {"halfExtents": [size, 0.5, 0.5]} if size < 1.0 else {"halfExtents": [size] * 3}
    across, along = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0])
    if kind == "cylinder":
        more = {"radius": 0.5 if size < 1.0 else size, "height": 2.0 * size}
        across, along = np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])
    body(both, kind, mass=0.0, **more)
    wide = min(size, 0.5) if size < 1.0 else 0.3 * size
    spots = [share * max(wide, 0.2) * along for share in (0.0, 0.1, -0.7)]
    starts = [(spot - 2.0 * max(size, 1.0) * across).tolist() for spot in spots]
    hits = both.rayTestBatch(starts, [spot.tolist() for spot in spots])[1]
    assert np.array([hit[4] for hit in hits]) == pytest.approx(np.tile(-across, (3, 1)), abs=1e-6)


def test_where_rays_start_and_end(both):
    """Solids are not met from within, planes are met from both sides, and ends do not count."""
    body(both, "sphere")
    body(both, "box", [2.0, 0.0, 0.0])
    body(both, "plane", [0.0, 0.0, -1.0], planeNormal=[0.0, 0.0, 1.0])
    for start, end in (
        ([0, 0, 0], [0, 0, 2]),
        ([0, 0, 0.3], [0, 0, -2]),
        ([0, 0, 2], [0, 0, 0.31]),
        ([2, 0, 0], [2, 0, 2]),
        ([0, 0, -3], [0, 0, -0.9]),
        ([1, 0, -3], [1, 0, -2]),
        ([1, 0, 1], [4, 0, 1]),
        ([0, 0, 5], [0, 0, 5]),
    ):
        both.same("rayTest", start, end, tolerance=1e-5)
    assert compat.rayTest([0, 0, 5], [0, 0, 4], physicsClientId=both.ids[1]) == (MISS,)


def test_filters_of_rays(both):
    for k in range(3):
        made = body(both, "box", [0.0, 0.0, float(k)])
        both.setCollisionFilterGroupMask(made, -1, *((1, 2), (2, 1), (4, 5))[k])
    for mask in (-1, 0, 1, 2, 3, 4, 5):
        both.same("rayTest", [0.01, 0, 5], [0, 0, -5], collisionFilterMask=mask, tolerance=1e-5)
        both.same("rayTestBatch", [[0.01, 0, 5]], [[0, 0, -5]], collisionFilterMask=mask, tolerance=1e-5)


def test_later_hits_come_in_the_order_of_distance(both):
    for z in (2.0, 0.0, 1.0):
        body(both, "box", [0.0, 0.0, z])
    ours = compat.rayTestBatch
    found = [
        ours([[0, 0, 5.0]], [[0, 0, -5.0]], reportHitNumber=k, physicsClientId=both.ids[1])[0]
        for k in range(4)
    ]
    assert [hit[0] for hit in found] == [0, 2, 1, -1]
    near = [{"reportHitNumber": 1, "fractionEpsilon": e} for e in (0.0, 1.0)]
    assert [ours([[0, 0, 5.0]], [[0, 0, -5.0]], **n, physicsClientId=both.ids[1])[0][0] for n in near] == [
        2,
        2,
    ]


def test_rays_in_the_frame_of_a_link(both):
    arm = both.load("kuka_iiwa/model.urdf", [0.5, 0.4, 0.0], useFixedBase=True)
    body(both, "sphere", [0.0, 1.0, 0.7])
    for link in (-1, 3, 50):
        rays = ([[1, 0, 0], [0.05, 0.0, 1.0]], [[-1, 0.01, 0], [0.0, 0.1, -1.0]])
        real, ours = both.rayTestBatch(*rays, parentObjectUniqueId=arm, parentLinkIndex=link)
        assert [hit[:2] for hit in real] == [hit[:2] for hit in ours]
        for a, b in zip(real, ours):
            assert b[3] == pytest.approx(a[3], abs=4e-3)  # our hulls have at most 64 corners


def test_threads_and_arrays_give_the_same_hits(both):
    body(both, "sphere")
    rng = np.random.default_rng(2)
    starts, ends = rng.uniform(-1.0, 1.0, (1500, 3)), rng.uniform(-1.0, 1.0, (1500, 3))
    cast = [both.rayTestBatch(starts, ends, numThreads=n)[1] for n in (1, 2, 0, -1)]
    assert len(cast[0]) == 1500
    assert all(other == cast[0] for other in cast[1:])
    assert both.rayTestBatch([], []) == ((), ())
    assert cast[0][7] == compat.rayTest(starts[7], ends[7], physicsClientId=both.ids[1])[0]


@pytest.mark.parametrize(
    ("starts", "ends"), [([[0, 0, 1]], [[0, 0, 0]] * 2), ([[0, 0]], [[0, 0, 1]]), ([[0, 0, 1]] * 16385,) * 2]
)
def test_wrong_batches(both, starts, ends):
    texts = []
    for module, client in zip((pybullet, compat), both.ids):
        with pytest.raises(module.error) as caught:
            module.rayTestBatch(starts, ends, physicsClientId=client)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", SHAPES)
def test_boxes_about_shapes(both, kind):
    """Exact for every shape, turned or not, centred or not."""
    frames = [{}] if kind == "field" else [{}, {"collisionFramePosition": [0.1, 0.2, 0.3]}]
    for more in frames:
        made = body(both, kind, **more)
        for _ in range(2):
            real, ours = both.getAABB(made)
            assert np.array(ours) == pytest.approx(np.array(real), rel=1e-5, abs=1e-5)
            both.resetBasePositionAndOrientation(made, [1.0, 2.0, 3.0], ROTATION)


@pytest.mark.parametrize("name", URDFS)
def test_boxes_about_links(both, name):
    made = both.load(name, [1.0, 2.0, 3.0], ROTATION)
    for link in range(-1, both.getNumJoints(made)[0]):
        real, ours = both.getAABB(made, link)
        assert np.array(ours) == pytest.approx(np.array(real), abs=2e-4), link


@pytest.mark.parametrize("name", ["hopper", "ant", "humanoid", "half_cheetah"])
def test_boxes_about_links_of_mjcf_files(both, name):
    """Capsules that are given by their ends are wider, and lie along the axes of their link."""
    made = both.loadMJCF(f"mjcf/{name}.xml")[0][-1]
    for turned in (False, True):
        if turned:
            both.resetBasePositionAndOrientation(made, [1.0, 2.0, 3.0], ROTATION)
        for link in range(-1, both.getNumJoints(made)[0]):
            real, ours = both.getAABB(made, link)
            assert np.array(ours) == pytest.approx(np.array(real), abs=2e-4), link


def test_boxes_follow_without_a_step(both):
    arm = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    both.resetJointState(arm, 1, 1.0)
    both.same("getAABB", arm, 6, tolerance=2e-4)
    both.step(3)
    both.same("getAABB", arm, 6, tolerance=2e-4)


def test_boxes_that_do_not_exist(both):
    made = body(both, "box")
    for arguments in ([99], [made, 3], [made, -2], [-1]):
        texts = []
        for module, client in zip((pybullet, compat), both.ids):
            with pytest.raises(module.error) as caught:
                module.getAABB(*arguments, physicsClientId=client)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]


def test_objects_in_boxes(both):
    assert both.getOverlappingObjects([0, 0, 0], [1, 1, 1]) == (None, None)
    both.step()  # of nothing
    assert both.getOverlappingObjects([0, 0, 0], [1, 1, 1]) == (None, None)
    ball = body(both, "sphere", [3.0, 0.0, 0.5])
    both.load("plane.urdf")
    both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    both.resetBasePositionAndOrientation(ball, [5.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0])
    for low, high in (
        ([-9, -9, -9], [9, 9, 9]),
        ([4.9, -0.1, 0.4], [5.0, 0.1, 0.6]),
        ([2.9, -0.1, 0.4], [3.0, 0.1, 0.6]),
        ([-0.1, -0.1, 0.45], [0.1, 0.1, 0.6]),
    ):
        real, ours = both.getOverlappingObjects(low, high)
        assert sorted(real or ()) == sorted(ours or ())
        assert (real is None) == (ours is None)


@pytest.mark.parametrize("name", URDFS)
def test_data_of_the_shapes_of_links(both, name):
    made = both.load(name)
    for link in range(-1, both.getNumJoints(made)[0]):
        both.same("getCollisionShapeData", made, link, tolerance=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in SHAPES if kind != "field"])
def test_data_of_made_shapes(both, kind):
    number, options = SHAPES[kind]
    frame = {"collisionFramePosition": [0.1, 0.2, 0.3], "collisionFrameOrientation": [0.0, 0.0, 0.6, 0.8]}
    for more in ({}, frame):
        shape = both.createCollisionShape(number, **options, **more)[0]
        made = both.createMultiBody(1.0, shape, baseInertialFramePosition=[0.5, 0.0, 0.0])[0]
        both.same("getCollisionShapeData", made, -1)


def test_vertices_of_hulls(both):
    made = body(both, "hull", collisionFramePosition=[0.1, 0.2, 0.3])
    arm = both.load("kuka_iiwa/model.urdf")
    real, ours = (answer[1] for answer in both.getMeshData(made))
    assert np.array(sorted(ours)) == pytest.approx(np.array(sorted(real)), abs=1e-6)
    for link in range(-1, 7):
        (_, real), (count, ours) = both.getMeshData(arm, link)
        assert count == len(ours)
        for axis in range(3):
            real_range = np.min(real, axis=0)[axis], np.max(real, axis=0)[axis]
            ours_range = np.min(ours, axis=0)[axis], np.max(ours, axis=0)[axis]
            assert ours_range == pytest.approx(real_range, abs=2e-5)
    assert both.getMeshData(body(both, "sphere")) == ((0, ()), (0, ()))


def test_rays_in_several_worlds():
    client = compat.connect(compat.DIRECT, options="--num_worlds=2 --device=cpu")
    shape = compat.createCollisionShape(compat.GEOM_SPHERE, radius=0.5, physicsClientId=client)
    ball = compat.createMultiBody(1.0, shape, physicsClientId=client)
    places = [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    compat.resetBasePositionAndOrientation(ball, places, [0, 0, 0, 1], physicsClientId=client)
    rays = [[0.0, 0.0, 4.0], [3.0, 0.0, 4.0]], [[0.0, 0.0, -4.0], [3.0, 0.0, -4.0]]
    body_ids, links, fraction, point, normal = compat.rayTestBatch(*rays, physicsClientId=client)
    assert body_ids.tolist() == [[ball, -1], [ball, -1]]
    assert links.tolist() == [[-1, -1], [-1, -1]]
    assert fraction == pytest.approx(np.array([[3.5 / 8.0, 1.0], [2.5 / 8.0, 1.0]]), abs=1e-6)
    assert point[:, 0, 2] == pytest.approx([0.5, 1.5], abs=1e-6)
    assert normal[:, 0] == pytest.approx(np.array([[0.0, 0.0, 1.0]] * 2), abs=1e-6)
    lower, upper = compat.getAABB(ball, physicsClientId=client)
    assert upper[:, 2] == pytest.approx([0.5, 1.5])
    assert lower[:, 2] == pytest.approx([-0.5, 0.5])
    found = compat.getOverlappingObjects([-1, -1, 1.2], [1, 1, 2], physicsClientId=client)
    assert found == (None, ((ball, -1),))
    compat.disconnect(client)


def test_rays_meet_all_of_a_hull(both):
    """Links of the Kuka have hulls of 183 to 576 vertices; of two links that touch either may be met."""
    arm = both.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)[0]
    both.stepSimulation()  # until then PyBullet has boxes of other places
    rng = np.random.default_rng(3)
    starts = rng.normal(size=(600, 3))
    starts = 2.0 * starts / np.linalg.norm(starts, axis=1, keepdims=True) + [0.0, 0.0, 0.6]
    ends = starts + 2.0 * (rng.uniform([-0.15, -0.15, 0.0], [0.15, 0.15, 1.2], (600, 3)) - starts)
    hits = [hit for hit in zip(*both.rayTestBatch(starts.tolist(), ends.tolist())) if hit[0][0] == arm]
    same = [(real, ours) for real, ours in hits if real[:2] == ours[:2]]
    assert len(hits) > 250
    assert len(same) > 0.97 * len(hits)
    turned = [np.abs(np.subtract(real[4], ours[4])).max() for real, ours in same]
    away = [np.linalg.norm(np.subtract(real[3], ours[3])) for real, ours in same]
    assert np.quantile(turned, [0.5, 0.95]) == pytest.approx(0.0, abs=0.02)
    assert np.quantile(away, [0.5, 0.95]) == pytest.approx([0.0, 0.0], abs=3e-3)
    assert np.median(away) < 2e-4


def test_rays_follow_whatever_moves_a_body():
    """By a step, by the script, by a state that is restored, and by arrays that the script writes itself."""
    from newtonsim.pybullet_compat.bullet_client import BulletClient

    client = BulletClient(compat.DIRECT)
    shape = client.createCollisionShape(compat.GEOM_BOX, halfExtents=[0.1, 0.1, 0.1])
    box = client.createMultiBody(1.0, shape)
    client.stepSimulation()

    def distance() -> float:
        return client.rayTest([-2.0, 0.0, 0.0], [2.0, 0.0, 0.0])[0][2] * 4.0

    assert distance() == pytest.approx(1.9, abs=1.0e-5)
    saved = client.saveState()
    client.resetBasePositionAndOrientation(box, [0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    assert distance() == pytest.approx(2.4, abs=1.0e-5)
    client.resetBaseVelocity(box, [0.3 * 240.0, 0.0, 0.0])
    client.changeDynamics(box, -1, linearDamping=0.0)
    client.stepSimulation()
    assert distance() == pytest.approx(2.7, abs=1.0e-4)
    client.restoreState(saved)
    assert distance() == pytest.approx(1.9, abs=1.0e-5)
    state = client.state
    poses = state.body_q.numpy().copy()
    poses[:, 0] += 0.7
    state.body_q.assign(poses)
    assert distance() == pytest.approx(2.6, abs=1.0e-5)
    client.removeBody(box)
    assert distance() == 4.0
    client.disconnect()
