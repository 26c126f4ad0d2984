"""Files with faults that other readers get over: read, and every fault told with line and assumption."""

import re
import warnings
from pathlib import Path

import mujoco
import numpy as np
import pinocchio
import pytest

import newtonsim
from newtonsim.importers import parse_mjcf, parse_urdf
from newtonsim.scene.enums import JointType

LINK = """
<link name="{name}">
  <inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>{more}
</link>"""
ARM = """<robot name="arm">{head}
<link name="base"/>
<joint name="hinge" type="revolute">
  <parent link="base"/><child link="tip"/><axis xyz="0 0 1"/><origin xyz="{xyz}"/>
  <limit lower="-1" upper="1" effort="5" velocity="2"/><dynamics damping="{damping}"/>
</joint>{link}
</robot>"""
SPHERE = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'


PAINT = '<material name="m"><texture filename="no.png"/></material>'


def arm(xyz="0 0 0.5", damping="0.1", head="", more=SPHERE) -> str:
    return ARM.format(xyz=xyz, damping=damping, head=head, link=LINK.format(name="tip", more=more))


def read(parse, text, **options):
    """Read a file; return the builder, the report and the text of its warning of faults."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = parse(text, builder, **{"ignore_inertial_definitions": False, **options})
    told = [str(warning.message) for warning in caught if "faults that were repaired" in str(warning.message)]
    return builder, report, told


MENDED = {
    "number with a comma": (arm(xyz="0 0 0.5,"), 4, "0.5,.*0.5 is used"),
    "number with a dot more": (arm(damping="0.1."), 5, "0.1..*0.1 is used"),
    "surplus number": (arm(xyz="0 0 0.5 7"), 4, "4 values, expected 3.*surplus is left out"),
    "substitution": (arm(xyz="$(optenv PLACE 0 0 0.5)"), 4, r"optenv.*default '0 0 0.5' is used"),
    "negative damping": (arm(damping="-0.0132"), 5, "must not be negative, got -0.0132; 0 is used"),
    "byte that XML forbids": (arm(head="<!-- \x01 -->"), 1, "invalid token.*by their tags only"),
    "missing mesh": (
        arm(more='<collision><geometry><mesh filename="no.stl"/></geometry></collision>' + SPHERE),
        8,
        "'no.stl' not found.*the shape is left out",
    ),
    "missing texture": (
        arm(more=SPHERE.replace("</geometry>", f"</geometry>{PAINT}")),
        8,
        "'no.png' not found.*the texture is left out",
    ),
    "shape that is none": (arm(more="<collision><geometry><cdf/></geometry></collision>" + SPHERE), 8, "cdf"),
}


@pytest.mark.parametrize("case", MENDED)
def test_urdf_is_read_as_if_it_were_right(case):
    text, line, words = MENDED[case]
    builder, report, told = read(parse_urdf, text)
    (entry,) = report.of_kind("mended")
    assert entry.line == line
    assert len(told) == 1
    assert f"line {line}: " in told[0]
    assert re.search(words, entry.message)
    right, _, quiet = read(parse_urdf, arm(damping="0" if case == "negative damping" else "0.1"))
    assert not quiet
    for name in ("joint_X_p", "joint_damping", "body_mass", "shape_geo_type", "joint_q"):
        ours, theirs = (np.array(list(map(np.array, getattr(b, name)))) for b in (builder, right))
        np.testing.assert_allclose(ours, theirs, err_msg=name)
    with pytest.raises(newtonsim.ImportFileError, match=re.split(r";|\.\*", words)[0]):
        parse_urdf(text, newtonsim.ModelBuilder(), strict=True)


def test_the_first_of_these_is_what_pinocchio_reads():
    """Numbers are checked against another reader where that reads such a file at all."""
    builder, _, _ = read(parse_urdf, arm(damping="-0.0132"))
    oracle = pinocchio.buildModelFromXML(arm(damping="-0.0132"))
    assert oracle.inertias[1].mass == pytest.approx(builder.body_mass[1])
    np.testing.assert_allclose(oracle.jointPlacements[1].translation, list(builder.joint_X_p[1])[:3])


def test_every_root_link_is_held_as_the_first():
    """MuJoCo fixes each root of a URDF file to the world."""
    second = LINK.format(name="other", more=SPHERE) + LINK.format(name="third", more="")
    text = arm().replace("</robot>", second + "</robot>")
    builder, report, told = read(parse_urdf, text)
    assert [JointType(kind).name for kind in builder.joint_type] == ["FIXED", "REVOLUTE", "FIXED", "FIXED"]
    assert builder.articulation_key == ["arm", "other", "third"]
    assert "several root links: 'base', 'other', 'third'; each is attached as the first one is" in told[0]
    oracle = mujoco.MjModel.from_xml_string(text)
    assert oracle.nq == builder.finalize("cpu").joint_coord_count
    floating, _, _ = read(parse_urdf, text, floating=True)
    assert [JointType(kind).name for kind in floating.joint_type] == ["FREE", "REVOLUTE", "FREE", "FREE"]
    with pytest.raises(newtonsim.ImportFileError, match="several root links"):
        parse_urdf(text, newtonsim.ModelBuilder(), strict=True)
    assert report.bodies.keys() == {"base", "tip", "other", "third"}


def test_a_circle_beside_the_root_is_left_out():
    circle = "".join(
        f'<joint name="j{a}" type="revolute"><parent link="{a}"/><child link="{b}"/>'
        f'<limit effort="1" velocity="1" lower="-1" upper="1"/></joint>{LINK.format(name=a, more="")}'
        for a, b in (("x", "y"), ("y", "x"))
    )
    builder, report, told = read(parse_urdf, arm().replace("</robot>", circle + "</robot>"))
    assert builder.body_count == 2
    assert "links not connected to the root are left out" in told[0]
    assert "x" not in report.bodies


MJCF = """<mujoco>{head}<worldbody><body name="a">
<joint name="hinge" axis="0 1 0" {joint}/>
<geom size="0.1" pos="0 0 -0.3"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("attribute", ["damping", "frictionloss", "stiffness", "armature"])
def test_mjcf_with_a_negative_number_that_mujoco_compiles(attribute):
    text = MJCF.format(head="", joint=f'{attribute}="-0.0132"')
    mujoco.MjModel.from_xml_string(text)
    builder, report, told = read(parse_mjcf, text)
    (entry,) = report.of_kind("mended")
    assert (entry.line, entry.message) == (
        2,
        f"attribute '{attribute}' must not be negative, got -0.0132; 0 is used",
    )
    assert len(told) == 1
    right, _, _ = read(parse_mjcf, MJCF.format(head="", joint=f'{attribute}="0"'))
    for name in ("joint_damping", "joint_friction", "joint_stiffness", "joint_armature"):
        assert list(getattr(builder, name)) == list(getattr(right, name))
    with pytest.raises(newtonsim.ImportFileError, match=f"'{attribute}' must not be negative"):
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)


