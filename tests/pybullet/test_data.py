"""Our models against those of pybullet_data: both loaded by the real module, which says what it sees."""

import re
from pathlib import Path

import numpy as np
import pytest

import newtonsim

p = pytest.importorskip("pybullet")
pybullet_data = pytest.importorskip("pybullet_data")

DATA = Path(newtonsim.__file__).parent / "pybullet_compat" / "data"
REAL = Path(pybullet_data.getDataPath())
FILES = sorted(
    str(path.relative_to(DATA))
    for path in DATA.rglob("*")
    if path.suffix in (".urdf", ".sdf", ".xml") and "random_urdfs" not in path.parts
)
WITHOUT_ORIGINAL = {"torus_deform.urdf", "toys/concave_box.urdf"}
"""The real module cannot load its own: files that they name are missing from the wheel."""


@pytest.fixture
def client():
    client = p.connect(p.DIRECT)
    yield client
    p.disconnect(client)


def load(root: Path, name: str, client: int, flags: int = 0) -> list[int]:
    p.setAdditionalSearchPath(str(root), physicsClientId=client)
    if name.endswith(".urdf"):
        return [p.loadURDF(str(root / name), flags=flags, physicsClientId=client)]
    return list(
        (p.loadSDF if name.endswith(".sdf") else p.loadMJCF)(str(root / name), physicsClientId=client)
    )


def describe(body: int, client: int) -> list[dict]:
    links = []
    for index in range(-1, p.getNumJoints(body, physicsClientId=client)):
        dynamics = p.getDynamicsInfo(body, index, physicsClientId=client)
        link = {"mass": dynamics[0], "inertia": dynamics[2], "center": dynamics[3], "frame": dynamics[4]}
        link["contact"] = (dynamics[1], *dynamics[5:10])
        if index < 0:
            link["name"] = p.getBodyInfo(body, physicsClientId=client)[0]
            pose = p.getBasePositionAndOrientation(body, physicsClientId=client)
            link["position"], link["rotation"] = pose
        else:
            info = p.getJointInfo(body, index, physicsClientId=client)
            state = p.getLinkState(body, index, computeForwardKinematics=1, physicsClientId=client)
            link["name"], link["joint"], link["type"], link["parent"] = info[12], info[1], info[2], info[16]
            link["dynamics"], link["limits"], link["axis"] = info[6:8], info[8:12], info[13]
            link["position"], link["rotation"] = state[4:6]
            link["indices"] = info[3:6]
        links.append(link)
    return links


def angle(first: tuple, second: tuple) -> float:
    first, second = np.array(first), np.array(second)
    return 2 * min(np.linalg.norm(first - second), np.linalg.norm(first + second))


@pytest.mark.parametrize("name", [name for name in FILES if name not in WITHOUT_ORIGINAL])
def test_structure_is_that_of_the_original(name: str, client: int):
    ours, originals = load(DATA, name, client), load(REAL, name, client)
    assert len(ours) == len(originals)
    for our, original in zip(ours, originals, strict=True):
        pairs = list(zip(describe(our, client), describe(original, client), strict=True))
        for mine, theirs in pairs:
            exact = ("name", "joint", "type", "parent", "indices")
            if name.endswith(".xml"):
                exact = exact[:1] + exact[2:] if mine.get("joint", b"").startswith(b"jointfix") else exact
            assert [mine.get(key) for key in exact] == [theirs.get(key) for key in exact]
            label = theirs["name"]
            assert mine["mass"] == pytest.approx(theirs["mass"], rel=1e-4, abs=1e-9), label
            np.testing.assert_allclose(mine["center"], theirs["center"], atol=2e-6, err_msg=label)
            np.testing.assert_allclose(mine["contact"], theirs["contact"], rtol=1e-6, err_msg=label)
            np.testing.assert_allclose(mine["position"], theirs["position"], atol=2e-6, err_msg=label)
            assert angle(mine["frame"], theirs["frame"]) < 1e-5, label
            assert angle(mine["rotation"], theirs["rotation"]) < 1e-5, label
            if "joint" in mine:
                np.testing.assert_allclose(
                    mine["limits"], theirs["limits"], rtol=1e-5, atol=1e-6, err_msg=label
                )
                np.testing.assert_allclose(mine["dynamics"], theirs["dynamics"], rtol=1e-6, err_msg=label)
                np.testing.assert_allclose(mine["axis"], theirs["axis"], atol=1e-6, err_msg=label)


