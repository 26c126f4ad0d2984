"""Assets of an MJCF file: meshes, height fields, materials and textures."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_rotate
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.resolve import FileResolver
from newtonsim.importers.files.xml import Node, read_bytes
from newtonsim.importers.geometry.meshes import (
    MeshLibrary,
    Surface,
    check_mesh,
    convex_hull,
    read_png_heights,
    upside_down,
)
from newtonsim.importers.geometry.mujoco_meshes import mujoco_mesh
from newtonsim.importers.mjcf.document import Document
from newtonsim.importers.mjcf.records import HeightAsset, Material, MeshAsset


class Assets:
    """Assets by name. Files are read when a geom first asks for them, so unused ones may be missing."""

    def __init__(self, document: Document, report: ImportReport):
        self.document, self.report = document, report
        self.resolver = FileResolver(document.folder)
        self.library = MeshLibrary()
        self.nodes: dict[str, dict[str, Node]] = {"mesh": {}, "hfield": {}, "material": {}, "texture": {}}
        self.loaded: dict[tuple[str, str], MeshAsset | HeightAsset | Material | None] = {}
        for section in document.sections("asset"):
            for node in section.children:
                self._register(node)

    def _register(self, node: Node) -> None:
        if node.tag in self.nodes:
            node = self.document.defaults.resolve(node, None)[0]
            name = node.text_of("name") or Path(node.text_of("file", "")).stem
            if not name:
                if node.tag == "texture":  # a skybox needs no name
                    return
                raise node.error("attribute 'name' is missing")
            if name in self.nodes[node.tag]:
                raise node.error(f"a second {node.tag} has the name {name!r}")
            self.nodes[node.tag][name] = node
        elif node.tag == "model":
            self.report.ignored(node, "only used by <attach>")
        else:
            self.report.ignored(node)

    def mesh(self, name: str, user: Node) -> MeshAsset | None:
        """Return a mesh, loading it on first use; None for one of MuJoCo's making that cannot be had."""
        return self._get("mesh", name, user, self._load_mesh)

    def maker_of_missing_mesh(self, name: str, user: Node) -> str | None:
        """What of MuJoCo makes a mesh that cannot be had from it, None for all other meshes."""
        maker = _maker(self._node("mesh", name, user))
        return maker if maker is not None and self.mesh(name, user) is None else None

    def heights(self, name: str, user: Node) -> HeightAsset:
        """Return a height field, loading it on first use."""
        return self._get("hfield", name, user, self._load_heights)

    def material(self, name: str, user: Node) -> Material:
        """Return a material."""
        return self._get("material", name, user, self._load_material)

    def _get(self, kind: str, name: str, user: Node, load: object) -> object:
        node = self._node(kind, name, user)
        if (kind, name) not in self.loaded:
            self.loaded[kind, name] = load(name, node)
        return self.loaded[kind, name]

    def _node(self, kind: str, name: str, user: Node) -> Node:
        node = self.nodes[kind].get(name)
        if node is None:
            raise user.error(f"the {kind} {name!r} is not defined in <asset>")
        return node

    def _path(self, node: Node, folder: str) -> Path:
        name = node.required("file")
        if self.document.compiler.strip_path:
            name = name.replace("\\", "/").rpartition("/")[2]
        return self.resolver.find(name, node, [self.document.folder / folder] if folder else ())

    # -- meshes ----------------------------------------------------------------------------------------------

    def _load_mesh(self, name: str, node: Node) -> MeshAsset | None:
        legacy = "exact" if self.document.compiler.exact_mesh_inertia else "legacy"
        inertia = node.keyword("inertia", ("legacy", "exact", "convex", "shell"), legacy)
        if _maker(node) is not None:
            made = mujoco_mesh(node, self.document.sections("extension"))
            return None if made is None else MeshAsset(name, node, made[0], inertia, made[1])
        if "file" in node.attrib:
            path = self._path(node, self.document.compiler.mesh_dir)
            surface = self.library.load(path, node, np.ones(3))
        else:
            surface = self._inline_mesh(node)
        reference = self.document.orientation_of(_renamed(node, "refquat", "quat"))
        vertices = surface.vertices - node.floats("refpos", 3, (0.0, 0.0, 0.0))
        vertices = quat_rotate(quat_conjugate(reference), vertices)
        surface = replace(surface, vertices=vertices).scaled(node.floats("scale", 3, (1.0, 1.0, 1.0)))
        return MeshAsset(name, node, surface, inertia)

    def _inline_mesh(self, node: Node) -> Surface:
        node.required("vertex")
        vertices = node.floats("vertex")
        if len(vertices) % 3 or len(vertices) < 12:
            raise node.error("attribute 'vertex' needs at least 4 points of 3 numbers")
        vertices = vertices.reshape(-1, 3)
        faces = node.floats("face")
        if faces is None:
            return Surface(*convex_hull(vertices, node))
        if len(faces) % 3 or (faces != np.round(faces)).any():
            raise node.error("attribute 'face' needs triples of vertex numbers")
        if len(faces) and (faces.min() < 0 or faces.max() >= len(vertices)):
            raise node.error("attribute 'face' refers to vertices that do not exist")
        faces = faces.astype(np.int64).reshape(-1, 3)
        check_mesh(vertices, faces, node)
        return Surface(vertices, faces, _inline_uvs(node, vertices, faces)).welded()

    # -- height fields ---------------------------------------------------------------------------------------

    def _load_heights(self, name: str, node: Node) -> HeightAsset:
        node.required("size")
        x, y, top, base = node.floats("size", 4)
        if min(x, y, top, base) <= 0.0:
            raise node.error(f"attribute 'size' must be positive, got {node.text_of('size')!r}")
        data = self._file_heights(node) if "file" in node.attrib else _inline_heights(node)
        if data.ndim != 2 or min(data.shape) < 2:
            raise node.error(f"a height field needs at least 2 x 2 heights, got {data.shape}")
        if not np.isfinite(data).all():
            raise node.error("a height is not finite")
        low, high = float(data.min()), float(data.max())
        if high > low:
            data = (data - low) / (high - low)
        else:
            data = np.zeros_like(data)
        solid = np.array([x, y, 0.5 * base + 0.25 * top])
        return HeightAsset(name, node, data * top, (2.0 * x, 2.0 * y), solid)

    def _file_heights(self, node: Node) -> np.ndarray:
        path = self._path(node, self.document.compiler.mesh_dir)
        if path.suffix.lower() == ".png":
            return read_png_heights(path, node)
        data = read_bytes(path, 8 + 4 * limits.heights)
        shape = np.frombuffer(data[:8], "<i4") if len(data) >= 8 else (0, 0)
        if min(shape) < 2 or len(data) != 8 + 4 * int(shape[0]) * int(shape[1]):
            raise node.error(f"height field file {path} has a wrong length for its shape {tuple(shape)}")
        # the file starts with the row of smallest y
        return np.frombuffer(data, "<f4", offset=8).reshape(shape)[::-1].astype(np.float64)

    # -- appearance ------------------------------------------------------------------------------------------

    def _load_material(self, name: str, node: Node) -> Material:
        rgba = node.floats("rgba", 4)
        texture = self.nodes["texture"].get(node.text_of("texture", ""))
        path = None
        if texture is not None and "file" in texture.attrib:
            path = str(self._path(texture, self.document.compiler.texture_dir))
        return Material(tuple(rgba.tolist()) if rgba is not None else None, path)