OUT_OF_RANGE = {
    'solimp="1.2 .9 .01"': ("is out of range: 1.2 0.9 0.01 0.5 2; 1 0.9 0.01 0.5 2 is used", 1.0),
    'solimp="-.1 .9 -.01 2 .5"': ("range: -0.1 0.9 -0.01 2 0.5; 0 0.9 0 1 1 is used", 0.0),
    'solref="-1 1"': ("two that are not; MuJoCo's default is used", 0.9),
}


@pytest.mark.parametrize("attribute", OUT_OF_RANGE)
@pytest.mark.parametrize("of", ["geom", "joint"])
def test_mjcf_with_parameters_of_the_solver_out_of_range(attribute, of):
    """MuJoCo compiles them, and steps with others."""
    text = MJCF.format(head="", joint='range="-1 1"')
    if of == "geom":
        text = text.replace("<geom", f"<geom {attribute}")
    else:
        text = text.replace("<joint", "<joint " + attribute.replace("=", "limit="))
    mujoco.MjModel.from_xml_string(text)
    builder, report, told = read(parse_mjcf, text)
    (entry,) = report.of_kind("mended")
    message, first = OUT_OF_RANGE[attribute]
    assert message in entry.message
    assert entry.line == (2 if of == "joint" else 3)
    assert len(told) == 1
    imp = builder.shape_solimp if of == "geom" else builder.joint_limit_solimp
    assert imp[0][0] == first
    with pytest.raises(newtonsim.ImportFileError, match=r"out of range|two that are not"):
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)


