"""MJCF documents: includes, compiler settings, default classes.

Reference: https://mujoco.readthedocs.io/en/stable/XMLreference.html
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from newtonsim.geometry.transforms import quat_between, quat_from_matrix
from newtonsim.importers.files.faults import REFUSE, Faults
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.tolerant_xml import read_tolerantly
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose, quat_from_axis_angle, quat_from_euler
from newtonsim.importers.mjcf.schema import meet_misspellings, name_what_is_not_modelled

MAX_INCLUDES = 256
ORIENTATIONS = ("quat", "axisangle", "euler", "xyaxes", "zaxis")
_PLACED = frozenset(("pos", *ORIENTATIONS))
ACTUATOR_TAGS = (
    "general",
    "motor",
    "position",
    "velocity",
    "intvelocity",
    "damper",
    "cylinder",
    "muscle",
    "adhesion",
)
"""Actuator shortcuts; in default classes they all set the one actuator default."""

_EULER_LETTERS = set("xyzXYZ")


@dataclass(slots=True)
class Compiler:
    """Settings of <compiler> that change what the numbers mean."""

    degrees: bool = True
    eulerseq: str = "xyz"
    autolimits: bool = True
    inertia_from_geom: str = "auto"
    inertia_groups: tuple[int, int] = (0, 5)
    bound_mass: float = 0.0
    bound_inertia: float = 0.0
    total_mass: float = -1.0
    balance_inertia: bool = False
    align_free: bool = False
    fuse_static: bool = False
    fit_aabb: bool = False
    discard_visual: bool = False
    exact_mesh_inertia: bool = False
    strip_path: bool = False
    mesh_dir: str = ""
    texture_dir: str = ""

    def angle(self, value: float) -> float:
        """Convert an angle of the file to radians."""
        return math.radians(value) if self.degrees else value


class Defaults:
    """Default classes: for each class a table from element name to attributes, parents already merged in."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, dict[str, str]]] = {"main": {}}
        self.parents: dict[str, str | None] = {"main": None}
        self.plain: dict[str, str] = {}  # names in their own files of classes of attached models
        self.top = "main"

    def read(self, root: Node) -> None:
        """Read one <default> section; iteratively, because classes nest."""
        first = root.text_of("class", "main")
        if len(self.tables) == 1 and not self.tables[self.top]:
            self.tables, self.parents, self.top = {first: {}}, {first: None}, first
        elif first != self.top:
            raise root.error(f"the top-level default class is already named {self.top!r}")
        stack = [(root, first)]
        while stack:
            node, name = stack.pop()
            table = self.tables[name]
            for child in node.children:
                if child.tag != "default":
                    key = _default_key(child.tag)
                    kept, own = _without_replaced(child.attrib, table.get(key, {}))
                    table[key] = {**kept, **own}
            for child in node.findall("default"):
                inner = child.required("class")
                if inner in self.tables:
                    raise child.error(f"a second default class has the name {inner!r}")
                self.tables[inner] = dict(table)
                self.parents[inner] = name
                stack.append((child, inner))

    def resolve(self, node: Node, inherited: str | None) -> tuple[Node, str | None]:
        """Fill in what the element leaves to its default class.

        Args:
            node: The element.
            inherited: `childclass` of the enclosing bodies and frames.

        Returns:
            A node with all attributes and the name of its class, None when it has none but the top-level one.
        """
        name = node.text_of("class") or inherited
        if name is not None and name not in self.tables:
            raise node.error(f"the default class {name!r} is not defined")
        inherited_attributes = self.tables[name or self.top].get(_default_key(node.tag), {})
        kept, own = _without_replaced(node.attrib, inherited_attributes)
        return Node(node.tag, {**kept, **own}, node.path, node.line, node.children, node.text), name

    def lineage(self, name: str | None) -> Iterator[str]:
        """Yield a class and its parents, without the top-level class."""
        while name is not None and self.parents[name] is not None:
            yield self.plain.get(name, name)
            name = self.parents[name]


def _default_key(tag: str) -> str:
    return "actuator" if tag in ACTUATOR_TAGS else tag


