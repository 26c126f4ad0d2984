"""What is read is bounded in time and memory: hostile meshes and archives, and limits that can be raised."""

import contextlib
import gc
import gzip
import io
import tarfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ImportFileError, LimitError
from newtonsim.importers import (
    Limits,
    limits,
    load_cloth_mesh,
    load_tet_mesh,
    parse_mjcf,
    parse_sdf,
    parse_urdf,
    parse_usd,
)
from newtonsim.importers.files import clock
from newtonsim.importers.files.faults import Forgive
from newtonsim.importers.files.tolerant_xml import parse_tolerantly
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


LINK = '<link name="{0}"/>'
BODY = '<body name="{0}"><geom size="1"/></body>'
MODEL = '<model name="{0}"><link name="l"/></model>'
CUBE_PRIM = 'def Cube "p{0}" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{}}\n'
SLOW = {
    "urdf": (parse_urdf, '<robot name="r"><link name="w"/>', LINK, "</robot>"),
    "mjcf": (parse_mjcf, "<mujoco><worldbody>", BODY, "</worldbody></mujoco>"),
    "sdf": (parse_sdf, '<sdf version="1.9"><world name="w">', MODEL, "</world></sdf>"),
    "usd": (parse_usd, "#usda 1.0\n", CUBE_PRIM, ""),
}
"""For each kind of file, its reader, and a file with as many bodies as are asked for."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", ["reading", "building"])
@pytest.mark.parametrize("kind", SLOW)
def test_time_is_bounded(kind: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A clock that jumps at each look ends reading, and building after it, with nothing half done."""
    parse, head, element, tail = SLOW[kind]
    file = tmp_path / f"many.{'usda' if kind == 'usd' else kind}"
    file.write_text(head + "".join(element.format(i) for i in range(200)) + tail)
    looks = iter(range(10**6))
    monkeypatch.setattr(clock.time, "monotonic", lambda: float(next(looks)))
    # 200 elements are few looks while they are read, and one for each body that is built
    limits.seconds = 1.5 if part == "reading" else 100.0
    builder = newtonsim.ModelBuilder()
    with pytest.raises(LimitError, match=r"many.*reading takes longer than the limit of"):
        parse(str(file), builder)
    assert builder.body_count == builder.joint_count == builder.shape_count == 0
    limits.seconds = 1e5
    parse(str(file), builder)
    assert builder.body_count >= 200


@pytest.mark.parametrize("strict", [False, True])
def test_time_for_meshes_is_bounded_and_not_forgiven(strict: bool, tmp_path: Path):
    """A mesh that cannot be read is left out with a warning; one that there is no time for is not."""
    (tmp_path / "cube.obj").write_text(CUBE)
    limits.seconds = -1.0
    with pytest.raises(LimitError, match=r"<mesh>.*longer than the limit of -1 s"):
        parse_urdf(robot(tmp_path / "cube.obj"), newtonsim.ModelBuilder(), strict=strict)


SOFT = {
    "vtk": "# vtk DataFile Version 2.0\nsquare\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 float\n"
    "0 0 0 1 0 0 1 1 0 0 1 0\nCELLS 300 1200\n" + "3 0 1 2\n" * 300 + "CELL_TYPES 300\n" + "5 " * 300,
    "msh": "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n3\n1 0 0 0\n2 1 0 0\n3 0 1 0\n$EndNodes\n"
    "$Elements\n300\n" + "1 2 0 1 2 3\n" * 300 + "$EndElements\n",
    "obj": CUBE + "f 1 3 4 2\n" * 300,
}


