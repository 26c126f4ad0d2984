"""Pictures of synthetic cameras, visual shapes and textures.

Pictures are cast by `newtonsim.render`. They follow PyBullet's software renderer: its light, its default
camera, its place of samples in pixels and its non-linear depth; shadows are where the light does not reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.pybullet_compat.readers.search import find
from newtonsim.pybullet_compat.rendering.pictures import (
    GEOMETRY_DIMENSIONS,
    LINK_SHIFT,
    Light,
    Pictures,
    visuals_of,
)
from newtonsim.pybullet_compat.surface import maths
from newtonsim.pybullet_compat.surface.arguments import floats
from newtonsim.pybullet_compat.surface.constants import (
    ER_NO_SEGMENTATION_MASK,
    ER_SEGMENTATION_MASK_OBJECT_AND_LINKINDEX,
    GEOM_MESH,
    VISUAL_SHAPE_DATA_TEXTURE_UNIQUE_IDS,
    VISUAL_SHAPE_DOUBLE_SIDED,
)
from newtonsim.pybullet_compat.surface.errors import error

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client

Picture = tuple[int, int, np.ndarray, np.ndarray, np.ndarray]

_DEFAULT_VIEW = maths.computeViewMatrixFromYawPitchRoll((0.0, 0.0, 0.0), 1.5, -80.0, -10.0, 0.0, 2)

MOST_PIXELS = 1 << 26
"""Largest picture: 8192 by 8192 pixels."""


def getCameraImage(
    client: Client,
    width: int,
    height: int,
    viewMatrix: Sequence[float] | None = None,
    projectionMatrix: Sequence[float] | None = None,
    lightDirection: Sequence[float] | None = None,
    lightColor: Sequence[float] | None = None,
    lightDistance: float | None = None,
    shadow: int | None = None,
    lightAmbientCoeff: float | None = None,
    lightDiffuseCoeff: float | None = None,
    lightSpecularCoeff: float | None = None,
    renderer: int | None = None,
    flags: int | None = None,
    projectiveTextureView: Sequence[float] | None = None,
    projectiveTextureProj: Sequence[float] | None = None,
) -> Picture:
    """Take a picture.

    What a call says about the light stays for later calls that say nothing. There is one renderer, and no
    projective texture.

    Args:
        client: The client.
        width: Columns.
        height: Rows.
        viewMatrix: 16 floats, column by column; with several worlds also one set for each,
            (num_worlds, 16). Without both matrices the default camera takes the picture.
        projectionMatrix: 16 floats, likewise.
        lightDirection: From the origin towards the light (3,).
        lightColor: Of the directional light (3,), 0..1.
        lightDistance: Taken and kept, without effect.
        shadow: Whether there are shadows.
        lightAmbientCoeff: Weight of ambient light.
        lightDiffuseCoeff: Weight of matt reflection.
        lightSpecularCoeff: Weight of highlights.
        renderer: Taken, without effect.
        flags: ER_SEGMENTATION_MASK_OBJECT_AND_LINKINDEX for links in the segmentation,
            ER_NO_SEGMENTATION_MASK for -1 everywhere.
        projectiveTextureView: Taken, without effect.
        projectiveTextureProj: Taken, without effect.

    Returns:
        Width, height, RGBA (height, width, 4) uint8, depth (height, width) float32 as in OpenGL's depth
        buffer, segmentation (height, width) int32: body, or body + ((link + 1) << 24), -1 for nothing. With
        several worlds all three have a leading axis num_worlds.

    Raises:
        error: The size is negative or beyond 67 million pixels, or the matrices make no picture.
    """
    if width < 0 or height < 0 or width * height > MOST_PIXELS:
        raise error(f"getCameraImage: {width} x {height} pixels are not possible.")
    pictures = client.part(Pictures)
    _set_light(pictures.light, "direction", _numbers(lightDirection, 3))
    _set_light(pictures.light, "color", _numbers(lightColor, 3))
    _set_light(pictures.light, "distance", lightDistance)
    _set_light(pictures.light, "shadow", None if shadow is None else shadow != 0)
    _set_light(pictures.light, "ambient", lightAmbientCoeff)
    _set_light(pictures.light, "diffuse", lightDiffuseCoeff)
    _set_light(pictures.light, "specular", lightSpecularCoeff)
    view, projection = _matrices(client, viewMatrix), _matrices(client, projectionMatrix)
    if view is None or projection is None:
        default = maths.computeProjectionMatrixFOV(90.0, 4.0 / 3.0, *pictures.clip)
        view, projection = _matrices(client, _DEFAULT_VIEW), _matrices(client, default)
    return _take(client, pictures, width, height, view, projection, flags or 0)


def _take(
    client: Client,
    pictures: Pictures,
    width: int,
    height: int,
    view: np.ndarray,
    projection: np.ndarray,
    flags: int,
) -> Picture:
    """Take a picture of each world; matrices are (4, 4) or (num_worlds, 1, 4, 4)."""
    try:
        rays = pictures.rays(view, projection)
    except ModelError as problem:
        raise error(f"getCameraImage: {problem}") from None
    camera = pictures.camera(width, height)
    color, depth, label = camera.light(pictures.light.lighting()).look(rays).render().numpy()
    which = 0 if client.num_worlds == 1 else slice(None)
    label = label[which, 0]
    if flags & ER_NO_SEGMENTATION_MASK:
        label = np.full_like(label, -1)
    elif flags & ER_SEGMENTATION_MASK_OBJECT_AND_LINKINDEX:
        label = label.copy()
    else:
        label = np.where(label < 0, -1, label & ((1 << LINK_SHIFT) - 1))
    return width, height, color[which, 0].copy(), depth[which, 0].copy(), label


def _set_light(light: Light, name: str, value: object) -> None:
    if value is not None:
        setattr(light, name, value)


def _numbers(values: object, count: int) -> tuple[float, ...] | None:
    """Return so many numbers, or None for anything else."""
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return None
    return numbers if len(numbers) == count and np.isfinite(numbers).all() else None


def _matrices(client: Client, values: object) -> np.ndarray | None:
    """Return a matrix (4, 4), or one for each world (num_worlds, 1, 4, 4), or None for anything else."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return None
    if array.shape == (16,):
        return array.reshape(4, 4).T
    if client.num_worlds > 1 and array.shape == (client.num_worlds, 16):
        return array.reshape(-1, 1, 4, 4).swapaxes(-1, -2)
    return None