def _without_replaced(
    own: dict[str, str], inherited: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """An element's own orientation replaces an inherited one even when it is written another way."""
    if any(name in own for name in (*ORIENTATIONS, "fromto")):
        inherited = {
            name: value for name, value in inherited.items() if name not in (*ORIENTATIONS, "fromto")
        }
    return inherited, own


@dataclass(slots=True)
class Document:
    """One MJCF file with its includes expanded."""

    root: Node
    folder: Path
    faults: Faults = REFUSE
    compiler: Compiler = field(default_factory=Compiler)
    defaults: Defaults = field(default_factory=Defaults)

    def sections(self, tag: str) -> list[Node]:
        """All top-level elements with this name; MJCF merges repeated sections."""
        return self.root.findall(tag)

    def is_limited(self, node: Node, flag: str, range_name: str) -> bool:
        """Whether a range is in force; "auto": one other than "0 0" is given and autolimits is on."""
        value = node.bool(flag, "auto", {"auto": "auto"})
        if value == "auto":
            given = node.bounds(range_name)
            return self.compiler.autolimits and given is not None and any(given)
        return bool(value)

    def pose_of(self, node: Node) -> Pose:
        """Pose from `pos` and whichever orientation attribute the element has."""
        if _PLACED.isdisjoint(node.attrib):
            return Pose.identity()
        return Pose(node.floats("pos", 3, (0.0, 0.0, 0.0)), self.orientation_of(node))

    def orientation_of(self, node: Node) -> np.ndarray:
        """Unit quaternion xyzw of the element's orientation attribute."""
        given = [name for name in ORIENTATIONS if name in node.attrib]
        if len(given) > 1:
            raise node.error(f"more than one orientation: {', '.join(given)}")
        if not given:
            return Pose.identity().q
        name = given[0]
        values = node.floats(name, {"quat": 4, "axisangle": 4, "euler": 3, "xyaxes": 6, "zaxis": 3}[name])
        if name == "quat":
            return _unit(node, name, values)[[1, 2, 3, 0]]
        if name == "axisangle":
            return quat_from_axis_angle(_unit(node, name, values[:3]), self.compiler.angle(values[3]))
        if name == "euler":
            return quat_from_euler([self.compiler.angle(value) for value in values], self.compiler.eulerseq)
        if name == "zaxis":
            return quat_of_z(_unit(node, name, values))
        x = _unit(node, name, values[:3])
        y = _unit(node, name, values[3:] - x * (x @ values[3:]))
        return quat_from_matrix(np.column_stack([x, y, np.cross(x, y)]))


def quat_of_z(direction: np.ndarray) -> np.ndarray:
    """Shortest rotation that takes z to a unit vector; about x where it points down, as MuJoCo has it."""
    if direction[2] < -1.0 + 1.0e-12:
        return np.array([1.0, 0.0, 0.0, 0.0])
    return quat_between(np.array([0.0, 0.0, 1.0]), direction)


def _unit(node: Node, name: str, values: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(values)
    if length < 1.0e-12:
        raise node.error(f"attribute '{name}' has no direction")
    return values / length


def read_document_tree(
    source: str | bytes | os.PathLike, report: ImportReport, faults: Faults = REFUSE
) -> Document:
    """Read a file or text, expand its includes, and read compiler settings and default classes."""
    root, folder, notes = read_tolerantly(source, faults)
    for note in notes:
        report.ignored(None, note)
    if root.tag != "mujoco":
        raise root.error("the root element of an MJCF file is <mujoco>")
    _expand_includes(root, folder, faults)
    meet_misspellings(root, faults)
    name_what_is_not_modelled(root, report)
    document = Document(root, folder, faults)
    for node in document.sections("compiler"):
        _read_compiler(node, document.compiler)
    for node in document.sections("default"):
        document.defaults.read(node)
    return document


def _expand_includes(root: Node, folder: Path, faults: Faults) -> None:
    """Put the children of included files in the place of <include>.

    A file may be included once, as the format says; that rules out circles and doubling chains.
    """
    seen = {Path(root.path).resolve()} if root.path else set()
    size = 0
    stack = [root]
    while stack:
        node = stack.pop()
        at = 0
        while at < len(node.children):
            child = node.children[at]
            if child.tag != "include":
                at += 1
                continue
            path = _find_include(child, folder)
            if path in seen:
                raise child.error(f"file {path} is included twice or includes itself")
            seen.add(path)
            included = read_tolerantly(path, faults)[0]
            size += path.stat().st_size
            if len(seen) > MAX_INCLUDES or size > limits.text_bytes:
                raise child.limit_error(
                    f"the includes exceed {MAX_INCLUDES} files or {limits.text_bytes} bytes"
                )
            node.children[at : at + 1] = included.children
        stack.extend(node.children)


def _find_include(node: Node, folder: Path) -> Path:
    name = node.required("file")
    own = Path(node.path).parent if node.path else folder
    try:
        for place in (folder, own):
            if (place / name).is_file():
                return (place / name).resolve()
    except (OSError, ValueError) as error:
        raise node.error(f"cannot include {name[:200]!r}: {error}") from error
    raise node.error(f"the included file {name!r} is not found in {folder}")


def _read_compiler(node: Node, compiler: Compiler) -> None:
    """Apply one <compiler> element over what earlier ones said."""
    if node.keyword("coordinate", ("local", "global"), "local") == "global":
        raise node.error(
            "coordinate='global' has been removed from MJCF; save the model with local coordinates"
        )
    compiler.degrees = (
        node.keyword("angle", ("degree", "radian"), "degree" if compiler.degrees else "radian") == "degree"
    )
    compiler.eulerseq = node.text_of("eulerseq", compiler.eulerseq)
    if len(compiler.eulerseq) != 3 or not set(compiler.eulerseq) <= _EULER_LETTERS:
        raise node.error(
            f"attribute 'eulerseq' is {compiler.eulerseq[:40]!r}, expected three letters of xyzXYZ"
        )
    compiler.autolimits = node.bool("autolimits", compiler.autolimits)
    compiler.inertia_from_geom = node.keyword(
        "inertiafromgeom", ("auto", "true", "false"), compiler.inertia_from_geom
    )
    groups = node.floats("inertiagrouprange", 2, compiler.inertia_groups)
    compiler.inertia_groups = (int(groups[0]), int(groups[1]))
    compiler.bound_mass = node.float("boundmass", compiler.bound_mass)
    compiler.bound_inertia = node.float("boundinertia", compiler.bound_inertia)
    compiler.total_mass = node.float("settotalmass", compiler.total_mass)
    compiler.balance_inertia = node.bool("balanceinertia", compiler.balance_inertia)
    compiler.align_free = node.bool("alignfree", compiler.align_free)
    compiler.fuse_static = node.bool("fusestatic", compiler.fuse_static)
    compiler.fit_aabb = node.bool("fitaabb", compiler.fit_aabb)
    compiler.discard_visual = node.bool("discardvisual", compiler.discard_visual)
    compiler.exact_mesh_inertia = node.bool("exactmeshinertia", compiler.exact_mesh_inertia)
    both = node.text_of("assetdir")
    compiler.mesh_dir = node.text_of("meshdir", compiler.mesh_dir if both is None else both)
    compiler.texture_dir = node.text_of("texturedir", compiler.texture_dir if both is None else both)
    compiler.strip_path = node.bool("strippath", compiler.strip_path)
