"""The functions that make shapes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.descriptions.kinds import Geom
from newtonsim.pybullet_compat.readers.shapes import (
    ShapeArguments,
    ShapeRecord,
    collision_shape,
    visual_shape,
)
from newtonsim.pybullet_compat.surface.arguments import ints
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.shape_table import ShapeTable

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client

MAX_SHAPES = 16
"""Most shapes of one call of createCollisionShapeArray or createVisualShapeArray."""


def _made(client: Client, make: Callable, message: str) -> object:
    """Call `make`; what it complains about becomes a warning and the error of the API.

    Of several worlds the error says it as well: most shapes are the same in all of them.
    """
    try:
        return make()
    except (TypeError, ValueError, OverflowError) as reason:
        warnings.warn(f"{message} {reason}", stacklevel=4)
        note = "meshes, planes and looks are the same in all worlds"
        several = f" {reason}; {note}" if client.num_worlds > 1 else ""
        raise error(message + several) from reason


def createCollisionShape(
    client: Client,
    shapeType: int,
    radius: float = 0.5,
    halfExtents: Sequence[float] = (1.0, 1.0, 1.0),
    height: float = 1.0,
    fileName: str = "",
    meshScale: Sequence[float] = (1.0, 1.0, 1.0),
    planeNormal: Sequence[float] = (0.0, 0.0, 1.0),
    flags: int = 0,
    collisionFramePosition: Sequence[float] = (0.0, 0.0, 0.0),
    collisionFrameOrientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    vertices: Sequence | None = None,
    indices: Sequence[int] | None = None,
    heightfieldTextureScaling: float = 1.0,
    heightfieldData: Sequence[float] | None = None,
    numHeightfieldRows: int = -1,
    numHeightfieldColumns: int = -1,
    replaceHeightfieldIndex: int = -1,
) -> int:
    """Make a shape that collides.

    Args:
        client: The client.
        shapeType: GEOM_SPHERE, GEOM_BOX, GEOM_CAPSULE, GEOM_CYLINDER, GEOM_PLANE, GEOM_MESH or
            GEOM_HEIGHTFIELD.
        radius: Of spheres, capsules and cylinders [m]; of several worlds also (W,).
        halfExtents: Of boxes (3,) [m]; of several worlds also (W, 3).
        height: Of capsules, between the centres of the caps, and of cylinders [m]; of several worlds
            also (W,).
        fileName: Mesh file, or image or table of heights.
        meshScale: Factors of a mesh (3,); spacing and height of a height field.
        planeNormal: Of planes (3,).
        flags: GEOM_FORCE_CONCAVE_TRIMESH keeps a mesh as a surface; otherwise each group of a Wavefront file,
            and each other mesh, collides as its convex hull.
        collisionFramePosition: Position in the link frame [m].
        collisionFrameOrientation: Orientation in the link frame, xyzw.
        vertices: Points of a mesh without a file (n, 3); without `indices` their hull collides.
        indices: Triangles of these points.
        heightfieldTextureScaling: Texture coordinates along a side of a height field.
        heightfieldData: Heights of a height field, rows fastest.
        numHeightfieldRows: Heights along x.
        numHeightfieldColumns: Heights along y.
        replaceHeightfieldIndex: Collision shape of a height field that gets these heights instead of its own.

    Returns:
        Collision shape id.

    Raises:
        error: "createCollisionShape failed.", with a warning that says why.
    """
    arguments = ShapeArguments(
        shapeType,
        radius,
        halfExtents,
        height,
        fileName,
        meshScale,
        planeNormal,
        flags,
        collisionFramePosition,
        collisionFrameOrientation,
        vertices,
        indices,
        None,
        heightfieldData,
        numHeightfieldRows,
        numHeightfieldColumns,
        client.num_worlds,
    )
    if heightfieldData is not None:
        try:
            count = len(heightfieldData)  # type: ignore[arg-type]
        except TypeError:
            count = -1
        if count != numHeightfieldRows * numHeightfieldColumns:
            raise error("Size of heightfieldData doesn't match numHeightfieldColumns*numHeightfieldRows")
    search_path = client.settings.search_path
    record = _made(client, lambda: collision_shape(arguments, search_path), "createCollisionShape failed.")
    table = client.part(ShapeTable)
    if shapeType == Geom.HEIGHTFIELD and replaceHeightfieldIndex in table.collisions:
        return _replace_heightfield(client, table, replaceHeightfieldIndex, record)
    return table.add_collision(record)


def _replace_heightfield(client: Client, table: ShapeTable, uid: int, record: ShapeRecord) -> int:
    """Give the height field of a shape, and of all bodies that have it, new heights."""
    new = record.collisions[0]
    for old in table.collisions[uid].collisions:
        if old.heightfield is None or old.heightfield.heights.shape != new.heightfield.heights.shape:
            raise error("createCollisionShape failed.")
        shapes = [
            shape
            for body in client.bodies.values()
            for link in body.links
            for shape in (*link.collisions, *(visual.geometry for visual in link.visuals))
            if shape.heightfield is old.heightfield
        ]
        if shapes:
            client.structure_changed()
            for body in client.bodies.values():
                body.made_from = None
        for shape in shapes:
            shape.heightfield, shape.meshes = new.heightfield, new.meshes
    table.collisions[uid] = record
    table.shapes_changed()
    return uid


def createCollisionShapeArray(
    client: Client,
    shapeTypes: Sequence[int],
    radii: Sequence[float] | None = None,
    halfExtents: Sequence | None = None,
    lengths: Sequence[float] | None = None,
    fileNames: Sequence[str] | None = None,
    meshScales: Sequence | None = None,
    planeNormals: Sequence | None = None,
    flags: Sequence[int] | None = None,
    collisionFramePositions: Sequence | None = None,
    collisionFrameOrientations: Sequence | None = None,
) -> int:
    """Make one collision shape of several; all lists have one entry per shape.

    Args:
        client: The client.
        shapeTypes: See createCollisionShape.
        radii: See createCollisionShape.
        halfExtents: See createCollisionShape.
        lengths: Heights of capsules and cylinders [m].
        fileNames: See createCollisionShape.
        meshScales: See createCollisionShape.
        planeNormals: See createCollisionShape.
        flags: See createCollisionShape.
        collisionFramePositions: See createCollisionShape.
        collisionFrameOrientations: See createCollisionShape.

    Returns:
        Collision shape id.

    Raises:
        error: "createCollisionShapeArray failed.", with a warning that says why.
    """
    lists = (radii, halfExtents, lengths, fileNames, meshScales, planeNormals, flags)
    entries = _entries(
        shapeTypes, (*lists, collisionFramePositions, collisionFrameOrientations), "createCollisionShapeArray"
    )
    search_path = client.settings.search_path
    message = "createCollisionShapeArray failed."
    records = [
        _made(client, lambda entry=entry: collision_shape(entry, search_path), message) for entry in entries
    ]
    return client.part(ShapeTable).add_collision(
        ShapeRecord(
            [shape for record in records for shape in record.collisions],
            [visual for record in records for visual in record.visuals],
        )
    )


_FIELDS = (
    "radius",
    "half_extents",
    "height",
    "file",
    "mesh_scale",
    "plane_normal",
    "flags",
    "position",
    "orientation",
)


def _entries(kinds: Sequence[int], lists: tuple, function: str) -> list[ShapeArguments]:
    """Arguments of each shape of an array call."""
    kinds = ints(kinds, "expected a sequence of shape types")
    if not 0 < len(kinds) <= MAX_SHAPES:
        warnings.warn(f"{function}: expected 1 to {MAX_SHAPES} shapes, got {len(kinds)}", stacklevel=3)
        raise error(f"{function} failed.")
    entries = [ShapeArguments(kind) for kind in kinds]
    for name, values in zip(_FIELDS, lists, strict=True):
        if values is None:
            continue
        if not hasattr(values, "__len__") or len(values) != len(kinds):
            warnings.warn(f"{function}: expected {len(kinds)} values of {name}, got {values!r}", stacklevel=3)
            raise error(f"{function} failed.")
        for entry, value in zip(entries, values, strict=True):
            setattr(entry, name, value)
    return entries


def removeCollisionShape(client: Client, collisionShapeId: int) -> None:
    """Forget a collision shape that no body has.

    Args:
        client: The client.
        collisionShapeId: The shape; unknown ones are ignored.
    """
    table = client.part(ShapeTable)
    if collisionShapeId in table.collisions and not table.is_used(collisionShapeId):
        del table.collisions[collisionShapeId]
        table.shapes_changed()
        table.collision_ids.give_back(collisionShapeId)


def createVisualShape(
    client: Client,
    shapeType: int,
    radius: float = 0.5,
    halfExtents: Sequence[float] = (1.0, 1.0, 1.0),
    length: float = 1.0,
    fileName: str = "",
    meshScale: Sequence[float] = (1.0, 1.0, 1.0),
    planeNormal: Sequence[float] = (0.0, 0.0, 1.0),
    flags: int = 0,
    rgbaColor: Sequence[float] | None = None,
    specularColor: Sequence[float] | None = None,
    visualFramePosition: Sequence[float] = (0.0, 0.0, 0.0),
    visualFrameOrientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    vertices: Sequence | None = None,
    indices: Sequence[int] | None = None,
    normals: Sequence | None = None,
    uvs: Sequence | None = None,
) -> int:
    """Make a shape that is seen.

    Args:
        client: The client.
        shapeType: See createCollisionShape; height fields excepted.
        radius: See createCollisionShape.
        halfExtents: See createCollisionShape.
        length: Of capsules, between the centres of the caps, and of cylinders [m].
        fileName: Mesh file; a missing one gives a shape that is not seen.
        meshScale: Factors of a mesh (3,).
        planeNormal: Of planes (3,).
        flags: Not used.
        rgbaColor: Colour in 0 to 1 (4,).
        specularColor: Specular colour in 0 to 1 (3,).
        visualFramePosition: Position in the link frame [m].
        visualFrameOrientation: Orientation in the link frame, xyzw.
        vertices: Points of a mesh without a file (n, 3).
        indices: Triangles of these points.
        normals: Not used; normals follow from the triangles.
        uvs: Texture coordinates of the points (n, 2).

    Returns:
        Visual shape id.

    Raises:
        error: "createVisualShape failed.", with a warning that says why.
    """
    arguments = ShapeArguments(
        shapeType,
        radius,
        halfExtents,
        length,
        fileName,
        meshScale,
        planeNormal,
        flags,
        visualFramePosition,
        visualFrameOrientation,
        vertices,
        indices,
        uvs,
    )
    search_path = client.settings.search_path
    visual = _made(
        client,
        lambda: visual_shape(arguments, rgbaColor, specularColor, search_path),
        "createVisualShape failed.",
    )
    return client.part(ShapeTable).add_visual([visual])


def createVisualShapeArray(
    client: Client,
    shapeTypes: Sequence[int],
    radii: Sequence[float] | None = None,
    halfExtents: Sequence | None = None,
    lengths: Sequence[float] | None = None,
    fileNames: Sequence[str] | None = None,
    meshScales: Sequence | None = None,
    planeNormals: Sequence | None = None,
    flags: Sequence[int] | None = None,
    rgbaColors: Sequence | None = None,
    visualFramePositions: Sequence | None = None,
    visualFrameOrientations: Sequence | None = None,
) -> int:
    """Make one visual shape of several; all lists have one entry per shape.

    Args:
        client: The client.
        shapeTypes: See createVisualShape.
        radii: See createVisualShape.
        halfExtents: See createVisualShape.
        lengths: See createVisualShape.
        fileNames: See createVisualShape.
        meshScales: See createVisualShape.
        planeNormals: See createVisualShape.
        flags: Not used.
        rgbaColors: See createVisualShape.
        visualFramePositions: See createVisualShape.
        visualFrameOrientations: See createVisualShape.

    Returns:
        Visual shape id.

    Raises:
        error: "createVisualShapeArray failed.", with a warning that says why.
    """
    lists = (radii, halfExtents, lengths, fileNames, meshScales, planeNormals, flags)
    entries = _entries(
        shapeTypes, (*lists, visualFramePositions, visualFrameOrientations), "createVisualShapeArray"
    )
    colors = list(rgbaColors) if rgbaColors is not None else [None] * len(entries)
    colors += [None] * (len(entries) - len(colors))
    search_path = client.settings.search_path
    message = "createVisualShapeArray failed."
    visuals = [
        _made(client, lambda entry=entry, color=color: visual_shape(entry, color, None, search_path), message)
        for entry, color in zip(entries, colors, strict=False)
    ]
    return client.part(ShapeTable).add_visual(visuals)
