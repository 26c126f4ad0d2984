"""Geometry rules of MJCF on small texts: what MuJoCo compiles is what we import."""

import sys

import mujoco
import numpy as np
import pytest

from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.fidelity import compare_with_oracle
from newtonsim.importers import parse_mjcf
from newtonsim.scene.enums import GeoType


def scene(body: str, head: str = "", tail: str = "") -> str:
    return f"<mujoco>{head}<worldbody>{body}</worldbody>{tail}</mujoco>"


TREE = """
<body name="a" pos="1 2 3" {a}>
  <joint name="ja" axis="1 2 3" pos=".1 .2 .3"/>
  <geom name="ga" type="box" size=".1 .2 .3" pos=".3 0 .1" {g}/>
  <body name="b" pos=".5 -.2 .1" {b}>
    <joint name="jb" type="slide" axis="0 1 1"/>
    <geom name="gb" type="capsule" size=".1 .3" {g}/>
  </body>
</body>"""

ORIENTATIONS = {
    "quat": 'quat="1 2 3 4"',
    "axisangle": 'axisangle="1 2 3 40"',
    "euler": 'euler="30 40 50"',
    "xyaxes": 'xyaxes="1 2 0 1 0 3"',
    "zaxis": 'zaxis="1 2 -3"',
    "zaxis down": 'zaxis="0 0 -2"',
}


@pytest.mark.parametrize("kind", ORIENTATIONS)
def test_orientations(twin, kind):
    text = ORIENTATIONS[kind]
    twin(scene(TREE.format(a=text, b=text, g=text))).check()


@pytest.mark.parametrize("sequence", ["xyz", "XYZ", "zyx", "ZYX", "xYz", "XyZ", "xyx", "zXz", "XXy"])
@pytest.mark.parametrize("angle", ["degree", "radian"])
def test_euler_sequences(twin, sequence, angle):
    text = 'euler="20 -35 50"' if angle == "degree" else 'euler=".3 -.6 .9"'
    head = f'<compiler angle="{angle}" eulerseq="{sequence}"/>'
    twin(scene(TREE.format(a=text, b=text, g=text), head)).check(1)


@pytest.mark.parametrize("kind", ["capsule", "cylinder", "box", "ellipsoid"])
@pytest.mark.parametrize("ends", [".1 .2 .3 -.4 .6 .2", "0 0 1 0 0 0", "0 0 0 0 0 1", "0 0 0 1 0 0"])
def test_fromto(twin, kind, ends):
    geom = f'<geom name="g" type="{kind}" size=".05" fromto="{ends}"/>'
    twin(scene(f'<body name="a"><freejoint name="f"/>{geom}</body>')).check(1)


@pytest.mark.parametrize("shell", ["false", "true"])
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("sphere", ".2"),
        ("capsule", ".1 .2"),
        ("cylinder", ".1 .2"),
        ("box", ".1 .2 .3"),
        ("ellipsoid", ".1 .2 .3"),
    ],
)
@pytest.mark.parametrize("mass", ['mass="2.5"', 'density="700"', ""])
def test_mass_of_every_geom_type(twin, kind, size, shell, mass):
    body = f"""<body name="a"><freejoint name="f"/>
      <geom name="g" type="{kind}" size="{size}" pos=".1 .2 .3" euler="10 20 30" {mass}
        shellinertia="{shell}"/>
      <geom name="h" size=".1" pos="-.1 0 0"/></body>"""
    twin(scene(body)).check(1)


def test_nested_defaults_and_childclass(twin):
    head = """<default>
      <geom type="box" size=".1 .2 .3" density="500" euler="10 20 30"/>
      <joint axis="0 1 0" damping="3"/>
      <default class="arm"><geom type="capsule" size=".1 .2"/><joint damping="5" armature=".2"/>
        <default class="hand"><geom density="100"/></default>
        <default class="tool"><geom quat="0 1 0 0" type="cylinder"/><joint axis="1 0 0"/></default>
      </default>
      <default class="other"><geom fromto="0 0 0 0 .3 .4" type="capsule" size=".05"/></default>
    </default>"""
    body = """
    <body name="a" childclass="arm"><joint name="j0"/><geom name="g0"/>
      <body name="b" childclass="hand"><joint name="j1" damping="7"/><geom name="g1" zaxis="1 1 0"/>
        <body name="c"><joint name="j2" class="tool"/><geom name="g2" class="tool"/>
          <geom name="g3" class="other"/><geom name="g4" class="main"/></body>
        <body name="d" childclass="other"><joint name="j3"/><geom name="g5"/></body>
      </body>
    </body>"""
    pair = twin(scene(body, head)).check()
    for name, damping in (("j0", 5.0), ("j1", 7.0), ("j2", 5.0), ("j3", 3.0)):
        assert pair.builder.joint_damping[pair.report.joint_dofs[name]] == damping