def renderImage(client: Client, *args: object) -> Picture:
    """Take a picture; obsolete.

    Args:
        client: The client.
        *args: Width and height, then nothing, or the view and projection matrix, or position, target and up
            vector of the camera, near, far and maybe the field of view [deg], or target, distance, yaw,
            pitch, roll, up axis, near, far and field of view.

    Returns:
        As `getCameraImage`.

    Raises:
        error: The number of arguments or one of them is wrong.
    """
    if len(args) not in (2, 4, 7, 8, 11):
        raise error("Invalid number of args passed to renderImage.")
    width, height, *rest = args
    if not rest:
        return getCameraImage(client, int(width), int(height))
    if len(rest) == 2:
        view, projection = (_numbers(matrix, 16) for matrix in rest)
        if view is None or projection is None:
            raise error("Error parsing view or projection matrix.")
        return getCameraImage(client, int(width), int(height), view, projection)
    if len(rest) == 9:
        target, *numbers, near, far, fov = rest
        if _numbers(target, 3) is None:
            raise error("Error parsing camera target pos")
        view = maths.computeViewMatrixFromYawPitchRoll(_numbers(target, 3), *numbers)
    else:
        eye, target, up, near, far, *field_of_view = rest
        vectors = [_numbers(vector, 3) for vector in (eye, target, up)]
        if None in vectors:
            raise error("Error parsing camera position, target or up.")
        view = maths.computeViewMatrix(*vectors)
        fov = field_of_view[0] if field_of_view else 90.0
    projection = maths.computeProjectionMatrixFOV(float(fov), 1.0, float(near), float(far))
    return getCameraImage(client, int(width), int(height), view, projection)


def getVisualShapeData(client: Client, objectUniqueId: int, flags: int = 0) -> tuple:
    """Return all visual shapes of a body.

    Args:
        client: The client.
        objectUniqueId: The body; one that is not there has none.
        flags: VISUAL_SHAPE_DATA_TEXTURE_UNIQUE_IDS for the texture of the file too.

    Returns:
        A tuple for each shape: body, link, type of geometry, dimensions, mesh file as bytes, position and
        orientation in the link frame, RGBA (num_worlds, 4) where worlds differ, and the texture unique id.
        Those that an MJCF file gives by their ends are reported in the link frame itself, as in PyBullet.
    """
    pictures = client.part(Pictures)
    with_textures = flags & VISUAL_SHAPE_DATA_TEXTURE_UNIQUE_IDS
    if objectUniqueId in client.soft_bodies:
        row = _soft_visual(client, pictures, objectUniqueId)
        return (row if with_textures else row[:-1],)
    body = client.bodies.get(objectUniqueId)
    if body is None:
        return ()
    rows = []
    for link, _, visual in visuals_of(body):
        geometry = visual.geometry
        dimensions = GEOMETRY_DIMENSIONS.get(geometry.kind, lambda g: (0.0, 0.0, 0.0))(geometry)
        row = (
            objectUniqueId,
            link,
            int(geometry.kind),
            tuple(float(value) for value in dimensions),
            geometry.file.encode(),
            tuple(geometry.shown_pose.p.tolist()),
            tuple(geometry.shown_pose.q.tolist()),
            _color_row(pictures.reported_rgba(objectUniqueId, link, visual.rgba)),
        )
        rows.append((*row, pictures.texture_of(objectUniqueId, visual)) if with_textures else row)
    return tuple(rows)


