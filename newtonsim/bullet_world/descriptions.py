"""From a user's file to a URDF that can be loaded: search, meshes, packages, colours, cache.

Generated files are kept in the user's cache folder under the hash of everything that they are made from, so
that an edited mesh, another colour or another place of a package is another file, and never a stale one.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from newtonsim.bullet_world.frames import Vector
from newtonsim.pybullet_compat.stand_ins import pybullet_data

MESHES = (".obj", ".stl", ".dae", ".ply")
READABLE = (".obj", ".stl")
"""Meshes that loadURDF reads; others are converted."""
PACKAGE = "package://"
MASS = 0.1
"""Mass of objects made from a mesh [kg]."""
FORMAT = "1"
"""Counts the forms that generated files have had: part of their hash."""


@dataclass(frozen=True)
class Description:
    """The files that an object is made from.

    Attributes:
        source: The file that was found for the path that the user gave.
        urdf: The file to load.
        generated: Whether the URDF was made from a mesh.
    """

    source: str
    urdf: str
    generated: bool


def cache_folder() -> Path:
    """Where generated files are kept: a folder of this package in the user's cache folder."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "newtonsim" / "bullet_world"


def describe(path: str, color: Vector, folders: Sequence[str], ignore_cache: bool = False) -> Description:
    """Find a file, and store a URDF of it, which is generated for a mesh.

    Args:
        path: URDF, OBJ, STL, DAE or PLY: a path, a path below one of the folders, or package://….
        color: RGBA in 0..1 for meshes.
        folders: Folders to search after the working directory.
        ignore_cache: Whether to regenerate existing files.

    Returns:
        What to load.

    Raises:
        FileNotFoundError: The file, or one that it names in a package, is not found; the message says where
            it was searched for.
        ValueError: It is of another type, or cannot be read.
    """
    source = find(path, folders)
    suffix = source.suffix.lower()
    if suffix == ".urdf":
        return Description(str(source), _keep_urdf(source, folders, ignore_cache), generated=False)
    if suffix in MESHES:
        return Description(str(source), _around_mesh(source, color, ignore_cache), generated=True)
    raise ValueError(f"{path}: expected a file of type .urdf, {', '.join(MESHES)}, got {suffix or 'none'}")


def find(path: str, folders: Sequence[str]) -> Path:
    """Return the absolute path of a file.

    Raises:
        FileNotFoundError: It is not found.
    """
    if path.startswith(PACKAGE):
        return _find_in_package(path, folders)
    places = [Path(path).expanduser()]
    places += [Path(folder) / path for folder in (*folders, pybullet_data.getDataPath())]
    for place in places:
        if place.is_file():
            return place.resolve()
    raise FileNotFoundError(f"{path}: no such file, looked for at {', '.join(map(str, places))}")


def mimics_of(urdf: str) -> dict[str, tuple[str, float, float]]:
    """Return for each joint of a URDF that mimics another one its leader, multiplier and offset.

    Raises:
        ValueError: One of them is not a number.
    """
    found = {}
    for joint in ElementTree.parse(urdf).getroot().iter("joint"):
        mimic = joint.find("mimic")
        if mimic is not None:
            try:
                law = (float(mimic.get("multiplier", 1.0)), float(mimic.get("offset", 0.0)))
            except ValueError as error:
                raise ValueError(f"{urdf}: <mimic> of joint {joint.get('name')!r}: {error}") from None
            found[joint.get("name")] = (mimic.get("joint"), *law)
    return found


def endless_joints_of(urdf: str) -> frozenset[str]:
    """Return the names of the joints of a URDF that are continuous: they have no limits."""
    joints = ElementTree.parse(urdf).getroot().iter("joint")
    names = (joint.get("name") for joint in joints if joint.get("type") == "continuous")
    return frozenset(name for name in names if name is not None)