def test_frames(twin):
    body = """
    <frame pos="1 0 0" euler="0 0 90">
      <body name="a" pos="0 1 0">
        <freejoint name="f"/>
        <frame pos=".1 .2 .3" quat="1 1 0 0">
          <geom name="ga" type="box" size=".1 .2 .3" pos=".3 0 0"/>
          <frame euler="0 40 0">
            <body name="b" pos="0 0 1"><joint name="j" axis="1 0 0" pos=".1 0 0"/><geom name="gb"
              size=".1"/></body>
            <geom name="gc" type="capsule" size=".1 .2"/>
          </frame>
        </frame>
        <body name="c"><frame pos=".2 0 0" euler="90 0 0">
          <joint name="jc" axis="0 1 0" pos=".1 .2 .3"/><inertial mass="2" pos="0 .1 0" diaginertia="1 2
            2.5"/>
        </frame></body>
      </body>
      <geom name="wall" type="box" size="1 2 3" pos="0 0 5"/>
    </frame>"""
    twin(scene(body)).check()


def test_frame_childclass(twin):
    head = '<default><default class="x"><geom type="box" size=".1 .2 .3"/></default></default>'
    body = '<body name="a"><freejoint name="f"/><frame childclass="x"><geom name="g"/></frame></body>'
    twin(scene(body, head)).check(1)


@pytest.mark.parametrize(
    "compiler",
    [
        '<compiler inertiafromgeom="true"/>',
        '<compiler inertiafromgeom="auto"/>',
        '<compiler inertiafromgeom="true" inertiagrouprange="1 2"/>',
        '<compiler boundmass="3" boundinertia=".5"/>',
        '<compiler settotalmass="12"/>',
        '<compiler balanceinertia="true"/>',
        '<compiler balanceinertia="true" boundinertia=".2" settotalmass="3"/>',
    ],
)
def test_inertia_options_of_the_compiler(twin, compiler):
    body = """
    <body name="a"><freejoint name="f"/><inertial mass="2" pos=".1 .2 .3" diaginertia=".3 .4 .6" euler="10 20
      30"/>
      <geom name="ga" type="box" size=".1 .2 .3" group="1"/><geom name="gb" size=".1" pos="0 0 .4"/>
      <body name="b"><joint name="j"/><inertial mass="1" pos="0 0 0" fullinertia="1 1.2 1.3 .1 -.2 .15"/>
        <geom name="gc" type="capsule" size=".1 .3" group="2" pos=".2 0 0"/></body>
      <body name="c" pos="1 0 0"><geom name="gd" size=".1" group="1"/></body>
    </body>"""
    if "balance" in compiler:
        body = body.replace('diaginertia=".3 .4 .6"', 'diaginertia=".3 .4 .9"')
    twin(scene(body, compiler)).check(1)


# an L-shaped prism: not convex, so that the rules for mesh inertia differ
L_VERTEX = "0 0 0 2 0 0 2 1 0 1 1 0 1 3 0 0 3 0 0 0 1 2 0 1 2 1 1 1 1 1 1 3 1 0 3 1"
L_FACE = (
    "0 2 1 6 7 8 0 3 2 6 8 9 0 4 3 6 9 10 0 5 4 6 10 11 0 1 7 0 7 6 1 2 8 1 8 7 2 3 9 2 9 8 "
    "3 4 10 3 10 9 4 5 11 4 11 10 5 0 6 5 6 11"
)
MESH_BODY = """<body name="a" pos="0 0 1"><freejoint name="f"/>
  <geom name="g" type="{kind}" mesh="l" pos=".1 .2 .3" euler="10 20 30" {more}/></body>"""


@pytest.mark.parametrize(
    "rule", ["", 'inertia="legacy"', 'inertia="exact"', 'inertia="convex"', 'inertia="shell"']
)
def test_mesh_inertia(twin, rule):
    head = f'<asset><mesh name="l" vertex="{L_VERTEX}" face="{L_FACE}" scale=".1 .2 .1" {rule}/></asset>'
    for more in ("", 'mass="3"'):
        pair = twin(scene(MESH_BODY.format(kind="mesh", more=more), head))
        pair.check_masses()
        pair.check_start()


