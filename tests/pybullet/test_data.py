"""Our models against those of pybullet_data: both loaded by the real module, which says what it sees."""

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

SHAPES = {2: "sphere", 3: "box", 4: "cylinder", 5: "mesh", 6: "plane", 7: "capsule"}
NEW_SHAPES = ("sphere", "box", "plane", "capsule")


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
