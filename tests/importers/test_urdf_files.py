"""Files that a URDF refers to: meshes, packages, textures."""

import numpy as np
import pytest
import trimesh

import newtonsim
from newtonsim.errors import ImportFileError
from newtonsim.importers import parse_urdf

ROBOT = """<robot name="r"><link name="a"><collision><origin xyz="1 2 3" rpy=".1 .2 .3"/>
  <geometry>
    <mesh filename="{name}" {more}/>
  </geometry></collision></link></robot>"""


@pytest.fixture
def block(tmp_path):
    """A box of 0.2 x 0.4 x 0.6 m, off its origin, and the folder it lies in."""
    mesh = trimesh.creation.box((0.2, 0.4, 0.6))
    mesh.apply_translation((0.1, 0.2, 0.3))
    folder = tmp_path / "robots" / "my_pkg" / "meshes"
    folder.mkdir(parents=True)
    (tmp_path / "robots" / "my_pkg" / "urdf").mkdir()
    for suffix in ("stl", "obj", "ply", "glb"):
        mesh.export(folder / f"block.{suffix}")
    return mesh, folder


def load(folder, name: str, more: str = "", **options):
    path = folder.parent / "urdf" / "robot.urdf"
    path.write_text(ROBOT.format(name=name, more=more))
    builder = newtonsim.ModelBuilder()
    parse_urdf(path, builder, **options)
    return builder


@pytest.mark.parametrize("suffix", ["stl", "obj", "ply", "glb"])
def test_mesh_formats_give_the_mass_properties_of_the_solid(block, suffix):
    _, folder = block
    builder = load(folder, f"../meshes/block.{suffix}")
    assert builder.body_mass[0] == pytest.approx(48.0, rel=1e-5)
    inertia = 48.0 / 12.0 * np.array([0.4**2 + 0.6**2, 0.2**2 + 0.6**2, 0.2**2 + 0.4**2])
    np.testing.assert_allclose(np.linalg.eigvalsh(builder.body_inertia[0]), np.sort(inertia), rtol=1e-5)
    rotation = trimesh.transformations.euler_matrix(0.1, 0.2, 0.3)[:3, :3]
    np.testing.assert_allclose(builder.body_com[0], rotation @ (0.1, 0.2, 0.3) + (1, 2, 3), rtol=1e-6)
    source = builder.shape_geo_src[0]
    assert len(source.vertices) == 8  # welded
    assert len(source.indices) == 36


@pytest.mark.parametrize("scale", ["2", "1 2 3", "-1 1 1"])
def test_scale_of_meshes(block, scale):
    _, folder = block
    builder = load(folder, "../meshes/block.stl", f'scale="{scale}"')
    factor = np.abs(np.prod(np.fromstring(scale, sep=" ") * np.ones(3)))
    assert builder.body_mass[0] == pytest.approx(48.0 * factor, rel=1e-5)
    assert builder.shape_geo_src[0].mass > 0.0


def test_one_mesh_for_all_its_users(block):
    _, folder = block
    path = folder.parent / "urdf" / "robot.urdf"
    shape = '<collision><geometry><mesh filename="../meshes/block.stl"/></geometry></collision>'
    path.write_text(f'<robot name="r"><link name="a">{shape}{shape}</link></robot>')
    builder = newtonsim.ModelBuilder()
    parse_urdf(path, builder)
    assert builder.shape_geo_src[0] is builder.shape_geo_src[1]


@pytest.mark.parametrize(
    "way", ["absolute", "file", "package", "package path", "mapping", "environment", "inside"]
)
def test_ways_to_name_a_file(block, way, monkeypatch, tmp_path):
    _, folder = block
    options = {}
    name = "package://my_pkg/meshes/block.stl"  # found among the parent folders
    if way == "absolute":
        name = str(folder / "block.stl")
    elif way == "file":
        name = f"file://{folder}/block.stl"
    elif way == "inside":
        name = "package://renamed_pkg/meshes/block.stl"
    elif way != "package":
        other = tmp_path / "elsewhere" / "other_pkg"
        (other / "meshes").mkdir(parents=True)
        (folder / "block.stl").rename(other / "meshes" / "block.stl")
        name = "package://other_pkg/meshes/block.stl"
        if way == "package path":
            options["package_paths"] = [other.parent]
        elif way == "mapping":
            options["package_paths"] = {"other_pkg": other}
        else:
            monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere:{other}")
    assert load(folder, name, **options).shape_count == 1