def test_mesh_reference_frame_and_mirroring_scale(twin):
    head = f"""<asset><mesh name="l" vertex="{L_VERTEX}" face="{L_FACE}" inertia="exact" scale=".1 -.2 .1"
      refpos="1 2 3" refquat="1 .3 -.2 .5"/></asset>"""
    pair = twin(scene(MESH_BODY.format(kind="mesh", more=""), head))
    pair.check_masses()
    shape = pair.builder.shape_key.index("g")
    mesh = pair.builder.shape_geo_src[shape]
    # MuJoCo moves the vertices to the principal frame of the mesh; in the world they are the same
    import warp as wp

    rotation = pair.data.geom_xmat[0].reshape(3, 3)
    theirs = pair.mj.mesh_vert @ rotation.T + pair.data.geom_xpos[0]
    xform = wp.transform(*pair.builder.body_q[0]) * wp.transform(*pair.builder.shape_transform[shape])
    ours = np.array([wp.transform_point(xform, wp.vec3(*vertex)) for vertex in mesh.vertices])
    for vertex in theirs:
        assert np.linalg.norm(ours - vertex, axis=1).min() < 1e-5
    # a mirrored mesh still encloses a positive volume: its triangles look outwards
    assert mesh.mass > 0.0


def test_distance_fields_are_surfaces(twin):
    """MuJoCo's distance field of a mesh is that of its surface."""
    head = f'<asset><mesh name="l" vertex="{L_VERTEX}" face="{L_FACE}" inertia="exact"/></asset>'
    pair = twin(scene(MESH_BODY.format(kind="sdf", more=""), head))
    pair.check_masses()
    assert pair.builder.shape_geo_type[pair.builder.shape_key.index("g")] == GeoType.MESH