def _maker(node: Node) -> str | None:
    """What of MuJoCo makes a mesh that is neither in a file nor written out, None for other meshes."""
    if node.find("plugin") is not None:
        return "a plugin"
    builtin = node.text_of("builtin", "none")
    return None if builtin == "none" else f"builtin={builtin!r}"


def _inline_uvs(node: Node, vertices: np.ndarray, faces: np.ndarray) -> np.ndarray | None:
    """Texture coordinates of the corners (m, 3, 2) of a mesh that is written out, None if it has none."""
    given = node.floats("texcoord")
    if given is None:
        return None
    if len(given) % 2:
        raise node.error("attribute 'texcoord' needs pairs of numbers")
    table = upside_down(given.reshape(-1, 2))
    numbers = node.floats("facetexcoord")
    if numbers is None:
        if len(table) != len(vertices):
            raise node.error(f"attribute 'texcoord' has {len(table)} pairs for {len(vertices)} points")
        return table[faces]
    outside = len(numbers) and (numbers.min() < 0 or numbers.max() >= len(table))
    if len(numbers) != faces.size or (numbers != np.round(numbers)).any() or outside:
        raise node.error(f"attribute 'facetexcoord' needs {faces.size} numbers of texcoord pairs")
    return table[numbers.astype(np.int64).reshape(-1, 3)]


def _renamed(node: Node, old: str, new: str) -> Node:
    """A view of the node with one attribute under another name and no other orientation."""
    attributes = {new: node.attrib[old]} if old in node.attrib else {}
    return Node(node.tag, attributes, node.path, node.line)


def _inline_heights(node: Node) -> np.ndarray:
    rows, columns = node.int("nrow", 0), node.int("ncol", 0)
    if not (
        2 <= rows <= limits.heights and 2 <= columns <= limits.heights and rows * columns <= limits.heights
    ):
        raise node.error(f"nrow and ncol must be at least 2 and give at most {limits.heights} heights")
    values = node.floats("elevation")
    if values is None:
        return np.zeros((rows, columns))
    if len(values) != rows * columns:
        raise node.error(f"attribute 'elevation' has {len(values)} values, expected {rows * columns}")
    return values.reshape(rows, columns)
