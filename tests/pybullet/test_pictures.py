"""Pictures, visual shapes and textures against the real module's software renderer."""

import numpy as np
import pytest
from pybullet_both import DATA, Both, compare

import newtonsim.pybullet_compat as ours

real = pytest.importorskip("pybullet")

VIEW = real.computeViewMatrixFromYawPitchRoll([0, 0, 0.3], 2.0, 30, -25, 0, 2)
PROJECTION = real.computeProjectionMatrixFOV(50, 4 / 3, 0.1, 100)
SIZE = (160, 120)
FROM_ABOVE = real.computeViewMatrix([0, 0, 5], [0, 0, 0], [0, 1, 0])
NARROW = real.computeProjectionMatrixFOV(30, 1, 0.1, 100)
OVERLAP = 0.97
"""Least overlap of silhouettes of what has the same triangles."""
DEPTH = 1.0e-3
"""Relative error of the distance along the view axis on common pixels."""


def distance(depth: np.ndarray, near: float = 0.1, far: float = 100.0) -> np.ndarray:
    """Distance along the view axis of a depth picture."""
    return near * far / (far - (far - near) * depth.astype(float))


def overlap(a: np.ndarray, b: np.ndarray, label: int) -> float:
    union = ((a == label) | (b == label)).sum()
    return ((a == label) & (b == label)).sum() / union


def pictures(both: Both, *args, **keywords):
    """Pictures of both modules, after comparing their types."""
    pair = both.getCameraImage(*args, **keywords)
    for picture in pair:
        assert type(picture) is tuple
        assert picture[:2] == args[:2]
        assert [a.dtype for a in picture[2:]] == [np.uint8, np.float32, np.int32]
        assert [a.shape for a in picture[2:]] == [(*args[1::-1], 4), args[1::-1], args[1::-1]]
        assert all(a.flags.writeable for a in picture[2:])
    return pair


@pytest.fixture
def ours_only():
    """A client of ours."""
    client = ours.connect(ours.DIRECT)
    ours.setAdditionalSearchPath(DATA, physicsClientId=client)
    yield client
    ours.disconnect(client)


ROBOTS = {
    "kuka_iiwa/model.urdf": 0.5,
    "franka_panda/panda.urdf": 0.5,
    "r2d2.urdf": 0.5,
    "husky/husky.urdf": 0.2,
    "laikago/laikago.urdf": 0.5,
    "racecar/racecar.urdf": 0.1,
    "table/table.urdf": 0.0,
    "duck_vhacd.urdf": 0.3,
}
ROUGH = {"r2d2.urdf": 0.95}
"""PyBullet draws spheres and cylinders as polyhedra of a few faces; ours are round."""


@pytest.mark.parametrize("name", ROBOTS)
def test_robots_on_the_ground(both: Both, name: str):
    """Mean colour within 4 levels of 255: normals of meshes are worked out from their edges."""
    both.load("plane.urdf")
    robot = both.load(name, [0, 0, ROBOTS[name]], useFixedBase=1)
    scale = 10.0 if name.startswith("duck") else 1.0
    view = real.computeViewMatrixFromYawPitchRoll([0, 0, 0.3], 2.0 / scale, 30, -25, 0, 2)
    theirs, mine = pictures(both, *SIZE, view, PROJECTION, shadow=0)
    assert overlap(theirs[4], mine[4], 0) > OVERLAP
    assert overlap(theirs[4], mine[4], robot) > ROUGH.get(name, OVERLAP)
    common = (theirs[4] == mine[4]) & (theirs[4] >= 0)
    error = np.abs(distance(mine[3]) / distance(theirs[3]) - 1.0)[common]
    assert np.quantile(error, 0.95) < DEPTH
    assert np.abs(theirs[2].astype(int) - mine[2])[common].mean() < 4.0
    assert np.all(mine[2][mine[4] < 0] == 255)
    assert np.all(mine[3][mine[4] < 0] == 1.0)
    for flags in (0, 1):
        for body in (0, robot):
            both.same("getVisualShapeData", body, flags)