@pytest.mark.parametrize("rule", ["legacy", "exact", "shell"])
def test_quadrilaterals_that_are_not_flat_fall_apart_as_in_mujoco(twin, rule, tmp_path):
    """A box of which two opposite corners are pulled out, so that its sides are not flat."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
    corners[0], corners[7] = (-0.5, -0.4, -0.3), (1.4, 1.6, 1.5)
    sides = [(1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4)]
    lines = ["v {} {} {}".format(*one) for one in corners] + ["f {} {} {} {}".format(*one) for one in sides]
    (tmp_path / "box.obj").write_text("\n".join(lines))
    mesh = f'<asset><mesh name="l" file="{tmp_path}/box.obj" inertia="{rule}"/></asset>'
    twin(scene(MESH_BODY.format(kind="mesh", more=""), mesh)).check_masses()


TORUS = """<extension><plugin plugin="mujoco.sdf.torus"><instance name="ring">
<config key="radius1" value="{}"/><config key="radius2" value="0.1"/></instance></plugin></extension>"""

MADE = {
    "a wedge": ("", '<mesh name="l" builtin="wedge" params="5 5 45 45 0" scale="1 2 1"/>', "mesh"),
    "a torus": (TORUS.format(0.3), '<mesh name="l"><plugin instance="ring"/></mesh>', "sdf"),
}
"""Meshes that MuJoCo makes: the extension and the asset of each, and the type of geoms with it."""


@pytest.mark.parametrize("name", MADE)
def test_meshes_that_mujoco_makes_are_taken_from_it(twin, name):
    extension, mesh, kind = MADE[name]
    body = MESH_BODY.format(kind=kind, more="")
    if extension:
        body = body.replace("/></body>", '><plugin instance="ring"/></geom></body>')
    pair = twin(scene(body, f"{extension}<asset>{mesh}</asset>"))
    pair.check_masses()
    assert pair.builder.shape_geo_type[pair.builder.shape_key.index("g")] == GeoType.MESH


@pytest.mark.parametrize("name", MADE)
def test_meshes_that_only_mujoco_makes_are_named(z_up, name, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    extension, mesh, _ = MADE[name]
    text = scene(MESH_BODY.format(kind="mesh", more=""), f"{extension}<asset>{mesh}</asset>")
    with pytest.warns(UnsupportedElementWarning, match="is left out; the package mujoco would have to"):
        parse_mjcf(text, z_up)
    assert (z_up.body_count, z_up.shape_count) == (1, 0)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (
            '<asset><mesh name="l" builtin="none of MuJoCo"/></asset>',
            "is made by .*'none of MuJoCo' is left out",
        ),
        ('<asset><mesh name="l"><plugin instance="gear"/></mesh></asset>', "is made by a plugin is left out"),
        (f"{TORUS.format(2000)}<asset>{MADE['a torus'][1]}</asset>", "is made by a plugin is left out"),
    ],
    ids=("unknown kind", "no such instance", "too large a number"),
)
def test_meshes_that_mujoco_does_not_make_are_named(z_up, head, words):
    with pytest.warns(UnsupportedElementWarning, match=words):
        parse_mjcf(scene(MESH_BODY.format(kind="mesh", more=""), head), z_up)
    assert (z_up.body_count, z_up.shape_count) == (1, 0)


def test_points_without_faces_become_their_hull(twin):
    head = '<asset><mesh name="l" vertex="0 0 0 1 0 0 0 1 0 0 0 1 .1 .1 .1"/></asset>'
    pair = twin(scene(MESH_BODY.format(kind="mesh", more=""), head))
    pair.check_masses()
    assert len(pair.builder.shape_geo_src[0].vertices) == 4


@pytest.mark.parametrize("kind", ["sphere", "capsule", "cylinder", "ellipsoid", "box"])
@pytest.mark.parametrize("compiler", ["", '<compiler fitaabb="true"/>'])
def test_primitives_fitted_to_a_mesh(twin, kind, compiler):
    head = f'{compiler}<asset><mesh name="l" vertex="{L_VERTEX}" face="{L_FACE}" inertia="exact"/></asset>'
    pair = twin(scene(MESH_BODY.format(kind=kind, more=""), head))
    size = pair.mj.geom_size[0]
    ours = np.array(list(pair.builder.shape_geo_scale[0]))
    np.testing.assert_allclose(ours, size, rtol=1e-5)
    np.testing.assert_allclose(list(pair.builder.shape_transform[0])[:3], pair.mj.geom_pos[0], atol=1e-5)
    pair.check_masses()


def test_height_field(twin):
    head = '<asset><hfield name="h" nrow="3" ncol="2" size="1 2 3 .5" elevation="1 2 3 4 5 7"/></asset>'
    body = '<geom name="g" type="hfield" hfield="h" pos="0 0 1" euler="0 0 30"/>'
    pair = twin(scene(body, head))
    shape = pair.builder.shape_key.index("g")
    assert pair.builder.shape_geo_type[shape] == GeoType.HFIELD
    vertices = pair.builder.shape_geo_src[shape].to_mesh().vertices
    import warp as wp

    xform = wp.transform(*pair.builder.shape_transform[shape])
    ours = np.array([wp.transform_point(xform, wp.vec3(*vertex)) for vertex in vertices])
    # rays from above onto MuJoCo's field, just inside its border
    for point in ours:
        inside = point[:2] * 0.999
        hit = np.zeros(1, np.int32)
        distance = mujoco.mj_ray(
            pair.mj, pair.data, np.array([*inside, 20.0]), np.array([0.0, 0.0, -1.0]), None, 1, -1, hit
        )
        assert 20.0 - distance == pytest.approx(point[2], abs=0.02)


def test_planes_are_infinite_and_face_their_z_axis(twin):
    pair = twin(scene('<geom name="g" type="plane" size="1 2 .1" pos="0 0 .5" euler="30 0 0"/>'))
    pair.check_geoms()
    shape = pair.builder.shape_key.index("g")
    assert pair.builder.shape_body[shape] == -1
    assert list(pair.builder.shape_geo_scale[shape]) == [0.0, 0.0, 0.0]


def test_includes(twin, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "main.xml").write_text(
        '<mujoco><include file="head.xml"/><worldbody><include file="parts/arm.xml"/></worldbody></mujoco>'
    )
    (tmp_path / "head.xml").write_text(
        '<mujocoinclude><compiler angle="radian"/>'
        '<default><geom type="box" size=".1 .2 .3"/></default></mujocoinclude>'
    )
    (tmp_path / "parts" / "arm.xml").write_text(
        '<mujocoinclude><body name="a" euler="0 0 1"><joint name="j"/><geom name="g"/>'
        '<include file="parts/hand.xml"/></body></mujocoinclude>'
    )
    (tmp_path / "parts" / "hand.xml").write_text(
        '<mujocoinclude><body name="b" pos="0 0 1"><joint name="k"/>'
        '<geom name="h" size=".3 .2 .1"/></body></mujocoinclude>'
    )
    twin(tmp_path / "main.xml").check(1)


def test_errors_in_included_files_name_that_file(tmp_path, z_up):
    (tmp_path / "main.xml").write_text('<mujoco><worldbody><include file="arm.xml"/></worldbody></mujoco>')
    (tmp_path / "arm.xml").write_text('<mujocoinclude>\n\n<body><geom size="oops"/></body></mujocoinclude>')
    with pytest.raises(ImportFileError, match="'size' is not a finite number: 'oops'") as caught:
        parse_mjcf(tmp_path / "main.xml", z_up)
    assert caught.value.path.endswith("arm.xml")
    assert caught.value.line == 3
    assert caught.value.element == "geom"


def test_mesh_folders(twin, tmp_path):
    import trimesh

    (tmp_path / "meshes").mkdir()
    trimesh.creation.box((0.2, 0.4, 0.6)).export(tmp_path / "meshes" / "block.stl")
    for compiler in ('meshdir="meshes"', 'assetdir="meshes"', 'meshdir="meshes" strippath="true"'):
        prefix = "elsewhere/" if "strippath" in compiler else ""
        (tmp_path / "main.xml").write_text(
            f"<mujoco><compiler {compiler}/>"
            f'<asset><mesh file="{prefix}block.stl" scale="1 1 2"/></asset><worldbody>'
            '<body name="a"><freejoint name="f"/><geom name="g" type="mesh" mesh="block"/></body>'
            "</worldbody></mujoco>"
        )
        pair = twin(tmp_path / "main.xml")
        pair.check_masses()
        assert pair.builder.body_mass[0] == pytest.approx(0.2 * 0.4 * 1.2 * 1000.0, rel=1e-5)


def test_global_coordinates_are_refused(z_up):
    with pytest.raises(ImportFileError, match="coordinate='global'"):
        parse_mjcf('<mujoco><compiler coordinate="global"/></mujoco>', z_up)


ALIGNED = """<mujoco><compiler alignfree="{every}"/>
<asset><mesh name="tet" vertex="0 0 0 .3 0 0 0 .3 0 0 0 .5"/></asset>
<worldbody>{bodies}</worldbody>
<equality><weld body1="box" body2="mesh" anchor=".1 0 0"/>
<connect body1="full" body2="diagonal" anchor=".1 .2 0"/>
</equality></mujoco>"""
FREE_BODIES = {
    "box": '<geom type="box" size=".3 .2 .1" pos=".1 .2 .1" euler="20 10 5"/><site name="s" pos=".1 0 0"/>',
    "mesh": '<geom type="mesh" mesh="tet" euler="10 20 30" pos=".1 0 0"/>',
    "full": '<inertial pos=".1 .2 .3" mass="1" fullinertia=".02 .03 .04 .005 -.003 .002"/><geom size=".1"/>',
    "diagonal": '<inertial pos=".1 .2 .3" mass="1" diaginertia=".02 .04 .03" quat="1 .2 .3 .4"/>',
    "sorted": '<inertial pos=".1 .2 .3" mass="1" fullinertia=".02 .03 .04 0 0 0"/>',
    "two": '<geom type="box" size=".1 .2 .3" euler="9 4 5"/><geom type="box" size=".1 .1 .02" pos="-1 0 0"/>',
    "seen": '<geom size=".1" pos=".1 0 0" mass="2"/><geom type="box" size=".3 .1 .1" mass="0"/>',
    "carrying": '<geom type="box" size=".1 .2 .3" pos=".1 .2 0"/><body name="on"><geom size=".1"/></body>',
    "asked": '<geom type="box" size=".1 .2 .3" pos=".1 .2 0"/>',
}


@pytest.mark.parametrize("every", [True, False])
def test_frames_of_free_bodies_are_aligned_as_in_mujoco(every: bool, tmp_path):
    """By the file as a whole, or by each joint; frames, masses, equalities and motion are MuJoCo's."""
    bodies = ""
    for place, (name, inside) in enumerate(FREE_BODIES.items()):
        joint = '<joint type="free"/>' if every else '<freejoint align="true"/>'
        if name == "asked":
            joint = f'<freejoint align="{"auto" if every else "false"}"/>'
        bodies += f'<body name="{name}" pos="{place} 0 1" euler="10 20 30">{joint}{inside}</body>'
    path = tmp_path / "free.xml"
    path.write_text(ALIGNED.format(every=str(every).lower(), bodies=bodies))
    found = compare_with_oracle(path, states=2)
    assert found.agrees, found.lines()
    assert not found.remarks
    oracle = mujoco.MjModel.from_xml_path(str(path))
    lying = {name: not oracle.body(name).ipos.any() for name in FREE_BODIES}
    assert lying == {
        name: not (name == "carrying" or (name == "asked" and not every)) for name in FREE_BODIES
    }
