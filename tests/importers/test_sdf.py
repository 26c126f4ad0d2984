"""SDFormat: frames, joints, links and worlds, against numbers worked out by hand and against PyBullet."""

import math
import warnings
from pathlib import Path

import numpy as np
import pybullet
import pybullet_data
import pytest

import newtonsim
from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers import parse_sdf
from newtonsim.scene.enums import ConstraintType, JointType

INERTIAL = "<inertial><mass>2</mass></inertial>"
QUARTER = math.pi / 2


def model(inside: str, version: str = "1.9", name: str = "m") -> str:
    return f'<sdf version="{version}"><model name="{name}">{inside}</model></sdf>'


def world(inside: str, version: str = "1.9") -> str:
    return f'<sdf version="{version}"><world name="w">{inside}</world></sdf>'


def link(name: str, more: str = "") -> str:
    return f'<link name="{name}">{more}</link>'


def posed(name: str, pose: str, relative_to: str = "") -> str:
    frame = f' relative_to="{relative_to}"' if relative_to else ""
    return link(name, f"<pose{frame}>{pose}</pose>")


def joint(kind: str, more: str = "", name: str = "j", parent: str = "a", child: str = "b") -> str:
    return f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{more}</joint>'


def load(text, **options) -> tuple[newtonsim.ModelBuilder, object]:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    return builder, parse_sdf(text, builder, **options)


def numbers(values) -> np.ndarray:
    return np.array([float(value) for value in values])


def point(builder, report, name: str, local=(0.0, 0.0, 0.0)) -> np.ndarray:
    """World position of a point of a link."""
    row = numbers(builder.body_q[report.bodies[name]])
    return row[:3] + quat_rotate(row[3:], np.asarray(local))


# -- frames --------------------------------------------------------------------------------------------------


def test_poses_follow_their_frames():
    """b is one metre along a's x, which points along the world's y; f sits on b, c on f."""
    text = model(
        f"<pose>0 0 5 0 0 0</pose>{posed('a', f'1 0 0 0 0 {QUARTER}')}{posed('b', '1 0 0 0 0 0', 'a')}"
        f'<frame name="f" attached_to="b"><pose>0 2 0 0 0 {QUARTER}</pose></frame>'
        f"{posed('c', '1 0 0 0 0 0', 'f')}"
    )
    builder, report = load(text)
    np.testing.assert_allclose(point(builder, report, "a"), (1, 0, 5), atol=1e-6)
    np.testing.assert_allclose(point(builder, report, "b"), (1, 1, 5), atol=1e-6)
    np.testing.assert_allclose(point(builder, report, "c"), (-2, 1, 5), atol=1e-6)
    assert report.bodies == {"a": 0, "b": 1, "c": 2}


def test_degrees_and_quaternions():
    turned = '<link name="{0}"><pose {1}>{2}</pose></link>'
    text = model(
        turned.format("a", 'degrees="true"', "0 0 0 0 0 90")
        + turned.format("b", 'rotation_format="quat_xyzw"', "0 0 0 0 0 2 2")
    )
    builder, report = load(text)
    for name in ("a", "b"):
        np.testing.assert_allclose(point(builder, report, name, (1, 0, 0)), (0, 1, 0), atol=1e-6)


def test_nested_models_and_placement_frame():
    inner = (
        f'<model name="arm" placement_frame="tip"><pose>0 0 3 0 0 0</pose>{posed("base", "0 0 0 0 0 0")}'
        f"{posed('tip', '0 0 1 0 0 0')}</model>"
    )
    text = model(f"{link('a')}{inner}{posed('b', '1 0 0 0 0 0', 'arm::base')}")
    builder, report = load(text)
    np.testing.assert_allclose(point(builder, report, "arm::tip"), (0, 0, 3), atol=1e-6)
    np.testing.assert_allclose(point(builder, report, "arm::base"), (0, 0, 2), atol=1e-6)
    np.testing.assert_allclose(point(builder, report, "b"), (1, 0, 2), atol=1e-6)


