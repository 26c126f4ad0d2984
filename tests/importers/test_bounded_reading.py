"""What is read is bounded in time and memory: hostile meshes and archives, and limits that can be raised."""

import gzip
import io
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ImportFileError
from newtonsim.importers import Limits, limits, load_cloth_mesh, parse_mjcf, parse_sdf, parse_urdf
from newtonsim.importers.geometry.mesh_files import read_parts

CUBE = "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 1) for z in (0, 1))
CUBE += "f 1 3 4 2\nf 5 6 8 7\nf 1 2 6 5\nf 3 7 8 4\nf 1 5 7 3\nf 2 4 8 6\n"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Put the limits back."""
    yield
    for name in Limits.__slots__:
        setattr(limits, name, getattr(Limits(), name))


def robot(mesh: Path) -> str:
    return (
        '<robot name="r"><link name="a"><collision><geometry>'
        f'<mesh filename="{mesh}"/></geometry></collision></link></robot>'
    )


def test_a_face_of_two_million_corners_takes_linear_time(tmp_path: Path):
    """The time of four million is about twice that of two, where it was a call of NumPy for each corner."""
    seconds = []
    for count in (500_000, 1_000_000, 2_000_000):
        file = tmp_path / "big.obj"
        file.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf" + " 1 2 3" * (count // 3) + "\n")
        start = time.process_time()
        (part,) = read_parts(str(file))
        seconds.append(time.process_time() - start)
        assert part.faces.shape == (3 * (count // 3) - 2, 3)
    assert seconds[-1] < 10.0
    assert seconds[-1] < 8.0 * seconds[0] + 0.5


def test_polygons_of_all_sizes_are_fans(tmp_path: Path):
    """Triangles of each polygon cover it: their area is that of the polygon by the shoelace formula."""
    rng = np.random.default_rng(0)
    points, faces, area = [], [], 0.0
    for size in (3, 5, 4, 7, 3, 12):
        angles = np.sort(rng.uniform(0.0, 2.0 * np.pi, size))
        x, y = np.cos(angles), np.sin(angles)
        faces.append(np.arange(size) + len(points) + 1)
        points += np.column_stack([x + 3.0 * len(faces), y, np.zeros(size)]).tolist()
        area += 0.5 * (x @ np.roll(y, -1) - y @ np.roll(x, -1))
    text = "".join(f"v {x} {y} {z}\n" for x, y, z in points)
    text += "".join(f"f {' '.join(map(str, face))}\n" for face in faces)
    (tmp_path / "fans.obj").write_text(text)
    (part,) = read_parts(str(tmp_path / "fans.obj"))
    corners = part.vertices[part.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert 0.5 * normals[:, 2].sum() == pytest.approx(area, rel=1e-9)


@pytest.mark.parametrize(
    "suffix", [".zip", ".stl", ".ply", ".obj", ".glb", ".tar.gz", ".tgz", ".bz2", ".xyz"]
)
@pytest.mark.parametrize("kind", ["zip", "gz", "tar"])
def test_archives_are_not_opened(suffix: str, kind: str, tmp_path: Path):
    contents = {"zip": io.BytesIO(), "gz": io.BytesIO(), "tar": io.BytesIO()}
    with zipfile.ZipFile(contents["zip"], "w") as archive:
        archive.writestr("cube.obj", CUBE)
    contents["gz"].write(gzip.compress(CUBE.encode()))
    with tarfile.open(fileobj=contents["tar"], mode="w") as archive:
        entry = tarfile.TarInfo("cube.obj")
        entry.size = len(CUBE)
        archive.addfile(entry, io.BytesIO(CUBE.encode()))
    file = tmp_path / f"mesh{suffix}"
    file.write_bytes(contents[kind].getvalue())
    with pytest.raises(ImportFileError, match="archive"):
        parse_urdf(robot(file), newtonsim.ModelBuilder())


@pytest.mark.parametrize("suffix", [".zip", ".3mf"])
def test_a_bomb_of_zeros_costs_nothing(suffix: str, tmp_path: Path):
    file = tmp_path / f"bomb{suffix}"
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("3dmodel.model", "w") as part,
    ):
        for _ in range(600):
            part.write(bytes(2**20))
    assert file.stat().st_size < 1e6
    start = time.process_time()
    with pytest.raises(ImportFileError, match=r"archive|more than the limit of"):
        parse_urdf(robot(file), newtonsim.ModelBuilder())
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("text_bytes", 100, "more than the limit|longer than the limit"),
        ("elements", 3, "more than 3 elements"),
        ("depth", 3, "nested more than 3 deep"),
        ("mesh_bytes", 100, "limit of 100"),
        ("triangles", 10, "limit of 10"),
    ],
)
def test_limits_can_be_lowered_and_raised(name: str, value: int, text: str, tmp_path: Path):
    (tmp_path / "cube.obj").write_text(CUBE)
    source = robot(tmp_path / "cube.obj")
    setattr(limits, name, value)
    with pytest.raises(ImportFileError, match=text):
        parse_urdf(source, newtonsim.ModelBuilder())
    setattr(limits, name, 10**9)
    builder = newtonsim.ModelBuilder()
    parse_urdf(source, builder)
    assert len(builder.shape_geo_src[0].indices) == 36


def test_limits_hold_for_all_readers(tmp_path: Path):
    (tmp_path / "cube.obj").write_text(CUBE)
    limits.text_bytes = 60
    body = '<geom type="sphere" size="1"/>' * 9
    for parse, source in (
        (parse_mjcf, f"<mujoco><worldbody>{body}</worldbody></mujoco>"),
        (parse_sdf, f'<sdf version="1.7">{" " * 99}</sdf>'),
    ):
        with pytest.raises(ImportFileError, match="limit"):
            parse(source, newtonsim.ModelBuilder())
    limits.mesh_bytes = 100
    with pytest.raises(ImportFileError, match="limit"):
        load_cloth_mesh(tmp_path / "cube.obj")
    with pytest.raises(AttributeError):
        limits.megabytes = 3
