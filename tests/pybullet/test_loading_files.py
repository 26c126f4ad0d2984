"""Files of pybullet_data, read by the real module and by ours: names, joints, masses, shapes, colours."""

import pytest

pybullet = pytest.importorskip("pybullet")

from pathlib import Path  # noqa: E402

import pybullet_data  # noqa: E402
from pybullet_both import compare  # noqa: E402

DATA = Path(pybullet_data.getDataPath())
HULL_TOLERANCE = 1.0e-3
"""PyBullet rounds the corners of hulls to a grid of 1e-4 of their extent; inertias of hulls inherit that."""
ROBOTS = [
    "r2d2.urdf",
    "kuka_iiwa/model.urdf",
    "franka_panda/panda.urdf",
    "husky/husky.urdf",
    "laikago/laikago_toes.urdf",
    "humanoid/humanoid.urdf",
    "a1/a1.urdf",
    "aliengo/aliengo.urdf",
    "cartpole.urdf",
    "pendulum5.urdf",
    "pr2_gripper.urdf",
    "quadruped/minitaur_v1.urdf",
    "quadruped/spirit40.urdf",
    "quadruped/vision60.urdf",
    "mini_cheetah/mini_cheetah.urdf",
    "racecar/racecar_differential.urdf",
    "differential/diff_ring.urdf",
    "biped/biped2d_pybullet.urdf",
    "xarm/xarm6_with_gripper.urdf",
    "cube_no_rotation.urdf",
    "cube_rotate.urdf",
    "spherical_joint_limit.urdf",
    "TwoJointRobot_w_fixedJoints.urdf",
    "bicycle/bike.urdf",
    "table_square/table_square.urdf",
]
OBJECTS = [
    "plane.urdf",
    "plane100.urdf",
    "plane_implicit.urdf",
    "cube.urdf",
    "cube_small.urdf",
    "cube_collisionfilter.urdf",
    "sphere2.urdf",
    "sphere2red.urdf",
    "sphere_with_restitution.urdf",
    "sphere_1cm.urdf",
    "soccerball.urdf",
    "samurai.urdf",
    "teddy_vhacd.urdf",
    "duck_vhacd.urdf",
    "jenga/jenga.urdf",
    "lego/lego.urdf",
    "domino/domino.urdf",
    "tray/traybox.urdf",
    "table/table.urdf",
    "objects/mug.urdf",
    "block.urdf",
    "random_urdfs/000/000.urdf",
    "random_urdfs/512/512.urdf",
]
SDF = sorted(str(path.relative_to(DATA)) for path in DATA.rglob("*.sdf"))
MJCF = sorted(str(path.relative_to(DATA)) for path in (DATA / "mjcf").glob("*.xml"))
CRASHES = {"gripper/wsg50_one_motor_gripper_free_base.sdf"}
"""Files that end the process of the real module."""


def same_joints(both, real: int, ours: int) -> int:
    """Compare the joints of two bodies, all 17 fields, and return their number."""
    mine, other = both.modules
    count = other.getNumJoints(real)
    assert mine.getNumJoints(ours) == count
    compare(other.getBodyInfo(real), mine.getBodyInfo(ours), 0.0, "getBodyInfo")
    for joint in range(count):
        want, got = other.getJointInfo(real, joint), mine.getJointInfo(ours, joint)
        if want[1].startswith(b"jointfix"):  # numbered over all files that the process has read
            want, got = (*want[:1], b"jointfix", *want[2:]), (*got[:1], got[1][:8], *got[2:])
        compare(want, got, 2.0e-6, f"getJointInfo {joint}")
    return count


def same_links(both, real: int, ours: int, count: int) -> None:
    """Compare masses, frames and shapes of all links."""
    mine, other = both.modules
    for link in range(-1, count):
        want, got = other.getDynamicsInfo(real, link), mine.getDynamicsInfo(ours, link)
        for item, (a, b) in enumerate(zip(want, got, strict=True)):
            if item == 2 and link == -1 and want[0] == 0.0:
                continue  # of what cannot move, ours is zero
            if item == 2:
                scale = max(max(abs(value) for value in a), 1.0e-12)
                a, b = tuple(x / scale for x in a), tuple(x / scale for x in b)
                compare(a, b, HULL_TOLERANCE, f"inertia of link {link}")
            else:
                compare(a, b, 2.0e-6, f"getDynamicsInfo {link}[{item}]")


def turned_alike(shapes: tuple) -> list:
    """Visual shapes without their body, with quaternions (x, y, z, w) whose largest number is positive."""
    rows = []
    for _, *before, turn, color in shapes:
        sign = 1.0 if max(turn, key=abs) > 0.0 else -1.0
        rows.append((*before, [sign * x for x in turn], color))
    return rows


def same_shapes(both, real: int, ours: int, count: int) -> None:
    """Compare collision and visual shapes; the real module leaves rubbish in their first two entries."""
    mine, other = both.modules
    for link in range(-1, count):
        want, got = other.getCollisionShapeData(real, link), mine.getCollisionShapeData(ours, link)
        compare([c[2:] for c in want], [c[2:] for c in got], 1.0e-5, f"getCollisionShapeData {link}")
    want, got = other.getVisualShapeData(real), mine.getVisualShapeData(ours)
    compare([v[1:] for v in want], [v[1:] for v in got], 1.0e-5, "getVisualShapeData")


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def pair(both):
    """The two worlds, with the modules bound to them."""
    from bound_modules import bind

    both.modules = bind(both)
    return both


