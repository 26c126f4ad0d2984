"""Meshes of cloth and soft bodies from files: written by meshio or by hand, whole and broken."""

import base64
import struct
import warnings
from pathlib import Path

import meshio
import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.importers.soft_meshes import load_cloth_mesh, load_tet_mesh, read_cells

POINTS = np.array(
    [[0.1, 0.2, 0.3], [1.1, 0, 0], [0, 1.2, 0], [0, 0, 1.3], [7, 7, 7], [1, 1, 1.4], [-0.5, 2, 0.25]]
)
TETRAHEDRA = np.array([[0, 1, 2, 3], [1, 2, 3, 5], [2, 0, 3, 6]])  # the last one is inverted, 4 is not used
TRIANGLES = np.array([[0, 2, 1], [0, 1, 3]])
QUADS = np.array([[1, 2, 5, 3]])

FORMATS = {
    "vtk 4 text": ("vtk42", ".vtk", {"binary": False}),
    "vtk 4 binary": ("vtk42", ".vtk", {"binary": True}),
    "vtk 5 text": ("vtk", ".vtk", {"binary": False}),
    "vtk 5 binary": ("vtk", ".vtk", {"binary": True}),
    "vtu text": ("vtu", ".vtu", {"binary": False}),
    "vtu base64": ("vtu", ".vtu", {"binary": True, "compression": None}),
    "vtu zlib": ("vtu", ".vtu", {"binary": True}),
    "vtu lzma": ("vtu", ".vtu", {"binary": True, "compression": "lzma"}),
    "gmsh 2 text": ("gmsh22", ".msh", {"binary": False}),
    "gmsh 2 binary": ("gmsh22", ".msh", {"binary": True}),
    "gmsh 4 text": ("gmsh", ".msh", {"binary": False}),
    "gmsh 4 binary": ("gmsh", ".msh", {"binary": True}),
}


def write(path: Path, name: str, cells: dict[str, np.ndarray], points: np.ndarray = POINTS) -> Path:
    form, ending, options = FORMATS[name]
    path = path / f"mesh{ending}"
    mesh = meshio.Mesh(points, list(cells.items()), point_data={"heat": np.arange(float(len(points)))})
    mesh.write(path, file_format=form, **options)
    return path