def _find_in_package(url: str, folders: Sequence[str]) -> Path:
    """A file of a ROS package: the package is a folder of that name, on one of the paths or one of them."""
    package, _, inside = url.removeprefix(PACKAGE).partition("/")
    ros = os.environ.get("ROS_PACKAGE_PATH", "")
    roots = [Path(folder) for folder in (*folders, *filter(None, ros.split(os.pathsep)))]
    for root in roots:
        for folder in (root / package, root, *root.parents):
            if folder.name == package and (folder / inside).is_file():
                return (folder / inside).resolve()
    looked = ", ".join(map(str, roots)) or "nowhere: there are no resource paths, ROS_PACKAGE_PATH is not set"
    raise FileNotFoundError(f"{url}: no package {package!r} with this file, looked for in {looked}")


def _keep_urdf(source: Path, folders: Sequence[str], ignore_cache: bool) -> str:
    """Return a copy of a URDF that names meshes by absolute paths, not by packages or its own place.

    What is made from it again, in shadows, is the same even if the file has been changed or removed.
    """
    try:
        root = ElementTree.fromstring(source.read_bytes())
    except ElementTree.ParseError as error:
        raise ValueError(f"{source}: not XML: {error}") from None
    places = [source.parent, *source.parent.parents]
    for element in root.iter():
        name = element.get("filename", "")
        try:
            if name.startswith(PACKAGE):
                found = _find_in_package(name, [*folders, *map(str, places)])
            elif name and not os.path.isabs(name) and (source.parent / name).exists():
                found = source.parent / name
            else:
                continue
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{source}: <{element.tag}>: {error}") from None
        element.set("filename", str(found))
    made = ElementTree.tostring(root, encoding="unicode")
    folder = cache_folder() / _hash(made)
    return _keep(folder / source.name, made.encode(), ignore_cache)


def _around_mesh(source: Path, color: Vector, ignore_cache: bool) -> str:
    """Return a URDF of one link that shows a mesh and collides with its hull."""
    content = source.read_bytes()
    folder = cache_folder() / _hash(FORMAT, source.suffix.lower(), repr(color), content)
    urdf = folder / f"{source.stem}.urdf"
    if urdf.is_file() and not ignore_cache:
        return str(urdf)
    mesh = _read(source)
    if source.suffix.lower() in READABLE:
        name, made = source.name, content
    else:
        name, made = f"{source.stem}.obj", mesh.export(file_type="obj").encode()
    model = _keep(folder / name, made, ignore_cache)
    return _keep(urdf, _urdf(source.stem, model, mesh, color).encode(), ignore_cache)


def _read(source: Path) -> Any:
    """Read a mesh.

    Raises:
        ValueError: It cannot be read, or has no triangles.
    """
    import trimesh

    try:
        mesh = trimesh.load(source, force="mesh")
    except Exception as error:  # trimesh raises what its readers raise, of any type
        raise ValueError(f"{source}: cannot be read as a mesh: {error}") from error
    if not len(getattr(mesh, "faces", ())):
        raise ValueError(f"{source}: the mesh has no triangles")
    return mesh


def _urdf(name: str, path: str, mesh, color: Vector) -> str:
    """The text of a URDF of one link: mass and inertia are those of the filled box around the mesh."""
    low, high = mesh.bounds
    x, y, z = (low + high) / 2.0
    a, b, c = (max(float(size), 1.0e-3) ** 2 for size in high - low)
    ixx, iyy, izz = (MASS / 12.0 * s for s in (b + c, a + c, a + b))
    geometry = f"<geometry><mesh filename={quoteattr(path)}/></geometry>"
    return f"""<?xml version="1.0"?>
<robot name={quoteattr(name)}>
  <link name="base">
    <inertial>
      <origin xyz="{x} {y} {z}"/>
      <mass value="{MASS}"/>
      <inertia ixx="{ixx}" ixy="0" ixz="0" iyy="{iyy}" iyz="0" izz="{izz}"/>
    </inertial>
    <visual>
      {geometry}
      <material name="color"><color rgba="{" ".join(map(str, color))}"/></material>
    </visual>
    <collision>{geometry}</collision>
  </link>
</robot>
"""


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:24]


def _keep(path: Path, content: bytes, ignore_cache: bool) -> str:
    """Write a file atomically, so that no other process ever reads half of it."""
    if path.is_file() and not ignore_cache:
        return str(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)
    return str(path)