def _soft_visual(client: Client, pictures: Pictures, uid: int) -> tuple:
    """The visual shape of a soft body, with its texture."""
    name = client.soft_bodies[uid].names()[0]
    rgba = _color_row(pictures.reported_rgba(uid, -1, np.ones(4)))
    return (uid, -1, GEOM_MESH, (1.0, 1.0, 1.0), name, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), rgba, -1)


def _color_row(rgba: np.ndarray) -> tuple | np.ndarray:
    return tuple(rgba.tolist()) if rgba.ndim == 1 else rgba


def changeVisualShape(
    client: Client,
    objectUniqueId: int,
    linkIndex: int,
    shapeIndex: int = -1,
    textureUniqueId: int | None = None,
    rgbaColor: Sequence[float] | None = None,
    specularColor: Sequence[float] | None = None,
    flags: int = 0,
) -> None:
    """Change how visual shapes of a link look; a body or link that is not there changes nothing.

    As in PyBullet, getVisualShapeData then reports the colour for all shapes of the link.

    Args:
        client: The client.
        objectUniqueId: The body.
        linkIndex: The link, -1 for the base.
        shapeIndex: The visual shape, counting from 0 on each link; -1 for all.
        textureUniqueId: From `loadTexture`; -1 or an unknown one for none.
        rgbaColor: Four numbers, 0..1; alpha 0 is invisible. With several worlds also (num_worlds, 4).
            Anything else is white.
        specularColor: Three numbers, kept.
        flags: VISUAL_SHAPE_DOUBLE_SIDED for back faces.
    """
    pictures = client.part(Pictures)
    pictures.register()
    body = client.bodies.get(objectUniqueId)
    soft = objectUniqueId in client.soft_bodies and linkIndex == -1
    if not soft and (body is None or not -1 <= linkIndex < len(body.links) - 1):
        return
    rgba, specular = _colors(client, rgbaColor), _numbers(specularColor, 3)
    if rgba is not None:
        pictures.reported[objectUniqueId, linkIndex] = rgba
    for appearance in pictures.appearances_of(objectUniqueId, linkIndex, shapeIndex):
        if textureUniqueId is not None:
            appearance.texture = textureUniqueId
        if rgba is not None:
            appearance.rgba = rgba
        if specular is not None:
            appearance.specular = specular
        if flags & VISUAL_SHAPE_DOUBLE_SIDED:
            appearance.double_sided = True


def _colors(client: Client, values: object) -> np.ndarray | None:
    """Return a colour (4,) or one for each world (num_worlds, 4); white for another number of them."""
    if values is None:
        return None
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if not np.isfinite(array).all():
        raise error("changeVisualShape: rgbaColor is not finite.")
    fits = array.shape == (4,) or (client.num_worlds > 1 and array.shape == (client.num_worlds, 4))
    return array if fits else np.ones(4)


def resetVisualShapeData(
    client: Client,
    objectUniqueId: int,
    linkIndex: int,
    shapeIndex: int = -1,
    textureUniqueId: int | None = None,
    rgbaColor: Sequence[float] | None = None,
    specularColor: Sequence[float] | None = None,
    flags: int = 0,
) -> None:
    """Change how a link looks; the old name of `changeVisualShape`, with the same arguments."""
    changeVisualShape(
        client, objectUniqueId, linkIndex, shapeIndex, textureUniqueId, rgbaColor, specularColor, flags
    )


def loadTexture(client: Client, textureFilename: str) -> int:
    """Load an image and return its texture unique id.

    Args:
        client: The client.
        textureFilename: The file, looked for in the working directory and the additional search path.

    Raises:
        error: It is not found or no image.
    """
    pictures = client.part(Pictures)
    pictures.register()
    path = find(textureFilename, client.settings.search_path)
    try:
        if path is not None:
            return pictures.textures.add_file(path)
    except (OSError, ValueError):
        pass
    raise error("Error loading texture")


def changeTexture(
    client: Client, textureUniqueId: int, pixels: Sequence[int], width: int, height: int
) -> None:
    """Replace the image of a texture.

    Args:
        client: The client.
        textureUniqueId: From `loadTexture`.
        pixels: Red, green and blue of each pixel, 0..255, rows from the top, or bytes.
        width: Columns.
        height: Rows.

    Raises:
        error: There is no such texture, or `pixels` has the wrong length.
    """
    pictures = client.part(Pictures)
    pictures.register()
    if textureUniqueId not in pictures.textures:
        raise error("Error processing changeTexture.")
    try:
        image = np.frombuffer(pixels, np.uint8)
    except (TypeError, ValueError):
        image = np.array(floats(pixels, "Cannot convert pixels."))
    if width < 1 or height < 1 or image.size != 3 * width * height:
        raise error(f"changeTexture: {image.size} values are not 3 x {width} x {height}.")
    if not (np.isfinite(image).all() and image.min() >= 0 and image.max() <= 255):
        raise error("changeTexture: values must lie in 0..255.")
    pictures.textures.change(textureUniqueId, image.astype(np.uint8).reshape(height, width, 3))