@pytest.mark.parametrize(
    ("version", "attribute", "more", "expected"),
    [
        ("1.4", "", "", (1, 0, 0)),  # in the model's axes
        ("1.5", "", "", (0, 1, 0)),  # in those of the joint, which turn with the child
        ("1.6", "", "<use_parent_model_frame>true</use_parent_model_frame>", (1, 0, 0)),
        ("1.9", "", "", (0, 1, 0)),
        ("1.9", 'expressed_in="__model__"', "", (1, 0, 0)),
        ("1.9", 'expressed_in="a"', "", (0, 0, -1)),
    ],
)
def test_axis_of_a_joint(version, attribute, more, expected):
    """The child is turned a quarter about z, the parent a quarter about y."""
    axis = f"<axis><xyz {attribute}>1 0 0</xyz>{more}</axis>"
    text = model(
        posed("a", f"0 0 0 0 {QUARTER} 0") + posed("b", f"1 0 0 0 0 {QUARTER}") + joint("revolute", axis),
        version,
    )
    builder, report = load(text)
    index = report.joints["j"]
    parent = numbers(builder.body_q[report.bodies["a"]])
    frame = numbers(builder.joint_X_p[index])
    axis = numbers(builder.joint_axis[builder.joint_axis_start[index]])
    np.testing.assert_allclose(quat_rotate(parent[3:], quat_rotate(frame[3:], axis)), expected, atol=1e-6)


def test_joint_frames_meet_where_the_links_are_placed():
    pose = '<pose relative_to="a">0.5 0 0 0 0 0</pose><axis><xyz>0 0 1</xyz></axis>'
    text = model(
        posed("a", f"0 0 1 {QUARTER} 0 0") + posed("b", "1 2 3 0.1 0.2 0.3") + joint("revolute", pose)
    )
    builder, report = load(text)
    final = builder.finalize("cpu")
    state = final.state()
    before = np.array([numbers(q) for q in builder.body_q])
    newtonsim.eval_fk(final, state.joint_q, state.joint_qd, None, state)
    np.testing.assert_allclose(state.body_q.numpy(), before, atol=1e-6)
    np.testing.assert_allclose(numbers(builder.joint_X_p[report.joints["j"]])[:3], (0.5, 0, 0), atol=1e-6)


# -- joints --------------------------------------------------------------------------------------------------

AXIS = "<axis><xyz>0 0 1</xyz></axis>"
AXIS2 = "<axis2><xyz>0 1 0</xyz></axis2>"


@pytest.mark.parametrize(
    ("kind", "more", "type_", "dofs"),
    [
        ("revolute", AXIS, JointType.REVOLUTE, 1),
        ("continuous", AXIS, JointType.REVOLUTE, 1),
        ("prismatic", AXIS, JointType.PRISMATIC, 1),
        ("fixed", "", JointType.FIXED, 0),
        ("ball", "", JointType.BALL, 3),
        ("universal", AXIS + AXIS2, JointType.UNIVERSAL, 2),
        ("revolute2", AXIS + AXIS2, JointType.UNIVERSAL, 2),
        ("screw", AXIS + "<screw_thread_pitch>0.1</screw_thread_pitch>", JointType.D6, 2),
    ],
)
def test_joint_types(kind, more, type_, dofs):
    builder, report = load(model(link("a") + link("b") + joint(kind, more)))
    assert builder.joint_type[report.joints["j"]] == type_
    assert len(builder.joint_qd) == 6 + dofs  # the root floats
    assert builder.joint_parent[report.joints["j"]] == report.bodies["a"]


