"""Small robot files: what PyBullet tolerates and refuses, and what it makes of masses, frames and names."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

from bound_modules import bind  # noqa: E402
from pybullet_both import compare  # noqa: E402

import newtonsim.pybullet_compat as compat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
BALL = '<sphere radius="0.1"/>'
UNIT = 'ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"'


def inertial(mass=1.0, xyz="0 0 0", rpy="0 0 0", inertia=UNIT) -> str:
    return f'<inertial><origin xyz="{xyz}" rpy="{rpy}"/><mass value="{mass}"/><inertia {inertia}/></inertial>'


def shape(geometry=BALL, xyz="0 0 0", rpy="0 0 0", tag="collision", more="") -> str:
    return f'<{tag} {more}><origin xyz="{xyz}" rpy="{rpy}"/><geometry>{geometry}</geometry></{tag}>'


def link(name: str, *parts: str) -> str:
    return f'<link name="{name}">{"".join(parts)}</link>'


def joint(name: str, parent: str, child: str, kind="fixed", rest='<origin xyz="0 0 1"/>') -> str:
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{rest}</joint>'


def robot(*parts: str) -> str:
    return f'<?xml version="1.0"?><robot name="r">{"".join(parts)}</robot>'


@pytest.fixture
def load(both, tmp_path):
    """Load a text in both modules and compare everything that files decide."""
    mine, other = bind(both)
    count = 0

    def load(text: str, flags: int = 0, **keywords) -> tuple:
        nonlocal count
        count += 1
        path = tmp_path / f"robot{count}.urdf"
        path.write_text(text)
        answers = []
        for module in (other, mine):
            body = module.loadURDF(str(path), flags=flags, **keywords)
            joints = module.getNumJoints(body)
            answers.append(
                (
                    module.getBodyInfo(body),
                    module.getBasePositionAndOrientation(body),
                    [module.getJointInfo(body, k) for k in range(joints)],
                    [module.getDynamicsInfo(body, k) for k in range(-1, joints)],
                    [[s[2:] for s in module.getCollisionShapeData(body, k)] for k in range(-1, joints)],
                    module.getVisualShapeData(body),
                )
            )
        compare(*answers, 1.0e-6, text)
        return answers[1]

    return load


@pytest.fixture
def refuse(both, tmp_path):
    """Load a text that both modules must refuse with the same words."""

    def refuse(text: str) -> None:
        path = tmp_path / "refused.urdf"
        path.write_text(text)
        messages = []
        for module, kind in zip(bind(both), (compat.error, pybullet.error), strict=True):
            with pytest.raises(kind) as caught:
                module.loadURDF(str(path))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]

    return refuse


@pytest.mark.parametrize(
    "text",
    [
        "\n \n" + robot(link("a", inertial(), shape())),
        robot(link("a", inertial(), shape())) + "\n\0\0",
        robot(
            link("a", inertial(), shape()),
            "<xacro:thing x='1'/>",
            "<gazebo reference='a'><mu>1</mu></gazebo>",
        ),
        "<!DOCTYPE robot>" + robot(link("a", inertial(), shape())).split("?>")[1],
        robot(link("a", inertial(), "<!-- a > b -->", shape('<box size="1, 2, 3"/>'))),
        robot(link("a", inertial("2.5kg", "1 2", "x 1 1"), shape('<box size="1 2 3 4"/>'))),
        robot(link("a", inertial(), shape('<sphere radius="1"/><box size="1 1 1"/>'))),
    ],
    ids=["blank start", "zeros behind", "prefixes", "doctype", "commas", "units", "two geometries"],
)
def test_lenient_texts(load, text):
    load(text)


@pytest.mark.parametrize(
    "text",
    [
        "<robbot name='r'/>",
        "<robot><link name='a'/></robot>",
        robot(),
        robot("<link/>"),
        robot(link("a"), link("a")),
        robot(link("a"), joint("j", "a", "b")),
        robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")),
        robot(link("a"), link("b"), joint("j", "a", "b", "screw")),
        robot(link("a"), link("b"), joint("j", "a", "b", "revolute")),
        robot(link("a", "<inertial><mass value='1'/></inertial>")),
        robot(link("a", "<collision/>")),
        robot(link("a", shape("<cone/>"))),
        robot(link("a", shape("<sphere/>"))),
        robot(link("a", shape('<mesh filename="missing.obj"/>'))),
        robot(link("a", shape('<mesh filename="missing.obj"/>', tag="visual"))),
        robot("<a></b>", link("a")),
        "no xml at all",
    ],
)
def test_refused_texts(refuse, text):
    refuse(text)


@pytest.mark.parametrize("kind", ["continuous", "prismatic", "spherical", "planar", "fixed", "floating"])
def test_joint_kinds(load, kind):
    rest = (
        '<origin xyz="1 2 3" rpy="0.3 0.2 0.1"/><axis xyz="0 2 1"/>'
        '<limit lower="-1" upper="2" effort="3" velocity="4"/><dynamics damping="0.3" friction="0.2"/>'
    )
    base = link("a", inertial(1, "1 2 3", "0.1 0.2 0.3"), shape('<box size="1 2 3"/>'))
    arm = link("b", inertial(1, "0.1 0.2 0.3", "0.5 0.2 0.3"), shape('<box size="1 2 3"/>', "1 1 1"))
    load(robot(base, arm, joint("j", "a", "b", kind, rest)))


@pytest.mark.parametrize(
    "rest", ["<limit/>", '<limit lower="-1"/>', '<limit upper="2"/>', '<limit lower="2" upper="1"/>']
)
def test_partial_limits(load, rest):
    load(robot(link("a", inertial()), link("b", inertial()), joint("j", "a", "b", "revolute", rest)))


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [shape('<box size="1 2 3"/>')],
        [shape('<box size="1 2 3"/>', rpy="0.3 0.2 0")],
        [shape('<capsule radius="1" length="3"/>')],
        [shape('<capsule radius="1" length="3"/>', rpy="0.3 0.2 0")],
        [shape('<cylinder radius="1" length="3"/>')],
        [shape('<cylinder radius="1" length="3"/>', rpy="0.3 0.2 0")],
        [shape('<sphere radius="1"/>', "1 2 3", "0.4 0.5 0.6")],
        [shape('<sphere radius="1"/>', "1 2 3"), shape('<sphere radius="1"/>')],
        [shape('<plane normal="0 1 0"/>')],
        [shape(), "<contact><inertia_scaling value='3'/></contact>"],
    ],
)
def test_inertia_of_shapes(load, parts):
    load(robot(link("a", inertial(2.0), *parts)))
    load(robot(link("a", inertial(2.0, "0.1 0.2 0.3"), *parts)))


def test_inertia_of_files(load):
    matrices = (
        "1 1 2 0 0 0",
        "1 1 2.1 0 0 0",
        "-1 2 3 0 0 0",
        "1 1 1 .3 .2 .1",
        "3 4 5 .3 -.2 .1",
        "1 2 3 .1 .2 .3",
    )
    for matrix in matrices:
        names = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        given = " ".join(f'{name}="{value}"' for name, value in zip(names, matrix.split(), strict=True))
        text = robot(link("a", inertial(2.0, "1 2 3", "0.1 0.2 0.3", given), shape()))
        load(text, pybullet.URDF_USE_INERTIA_FROM_FILE)


def test_missing_inertials(load):
    load(robot(link("a", shape()), link("b", inertial()), joint("j", "a", "b")))
    load(robot(link("world"), link("b", inertial(), shape()), joint("j", "world", "b", "continuous")))


def test_contact(load):
    names = (
        "lateral_friction",
        "rolling_friction",
        "spinning_friction",
        "restitution",
        "stiffness",
        "damping",
    )
    values = "".join(f'<{name} value="{0.1 * k + 0.2}"/>' for k, name in enumerate(names))
    load(robot(link("a", inertial(), shape(), f"<contact>{values}<friction_anchor/></contact>")))


def test_materials_of_one_name(load):
    def seen(material: str) -> str:
        return shape(tag="visual").replace("</visual>", f"{material}</visual>")

    red, blue = (f'<material name="m"><color rgba="{rgba}"/></material>' for rgba in ("1 0 0 1", "0 0 1 .5"))
    named = '<material name="m"/>'
    load(robot(link("a", inertial(), seen(red), seen(named), seen(blue), seen(named), seen(""))))
    load(robot(link("a", inertial(), seen(named)), blue))
    load(robot(link("a", inertial(), seen('<material name="n"><color rgba="1 0 0"/></material>'))))


def test_order_of_links(load):
    links = "".join(link(name, inertial()) for name in "adebc")
    joints = joint("j1", "a", "c") + joint("j2", "c", "e") + joint("j3", "a", "b") + joint("j4", "b", "d")
    names = [info[12] for info in load(robot(links, joints))[2]]
    assert names == [b"c", b"e", b"b", b"d"]


@pytest.mark.parametrize("flags", [0, pybullet.URDF_USE_INERTIA_FROM_FILE])
def test_merged_links(load, flags):
    inertia = 'ixx="2" iyy="2.5" izz="3" ixy="0.3" ixz="0" iyz="0"'
    chain = [
        link("a", inertial(1, "0 0 0.5"), shape()),
        link("b", inertial(2, "0 0.1 0", "0.3 0 0", inertia), shape(), shape(BALL, "0 0 1", tag="visual")),
        link("c", inertial(4, inertia=inertia), shape()),
        link("d", inertial(1), shape()),
    ]
    joints = [
        joint("j", "a", "b", "fixed", '<origin xyz="0.1 0.2 1" rpy="0.4 0.5 0.6"/>'),
        joint("k", "b", "c", "fixed", '<origin xyz="0.3 0.2 0" rpy="0 0.5 0"/>'),
        joint("l", "b", "d", "continuous", '<origin xyz="0.3 0.2 0"/><axis xyz="0 1 0"/>'),
    ]
    load(robot(*chain, *joints), flags | pybullet.URDF_MERGE_FIXED_LINKS)
    fixed = {"useFixedBase": 1}
    load(robot(*chain, *joints), flags | pybullet.URDF_MERGE_FIXED_LINKS, **fixed)


def test_names_of_mesh_files(both, tmp_path):
    """Meshes lie beside the file, above it, or in a package."""
    box = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
    inner = tmp_path / "robots" / "arm"
    (inner / "meshes").mkdir(parents=True)
    for place in ("meshes", "robots/arm/meshes", "robots/meshes"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / f"{place.replace('/', '_')}.obj").write_text(box)
    names = (
        "meshes/robots_arm_meshes.obj",
        "./meshes/robots_arm_meshes.obj",
        "../meshes/robots_meshes.obj",
        "meshes/meshes.obj",
        "package://meshes/robots_meshes.obj",
        "package://arm/meshes/robots_arm_meshes.obj",
        "model://meshes/meshes.obj",
        f"file://{tmp_path}/meshes/meshes.obj",
    )
    for number, name in enumerate(names):
        path = inner / f"robot{number}.urdf"
        path.write_text(robot(link("a", inertial(), shape(f'<mesh filename="{name}"/>'))))
        found = []
        for module in bind(both):
            body = module.loadURDF(str(path))
            found.append(module.getCollisionShapeData(body, -1)[0][4])
        assert found[0] == found[1], name


def test_search_path(both, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    for place in ("here", "one", "two"):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / f"{place}.urdf").write_text(
            robot(link("a", inertial())).replace('"r"', f'"{place}"')
        )
        (tmp_path / place / "all.urdf").write_text(robot(link("a", inertial())).replace('"r"', f'"{place}"'))
    monkeypatch.chdir(tmp_path / "here")
    found = []
    for module, kind in zip(bind(both), (compat.error, pybullet.error), strict=True):
        module.setAdditionalSearchPath(str(tmp_path / "one"))
        module.setAdditionalSearchPath(str(tmp_path / "two"))
        names = [module.getBodyInfo(module.loadURDF(f"{name}.urdf"))[1] for name in ("all", "here", "two")]
        with pytest.raises(kind, match=r"Cannot load URDF file\."):
            module.loadURDF("one.urdf")
        with pytest.raises(kind, match=r"Cannot convert basePosition\."):
            module.loadURDF("all.urdf", basePosition=None)
        found.append(names)
    assert found[0] == found[1] == [b"here", b"here", b"two"]


def test_the_search_path_is_that_of_the_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "some.urdf").write_text(robot(link("a", inertial())))
    found = []
    for module in (pybullet, compat):
        first, second = module.connect(module.DIRECT), module.connect(module.DIRECT)
        module.setAdditionalSearchPath(str(tmp_path / "models"), physicsClientId=first)
        answers = [module.loadURDF("some.urdf", physicsClientId=second)]
        module.disconnect(first)
        module.disconnect(second)
        third = module.connect(module.DIRECT)
        answers.append(module.loadURDF("some.urdf", physicsClientId=third))
        module.setAdditionalSearchPath("", physicsClientId=third)
        with pytest.raises(module.error, match=r"Cannot load URDF file\."):
            module.loadURDF("some.urdf", physicsClientId=third)
        module.disconnect(third)
        found.append(answers)
    assert found[0] == found[1] == [0, 0]


def test_changed_files_are_read_again(tmp_path):
    client = compat.connect(compat.DIRECT)
    try:
        path = tmp_path / "robot.urdf"
        for mass in (1.0, 2.5, 33.0):
            path.write_text(robot(link("a", inertial(mass), shape())))
            body = compat.loadURDF(str(path), physicsClientId=client)
            assert compat.getDynamicsInfo(body, -1, physicsClientId=client)[0] == mass
    finally:
        compat.disconnect(client)


def test_bodies_of_one_file_do_not_share_settings():
    client = compat.connect(compat.DIRECT)
    try:
        import pybullet_data

        path = f"{pybullet_data.getDataPath()}/r2d2.urdf"
        first, second = (compat.loadURDF(path, physicsClientId=client) for _ in range(2))
        compat.changeDynamics(first, 3, mass=7.0, lateralFriction=0.9, physicsClientId=client)
        compat.changeVisualShape(first, 3, rgbaColor=[0, 0, 0, 1], physicsClientId=client)
        third = compat.loadURDF(path, physicsClientId=client)
        for body in (second, third):
            info = compat.getDynamicsInfo(body, 3, physicsClientId=client)
            assert info[:2] == (1.0, 0.5)
            colors = {v[1]: v[7] for v in compat.getVisualShapeData(body, physicsClientId=client)}
            np.testing.assert_allclose(colors[3], (0.5, 0.5, 0.5, 1.0))
    finally:
        compat.disconnect(client)