def volumes(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    return np.array([np.linalg.det(np.c_[points[c], np.ones(4)][::-1]) / 6.0 for c in corners])


@pytest.mark.parametrize("name", FORMATS)
class TestFilesOfMeshio:
    def test_tetrahedra(self, name: str, tmp_path):
        mesh = load_tet_mesh(write(tmp_path, name, {"tetra": TETRAHEDRA}))
        kept = np.delete(np.arange(7), 4)
        np.testing.assert_allclose(mesh.vertices, POINTS[kept], atol=1e-11)
        sets = [set(kept[corners].tolist()) for corners in mesh.tetrahedra]
        assert sets == [set(corners.tolist()) for corners in TETRAHEDRA]
        assert volumes(POINTS, TETRAHEDRA)[2] < 0.0
        np.testing.assert_allclose(mesh.volumes, abs(volumes(POINTS, TETRAHEDRA)), rtol=1e-10)

    def test_numbers_of_the_file(self, name: str, tmp_path):
        mesh = load_tet_mesh(write(tmp_path, name, {"tetra": TETRAHEDRA}), keep_unused=True, scale=1e-3)
        np.testing.assert_allclose(mesh.vertices, 1e-3 * POINTS, atol=1e-14)
        assert mesh.tetrahedra[:2].tolist() == TETRAHEDRA[:2].tolist()

    def test_cloth(self, name: str, tmp_path):
        if name.startswith("gmsh 4"):
            mesh = load_cloth_mesh(write(tmp_path, name, {"triangle": TRIANGLES}))
            assert len(mesh.indices) == 6
            return
        cells = {"triangle": TRIANGLES, "quad": QUADS, "line": np.array([[0, 6]])}
        mesh = load_cloth_mesh(write(tmp_path, name, cells))
        assert mesh.indices.reshape(-1, 3).tolist() == [[0, 2, 1], [0, 1, 3], [1, 2, 4], [1, 4, 3]]
        np.testing.assert_allclose(mesh.vertices, POINTS[[0, 1, 2, 3, 5]].astype(np.float32))

    @pytest.mark.filterwarnings("ignore::newtonsim.UnsupportedElementWarning")
    def test_broken_files_raise_or_read(self, name: str, tmp_path):
        """Cut anywhere, or with any byte changed, a file gives a mesh or an ImportFileError."""
        path = write(tmp_path, name, {"tetra": TETRAHEDRA})
        data = path.read_bytes()
        rng = np.random.default_rng(0)
        broken = [data[:end] for end in np.linspace(0, len(data) - 20, 40).astype(int)]
        for _ in range(150):
            changed = bytearray(data)
            changed[rng.integers(len(data))] = rng.integers(256)
            broken.append(bytes(changed))
        refused = 0
        for text in broken:
            path.write_bytes(text)
            try:
                load_tet_mesh(path)
            except ImportFileError as error:
                refused += error.path == str(path) and str(path) in str(error)
        assert refused >= 35

    def test_other_cells_are_named(self, name: str, tmp_path):
        cells = {"tetra": TETRAHEDRA, "pyramid": np.array([[0, 1, 5, 2, 3]]), "triangle": TRIANGLES}
        if name.startswith("gmsh 4"):  # meshio writes one kind of cell into these
            with pytest.raises(ImportFileError, match="no tetrahedra, only pyramid: 1"):
                load_tet_mesh(write(tmp_path, name, {"pyramid": cells["pyramid"]}))
            return
        with pytest.warns(UnsupportedElementWarning, match=r"mesh.*: 1 of pyramid"):
            assert len(load_tet_mesh(write(tmp_path, name, cells)).tetrahedra) == 3
        with pytest.raises(ImportFileError, match="no tetrahedra, only pyramid: 1, triangle: 2"):
            load_tet_mesh(write(tmp_path, name, dict(list(cells.items())[1:])))


def test_ten_nodes_become_four(tmp_path):
    middle = [(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)]
    corners = POINTS[TETRAHEDRA[0]]
    points = np.concatenate([corners, [0.5 * (corners[a] + corners[b]) for a, b in middle]])
    for name in ("vtk 5 binary", "vtu zlib", "gmsh 2 text"):
        path = write(tmp_path, name, {"tetra10": np.arange(10)[None]}, points)
        with pytest.warns(UnsupportedElementWarning, match="10 nodes .its corners are read."):
            mesh = load_tet_mesh(path)
        np.testing.assert_allclose(mesh.vertices, corners)


def test_legacy_polygons_and_strips(tmp_path):
    path = tmp_path / "sheet.vtk"
    path.write_text(
        "# vtk DataFile Version 3.0\nby hand\nASCII\nDATASET POLYDATA\nPOINTS 6 float\n"
        "0 0 0 1 0 0 0 1 0 1 1 0 0 2 0 1 2 0\n"
        "POLYGONS 1 5\n4 0 1 3 2\nTRIANGLE_STRIPS 1 5\n4 2 3 4 5\nPOINT_DATA 6\nSCALARS a float\n"
    )
    mesh = load_cloth_mesh(path)
    corners = mesh.vertices[mesh.indices.reshape(-1, 3)]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    np.testing.assert_allclose(normals, [[0, 0, 1]] * 4)


@pytest.mark.parametrize("encoding", ["raw", "base64"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_appended_arrays(encoding: str, order: str, tmp_path):
    arrays = [
        POINTS.astype(order + "f8"),
        TETRAHEDRA.astype(order + "i8"),
        np.array([4, 8, 12], order + "i4"),
        np.full(3, 10, np.uint8),
    ]
    blocks, offsets = b"", []
    for array in arrays:
        offsets.append(len(blocks))
        block = struct.pack(order + "Q", array.nbytes) + array.tobytes()
        blocks += block if encoding == "raw" else base64.b64encode(block)
    items = [
        f'<DataArray type="{kind}" Name="{name}" NumberOfComponents="3" format="appended" offset="{offset}"/>'
        for kind, name, offset in zip(
            ("Float64", "Points", "Int64", "UInt8"), ("p", "connectivity", "offsets", "types"), offsets
        )
    ]
    items[1] = items[1].replace("Points", "Int64")
    items[2] = items[2].replace("Int64", "Int32")
    name = "LittleEndian" if order == "<" else "BigEndian"
    head = (
        f'<VTKFile type="UnstructuredGrid" version="1.0" byte_order="{name}" header_type="UInt64">'
        f'<UnstructuredGrid><Piece NumberOfPoints="7" NumberOfCells="3"><Points>{items[0]}</Points>'
        f"<Cells>{''.join(items[1:])}</Cells></Piece></UnstructuredGrid>"
        f'<AppendedData encoding="{encoding}">\n_'
    )
    path = tmp_path / "mesh.vtu"
    path.write_bytes(head.encode() + blocks + b"\n</AppendedData></VTKFile>")
    file = read_cells(path)
    np.testing.assert_array_equal(file.points, POINTS)
    np.testing.assert_array_equal(file.tetrahedra(), TETRAHEDRA)


OBJ = """# a sheet with a seam: points 3 and 5, 4 and 6 are at the same place
v 0 0 0
v 0 1 0
v 1 0 0
v 1 1 0.0
v 1 0 -0.0
v 1 1 0
v 2 0 0 1.0
v 2 1 0
v 9 9 9
vt 0 0
f 1/1 3/1 4/1 2/1
f -5//1 -3//1 \\
  -2//1 -4//1
"""


def test_seams_of_obj_files(tmp_path):
    path = tmp_path / "sheet.obj"
    path.write_text(OBJ)
    split = load_cloth_mesh(path)
    assert len(split.vertices) == 8
    assert len(split.indices) == 12
    welded = load_cloth_mesh(path, weld=0.0)
    np.testing.assert_array_equal(welded.vertices, split.vertices[[0, 1, 2, 3, 6, 7]])
    builder = newtonsim.ModelBuilder()
    builder.add_cloth_mesh((0, 0, 0), (0, 0, 0, 1), 1.0, (0, 0, 0), welded.vertices, welded.indices, 2.0)
    assert sum(builder.particle_mass) == pytest.approx(4.0)
    inner = [edge for edge in builder.edge_indices if edge[1] >= 0]
    assert len(inner) == 3  # two diagonals and the seam
    assert len(load_cloth_mesh(path, keep_unused=True).vertices) == 9
    assert len(load_cloth_mesh(path, weld=0.0, keep_unused=True).vertices) == 9


def test_welding_within_a_distance(tmp_path):
    path = tmp_path / "sheet.obj"
    path.write_text(OBJ.replace("v 1 0 -0.0", "v 1.0005 0 0").replace("v 1 1 0\n", "v 1 0.9995 0\n"))
    assert len(load_cloth_mesh(path, weld=1e-4).vertices) == 8
    assert len(load_cloth_mesh(path, weld=1e-3).vertices) == 6
    with pytest.raises(ImportFileError, match="three different corners"):
        load_cloth_mesh(path, weld=100.0)
    with pytest.raises(ValueError, match="weld -1"):
        load_cloth_mesh(path, weld=-1.0)


VTK = "# vtk DataFile Version 2.0\nt\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 float\n{points}\n{cells}\n"
GOOD = {"points": "0 0 0 1 0 0 0 1 0 0 0 1", "cells": "CELLS 1 5\n4 0 1 2 3\nCELL_TYPES 1\n10"}
MSH = (
    "$MeshFormat\n{version} 0 8\n$EndMeshFormat\n$Nodes\n4\n{nodes}\n$EndNodes\n"
    "$Elements\n1\n{rows}\n$EndElements\n"
)
NODES = "1 0 0 0\n2 1 0 0\n30 0 1 0\n4 0 0 1"

BROKEN = {
    "a.vtk": (VTK.format(**GOOD | {"points": "0 0 0 1 0 0 0 nan 0 0 0 1"}), r"point 2.*not finite.*nan"),
    "b.vtk": (
        VTK.format(**GOOD).replace("4 0 1 2 3", "4 0 1 2 4"),
        r"tetrahedron 0.*0, 1, 2, 4.*outside 0..3",
    ),
    "c.vtk": (VTK.format(**GOOD | {"points": "0 0 0 1 zero 0 0 1 0 0 0 1"}), "zero"),
    "d.vtk": (VTK.format(**GOOD).replace("CELL_TYPES 1\n10", "CELL_TYPES 1\n12"), "hexahedron, has 4 nodes"),
    "e.vtk": (VTK.format(**GOOD).replace("ASCII", "UTF-8"), ":3: .*UTF-8"),
    "f.vtk": ("solid\n", ":1: .*vtk DataFile"),
    "g.vtk": (VTK.format(**GOOD).replace("UNSTRUCTURED_GRID", "RECTILINEAR_GRID"), "RECTILINEAR_GRID"),
    "h.vtk": (VTK.format(**GOOD).replace("POINTS 4", "POINTS 400000000"), "1200000000 numbers are announced"),
    "i.vtk": (VTK.format(points=GOOD["points"], cells="CELLS 1 5\n4 0 1 2 3"), "CELLS without CELL_TYPES"),
    "a.msh": (MSH.format(version="3.0", nodes=NODES, rows="1 4 0 1 2 30 4"), "MeshFormat.*version 3.0"),
    "b.msh": (MSH.format(version="2.2", nodes=NODES, rows="1 4 0 1 2 3 4"), "node 3, which does not exist"),
    "c.msh": (MSH.format(version="2.2", nodes=NODES, rows="1 99 0 1 2 3 4"), "Elements.*type 99"),
    "d.msh": (MSH.format(version="2.2", nodes="1 0 0 0", rows=""), "Nodes.*announced"),
    "e.msh": ("\x04\x00\x00\x00", "does not start with"),
    "f.msh": ("$MeshFormat\n2.2 0 8\n$EndMeshFormat\n", "Nodes.*no section"),
    "a.obj": ("v 0 0 0\nv 1 x 0\n", ":2: <v>.*v 1 x 0"),
    "b.obj": ("v 0 0 0\nf 1 2 3\n", r"polygon 0.*0, 1, 2.*outside 0..0"),
    "c.obj": ("v 0 0 0\nf 1 -2 1\n", ":2: <f>.*point -2"),
    "d.obj": ("v 0 0 0\nf 1 1\n", ":2: <f>.*too few corners"),
    "e.obj": ("v 0 0 0\nv 1 0 0\nl 1 2\n", "no triangles, only line: 1"),
    "a.vtu": ("<VTKFile type='PolyData'/>", "VTKFile.*UnstructuredGrid"),
    "b.vtu": ("<VTKFile type='UnstructuredGrid'><Piece/></VTKFile>", "Piece.*no Points"),
    "c.vtu": ("<VTKFile", "line|token|element|parse"),
    "a.stl": ("solid", "not '.stl'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_errors_name_file_and_place(name: str, tmp_path):
    text, message = BROKEN[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ImportFileError, match=message) as caught:
        (load_cloth_mesh if name.endswith(".obj") else load_tet_mesh)(path)
    assert caught.value.path == str(path)


def test_good_ones_are_read(tmp_path):
    """What BROKEN breaks is right before."""
    (tmp_path / "a.vtk").write_text(VTK.format(**GOOD))
    (tmp_path / "a.msh").write_text(MSH.format(version="2.2", nodes=NODES, rows="1 4 0 1 2 30 4"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("a.vtk", "a.msh"):
            assert load_tet_mesh(tmp_path / name).volume == pytest.approx(1.0 / 6.0)


def test_missing_file(tmp_path):
    with pytest.raises(ImportFileError, match="no such file"):
        load_tet_mesh(tmp_path / "none.msh")


def test_soft_body_from_a_file(tmp_path):
    mesh = load_tet_mesh(write(tmp_path, "gmsh 4 binary", {"tetra": TETRAHEDRA}))
    builder = newtonsim.ModelBuilder()
    builder.add_soft_mesh(
        (0, 0, 0), (0, 0, 0, 1), 2.0, (0, 0, 0), mesh.vertices, mesh.indices, 3.0, 1e3, 1e3, 0.0
    )
    assert sum(builder.particle_mass) == pytest.approx(3.0 * 8.0 * mesh.volume)
    assert builder.tri_count == len(mesh.surface.indices) // 3
