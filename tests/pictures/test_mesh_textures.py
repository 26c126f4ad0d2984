"""Textures of meshes in files: each pixel of a picture has the colour of the texel that its ray meets."""

import numpy as np
import pytest
from PIL import Image

import newtonsim
import newtonsim.importers
from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.render import Camera, Lighting, Pinhole, look_at
from newtonsim.utils import export_urdf

TEXELS = np.random.default_rng(0).integers(0, 256, (4, 8, 3), np.uint8)
OTHER = np.array([[[250, 10, 60], [20, 240, 100]]], np.uint8)
FLAT = (0, 128, 255)
LIGHT = Lighting(ambient=1.0, diffuse=0.0, specular=0.0, shadow=False)
SIDE = 64

QUAD = "v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
MATERIALS = "newmtl a\nKd 0.5 0.5 0.5\nmap_Kd a.png\nnewmtl b\nmap_Kd b.png\nnewmtl c\nKd 0 0.502 1\n"


@pytest.fixture
def folder(tmp_path):
    """A quad that the first image covers, and a file of three quads side by side, one without an image."""
    Image.fromarray(TEXELS).save(tmp_path / "a.png")
    Image.fromarray(OTHER).save(tmp_path / "b.png")
    (tmp_path / "looks.mtl").write_text(MATERIALS)
    head = "mtllib looks.mtl\n"
    (tmp_path / "quad.obj").write_text(head + QUAD + "usemtl a\nf 1/1 2/2 3/3 4/4\n")
    points = "".join(f"v {x} {y} 0\n" for x in (-1.0, 0.0, 1.0, 2.0) for y in (-1.0, 1.0))
    faces = "usemtl a\nf 1/1 3/2 4/3 2/4\nusemtl c\nf 3 5 6 4\nusemtl b\nf 5/1 7/5 8/6 6/4\n"
    (tmp_path / "three.obj").write_text(head + points + QUAD[QUAD.index("vt") :] + "vt 3 0\nvt 3 1\n" + faces)
    return tmp_path