@pytest.mark.parametrize("kind", SOFT)
def test_time_for_cells_is_bounded(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A clock that jumps at each look: a few looks are for the file, and one for 64 of its cells."""
    file = tmp_path / f"many.{kind}"
    file.write_text(SOFT[kind])
    looks = iter(range(10**6))
    monkeypatch.setattr(clock.time, "monotonic", lambda: float(next(looks)))
    limits.seconds = 4.5
    with pytest.raises(LimitError, match=rf"many\.{kind}.*reading takes longer than the limit of 4.5 s"):
        load_cloth_mesh(file)
    limits.seconds = 0.5
    with pytest.raises(LimitError, match=rf"many\.{kind}.*reading takes longer"):
        load_tet_mesh(file)
    limits.seconds = 1e5
    assert len(load_cloth_mesh(file).indices) > 0


def test_the_clock_begins_anew_with_each_file_and_stops_after_it(tmp_path: Path):
    (tmp_path / "cube.obj").write_text(CUBE)
    limits.seconds = 0.3
    for _ in range(2):
        parse_urdf(robot(tmp_path / "cube.obj"), newtonsim.ModelBuilder())
        time.sleep(0.4)
    assert read_parts(str(tmp_path / "cube.obj"))


def seconds_of(parse: Callable, source: str) -> float:
    builder = newtonsim.ModelBuilder()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parse(source, builder)
    return time.process_time() - start


@pytest.mark.parametrize("shape", ["chain", "star"])
@pytest.mark.parametrize("kind", ["urdf", "mjcf"])
def test_time_grows_with_the_number_of_links(kind: str, shape: str):
    """Four times the links take about four times as long; with anything quadratic they took sixteen."""
    limits.depth = 10**5
    parse = parse_urdf if kind == "urdf" else parse_mjcf

    def robot_of(count: int) -> str:
        if kind == "urdf":
            mass = '<mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1"/>'
            links = [f'<link name="l{n}"><inertial>{mass}</inertial></link>\n' for n in range(count)]
            for n in range(1, count):
                parent = n - 1 if shape == "chain" else 0
                ends = f'<parent link="l{parent}"/><child link="l{n}"/><origin xyz="0 0 1" rpy="0 .1 0"/>'
                links.append(f'<joint name="j{n}" type="continuous">{ends}</joint>\n')
            return f'<robot name="r">{"".join(links)}</robot>'
        inertia = '<inertial pos="0 0 0" mass="1" diaginertia=".1 .1 .1"/>'
        bodies = [f'<body name="b{n}" pos="0 0 1"><joint/>{inertia}\n' for n in range(count)]
        end = "</body>"
        if shape == "chain":
            tree = "".join(bodies) + end * count
        else:
            tree = bodies[0] + "".join(body + end for body in bodies[1:]) + end
        return f"<mujoco><worldbody>{tree}</worldbody></mujoco>"

    seconds_of(parse, robot_of(20))  # loads what it needs
    small, large = (seconds_of(parse, robot_of(count)) for count in (1_000, 4_000))
    assert large < 8.0 * small + 0.2


def test_text_that_is_not_well_formed_is_read_in_linear_time():
    """Lines were counted from the beginning for every element: 20,000 links took two and a half minutes."""
    links = "".join(f'<link name="l{n}"/>\n{" " * 200}\n' for n in range(40_000))
    joints = "".join(
        f'<joint name="j{n}" type="fixed"><parent link="l0"/><child link="l{n}"/></joint>\n'
        for n in range(1, 40_000)
    )
    text = f"<robot name='a & b'>{links}{joints}</robot>"
    start = time.process_time()
    root, _ = parse_tolerantly(text, None, Forgive())
    assert time.process_time() - start < 20.0
    assert root.children[-1].line == text.count("\n")


def test_the_collector_runs_again_after_reading_and_after_errors():
    for source in ('<robot name="r"><link name="a"/></robot>', "<robot/>"):
        with contextlib.suppress(ImportFileError):
            parse_urdf(source, newtonsim.ModelBuilder())
        assert gc.isenabled()
    gc.disable()
    try:
        parse_urdf('<robot name="r"><link name="a"/></robot>', newtonsim.ModelBuilder())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_small_file_is_read_whatever_the_process_holds(monkeypatch: pytest.MonkeyPatch):
    """Objects that stay were counted one by one for every file: 30 ms where a program kept two million."""
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("counted"))
    parse_urdf('<robot name="r"><link name="a"/></robot>', newtonsim.ModelBuilder())


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
