"""Arguments of createCollisionShape and createVisualShape as geometries."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from newtonsim.errors import ImportFileError, ModelError
from newtonsim.geometry import Mesh
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import Geometry, Visual
from newtonsim.pybullet_compat.descriptions.kinds import Geom, GeomFlag
from newtonsim.pybullet_compat.readers.geometry import UNNAMED_MESH
from newtonsim.pybullet_compat.readers.heightfields import (
    heightfield_geometry,
    heights_of_file,
    heights_of_list,
)
from newtonsim.pybullet_compat.readers.mesh_files import MOST_VERTICES, MeshFile, read_mesh_file
from newtonsim.pybullet_compat.readers.search import find
from newtonsim.pybullet_compat.surface.arguments import LARGEST, NOT_NUMBERS, SEQUENCES

WHITE = (1.0, 1.0, 1.0, 1.0)
NO_SHIFT, NO_TURN = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)
MAX_VERTICES = 131072
"""Most vertices that createCollisionShape and createVisualShape take."""


@dataclass(slots=True)
class ShapeArguments:
    """Arguments of scripts for one shape; see createCollisionShape and createVisualShape for the meaning.

    With `worlds`, the number of worlds, radius and height may be arrays with one value for each, and half
    extents may have rows.
    """

    kind: int
    radius: float | np.ndarray = 0.5
    half_extents: object = (1.0, 1.0, 1.0)
    height: float | np.ndarray = 1.0
    file: str = ""
    mesh_scale: object = (1.0, 1.0, 1.0)
    plane_normal: object = (0.0, 0.0, 1.0)
    flags: int = 0
    position: object = NO_SHIFT
    orientation: object = NO_TURN
    vertices: object = None
    indices: object = None
    uvs: object = None
    heightfield: object = None
    rows: int = -1
    columns: int = -1
    worlds: int = 1


@dataclass(slots=True)
class ShapeRecord:
    """A shape that a script has made.

    Attributes:
        collisions: What collides, one geometry for each hull.
        visuals: How it looks.
    """

    collisions: list[Geometry] = field(default_factory=list)
    visuals: list[Visual] = field(default_factory=list)


def vector_or(value: object, default: Sequence[float] | np.ndarray, name: str) -> np.ndarray:
    """Return as many numbers as the default has, or the default for None and another count, as PyBullet does.

    Raises:
        ValueError: It holds something else than numbers up to `LARGEST`, such as vectors for each world.
    """
    if value.__class__ in SEQUENCES and len(value) == len(default):  # type: ignore[arg-type]
        with contextlib.suppress(*NOT_NUMBERS):
            if math.hypot(*value) <= LARGEST:  # type: ignore[misc]
                return np.array(value, np.float64)
    if value is None or is_of_other_count(value, len(default)):
        return np.array(default)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.shape != (len(default),) or not (np.abs(array) <= LARGEST).all():
        got = f"shape {array.shape}" if array.ndim > 1 else f"{value!r:.80}"
        raise ValueError(f"{name}: expected {len(default)} numbers up to {LARGEST:g}, got {got}")
    return array


def is_of_other_count(value: object, count: int) -> bool:
    """Whether something is empty, or a row with another count of entries."""
    if isinstance(value, str):
        return not value
    return np.size(value) == 0 or (np.ndim(value) == 1 and len(value) != count)


def pose_of(position: object, orientation: object) -> Pose:
    """Pose of position and quaternion, with the identity for a quaternion of length zero; see `vector_or`."""
    if (position.__class__, orientation.__class__) == (tuple, tuple):  # arrays have no single answer
        if position == NO_SHIFT and orientation == NO_TURN:
            identity = Pose.identity()
            return Pose(identity.p, identity.q)  # one of its own: `ShapeTable.is_used` knows shapes by it
    q = vector_or(orientation, NO_TURN, "orientation")
    length = math.hypot(*q.tolist())
    turn = q / length if length > 0.0 else np.array(NO_TURN)
    return Pose(vector_or(position, NO_SHIFT, "position"), turn)


def collision_shape(arguments: ShapeArguments, search_path: str) -> ShapeRecord:
    """Geometries of createCollisionShape, with the look of a body that has no visual shape.

    Raises:
        ValueError: The kind is unknown, a size is not positive, or a file or mesh is missing or unreadable.
    """
    pose, kind = pose_of(arguments.position, arguments.orientation), arguments.kind
    if kind == Geom.MESH:
        return _collision_mesh(arguments, pose, search_path)
    if kind == Geom.HEIGHTFIELD:
        geometry = _heightfield(arguments, search_path)
    else:
        geometry = _primitive_of_worlds(arguments, pose)
    return ShapeRecord([geometry], [Visual(geometry)])


def _primitive_of_worlds(arguments: ShapeArguments, pose: Pose) -> Geometry:
    """Primitive whose sizes may differ between worlds."""
    half: Any = arguments.half_extents
    worlds, of_boxes = arguments.worlds, arguments.kind == Geom.BOX
    rows = of_boxes and worlds > 1 and np.ndim(half) == 2
    if rows and np.shape(half) != (worlds, 3):
        expected = f"3 numbers, or a row for each world in shape ({worlds}, 3)"
        raise ValueError(f"halfExtents: expected {expected}, got shape {np.shape(half)}")
    numbers = (arguments.radius, arguments.height)
    if not rows and (worlds == 1 or not any(map(np.ndim, numbers))):
        return _primitive(arguments, pose)
    radii, heights = (np.broadcast_to(values, worlds).tolist() for values in numbers)
    halves = half if rows else [half] * worlds
    given = [
        replace(arguments, radius=radius, height=height, half_extents=own)
        for radius, height, own in zip(radii, heights, halves)
    ]
    variants = tuple(_primitive(one, pose) for one in given)
    return replace(variants[0], variants=variants)


def _primitive(arguments: ShapeArguments, pose: Pose) -> Geometry:
    kind, radius, height = arguments.kind, arguments.radius, arguments.height
    if kind in (Geom.SPHERE, Geom.CAPSULE, Geom.CYLINDER):
        if not radius > 0.0 or (kind != Geom.SPHERE and not height >= 0.0):
            raise ValueError(f"radius {radius} and height {height} must be positive")
        if radius > LARGEST or height > LARGEST:
            raise ValueError(f"radius {radius:g} and height {height:g} must be at most {LARGEST:g} m")
        return Geometry(kind, pose, radius=radius, height=height)
    if kind == Geom.BOX:
        # Bullet takes negative ones, for a box with the right mass that sinks into whatever it meets.
        extents = vector_or(arguments.half_extents, (1.0, 1.0, 1.0), "halfExtents")
        return Geometry(kind, pose, half_extents=tuple(map(abs, extents.tolist())))
    if kind == Geom.PLANE:
        normal = vector_or(arguments.plane_normal, (0.0, 0.0, 1.0), "planeNormal")
        length = float(np.linalg.norm(normal))
        normal = normal / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
        return Geometry(kind, pose, normal=tuple(normal.tolist()))
    raise ValueError(f"shape type {kind} is unknown")


def _collision_mesh(arguments: ShapeArguments, pose: Pose, search_path: str) -> ShapeRecord:
    scale = vector_or(arguments.mesh_scale, np.ones(3), "meshScale")
    concave = bool(arguments.flags & GeomFlag.FORCE_CONCAVE_TRIMESH)
    if arguments.file:
        file = _mesh_file(arguments.file, search_path)
        per_group = not concave and file.path.lower().endswith(".obj")
        meshes = file.groups(scale) if per_group else file.whole(scale)
        visuals = [_visual_of_file(file, arguments.file, scale, pose)]
    else:
        points = _points(arguments.vertices)
        concave = concave or _has_indices(arguments.indices)
        meshes = [_mesh_of(points, arguments.indices, scale)]
        seen = Geometry(Geom.MESH, pose, scale=tuple(scale.tolist()), meshes=list(meshes))
        visuals = [Visual(seen, uvs=[None])]
    parts = [Geometry(Geom.MESH, pose, file=UNNAMED_MESH, meshes=[mesh], concave=concave) for mesh in meshes]
    return ShapeRecord(parts, visuals)


def _mesh_file(name: str, search_path: str) -> MeshFile:
    path = find(name, search_path)
    if path is None:
        raise ValueError(f"file {name!r} is not found")
    try:
        return read_mesh_file(path)
    except ImportFileError as error:
        raise ValueError(str(error)) from error


def _points(vertices: object) -> np.ndarray:
    try:
        points = np.asarray(vertices, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("vertices are not points") from error
    if points.ndim != 2 or points.shape[1] != 3 or not 0 < len(points) <= MAX_VERTICES:
        raise ValueError(f"vertices: expected 1 to {MAX_VERTICES} points, got shape {points.shape}")
    if not np.isfinite(points).all():
        raise ValueError("vertices: a point is not finite")
    return points


def _has_indices(indices: object) -> bool:
    """Whether there are triangles of points; PyBullet takes an empty list as none."""
    return indices is not None and np.size(indices) > 0  # pyright: ignore[reportArgumentType]


def _mesh_of(points: np.ndarray, indices: object, scale: np.ndarray) -> Mesh:
    """Mesh of points and triangles; without triangles, of the hull of the points."""
    points = points * scale
    try:
        faces = np.asarray(indices, np.int64).reshape(-1) if _has_indices(indices) else _hull_faces(points)
        faces = faces[: len(faces) - len(faces) % 3]
        if not len(faces):
            raise ValueError("indices: a triangle has three")
        faces = faces.reshape(-1, 3)[:, ::-1] if np.prod(scale) < 0.0 else faces
        return Mesh(points, faces, False, max_hull_vertices=MOST_VERTICES)
    except (TypeError, OverflowError, ModelError) as error:
        raise ValueError(f"indices: {error}") from error


def _hull_faces(points: np.ndarray) -> np.ndarray:
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):  # flat, or a point or two: any triangles that name all points
        last = len(points) - 1
        fan = [[0, min(k + 1, last), min(k + 2, last)] for k in range(max(last - 1, 1))]
        return np.array(fan, np.int64).reshape(-1)
    faces = hull.simplices.copy()
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0.0
    faces[inward] = faces[inward][:, ::-1]
    return faces.reshape(-1)


def _heightfield(arguments: ShapeArguments, search_path: str) -> Geometry:
    """A height field lies in the link frame, whatever position and orientation are given."""
    pose = Pose.identity()
    scale = vector_or(arguments.mesh_scale, np.ones(3), "meshScale")
    try:
        if arguments.file:
            path = find(arguments.file, search_path)
            if path is None:
                raise ValueError(f"file {arguments.file!r} is not found")
            return heightfield_geometry(heights_of_file(path), scale, pose, arguments.file)
        if arguments.heightfield is None:
            raise ValueError("a height field needs heightfieldData or fileName")
        heights = heights_of_list(arguments.heightfield, arguments.rows, arguments.columns)
        return heightfield_geometry(heights, scale, pose)
    except (ImportFileError, TypeError) as error:
        raise ValueError(str(error)) from error


def visual_shape(arguments: ShapeArguments, rgba: object, specular: object, search_path: str) -> Visual:
    """Record of createVisualShape; a mesh file that is missing gives a shape without a mesh.

    Raises:
        ValueError: The kind is unknown or a size is not positive.
    """
    pose, kind = pose_of(arguments.position, arguments.orientation), arguments.kind
    if kind == Geom.MESH:
        visual = _visual_mesh(arguments, pose, search_path)
    else:
        visual = Visual(_primitive(arguments, pose))
    visual.rgba = tuple(vector_or(rgba, WHITE, "rgbaColor").tolist())
    visual.specular = tuple(vector_or(specular, np.ones(3), "specularColor").tolist())
    return visual


def _visual_mesh(arguments: ShapeArguments, pose: Pose, search_path: str) -> Visual:
    scale = vector_or(arguments.mesh_scale, np.ones(3), "meshScale")
    if arguments.file:
        try:
            file = _mesh_file(arguments.file, search_path)
        except ValueError:
            return Visual(Geometry(Geom.MESH, pose, scale=tuple(scale.tolist())))
        return _visual_of_file(file, arguments.file, scale, pose)
    points = _points(arguments.vertices)
    mesh = _mesh_of(points, arguments.indices, scale)
    uvs = None
    if arguments.uvs is not None:
        uvs = np.asarray(arguments.uvs, dtype=np.float64)
        uvs = uvs if uvs.shape == (len(points), 2) else None
    return Visual(Geometry(Geom.MESH, pose, scale=tuple(scale.tolist()), meshes=[mesh]), uvs=[uvs])


def _visual_of_file(file: MeshFile, name: str, scale: np.ndarray, pose: Pose) -> Visual:
    geometry = Geometry(
        Geom.MESH, pose, scale=tuple(scale.tolist()), file=name, meshes=list(file.meshes(scale))
    )
    textures = [part.material.texture for part in file.parts if part.material and part.material.texture]
    return Visual(
        geometry, texture_file=textures[0] if textures else "", uvs=[part.uvs for part in file.parts]
    )
