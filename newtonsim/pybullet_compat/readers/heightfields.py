"""Height fields of createCollisionShape: from lists of heights, and from images and text files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError, LimitError
from newtonsim.geometry import Heightfield, Mesh
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import read_bytes
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import Geometry
from newtonsim.pybullet_compat.descriptions.kinds import Geom


def heightfield_geometry(heights: np.ndarray, scale: Sequence[float], pose: Pose, file: str = "") -> Geometry:
    """Height field over the x-y plane, centred, and with the middle between its extremes at z = 0.

    Args:
        heights: Shape (rows, columns); rows run along x, columns along y.
        scale: Spacing along x and y and factor of the heights (3,).
        pose: Frame in the link frame.
        file: Name of the file that it came from.

    Returns:
        The geometry; its `heightfield` has its local axes (x, y, z) along (y, z, x) of the frame.

    Raises:
        ImportFileError: There are fewer than 2 x 2 heights, or some are not finite.
    """
    if heights.ndim != 2 or min(heights.shape) < 2:
        raise ImportFileError(f"a height field needs at least 2 x 2 heights, got {heights.shape}", file)
    if heights.size > limits.heights:
        raise LimitError(f"{heights.size} heights are more than the limit of {limits.heights}", file)
    if not np.isfinite(heights).all():
        raise ImportFileError("a height of the height field is not finite", file)
    sx, sy, sz = (float(value) for value in scale)
    scaled = heights * sz
    centred = scaled - 0.5 * (scaled.min() + scaled.max())
    size = (abs(sy) * (heights.shape[1] - 1), abs(sx) * (heights.shape[0] - 1))
    field = Heightfield(centred, size)
    mesh = field.to_mesh()
    surface = Mesh(mesh.vertices[:, [2, 0, 1]], mesh.indices, compute_inertia=False, name="height field")
    return Geometry(
        Geom.HEIGHTFIELD,
        pose,
        scale=(sx, sy, sz),
        file=file,
        meshes=[surface],
        concave=True,
        heightfield=field,
    )


def heights_of_list(data: Sequence[float], rows: int, columns: int) -> np.ndarray:
    """Heights (rows, columns) of a list in which the rows run fastest.

    Raises:
        ValueError: The list has another length, or something that is not a number.
    """
    values = np.asarray(data, dtype=np.float64).reshape(-1)
    if rows < 1 or columns < 1 or values.size != rows * columns:
        raise ValueError("Size of heightfieldData doesn't match numHeightfieldColumns*numHeightfieldRows")
    return values.reshape(columns, rows).T


def heights_of_file(path: str) -> np.ndarray:
    """Heights (along x, along y) of an image, from its first channel as 0 to 1, or of a table of numbers.

    Rows of a table lie along x; PyBullet reads tables that are not square beyond their end.

    Raises:
        ImportFileError: The file cannot be read.
    """
    if Path(path).suffix.lower() in (".txt", ".csv"):
        return _heights_of_text(path)
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportFileError("height fields from images need Pillow (pip install pillow)", path) from error
    try:
        with Image.open(path) as image:
            if image.width * image.height > limits.heights:
                raise LimitError(
                    f"{image.width} x {image.height} pixels are more than the limit of {limits.heights}", path
                )
            pixels = np.asarray(image.convert("RGB"))[:, :, 0]
    except (OSError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise ImportFileError(f"the height field cannot be read: {error}", path) from error
    return pixels[:, ::-1].astype(np.float64).T / 255.0  # x runs against the columns of a picture


def _heights_of_text(path: str) -> np.ndarray:
    text = read_bytes(Path(path), limits.mesh_bytes).decode("utf-8", errors="replace")
    lines = [line.replace(",", " ").split() for line in text.splitlines()]
    try:
        return np.array([[float(word) for word in line] for line in lines if line])
    except ValueError as error:
        raise ImportFileError(f"the height field cannot be read: {error}", path) from error