def test_limits_and_passive_forces():
    axis = """<axis><xyz>0 0 1</xyz><limit><lower>-1</lower><upper>1e16</upper><effort>5</effort>
      <velocity>-1</velocity></limit><dynamics><damping>0.1</damping><friction>0.2</friction>
      <spring_stiffness>3</spring_stiffness><spring_reference>0.4</spring_reference></dynamics></axis>"""
    builder, report = load(model(link("a") + link("b") + joint("prismatic", axis)), scale=2.0)
    at, dof = builder.joint_axis_start[report.joints["j"]], report.joint_dofs["j"]
    assert builder.joint_limit_lower[at] == -2.0
    assert builder.joint_limit_upper[at] > 1e5
    assert builder.joint_effort_limit[at] == 5.0
    assert not builder.joint_velocity_limit[at] < 1e5
    assert builder.joint_damping[dof] == pytest.approx(0.1)
    assert builder.joint_friction[dof] == pytest.approx(0.2)
    assert builder.joint_stiffness[at] == 3.0
    assert builder.joint_spring_ref[at] == pytest.approx(0.8)


def couplings(builder) -> list[tuple]:
    kinds = [k for k, kind in enumerate(builder.constraint_type) if kind == ConstraintType.COUPLING]
    return [(builder.constraint_coupled_axes[k], builder.constraint_coefficients[k][:2]) for k in kinds]


def test_screw_mimic_and_gearbox():
    """A screw travels pitch / 2 pi per radian; mimic and gearbox are equations between coordinates."""
    mimic = (
        '<mimic joint="j"><multiplier>2</multiplier><offset>0.3</offset><reference>0.1</reference></mimic>'
    )
    text = model(
        link("a")
        + link("b")
        + link("c")
        + link("d")
        + joint("revolute", AXIS)
        + joint("revolute", f"<axis><xyz>0 0 -1</xyz>{mimic}</axis>", "k", "a", "c")
        + joint("screw", AXIS + "<screw_thread_pitch>0.1</screw_thread_pitch>", "s", "c", "d")
        + joint(
            "gearbox",
            "<gearbox_ratio>3</gearbox_ratio><gearbox_reference_body>a</gearbox_reference_body>"
            + AXIS
            + AXIS.replace("axis>", "axis2>"),
            "g",
            "b",
            "c",
        )
    )
    builder, report = load(text)
    first = {name: builder.joint_axis_start[index] for name, index in report.joints.items()}
    found = dict(couplings(builder))
    assert found[first["s"], first["s"] + 1] == pytest.approx((0.0, 0.1 / (2.0 * math.pi)))
    between = sorted(value for axes, value in couplings(builder) if axes == (first["k"], first["j"]))
    assert between[0] == (0.0, 3.0)  # theta_2 = -3 theta_1, and k turns about -z
    assert between[1] == pytest.approx((0.1, 2.0))  # 2 (q - 0.1) + 0.3


def test_four_links_in_a_circle_close_a_loop():
    parts = "".join(posed(name, f"{k} 0 0 0 0 0") for k, name in enumerate("abcd"))
    joints = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    text = model(parts + "".join(joint("revolute", AXIS, f"j{p}{c}", p, c) for p, c in joints))
    builder, report = load(text)
    assert set(report.joints) == {"a_free", "jab", "jbc", "jcd"}
    assert list(report.constraints) == ["jad"]
    assert builder.constraint_type == [ConstraintType.LOOP]


def test_joints_to_the_world_and_static_models():
    text = world(
        model(
            link("a") + link("b") + joint("fixed", parent="world", child="a") + joint("revolute", AXIS, "k")
        )
        .split(">", 1)[1]
        .removesuffix("</sdf>")
        + '<model name="wall"><static>1</static><pose>3 0 0 0 0 0</pose><link name="l"><collision name="c">'
        "<pose>0 1 0 0 0 0</pose><geometry><box><size>1 2 3</size></box></geometry></collision></link>"
        "</model>"
    )
    builder, report = load(text)
    assert report.bodies == {"m::a": 0, "m::b": 1, "wall::l": -1}
    assert builder.joint_type == [JointType.FIXED, JointType.REVOLUTE]
    np.testing.assert_allclose(numbers(builder.shape_transform[0])[:3], (3, 1, 0), atol=1e-6)
    np.testing.assert_allclose(numbers(builder.shape_geo_scale[0]), (0.5, 1, 1.5))
    assert builder.gravity == pytest.approx(-9.8)