def texels(image: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Colours at texture coordinates, v up, of an image that repeats."""
    rows = np.floor((1.0 - v % 1.0) * len(image)).astype(int)
    return image[rows, np.floor(u % 1.0 * image.shape[1]).astype(int)]


def picture(builder: newtonsim.ModelBuilder, device: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Colours that a camera straight above sees, and where its rays meet the plane z = 0."""
    model = builder.finalize(device=device)
    pose = look_at((0.0, 0.0, 4.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    camera = Camera(model, SIDE, SIDE, pose=pose, lens=Pinhole(60.0), lighting=LIGHT)
    seen = camera.render(model.state())["rgb"].numpy()[0, 0]
    place = 4.0 * np.tan(np.radians(30.0)) * ((np.arange(SIDE) + 0.5) / (0.5 * SIDE) - 1.0)
    x, y = np.meshgrid(place, -place)
    return seen, x, y


def check_quad(builder: newtonsim.ModelBuilder, device: str, tint: float = 1.0) -> None:
    """Compare the picture of a quad over -1..1 that wears TEXELS."""
    seen, x, y = picture(builder, device)
    u, v = 0.5 * (x + 1.0), 0.5 * (y + 1.0)
    sure = (np.abs(x) < 0.99) & (np.abs(y) < 0.99)
    for part, count in ((u, 8), (v, 4)):  # away from the edges of texels
        sure &= np.abs(part * count - np.round(part * count)) > 0.02
    assert sure.sum() > 400
    wanted = texels(TEXELS, u[sure], v[sure])
    np.testing.assert_allclose(seen[sure], tint * wanted, atol=1.0)


def urdf(mesh: str, material: str = "", scale: str = "1 1 1") -> str:
    geometry = f'<geometry><mesh filename="{mesh}" scale="{scale}"/></geometry>'
    return f'<robot name="r"><link name="a"><visual>{geometry}{material}</visual></link></robot>'


def read_urdf(folder, text: str) -> newtonsim.ModelBuilder:
    (folder / "robot.urdf").write_text(text)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.importers.parse_urdf(str(folder / "robot.urdf"), builder)
    return builder


def test_mesh_wears_its_image(device: str):
    corners = np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
    indices = np.array([0, 1, 2, 0, 2, 3])
    uvs = 0.5 * (corners[indices, :2] + 1.0)
    builder = newtonsim.ModelBuilder()
    builder.add_shape_mesh(-1, mesh=newtonsim.Mesh(corners, indices, uvs=uvs, texture=TEXELS))
    check_quad(builder, device)


@pytest.mark.parametrize(
    ("appearance", "text"),
    [
        ({"uvs": np.zeros((2, 2))}, r"uvs: expected shape \(3, 2\), got \(2, 2\)"),
        ({"uvs": np.full((3, 2), np.nan)}, "not finite"),
        ({"texture": TEXELS}, "needs uvs"),
        ({"uvs": np.zeros((3, 2)), "texture": TEXELS[0]}, "texture: expected"),
    ],
)
def test_wrong_looks_are_refused(appearance: dict, text: str):
    with pytest.raises(ModelError, match=text):
        newtonsim.Mesh(np.eye(3), [0, 1, 2], **appearance)


def test_urdf_with_obj(folder, device: str):
    builder = read_urdf(folder, urdf("quad.obj"))
    check_quad(builder, device)
    gray = '<material name="m"><color rgba="0.5 0.5 0.5 1"/></material>'
    check_quad(read_urdf(folder, urdf("quad.obj", gray)), device, 0.5)


def test_sdf_with_obj(folder, device: str):
    geometry = "<geometry><mesh><uri>quad.obj</uri></mesh></geometry>"
    visual = f'<visual name="v">{geometry}</visual>'
    model = f'<model name="m"><static>true</static><link name="a">{visual}</link></model>'
    (folder / "model.sdf").write_text(f'<sdf version="1.9">{model}</sdf>')
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.importers.parse_sdf(str(folder / "model.sdf"), builder)
    check_quad(builder, device)


def test_mirrored_scale(folder, device: str):
    """A mesh that is turned over is seen from below, with the image the right way round."""
    (folder / "flipped.obj").write_text(
        (folder / "quad.obj").read_text().replace("1/1 2/2 3/3 4/4", "4/4 3/3 2/2 1/1")
    )
    builder = read_urdf(folder, urdf("flipped.obj", scale="1 1 -1"))
    check_quad(builder, device)


def test_shape_texture_goes_before_that_of_the_file(folder, device: str):
    own = '<material name="m"><texture filename="b.png"/></material>'
    seen, x, y = picture(read_urdf(folder, urdf("quad.obj", own)), device)
    inside = (np.abs(x) < 0.95) & (np.abs(y) < 0.95) & (np.abs(x) > 0.05)
    np.testing.assert_array_equal(seen[inside], OTHER[0][(x[inside] > 0.0).astype(int)])


def test_several_materials(folder, device: str):
    """Quads of one file wear their own images, one of them three times, or their own colour."""
    seen, x, y = picture(read_urdf(folder, urdf("three.obj")), device)
    wanted = np.where((x < 0.0)[..., None], texels(TEXELS, x + 1.0, 0.5 * (y + 1.0)), FLAT)
    right = x > 1.0
    wanted[right] = texels(OTHER, 3.0 * (x[right] - 1.0), 0.5 * (y[right] + 1.0))
    sure = (x > -0.99) & (x < 1.99) & (np.abs(y) < 0.99)
    for part in (8.0 * (x + 1.0), 6.0 * x, 2.0 * (y + 1.0)):
        sure &= np.abs(part - np.round(part)) > 0.02
    assert sure.sum() > 400
    np.testing.assert_allclose(seen[sure], wanted[sure], atol=1.0)


def test_glb_holds_its_image(folder, device: str):
    trimesh = pytest.importorskip("trimesh")
    corners = np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
    material = trimesh.visual.material.PBRMaterial(baseColorTexture=Image.open(folder / "a.png"))
    visual = trimesh.visual.TextureVisuals(uv=0.5 * (corners[:, :2] + 1.0), material=material)
    mesh = trimesh.Trimesh(corners, [[0, 1, 2], [0, 2, 3]], visual=visual, process=False)
    mesh.export(folder / "quad.glb")
    check_quad(read_urdf(folder, urdf("quad.glb")), device)


def test_broken_looks_do_not_cost_the_mesh(folder, device: str):
    (folder / "looks.mtl").write_text("newmtl a\nKd red 0 0\nmap_Kd looks.mtl\n")
    with pytest.warns(UnsupportedElementWarning) as caught:
        builder = read_urdf(folder, urdf("quad.obj"))
    texts = " ".join(str(item.message) for item in caught)
    assert "Kd red 0 0" in texts
    assert "looks.mtl cannot be read" in texts
    assert builder.shape_count == 1


def test_recording_keeps_them(folder, device: str):
    from newtonsim.render.recordings.geometry import plain_source, restored_source

    source = read_urdf(folder, urdf("three.obj")).shape_geo_src[0]
    again = restored_source(plain_source(source))
    np.testing.assert_array_equal(again.uvs, source.uvs)
    np.testing.assert_array_equal(again.texture, source.texture)


MJCF_INLINE = (
    """<mesh name="q" inertia="shell" vertex="-1 -1 0 1 -1 0 1 1 0 -1 1 0" face="0 1 2 0 2 3" {}/>"""
)


@pytest.mark.parametrize(
    "mesh",
    [
        '<mesh name="q" inertia="shell" file="quad.obj"/>',
        MJCF_INLINE.format('texcoord="0 1 1 1 1 0 0 0"'),  # v down
        MJCF_INLINE.format('texcoord="0 0 1 0 1 1 0 1" facetexcoord="3 2 1 3 1 0"'),
    ],
)
def test_mjcf(folder, device: str, mesh: str):
    """MuJoCo takes the texture of the material, and flips v of Wavefront files only."""
    texture = '<texture name="t" type="2d" file="a.png"/><material name="m" texture="t"/>'
    text = (
        f'<mujoco><asset>{texture}{mesh}</asset><worldbody><geom type="mesh" mesh="q" material="m"'
        ' contype="0" conaffinity="0"/></worldbody></mujoco>'
    )
    (folder / "scene.xml").write_text(text)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.importers.parse_mjcf(str(folder / "scene.xml"), builder)
    check_quad(builder, device)


USD_STAGE = """#usda 1.0
(upAxis = "Z"
metersPerUnit = 1)
def Material "Look" {
    token outputs:surface.connect = </Look/Shader.outputs:surface>
    def Shader "Shader" {
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor.connect = </Look/Image.outputs:rgb>
        token outputs:surface
    }
    def Shader "Image" {
        uniform token info:id = "UsdUVTexture"
        asset inputs:file = @./a.png@
        float3 outputs:rgb
    }
}
def Mesh "Quad" (prepend apiSchemas = ["MaterialBindingAPI"%(schemas)s]) {
    point3f[] points = [%(points)s]
    int[] faceVertexCounts = [%(counts)s]
    int[] faceVertexIndices = [%(indices)s]
    texCoord2f[] primvars:%(name)s = [%(uvs)s] (interpolation = "%(kind)s")
    rel material:binding = </Look>
    %(more)s
}
"""
USD_QUAD = {
    "points": "(-1,-1,0), (1,-1,0), (1,1,0), (-1,1,0)",
    "counts": "4",
    "indices": "0, 1, 2, 3",
    "name": "st",
    "uvs": "(0,0), (1,0), (1,1), (0,1)",
    "kind": "vertex",
    "schemas": "",
    "more": "",
}
USD_BENT = {  # a concave hexagon and what it leaves of the square
    "points": USD_QUAD["points"] + ", (0,-1,0), (0,0,0), (1,0,0)",
    "counts": "4, 6",
    "indices": "4, 1, 6, 5, 0, 4, 5, 6, 2, 3",
    "uvs": "(.5,0), (1,0), (1,.5), (.5,.5), (0,0), (.5,0), (.5,.5), (1,.5), (1,1), (0,1)",
    "kind": "faceVarying",
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        USD_BENT,
        {"kind": "faceVarying", "name": "UVMap", "more": "int[] primvars:UVMap:indices = [0, 1, 2, 3]"},
        {"indices": "3, 2, 1, 0", "more": 'uniform token orientation = "leftHanded"'},
        {
            "schemas": ', "PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"',
            "more": 'uniform token physics:approximation = "none"',
        },
    ],
)
def test_usd(folder, device: str, change: dict):
    pytest.importorskip("pxr")
    (folder / "scene.usda").write_text(USD_STAGE % {**USD_QUAD, **change})
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.importers.parse_usd(str(folder / "scene.usda"), builder)
    check_quad(builder, device)


def test_usd_with_too_few_texture_coordinates(folder):
    pytest.importorskip("pxr")
    (folder / "scene.usda").write_text(USD_STAGE % {**USD_QUAD, "uvs": "(0,0), (1,0)"})
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(UnsupportedElementWarning, match=r"Quad.*'st'.*\(4, 2\)"):
        newtonsim.importers.parse_usd(str(folder / "scene.usda"), builder)
    assert builder.shape_count == 1


def test_meshes_share_the_image_of_a_file(folder):
    (folder / "again.obj").write_text((folder / "quad.obj").read_text())
    link = urdf("again.obj").partition("<link")[2].replace('"a"', '"b"')
    text = urdf("quad.obj").replace("</robot>", f"<link{link}").replace("</robot>", "")
    joint = '<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint></robot>'
    builder = read_urdf(folder, text + joint)
    first, second = builder.shape_geo_src
    assert first is not second
    assert first.texture is second.texture
    report = export_urdf(builder.finalize(device="cpu"), folder / "out.urdf")
    assert sum("texture" in entry.message for entry in report.of_kind("ignored")) == 2