SIZES = [name for name in FILES if name not in WITHOUT_ORIGINAL]


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_computed_inertias_are_close(name: str, client: int):
    """Meshes are shapes of ours: sizes agree to a tenth, the inertias that follow from them to a third."""
    ours, originals = load(DATA, name, client), load(REAL, name, client)
    for our, original in zip(ours, originals, strict=True):
        for index in range(-1, p.getNumJoints(our, physicsClientId=client)):
            mine, theirs = (
                np.array(p.getAABB(body, index, physicsClientId=client)) for body in (our, original)
            )
            size = np.ptp(theirs, axis=0)
            assert np.all(np.abs(mine - theirs) <= 0.1 * size.max() + 0.01), (index, mine, theirs)
            mine, theirs = (
                np.array(p.getDynamicsInfo(body, index, physicsClientId=client)[2])
                for body in (our, original)
            )
            np.testing.assert_allclose(
                mine, theirs, rtol=0.35, atol=0.1 * theirs.max(initial=0), err_msg=str(index)
            )


@pytest.mark.parametrize(
    "name", sorted(WITHOUT_ORIGINAL) + [f"random_urdfs/{k:03d}/{k:03d}.urdf" for k in (0, 7, 29)]
)
def test_models_without_original_load(name: str, client: int):
    if name.startswith("torus"):
        p.resetSimulation(p.RESET_USE_DEFORMABLE_WORLD, physicsClientId=client)
    (body,) = load(DATA, name, client)
    assert p.getNumJoints(body, physicsClientId=client) == 0


def test_every_file_that_a_model_names_exists():
    missing = []
    for path in DATA.rglob("*"):
        if path.suffix in (".urdf", ".sdf", ".mtl"):
            pattern = r'filename="([^"]+)"|<uri>([^<]+)</uri>|map_Kd (\S+)'
            names = [next(filter(None, groups)) for groups in re.findall(pattern, path.read_text())]
            missing += [f"{path.name}: {name}" for name in names if not (path.parent / name).is_file()]
    assert missing == []


@pytest.mark.parametrize(
    "name", ["cube.obj", "duck.obj", "soccerball.obj", "torus/torus_textured.obj", "bunny.obj"]
)
def test_meshes_enclose_a_volume(name: str):
    """The signed volume of a closed surface with faces outwards is positive and below that of its box."""
    rows = [line.split() for line in (DATA / name).read_text().splitlines()]
    points = np.array([row[1:4] for row in rows if row and row[0] == "v"], float)
    faces = np.array([[v.split("/")[0] for v in row[1:]] for row in rows if row and row[0] == "f"], int) - 1
    volume = np.linalg.det(points[faces]).sum() / 6
    assert 0.25 < volume / np.ptp(points, axis=0).prod() <= 1.0 + 1e-6


@pytest.mark.parametrize("name", ["torus.vtk", "ball.vtk", "cube_mesh.vtk"])
def test_tetrahedra_fill_the_body(name: str, client: int):
    lines = (DATA / name).read_text().splitlines()
    count = int(lines[4].split()[1])
    points = np.array([line.split() for line in lines[5 : 5 + count]], float)
    cells = np.array([line.split()[1:] for line in lines[6 + count :] if line.startswith("4 ")], int)
    corner = points[cells]
    volumes = np.linalg.det(corner[:, 1:] - corner[:, :1]) / 6
    assert volumes.min() > 0.0
    exact = {"torus.vtk": 2 * np.pi**2 * 0.5 * 0.25**2, "ball.vtk": 4 / 3 * np.pi, "cube_mesh.vtk": 1.0}[name]
    assert volumes.sum() == pytest.approx(exact, rel=0.2)
    p.resetSimulation(p.RESET_USE_DEFORMABLE_WORLD, physicsClientId=client)
    p.setAdditionalSearchPath(str(DATA), physicsClientId=client)
    arguments = {"mass": 1, "useNeoHookean": 1, "physicsClientId": client}
    assert p.loadSoftBody("sphere_smooth.obj", simFileName=str(DATA / name), **arguments) >= 0


def test_cloth_has_its_corners_where_scripts_anchor_it(client: int):
    p.resetSimulation(p.RESET_USE_DEFORMABLE_WORLD, physicsClientId=client)
    p.setAdditionalSearchPath(str(DATA), physicsClientId=client)
    body = p.loadSoftBody(str(DATA / "cloth_z_up.obj"), mass=1, useMassSpring=1, physicsClientId=client)
    count, points = p.getMeshData(body, -1, flags=p.MESH_DATA_SIMULATION_MESH, physicsClientId=client)
    assert count == 25
    corners = {15: (1, 1, 0), 19: (-1, 1, 0), 20: (-1, -1, 0), 24: (1, -1, 0)}
    for index, corner in corners.items():
        np.testing.assert_allclose(points[index], corner, atol=1e-6)