# -- links ---------------------------------------------------------------------------------------------------


def test_inertial_defaults_and_values():
    given = """<inertial><pose>1 0 0 0 0 1.5707963267948966</pose><mass>2</mass>
      <inertia><ixx>1</ixx><iyy>2</iyy><izz>2.5</izz></inertia></inertial>"""
    builder, _ = load(model(link("a", given) + link("b")))
    assert builder.body_mass == [2.0, 1.0]
    np.testing.assert_allclose(numbers(builder.body_com[0]), (1, 0, 0))
    np.testing.assert_allclose(
        np.diag(np.array(builder.body_inertia[0]).reshape(3, 3)), (2, 1, 2.5), atol=1e-6
    )
    np.testing.assert_allclose(np.array(builder.body_inertia[1]).reshape(3, 3), np.eye(3))


SHAPES = {
    "box": ("<size>1 2 3</size>", 6.0),
    "sphere": ("<radius>1</radius>", 4.0 / 3.0 * math.pi),
    "cylinder": ("<radius>1</radius><length>2</length>", 2.0 * math.pi),
    "capsule": ("<radius>1</radius><length>2</length>", (2.0 + 4.0 / 3.0) * math.pi),
    "cone": ("<radius>1</radius><length>3</length>", math.pi),
    "ellipsoid": ("<radii>1 2 3</radii>", 8.0 * math.pi),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_mass_from_shapes(kind):
    size, volume = SHAPES[kind]
    geometry = f"<geometry><{kind}>{size}</{kind}></geometry>"
    collision = f'<collision name="c"><density>2</density>{geometry}</collision>'
    builder, _ = load(model(link("a", f'<inertial auto="true"/>{collision}')))
    assert builder.body_mass[0] == pytest.approx(2.0 * volume, rel=1e-5)


def test_surfaces():
    surface = """<surface><friction><ode><mu>0.7</mu><mu2>0.7</mu2></ode><torsional>
      <coefficient>0.3</coefficient><patch_radius>0.02</patch_radius></torsional></friction><bounce><restitution_coefficient>0.4
      </restitution_coefficient></bounce></surface>"""
    ball = "<geometry><sphere><radius>1</radius></sphere></geometry>"
    text = model(
        link("a", f'<collision name="c">{ball}{surface}</collision><collision name="d">{ball}</collision>')
    )
    builder, _ = load(text)
    assert builder.shape_material_mu == pytest.approx([0.7, 1.0])
    assert builder.shape_material_restitution == pytest.approx([0.4, 0.0])
    assert builder.shape_mu_torsion == pytest.approx([0.3 * 0.02 * 2.0 / 3.0, 0.0])


@pytest.mark.parametrize(("more", "blocked"), [("", True), ("<self_collide>true</self_collide>", False)])
def test_links_of_a_model_touch_only_if_it_says_so(more, blocked):
    ball = '<collision name="c"><geometry><sphere><radius>1</radius></sphere></geometry></collision>'
    text = model(
        more
        + "".join(link(name, ball) for name in "abc")
        + joint("revolute", AXIS)
        + joint("revolute", AXIS, "k", "b", "c")
    )
    builder, _ = load(text)
    pairs = builder.shape_collision_filter_pairs
    assert {(0, 1), (1, 2)} <= pairs  # neighbours never touch
    assert ((0, 2) in pairs) == blocked


def test_bit_masks():
    ball = "<geometry><sphere><radius>1</radius></sphere></geometry>"
    bits = "<surface><contact><collide_bitmask>{}</collide_bitmask></contact></surface>"
    text = world(
        "".join(
            f'<model name="m{k}"><link name="a"><collision name="c">{ball}{bits.format(mask)}'
            "</collision></link></model>"
            for k, mask in enumerate(("0x01", "2", "3"))
        )
    )
    builder, _ = load(text)
    assert builder.shape_collision_filter_pairs == {(0, 1)}


# -- files ---------------------------------------------------------------------------------------------------


def store(folder: Path, name: str, text: str, config: str | None = None) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "model.sdf").write_text(text)
    if config is not None:
        (path / "model.config").write_text(config)
    return path