@pytest.mark.parametrize("head", ["<!-- a -- b -->", "<!--  -->"])
def test_mjcf_that_is_not_well_formed(head, tmp_path):
    text = MJCF.format(head=head, joint="")
    oracle = mujoco.MjModel.from_xml_string(text)
    path = tmp_path / "robot.xml"
    path.write_text(text)
    builder, report, told = read(parse_mjcf, path)
    assert builder.body_mass[0] == pytest.approx(oracle.body_mass[1])
    (entry,) = report.of_kind("mended")
    assert (entry.path, entry.line) == (str(path), 1)
    assert f"{path}: has faults that were repaired" in told[0]
    with pytest.raises(newtonsim.ImportFileError, match="not well-formed"):
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)


PYBULLET = (
    *("husky/husky.urdf", "bicycle/bike.urdf", "biped/biped2d_pybullet.urdf", "humanoid/humanoid.urdf"),
    "quadruped/microtaur/microtaur.urdf",
)


@pytest.mark.parametrize("name", PYBULLET)
def test_robots_of_pybullet_have_its_masses(name):
    pybullet, data = pytest.importorskip("pybullet"), pytest.importorskip("pybullet_data")
    path = Path(data.getDataPath()) / name
    builder, report, told = read(parse_urdf, path, ensure_nonstatic_links=False)
    assert told
    assert all(entry.line for entry in report.of_kind("mended"))
    client = pybullet.connect(pybullet.DIRECT)
    try:
        robot = pybullet.loadURDF(
            str(path), physicsClientId=client, flags=pybullet.URDF_USE_INERTIA_FROM_FILE
        )
        count = pybullet.getNumJoints(robot, physicsClientId=client)
        for link in range(count):
            key = pybullet.getJointInfo(robot, link, physicsClientId=client)[12].decode()
            mass = pybullet.getDynamicsInfo(robot, link, physicsClientId=client)[0]
            ours = builder.body_mass[report.bodies[key]]
            # links without <inertial> weigh 1 kg there
            assert ours == pytest.approx(mass, abs=1e-9) or (ours, mass) == (0.0, 1.0), key
    finally:
        pybullet.disconnect(client)


def test_an_arm_without_its_mesh_files_has_the_masses_of_pinocchio():
    data = pytest.importorskip("pybullet_data")
    path = Path(data.getDataPath()) / "kuka_iiwa/model_for_sdf.urdf"
    builder, _, told = read(parse_urdf, path)
    assert "the shape is left out" in told[0]
    oracle = pinocchio.buildModelFromUrdf(str(path))
    assert len(oracle.inertias) > 7
    assert sum(builder.body_mass) == pytest.approx(sum(inertia.mass for inertia in oracle.inertias))


HEAVY = {
    parse_urdf: """<robot name="r"><link name="a"><inertial><mass value="5"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><box size="1 1 1"/></geometry></collision></link></robot>""",
    parse_mjcf: """<mujoco><worldbody><body name="a"><freejoint/>
    <inertial pos="0 0 0" mass="5" diaginertia="1 1 1"/><geom type="box" size=".5 .5 .5"/></body></worldbody>
    </mujoco>""",
}


@pytest.mark.parametrize("parse", HEAVY, ids=lambda parse: parse.__name__)
def test_masses_that_the_default_leaves_out_are_told(parse):
    """The interface's default computes masses from the geometry; the report says so for each body."""
    builder, report, _ = read(parse, HEAVY[parse], ignore_inertial_definitions=True)
    assert builder.body_mass == pytest.approx([1000.0])
    (entry,) = report.of_kind("approximated")
    assert "<inertial> with 5 kg is ignored, and the geometry gives 1000 kg" in entry.message
    assert "ignore_inertial_definitions" in entry.message
    builder, report, _ = read(parse, HEAVY[parse], ignore_inertial_definitions=False)
    assert builder.body_mass == pytest.approx([5.0])
    assert not report.of_kind("approximated")


@pytest.mark.parametrize(("more", "count"), [("", 1), ("<flexcomp name='f'/>", 3)])
def test_each_of_several_remarks_of_a_warning_has_a_line(more, count):
    """One alone stays on the line that names the file."""
    text = f"""<mujoco><option><flag override="enable"/></option><worldbody>
    <body><joint name="a"/><geom size=".1"/></body>{more}</worldbody></mujoco>"""
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="read but not modelled") as told:
        parse_mjcf(text, newtonsim.ModelBuilder())
    lines = next(str(one.message) for one in told if "not modelled" in str(one.message)).splitlines()
    assert len(lines) == count
    assert lines[0].startswith("XML text: read but not modelled:")
    assert "override" in lines[-1] or "override" in lines[-2]
    assert all(line.startswith("  <") for line in lines[1:])