@pytest.mark.parametrize("name", ROBOTS + OBJECTS)
def test_urdf(pair, name):
    body = pair.load(name)
    count = same_joints(pair, body, body)
    same_links(pair, body, body, count)
    same_shapes(pair, body, body, count)


@pytest.mark.parametrize("name", ROBOTS[::3])
@pytest.mark.parametrize(
    "flag",
    ["URDF_USE_IMPLICIT_CYLINDER", "URDF_MAINTAIN_LINK_ORDER", "URDF_MERGE_FIXED_LINKS"],
)
def test_flags_that_change_the_structure(pair, name, flag):
    body = pair.load(name, flags=getattr(pybullet, flag))
    count = same_joints(pair, body, body)
    same_links(pair, body, body, count)
    same_shapes(pair, body, body, count)


# two moments of cube_no_rotation and biped2d are equal: their axes are any pair, chosen by rounding
@pytest.mark.parametrize(
    "name", [n for n in ROBOTS if n not in ("cube_no_rotation.urdf", "biped/biped2d_pybullet.urdf")]
)
def test_inertia_from_file(pair, name):
    body = pair.load(name, flags=pybullet.URDF_USE_INERTIA_FROM_FILE)
    count = same_joints(pair, body, body)
    same_links(pair, body, body, count)


@pytest.mark.parametrize(
    "name", ["r2d2.urdf", "husky/husky.urdf", "laikago/laikago_toes.urdf", "teddy_vhacd.urdf"]
)
def test_global_scaling(pair, name):
    body = pair.load(name, globalScaling=1.7)
    count = same_joints(pair, body, body)
    same_links(pair, body, body, count)
    same_shapes(pair, body, body, count)


@pytest.mark.parametrize(
    "flag",
    [
        "URDF_GOOGLEY_UNDEFINED_COLORS",
        "URDF_USE_MATERIAL_COLORS_FROM_MTL",
        "URDF_IGNORE_VISUAL_SHAPES",
        "URDF_IGNORE_COLLISION_SHAPES",
    ],
)
@pytest.mark.parametrize(
    "name", ["r2d2.urdf", "table/table.urdf", "tray/traybox.urdf", "mini_cheetah/mini_cheetah.urdf"]
)
def test_flags_that_change_shapes(pair, name, flag):
    body = pair.load(name, flags=getattr(pybullet, flag))
    same_shapes(pair, body, body, pair.modules[1].getNumJoints(body))


@pytest.mark.parametrize("name", [name for name in SDF if name not in CRASHES])
def test_sdf(pair, name):
    mine, other = pair.modules
    try:
        real = other.loadSDF(name)
    except pybullet.error as reason:
        with pytest.raises(type(mine_error(mine)), match=str(reason)):
            mine.loadSDF(name)
        return
    ours = mine.loadSDF(name)
    assert len(real) == len(ours)
    for a, b in zip(real, ours):
        count = same_joints(pair, a, b)
        same_links(pair, a, b, count)
        same_shapes(pair, a, b, count)


def mine_error(module) -> Exception:
    """An instance of our error."""
    return module.error()


def fixed_joint_numbers(module, name: str) -> list[int]:
    """Numbers that stand in the names of the fixed joints of a file."""
    bodies = module.loadMJCF(name)
    names = [module.getJointInfo(b, j)[1].decode() for b in bodies for j in range(module.getNumJoints(b))]
    return [int(name.split("_")[1]) for name in names if name.startswith("jointfix")]


def test_mjcf_joints_are_numbered_over_all_files(pair):
    """From file to file, and on when the same one is read again."""
    counts = []
    for module in pair.modules:
        files = ("mjcf/hopper.xml", "mjcf/ant.xml", "mjcf/hopper.xml")
        found = [number for name in files for number in fixed_joint_numbers(module, name)]
        counts.append([number - min(found) for number in found])
    assert counts[0] == counts[1]
    assert len(set(counts[0])) == len(counts[0]) > 8


@pytest.mark.parametrize("name", MJCF)
def test_mjcf(pair, name):
    # getCollisionShapeData of the real module crashes with capsules that are given by their ends
    mine, other = pair.modules
    real, ours = other.loadMJCF(f"mjcf/{Path(name).name}"), mine.loadMJCF(f"mjcf/{Path(name).name}")
    assert len(real) == len(ours)
    for a, b in zip(real, ours):
        count = same_joints(pair, a, b)
        same_links(pair, a, b, count)
        want, got = other.getBasePositionAndOrientation(a), mine.getBasePositionAndOrientation(b)
        compare(want, got, 1.0e-6, "base")
        for joint in range(count):
            want, got = other.getLinkState(a, joint), mine.getLinkState(b, joint)
            compare(want[:6], got[:6], 1.0e-5, f"getLinkState {joint}")
        want, got = other.getVisualShapeData(a), mine.getVisualShapeData(b)
        compare(turned_alike(want), turned_alike(got), 1.0e-5, "getVisualShapeData")