@pytest.mark.parametrize("kind", ["GEOM_BOX", "GEOM_SPHERE", "GEOM_CYLINDER", "GEOM_MESH", "GEOM_PLANE"])
def test_visual_shapes_without_files_of_robots(both: Both, kind: str):
    """Polyhedra to 0.97; balls and cylinders to 0.9, their depth to 3 %, where PyBullet has a few faces."""
    round = kind in ("GEOM_SPHERE", "GEOM_CYLINDER")
    shape = both.createVisualShape(
        getattr(real, kind), radius=0.3, length=0.6, halfExtents=[0.2, 0.3, 0.4], fileName="duck.obj",
        meshScale=[0.1, 0.1, 0.1], rgbaColor=[0.8, 0.3, 0.1, 1], visualFramePosition=[0.1, 0, 0.2],
    )[0]  # fmt: skip
    turn = real.getQuaternionFromEuler([0.0, 0.0, 0.4] if kind == "GEOM_PLANE" else [0.3, 0.2, 0.4])
    body = both.createMultiBody(1.0, -1, shape, [0, 0, 0], turn, baseInertialFramePosition=[0, 0.1, 0])[0]
    theirs, mine = pictures(both, *SIZE, VIEW, PROJECTION, shadow=0)
    assert overlap(theirs[4], mine[4], body) > (0.9 if round else OVERLAP)
    common = (theirs[4] == body) & (mine[4] == body)
    error = np.abs(distance(mine[3]) / distance(theirs[3]) - 1.0)[common]
    assert np.quantile(error, 0.95) < (0.03 if round else DEPTH)
    assert np.abs(theirs[2].astype(int) - mine[2])[common].mean() < (12.0 if round else 4.0)
    both.same("getVisualShapeData", body, 1)


def test_collision_shapes_are_seen_where_there_are_no_visual_ones(both: Both):
    box = both.createCollisionShape(real.GEOM_BOX, halfExtents=[0.2, 0.3, 0.4])[0]
    capsule = both.createCollisionShape(
        real.GEOM_CAPSULE, radius=0.1, height=0.3, collisionFramePosition=[0, 0, 0.1]
    )[0]
    body = both.createMultiBody(
        1, box, -1, [0, 0, 0],
        linkMasses=[1], linkCollisionShapeIndices=[capsule], linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0.6, 0]], linkOrientations=[[0, 0, 0, 1]],
        linkInertialFramePositions=[[0, 0.1, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]], linkParentIndices=[0],
        linkJointTypes=[real.JOINT_REVOLUTE], linkJointAxis=[[1, 0, 0]],
    )[0]  # fmt: skip
    both.same("getVisualShapeData", body, 1)
    assert both.createMultiBody(1, -1, -1) == (1, 1)
    both.same("getVisualShapeData", 1)
    theirs, mine = pictures(both, *SIZE, VIEW, PROJECTION, flags=1)
    assert overlap(theirs[4], mine[4], body) > OVERLAP
    assert set(np.unique(mine[4])) == set(np.unique(theirs[4])) == {-1, 0, 1 << 24}


@pytest.mark.parametrize("flags", range(4))
def test_segmentation_with_bodies_and_links(both: Both, flags: int):
    both.load("plane.urdf")
    both.load("kuka_iiwa/model.urdf", useFixedBase=1)
    theirs, mine = pictures(both, *SIZE, VIEW, PROJECTION, flags=flags)
    assert set(np.unique(theirs[4])) == set(np.unique(mine[4]))
    assert np.mean(theirs[4] == mine[4]) > 0.995


