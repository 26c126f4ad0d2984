"""Inertia that no distribution of mass has: strict imports refuse it, others keep it and report it."""

import re

import mujoco
import numpy as np
import pinocchio
import pytest
from pxr import Usd

import newtonsim
from newtonsim.importers import parse_mjcf, parse_sdf, parse_urdf, parse_usd

URDF = """<robot name="r">
<link name="arm"><inertial><mass value="2"/>
  <inertia ixx="{xx!r}" iyy="{yy!r}" izz="{zz!r}" ixy="{xy!r}" ixz="{xz!r}" iyz="{yz!r}"/></inertial>{more}
</link></robot>"""
SOLID = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
SDF = """<sdf version="1.9"><model name="m">
<link name="arm"><inertial><mass>2</mass>
  <inertia><ixx>{xx!r}</ixx><iyy>{yy!r}</iyy><izz>{zz!r}</izz>
  <ixy>{xy!r}</ixy><ixz>{xz!r}</ixz><iyz>{yz!r}</iyz></inertia></inertial></link></model></sdf>"""
MJCF = """<mujoco>{more}<worldbody>
<body name="arm"><freejoint/>
  <inertial pos="0 0 0" mass="2" fullinertia="{xx!r} {yy!r} {zz!r} {xy!r} {xz!r} {yz!r}"/>
  <geom size="0.1"/></body></worldbody></mujoco>"""
USD = """#usda 1.0
(
  metersPerUnit = 1
)
def Xform "arm" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"] )
{{
  float physics:mass = 2
  double[] newton:inertia = [{xx!r}, {yy!r}, {zz!r}, {xy!r}, {xz!r}, {yz!r}]
}}"""
BALL = """#usda 1.0
def Xform "arm" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] )
{
  def Sphere "ball" ( prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI"] )
  {
    float physics:mass = 2
    float3 physics:diagonalInertia = (1, 2, 5)
  }
}"""

FORMATS = {
    "urdf": (parse_urdf, URDF, 3, "inertia", "link 'arm'"),
    "sdf": (parse_sdf, SDF, 3, "inertia", "link 'arm'"),
    "xml": (parse_mjcf, MJCF, 3, "inertial", "body 'arm'"),
    "usda": (parse_usd, USD, 5, "/arm", "the prim"),
}
"""By ending of the file: importer, text, line of the element, its name, and that of the body."""


def filled(text: str, inertia: np.ndarray, more: str = "") -> str:
    (xx, xy, xz), (_, yy, yz), (*_, zz) = inertia.tolist()
    return text.format(xx=xx, yy=yy, zz=zz, xy=xy, xz=xz, yz=yz, more=more)


def turned(*moments: float) -> np.ndarray:
    rotation, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))
    inertia = rotation @ np.diag(moments) @ rotation.T
    return 0.5 * (inertia + inertia.T)


def read(ending: str, path, **options):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    result = FORMATS[ending][0](str(path), builder, **options)
    return builder, result["report"] if ending == "usda" else result


@pytest.mark.parametrize("ending", FORMATS)
def test_strict_imports_refuse_it_and_name_the_place(ending, tmp_path):
    _, text, line, element, whose = FORMATS[ending]
    inertia = turned(0.01, 0.02, 0.05)
    path = tmp_path / f"robot.{ending}"
    path.write_text(filled(text, inertia))
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.raises(newtonsim.ImportFileError) as caught:
        FORMATS[ending][0](str(path), builder, strict=True)
    error = caught.value
    assert (error.path, error.line, error.element) == (str(path), line, element)
    moments = [float(word) for word in re.findall(r"\d\.\d+", error.message)]
    assert whose in error.message
    np.testing.assert_allclose(moments, [0.01, 0.02, 0.05], rtol=1e-5)  # six digits are written
    assert builder.body_count == 0

    options = {} if ending in ("sdf", "usda") else {"ignore_inertial_definitions": False}
    builder, report = read(ending, path, **options)
    np.testing.assert_allclose(np.array(builder.body_inertia[0]).reshape(3, 3), inertia, rtol=1e-6)
    (entry,) = report.of_kind("approximated")
    assert (entry.message, entry.line, entry.element) == (error.message, line, element)


@pytest.mark.parametrize("ending", FORMATS)
def test_thin_plates_and_clouds_of_points_are_accepted(ending, tmp_path):
    """A plate has A + B = C; the inertia of points is summed here, and turned, which rounds it."""
    rng = np.random.default_rng(8)
    path = tmp_path / f"robot.{ending}"
    for flat in (1.0, 1.0, 0.3, 0.0, 0.0, 0.0):
        points = rng.normal(size=(12, 3)) * (1.0, 1.0, flat)
        rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        points = (points - points.mean(axis=0)) @ rotation.T
        inertia = (points**2).sum() * np.eye(3) - points.T @ points
        path.write_text(filled(FORMATS[ending][1], np.round(inertia, 9)))
        _, report = read(ending, path, strict=True)
        assert not [entry for entry in report.entries if "A + B" in entry.message]


def test_mujoco_refuses_and_pinocchio_keeps_it():
    """The oracles of the formats: what a strict import refuses of MJCF, MuJoCo does not compile."""
    with pytest.raises(ValueError, match=r"A \+ B >= C"):
        mujoco.MjModel.from_xml_string(filled(MJCF, turned(0.01, 0.02, 0.05)))
    inertia = turned(0.01, 0.02, 0.05)
    model = pinocchio.buildModelFromXML(filled(URDF, inertia), pinocchio.JointModelFreeFlyer())
    np.testing.assert_allclose(model.inertias[1].inertia, inertia, atol=1e-12)


@pytest.mark.parametrize("compiler", ["", 'balanceinertia="true"', 'inertiafromgeom="true"'])
def test_settings_of_mjcf_that_mend_it(compiler, tmp_path):
    """A strict import opens what MuJoCo compiles, with its moments."""
    text = filled(MJCF, np.diag([0.01, 0.02, 0.05]), f"<compiler {compiler}/>")
    path = tmp_path / "robot.xml"
    path.write_text(text)
    options = {"strict": True, "ignore_inertial_definitions": False}
    try:
        oracle = mujoco.MjModel.from_xml_string(text)
    except ValueError:
        with pytest.raises(newtonsim.ImportFileError, match=r"A \+ B < C"):
            read("xml", path, **options)
        return
    builder, report = read("xml", path, **options)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(np.array(builder.body_inertia[0]).reshape(3, 3)),
        np.sort(oracle.body_inertia[1]),
        rtol=1e-6,
    )
    assert not report.of_kind("approximated")


def test_inertia_that_the_geometry_replaces_is_refused_as_well(tmp_path):
    """The default computes masses from the geometry; the file is at fault all the same."""
    path = tmp_path / "robot.urdf"
    path.write_text(filled(URDF, turned(0.01, 0.02, 0.05), SOLID))
    with pytest.raises(newtonsim.ImportFileError, match=r"principal moments of link 'arm'.*A \+ B < C"):
        read("urdf", path, strict=True)


def test_the_mass_of_a_collider_of_usd_is_looked_at(tmp_path):
    path = tmp_path / "robot.usda"
    path.write_text(BALL)
    with pytest.raises(newtonsim.ImportFileError, match=r"</arm/ball>.*A \+ B < C"):
        parse_usd(str(path), newtonsim.ModelBuilder(), strict=True)
    assert parse_usd(Usd.Stage.Open(str(path)), newtonsim.ModelBuilder())["path_body_map"] == {"/arm": 0}