@pytest.mark.parametrize("way", ["argument", "environment", "beside"])
def test_includes(tmp_path, monkeypatch, way):
    shelf = tmp_path / ("scene" if way == "beside" else "shelf")
    config = '<model><sdf version="1.5">old.sdf</sdf><sdf version="1.9">model.sdf</sdf></model>'
    store(shelf, "ball", model(f"<pose>9 9 9 0 0 0</pose>{link('a', INERTIAL)}", name="ball"), config)
    scene = tmp_path / "scene" / "scene.sdf"
    scene.parent.mkdir(exist_ok=True)
    scene.write_text(
        world(
            "<include><uri>model://ball</uri></include>"
            "<include><uri>model://ball</uri><name>other</name><pose>1 2 3 0 0 0</pose></include>"
            "<include><uri>model://ball</uri><name>still</name><static>true</static></include>"
        )
    )
    options = {"package_paths": [shelf]} if way == "argument" else {}
    if way == "environment":
        monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", f"/nowhere:{shelf}")
    builder, report = load(scene, **options)
    assert report.bodies == {"ball::a": 0, "other::a": 1, "still::a": -1}
    assert builder.body_mass == [2.0, 2.0]
    np.testing.assert_allclose(point(builder, report, "ball::a"), (9, 9, 9))
    np.testing.assert_allclose(point(builder, report, "other::a"), (1, 2, 3))


def test_merged_include(tmp_path):
    arm = posed("x", "0 0 1 0 0 0") + link("y") + joint("revolute", AXIS, "q", "x", "y")
    store(tmp_path, "arm", model(arm, name="arm"))
    scene = tmp_path / "robot.sdf"
    scene.write_text(
        model(
            link("a")
            + '<include merge="true"><uri>model://arm</uri><pose>2 0 0 0 0 0</pose></include>'
            + joint("fixed", child="x", name="mount")
        )
    )
    builder, report = load(scene)
    assert report.bodies.keys() == {"a", "x", "y"}
    assert report.joints.keys() == {"a_free", "mount", "q"}
    np.testing.assert_allclose(point(builder, report, "x"), (2, 0, 1), atol=1e-6)
    np.testing.assert_allclose(point(builder, report, "y"), (2, 0, 0), atol=1e-6)