def test_twenty_bodies_with_shadows(both: Both):
    """The same segmentation on 99 % of the pixels, and the depth within 1 % on all that agree.

    Colours are not compared: the shadow map of PyBullet puts most of the ground into shadow.
    """
    both.load("plane.urdf")
    names = ("cube_small.urdf", "sphere_small.urdf", "duck_vhacd.urdf", "teddy_vhacd.urdf", "lego/lego.urdf")
    for k in range(20):
        both.load(names[k % 5], [0.25 * (k % 5 - 2), 0.25 * (k // 5 - 1.5), 0.1 + 0.1 * (k % 3)])
    view = real.computeViewMatrixFromYawPitchRoll([0, 0, 0.1], 1.6, 40, -35, 0, 2)
    theirs, mine = pictures(both, 320, 240, view, PROJECTION, shadow=1)
    same = theirs[4] == mine[4]
    assert len(np.unique(mine[4])) == 21
    assert same.mean() > 0.99
    error = np.abs(distance(mine[3]) / distance(theirs[3]) - 1.0)[same & (mine[4] >= 0)]
    assert error.max() < 0.01


def test_without_segmentation(ours_only: int):
    """PyBullet returns what lies in memory."""
    ours.loadURDF("plane.urdf", physicsClientId=ours_only)
    picture = ours.getCameraImage(*SIZE, VIEW, PROJECTION, flags=4, physicsClientId=ours_only)
    assert np.all(picture[4] == -1)


def test_default_camera(both: Both):
    both.load("plane.urdf")
    both.load("cube.urdf", [0.3, 0.2, 0.1])
    calls = [
        ("getCameraImage", (*SIZE,)),
        ("getCameraImage", (*SIZE, VIEW)),
        ("getCameraImage", (*SIZE, VIEW, [1.0, 2.0])),
        ("getCameraImage", (*SIZE, np.reshape(VIEW, (4, 4)), PROJECTION)),
    ]
    for name, args in calls:
        theirs, mine = getattr(both, name)(*args)
        assert np.mean(theirs[4] == mine[4]) > 0.995, args
        assert np.quantile(np.abs(theirs[3] - mine[3]), 0.99) < 1.0e-3


OBSOLETE = [
    (*SIZE,),
    (*SIZE, VIEW, PROJECTION),
    (*SIZE, [2, -2, 1], [0, 0, 0.3], [0, 0, 1], 0.1, 10),
    (*SIZE, [2, -2, 1], [0, 0, 0.3], [0, 0, 1], 0.1, 10, 60),
    (*SIZE, [0, 0, 0.3], 3.0, 10.0, -20.0, 0.0, 2, 0.1, 10.0, 60.0),
]


@pytest.mark.parametrize("args", OBSOLETE, ids=len)
def test_the_obsolete_function(args):
    """renderImage takes no client: both modules must have client 0."""
    modules = (real, ours)
    made = [module.connect(module.DIRECT) for module in modules]
    try:
        assert made == [0, 0]
        for module in modules:
            module.setAdditionalSearchPath(DATA)
            module.loadURDF("plane.urdf")
            module.loadURDF("cube.urdf", [0.3, 0.2, 0.1])
        theirs, mine = (module.renderImage(*args) for module in modules)
        assert [a.shape for a in theirs[2:]] == [a.shape for a in mine[2:]]
        assert np.mean(np.abs(theirs[2].astype(int) - mine[2]).max(-1) < 3) > 0.99
    finally:
        for module in modules:
            module.disconnect()


LIGHTS = [
    {},
    {"lightDirection": [0, 0, 1]},
    {"lightDirection": [1, 0, 1]},
    {"lightDirection": [0.1, 0.2, 1], "lightAmbientCoeff": 0.2},
    {"lightDirection": [0, 0, -1], "lightDistance": 10.0},
    {"lightColor": [1, 0.5, 0], "lightDirection": [0, 1, 0.2]},
    {"lightDiffuseCoeff": 0.8, "lightSpecularCoeff": 0.3},
    {"lightDirection": [1, 1], "lightColor": None},
]


def test_light_and_that_it_stays(both: Both):
    """One level: bytes are rounded down from slightly different numbers."""
    shape = both.createVisualShape(real.GEOM_BOX, halfExtents=[0.5, 0.5, 0.5], rgbaColor=[1, 0.5, 0.25, 1])[0]
    both.createMultiBody(0, -1, shape)
    for light in [*LIGHTS, {"shadow": 0}]:
        theirs, mine = pictures(both, 16, 16, FROM_ABOVE, NARROW, **light)
        assert np.abs(theirs[2][8, 8].astype(int) - mine[2][8, 8]).max() <= 1, light
    both.resetSimulation()
    both.createMultiBody(0, -1, both.createVisualShape(real.GEOM_BOX, halfExtents=[0.5, 0.5, 0.5])[0])
    theirs, mine = pictures(both, 16, 16, FROM_ABOVE, NARROW)
    assert np.abs(theirs[2][8, 8].astype(int) - mine[2][8, 8]).max() <= 1


def test_a_new_body_is_seen_after_a_reset(ours_only: int):
    """Python gives the address of a body that is gone to the next one, at some time in 200 bodies."""
    options = {"physicsClientId": ours_only}
    for level in np.linspace(0.2, 1.0, 200):
        ours.resetSimulation(**options)
        shape = ours.createVisualShape(
            ours.GEOM_BOX, halfExtents=[0.5, 0.5, 0.5], rgbaColor=[level, 0, 0, 1], **options
        )
        ours.createMultiBody(0, -1, shape, **options)
        picture = ours.getCameraImage(16, 16, FROM_ABOVE, NARROW, **options)[2]
        assert picture[8, 8, 0] == pytest.approx(239 * level, abs=2)


def test_shadows_are_where_the_light_does_not_reach(ours_only: int):
    """Light from 45 degrees on a square at height 1: its shadow is 1 m away and 0.8 as bright."""
    options = {"physicsClientId": ours_only}
    for half, place, color in (
        ([3, 3, 0.1], [0, 0, -0.1], [1, 1, 1, 1]),
        ([0.2, 0.2, 0.01], [1, 0, 1], [1, 0, 0, 1]),
    ):
        shape = ours.createVisualShape(ours.GEOM_BOX, halfExtents=half, rgbaColor=color, **options)
        ours.createMultiBody(0, -1, shape, place, **options)
    light = {
        "lightDirection": [1, 0, 1],
        "lightAmbientCoeff": 0.0,
        "lightDiffuseCoeff": 1.0,
        "lightSpecularCoeff": 0.0,
    }
    picture = ours.getCameraImage(101, 101, FROM_ABOVE, NARROW, shadow=1, **light, **options)
    span = 5.0 * np.tan(np.radians(15.0))
    x = (np.arange(101) / 101 * 2.0 - 1.0) * span
    y = (1.0 - (np.arange(101) + 1.0) / 101 * 2.0) * span
    level = np.maximum(np.abs(x)[None, :], np.abs(y)[:, None]) - 0.2
    sure = (picture[4] == 0) & (np.abs(level) > 0.03)
    wanted = 255.0 * np.sqrt(0.5) * np.where(level < 0.0, 0.8, 1.0)
    assert (sure & (level < 0)).sum() > 50
    assert np.abs(picture[2][..., 0] + 0.5 - wanted)[sure].max() <= 1.01


def test_changed_colors(both: Both):
    kuka = both.load("kuka_iiwa/model.urdf", useFixedBase=1)
    changes = [
        ((kuka, 2), {"rgbaColor": [1, 0.1, 0.2, 1]}),
        ((kuka, -1), {"rgbaColor": [0.2, 0.9, 0.2, 0.3]}),
        ((kuka, 0), {"rgbaColor": [2, -1, 0.5, 1], "specularColor": [0, 5, 0]}),
        ((kuka, 1), {"rgbaColor": [0, 0, 1, 0]}),
        ((kuka, 3), {"rgbaColor": [1, 0, 0]}),
        ((kuka, 3), {"rgbaColor": "abc"}),
        ((kuka, 5), {"rgbaColor": [0.5, 0.2, 0.7, -0.1]}),
        ((kuka, 99), {"rgbaColor": [1, 0, 0, 1]}),
        ((77, 0), {"rgbaColor": [1, 0, 0, 1]}),
        ((kuka, 4), {"rgbaColor": [1, 1, 0, 1], "shapeIndex": 3}),
    ]
    for args, change in changes:
        assert both.changeVisualShape(*args, **change) == (None, None)
        both.same("getVisualShapeData", kuka)
        theirs, mine = pictures(both, *SIZE, VIEW, PROJECTION, flags=1, shadow=0)
        assert np.mean(theirs[4] == mine[4]) > 0.995, (args, change)
        common = (theirs[4] == mine[4]) & (theirs[4] >= 0)
        assert np.abs(theirs[2].astype(int) - mine[2])[common].mean() < 4.0, (args, change)
    assert both.resetVisualShapeData(kuka, 2, rgbaColor=[0, 1, 1, 1]) == (None, None)
    both.same("getVisualShapeData", kuka)


def test_several_shapes_of_a_link(both: Both):
    """shapeIndex counts in pictures, not in what is reported."""
    shapes = both.createVisualShapeArray(
        [real.GEOM_BOX, real.GEOM_BOX], halfExtents=[[0.1] * 3, [0.2] * 3],
        visualFramePositions=[[0, 0, 0], [0.5, 0, 0]], rgbaColors=[[1, 0, 0, 1], [0, 1, 0, 1]],
    )[0]  # fmt: skip
    body = both.createMultiBody(0, -1, shapes)[0]
    both.same("getVisualShapeData", body, 1)
    for shape in (1, 0, 7, -1):
        both.changeVisualShape(body, -1, shapeIndex=shape, rgbaColor=[0.1 * shape, 0.5, 1, 1])
        both.same("getVisualShapeData", body, 1)
        theirs, mine = pictures(both, *SIZE, VIEW, PROJECTION, shadow=0)
        assert np.abs(theirs[2].astype(int) - mine[2]).mean() < 0.5, shape


def test_textures(both: Both):
    """Ids of textures of files and of loadTexture, and pictures with the textures of another body."""
    plane = both.load("plane.urdf")
    cube = both.load(
        "cube.urdf", [0.3, 0.1, 0.4], real.getQuaternionFromEuler([0.3, 0.2, 0.5]), globalScaling=0.5
    )
    first = both.loadTexture("tex256.png")
    again = both.loadTexture("tex256.png")
    assert first[0] == first[1]
    assert again[0] == again[1] == first[0] + 1
    for texture in (first[0], -1, 0, 99, again[0]):
        for body in (plane, cube):
            both.changeVisualShape(body, -1, textureUniqueId=texture)
            both.same("getVisualShapeData", body, 1)
        theirs, mine = pictures(both, *SIZE, VIEW, PROJECTION, shadow=0)
        near = (theirs[4] == mine[4]) & (distance(theirs[3]) < 4.0)
        difference = np.abs(theirs[2].astype(int) - mine[2])[near].max(-1)
        assert np.mean(difference < 4) > 0.9, texture
    both.resetSimulation()
    sphere = both.load("sphere2.urdf")
    both.same("getVisualShapeData", sphere, 1)


def test_changed_pixels_of_a_texture(ours_only: int):
    """Of use only with a window in PyBullet; here pictures show it."""
    options = {"physicsClientId": ours_only}
    plane = ours.loadURDF("plane.urdf", **options)
    texture = ours.loadTexture("tex256.png", **options)
    ours.changeVisualShape(plane, -1, textureUniqueId=texture, **options)
    ours.changeTexture(texture, [10, 200, 30] * 6, 3, 2, **options)
    bright = {"lightAmbientCoeff": 1.0, "lightDiffuseCoeff": 0.0, "lightSpecularCoeff": 0.0}
    picture = ours.getCameraImage(8, 8, FROM_ABOVE, NARROW, **bright, **options)
    assert np.all(picture[2] == [10, 200, 30, 255])


def test_what_cannot_be_done(both: Both):
    both.load("plane.urdf")
    for module, client in zip((real, ours), both.ids):
        for name, args, text in (
            ("loadTexture", ("nope.png",), "Error loading texture"),
            ("changeTexture", (99, [0] * 12, 2, 2), "Error processing changeTexture."),
        ):
            with pytest.raises(module.error, match=f"^{text}$"):
                getattr(module, name)(*args, physicsClientId=client)
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            module.getCameraImage(2.5, 1, physicsClientId=client)
    for call, text in (
        (lambda: ours.getCameraImage(-2, 1, physicsClientId=both.ids[1]), "-2 x 1"),
        (lambda: ours.getCameraImage(2, 1, [0.0] * 16, PROJECTION, physicsClientId=both.ids[1]), "singular"),
        (lambda: ours.changeTexture(0, [0] * 9, 2, 2, physicsClientId=both.ids[1]), "9 values"),
        (lambda: ours.changeTexture(0, [300] * 12, 2, 2, physicsClientId=both.ids[1]), "0..255"),
    ):
        with pytest.raises(ours.error, match=text):
            call()
    compare(*both.getVisualShapeData(77), 0.0, "no body")
    theirs, mine = both.getCameraImage(0, 0)
    compare([a.shape for a in theirs[2:]], [a.shape for a in mine[2:]], 0.0, "no pixels")


def test_pictures_follow_bodies(both: Both):
    """After steps, resets, new and removed bodies, also when an id is used again."""
    both.load("plane.urdf")
    cube = both.load("cube.urdf", [0, 0, 1.2], globalScaling=0.4)

    def check() -> None:
        theirs, mine = pictures(both, *SIZE, VIEW, PROJECTION)
        assert np.mean(theirs[4] == mine[4]) > 0.99

    check()
    both.step(60)
    check()
    both.resetBasePositionAndOrientation(cube, [0.3, 0.2, 0.3], [0.2, 0.1, 0.3, 0.9])
    check()
    both.changeVisualShape(cube, -1, rgbaColor=[1, 0, 0, 0])
    both.removeBody(cube)
    check()
    assert both.load("r2d2.urdf", [0, 0, 0.5]) == cube
    check()
    both.resetSimulation()
    check()


def test_soft_bodies_are_seen_where_their_points_are(ours_only: int):
    """A cloth is put elsewhere: a camera that goes with it sees it as before, one that stays does not."""
    options = {"physicsClientId": ours_only}
    args = {"mass": 1.0, "useMassSpring": 1, "scale": 0.5}
    cloth = ours.loadSoftBody("cloth_z_up.obj", [0, 0, 1], **args, **options)
    assert ours.getVisualShapeData(cloth, 1, **options)[0][:4] == (cloth, -1, ours.GEOM_MESH, (1.0, 1.0, 1.0))
    ours.changeVisualShape(cloth, -1, rgbaColor=[1, 0, 0, 1], flags=ours.VISUAL_SHAPE_DOUBLE_SIDED, **options)

    def picture(height: float):
        view = ours.computeViewMatrix([0, -1.5, height + 0.7], [0, 0, height], [0, 0, 1])
        return ours.getCameraImage(*SIZE, view, PROJECTION, **options)

    before = picture(1.0)
    seen = before[4] == cloth
    assert seen.sum() > 500
    assert np.all(before[2][seen][:, 1:3] == 0)
    ours.resetBasePositionAndOrientation(cloth, [0, 0, 0.4], [0, 0, 0, 1], **options)
    assert np.mean(picture(1.0)[4] == before[4]) < 0.9
    after = picture(0.4)
    assert np.mean(after[4] == before[4]) > 0.99


def test_pictures_of_many_worlds():
    """Arrays have a leading axis; a world looks as it does alone."""
    client = ours.connect(ours.DIRECT, options="--num_worlds=3 --device=cpu")
    single = ours.connect(ours.DIRECT)
    try:
        heights = np.array([0.3, 0.8, 1.4])
        for one in (client, single):
            ours.setAdditionalSearchPath(DATA, physicsClientId=one)
            ours.loadURDF("plane.urdf", physicsClientId=one)
            ours.loadURDF("cube.urdf", [0, 0, 0.3], globalScaling=0.4, physicsClientId=one)
        places = np.stack([np.zeros(3), np.zeros(3), heights], -1)
        ours.resetBasePositionAndOrientation(1, places, [0, 0, 0, 1], physicsClientId=client)
        colors = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]])
        ours.changeVisualShape(1, -1, rgbaColor=colors, physicsClientId=client)
        together = ours.getCameraImage(*SIZE, VIEW, PROJECTION, shadow=1, physicsClientId=client)
        assert [a.shape for a in together[2:]] == [(3, 120, 160, 4), (3, 120, 160), (3, 120, 160)]
        for world in range(3):
            place = [0, 0, heights[world]]
            ours.resetBasePositionAndOrientation(1, place, [0, 0, 0, 1], physicsClientId=single)
            ours.changeVisualShape(1, -1, rgbaColor=colors[world], physicsClientId=single)
            alone = ours.getCameraImage(*SIZE, VIEW, PROJECTION, shadow=1, physicsClientId=single)
            for many, one in zip(together[2:], alone[2:]):
                np.testing.assert_array_equal(many[world], one)
    finally:
        ours.disconnect(client)
        ours.disconnect(single)
