"""Mesh files as parts of one material each: OBJ and STL; COLLADA, glTF, PLY and others through trimesh."""

import io
import re
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError, LimitError, UnsupportedElementWarning
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import read_bytes
from newtonsim.importers.geometry.mesh_parts import Material, MeshPart
from newtonsim.importers.geometry.obj_files import read_obj

_COLLADA_APPEARANCE = re.compile(
    rb"<(bind_material|library_(?:effects|materials|images))\b[^>]*(?<!/)>.*?</\1>", re.DOTALL
)
_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"7z\xbc\xaf", b"Rar!")
"""First bytes of zip, gzip, bzip2, xz, 7-Zip and RAR files."""

_STL_HEADER = 84
_STL_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_STL_VERTEX = re.compile(r"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)", re.IGNORECASE)


def read_parts(path: str, in_metres: bool = True, tolerant: bool = False) -> list[MeshPart]:
    """Read what of a mesh file has one material each, without parts that have no triangles.

    Args:
        path: The file; its suffix tells the format.
        in_metres: Whether the unit that a COLLADA file names counts; ROS tools read COLLADA so, without its
            up axis.
        tolerant: Whether to read on, with an `UnsupportedElementWarning`, where points are not finite or data
            follows the last triangle of a binary STL file.

    Raises:
        ImportFileError: The file is missing or too large, or the reader of the format refuses it.
        Exception: Whatever the parsers of trimesh raise.
    """
    suffix = Path(path).suffix.lower()
    _check_contents(Path(path))
    if suffix == ".obj":
        parts = read_obj(path)
    elif suffix == ".stl":
        parts = _read_stl(path, tolerant)
    elif suffix == ".dae":
        parts = _read_collada(path, in_metres)
    else:
        parts = scene_parts(path)
    parts = [part for part in parts if len(part.faces)]
    if tolerant:
        for part in parts:
            _replace_infinite(part, path)
    return parts


def _check_contents(path: Path) -> None:
    """Raise an ImportFileError unless it is a file of a size that is read, and no archive.

    Of compressed files that are meshes (3MF) the contents count.
    """
    if not path.is_file():
        raise ImportFileError("no such file", str(path))
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(512)
    if path.suffix.lower() == ".3mf" and head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                size = sum(entry.file_size for entry in archive.infolist())
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise ImportFileError(f"the mesh cannot be read: {error}", str(path)) from error
    elif head.startswith(_ARCHIVES) or head[257:262] == b"ustar":
        raise LimitError("this is an archive, which is not opened as a mesh: unpack it", str(path))
    if size > limits.mesh_bytes:
        raise LimitError(f"{size} bytes are more than the limit of {limits.mesh_bytes}", str(path))


def obj_points(path: Path) -> np.ndarray:
    """Vertices (n, 3) of a Wavefront file, whether or not triangles use them."""
    lines = (line.split() for line in read_bytes(path, limits.mesh_bytes).splitlines())
    rows = [words[1:4] for words in lines if len(words) >= 4 and words[0] == b"v"]
    try:
        return np.array(rows, dtype=np.float64).reshape(-1, 3)
    except ValueError:
        return np.zeros((0, 3))


def _replace_infinite(part: MeshPart, path: str) -> None:
    """Put points that are not finite at the first one that is."""
    finite = np.isfinite(part.vertices).all(axis=1)
    if finite.all():
        return
    part.vertices[~finite] = part.vertices[np.argmax(finite)] if finite.any() else 0.0
    text = f"{path}: {np.count_nonzero(~finite)} points are not finite and are moved to the first finite one"
    warnings.warn(text, UnsupportedElementWarning, stacklevel=3)


def _read_stl(path: str, tolerant: bool) -> list[MeshPart]:
    """Read binary STL, or text, which has the wrong length for binary; equal corners become one point."""
    data = read_bytes(Path(path), limits.mesh_bytes)
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= _STL_HEADER else 0
    surplus = len(data) - _STL_HEADER - count * _STL_RECORD.itemsize
    if count and (surplus == 0 or (tolerant and surplus > 0)):
        if surplus:
            text = f"{path}: {surplus} bytes after the last triangle are left out"
            warnings.warn(text, UnsupportedElementWarning, stacklevel=3)
        corners = np.frombuffer(data, _STL_RECORD, count, _STL_HEADER)["corners"].astype(np.float64)
    else:
        text = data.decode("utf-8", errors="replace")
        corners = np.array(_STL_VERTEX.findall(text), dtype=np.float64)
    vertices, inverse = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    return [MeshPart(vertices, inverse.reshape(-1, 3).astype(np.int32))]


def _read_collada(path: str, in_metres: bool) -> list[MeshPart]:
    try:
        return scene_parts(path, in_metres)
    except Exception:  # a broken material costs the whole mesh
        bare = _COLLADA_APPEARANCE.sub(b"", read_bytes(Path(path), limits.mesh_bytes))
        return scene_parts(io.BytesIO(bare), in_metres, file_type="dae")


def scene_parts(file: str | io.BytesIO, in_metres: bool = False, **arguments: str) -> list[MeshPart]:
    """Read the meshes of a file that trimesh knows.

    Args:
        file: Its path, or what it holds.
        in_metres: Whether the unit that it names counts.
        **arguments: Passed on to `trimesh.load_scene`.

    Raises:
        Exception: Whatever trimesh's parsers raise.
    """
    import trimesh

    parts = []
    for mesh in trimesh.load_scene(file, process=False, **arguments).dump(concatenate=False):
        if not hasattr(mesh, "faces"):
            continue
        vertices = np.asarray(mesh.vertices, np.float64)
        if in_metres and mesh.units:
            vertices = vertices * trimesh.units.unit_conversion(mesh.units, "meters")
        uvs = getattr(mesh.visual, "uv", None)
        material = getattr(mesh.visual, "material", None)
        if material is not None:
            image = getattr(material, "baseColorTexture", getattr(material, "image", None))
            material = Material(tuple((np.asarray(material.main_color) / 255.0).tolist()), image=image)
        parts.append(MeshPart(vertices, np.asarray(mesh.faces, np.int32), uvs, material))
    return parts