def test_a_model_that_includes_itself(tmp_path):
    store(tmp_path, "snake", model("<include><uri>model://snake</uri></include>", name="snake"))
    with pytest.raises(ImportFileError, match="includes itself"):
        load(tmp_path / "snake" / "model.sdf")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (model(posed("a", "0 0 0 0 0 0", "b") + posed("b", "0 0 0 0 0 0", "a")), "relative to itself"),
        (model(posed("a", "0 0 0 0 0 0", "x")), "frame 'x' is not there"),
        (model(posed("a", "0 0 0 0 0")), "5 values, expected 6"),
        (model(posed("a", "0 0 nan 0 0 0")), "not a finite number"),
        (model(link("a") + link("a")), "second element has the name 'a'"),
        (model(link("world")), "reserved"),
        (model(link("a") + link("b") + joint("bent")), "joint type 'bent'"),
        (model(link("a") + link("b") + joint("revolute")), "<axis> is missing"),
        (model(link("a") + joint("fixed")), "frame 'b' is not there"),
        (model(link("a") + joint("fixed", child="a")), "to itself"),
        (model(link("a", "<inertial><mass>-1</mass></inertial>")), "must not be negative"),
        (model('<frame name="f" attached_to="g"/><frame name="g" attached_to="f"/>'), None),
        (world("<include><uri>model://no_such_model</uri></include>"), "not found"),
        (world("<include><uri>https://x.org/m</uri></include>"), "cannot fetch"),
        (model(link("a"), "one"), "'version' is 'one'"),
        ("<robot/>", "root element"),
    ],
)
def test_broken_files_are_typed_errors(text, message):
    builder = newtonsim.ModelBuilder()
    if message is None:
        message = "relative to itself"
        text = text.replace("</model>", posed("a", "0 0 0 0 0 0", "f") + "</model>")
    with pytest.raises(ImportFileError, match=message):
        parse_sdf(text, builder)
    assert builder.body_count == 0


def test_what_is_not_modelled_is_named():
    text = model(f'{link("a", "<gravity>false</gravity>")}<plugin name="p" filename="f"/>')
    with pytest.warns(UnsupportedElementWarning, match="(?s)plugins are not run.*gravity acts on all links"):
        load(text)
    with pytest.raises(ImportFileError, match="not supported"):
        load(text, strict=True)


DATA = Path(pybullet_data.getDataPath())


@pytest.mark.parametrize(
    "name", ["gripper/wsg50_one_motor_gripper_new_free_base.sdf", "kuka_iiwa/model.sdf", "stadium.sdf"]
)
def test_places_and_masses_are_those_of_pybullet(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        builder, report = load(DATA / name, ensure_nonstatic_links=False)
    client = pybullet.connect(pybullet.DIRECT)
    try:
        bodies = pybullet.loadSDF(str(DATA / name))
        count = 0
        for body in bodies:
            base, robot = (text.decode() for text in pybullet.getBodyInfo(body))
            places = [(base, pybullet.getBasePositionAndOrientation(body)[0])]
            for k in range(pybullet.getNumJoints(body)):
                places.append(
                    (pybullet.getJointInfo(body, k)[12].decode(), pybullet.getLinkState(body, k)[0])
                )
            for k, (part, place) in enumerate(places):
                key = part if part in report.bodies else f"{robot}::{part}"
                index, mass = report.bodies[key], pybullet.getDynamicsInfo(body, k - 1)[0]
                count += 1
                if index < 0:
                    assert mass == 0.0, key
                    continue
                assert builder.body_mass[index] == pytest.approx(mass, rel=1e-6), key
                if mass > 0.0:
                    com = point(builder, report, key, numbers(builder.body_com[index]))
                    np.testing.assert_allclose(com, place, atol=1e-5, err_msg=key)
        assert count == len(report.bodies)
    finally:
        pybullet.disconnect(client)


def test_screws_have_a_default_pitch_and_names_may_start_at_the_files_folder(tmp_path):
    """Of one metre per turn, as the format says; a leading slash means the folder of the file to some."""
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "cube.obj").write_bytes((DATA / "cube.obj").read_bytes())
    mesh = "<geometry><mesh><uri>/meshes/cube.obj</uri></mesh></geometry>"
    text = (
        '<sdf version="1.9"><model name="m"><link name="a"/><link name="b">'
        f'<collision name="c">{mesh}</collision></link><joint name="s" type="screw">'
        "<parent>a</parent><child>b</child><axis><xyz>0 0 1</xyz></axis></joint></model></sdf>"
    )
    (tmp_path / "m.sdf").write_text(text)
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    report = parse_sdf(tmp_path / "m.sdf", builder)
    assert report.shapes.keys() == {"b"}
    ((_, equation),) = couplings(builder)
    assert equation == pytest.approx((0.0, 1.0 / (2.0 * math.pi)))