@pytest.mark.parametrize(
    "name", ["no.stl", "package://no/no.stl", "file:///no.stl", "http://x/y.stl", "a\0b", "x" * 5000]
)
def test_missing_mesh_names_file_and_element(block, name):
    _, folder = block
    if "\0" in name:
        name = "&#1;"
    with pytest.raises(ImportFileError) as caught:
        load(folder, name, strict=True)
    assert caught.value.path.endswith("robot.urdf")
    if name != "&#1;":
        assert caught.value.line == 3
        assert caught.value.element == "mesh"


@pytest.mark.parametrize("content", [b"", b"solid nothing", b"\0" * 100, b"\xff" * 84 + b"\x00" * 50])
@pytest.mark.parametrize("suffix", ["stl", "obj", "ply", "glb", "dae", "xyz", "msh"])
def test_broken_meshes_are_typed_errors(block, content, suffix):
    _, folder = block
    (folder / f"bad.{suffix}").write_bytes(content)
    with pytest.raises(ImportFileError, match="bad"):
        load(folder, f"../meshes/bad.{suffix}", strict=True)
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="repaired.*bad.*the shape is left out"):
        assert not load(folder, f"../meshes/bad.{suffix}").shape_count


@pytest.mark.parametrize("unit", [1.0, 0.01])
def test_collada_unit_counts_and_its_up_axis_does_not(block, unit):
    mesh, folder = block
    text = mesh.export(file_type="dae").decode()
    head = f'<unit name="u" meter="{unit}"/><up_axis>Y_UP</up_axis></asset>'
    text = text.replace("<up_axis>Y_UP</up_axis>", "").replace("</asset>", head, 1)
    (folder / "block.dae").write_text(text)
    vertices = load(folder, "../meshes/block.dae").shape_geo_src[0].vertices
    np.testing.assert_allclose(np.ptp(vertices, axis=0), np.array([0.2, 0.4, 0.6]) * unit, rtol=1e-6)


def test_open_mesh_gets_its_mass_from_the_hull(block):
    mesh, folder = block
    mesh.update_faces(np.arange(len(mesh.faces)) > 1)
    mesh.export(folder / "open.stl")
    builder = newtonsim.ModelBuilder()
    path = folder.parent / "urdf" / "robot.urdf"
    path.write_text(ROBOT.format(name="../meshes/open.stl", more=""))
    report = parse_urdf(path, builder)
    assert builder.body_mass[0] == pytest.approx(48.0, rel=1e-5)
    assert "convex hull" in report.of_kind("approximated")[0].message


def test_scene_files_are_merged(block):
    _, folder = block
    scene = trimesh.Scene([trimesh.creation.box((1, 1, 1)), trimesh.creation.icosphere(radius=0.1)])
    scene.add_geometry(
        trimesh.creation.box((1, 1, 1)), transform=trimesh.transformations.translation_matrix((5, 0, 0))
    )
    scene.export(folder / "scene.glb")
    builder = load(folder, "../meshes/scene.glb")
    vertices = builder.shape_geo_src[0].vertices
    np.testing.assert_allclose([vertices[:, 0].min(), vertices[:, 0].max()], [-0.5, 5.5], atol=1e-6)


def test_textures(block):
    _, folder = block
    (folder / "wood.png").write_bytes(b"not looked at")
    path = folder.parent / "urdf" / "robot.urdf"
    path.write_text(
        """<robot name="r"><material name="wood"><texture
      filename="package://my_pkg/meshes/wood.png"/></material>
        <link name="a"><visual><geometry><box size="1 1 1"/></geometry><material
          name="wood"/></visual></link></robot>"""
    )
    builder = newtonsim.ModelBuilder()
    parse_urdf(path, builder)
    assert builder.shape_texture == [str(folder / "wood.png")] or builder.shape_texture[0].endswith(
        "wood.png"
    )
