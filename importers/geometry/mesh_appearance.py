"""Colours of mesh files: one image and texture coordinates for a mesh of several materials."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from newtonsim.errors import UnsupportedElementWarning
from newtonsim.geometry.images import pixels_of, read_image
from newtonsim.importers.geometry.mesh_parts import Material, MeshPart

_MAX_REPEATS = 16
"""Times that an image may be repeated along a side where it shares one image with others."""

_MARGIN = 1.0e-3
"""Part of a texel that texture coordinates keep from their neighbours' texels."""

_WHITE = Material()

_images: WeakValueDictionary[tuple[str, int], np.ndarray] = WeakValueDictionary()
"""Images in use by file and time of its last change; the meshes of a robot often share one."""


def corner_appearance(parts: Sequence[MeshPart]) -> tuple[np.ndarray | None, np.ndarray, list[Material]]:
    """Return what the triangles of all parts wear.

    Returns:
        Texture coordinates of their corners (m, 3, 2), zero where a part has none, None if no part has any;
        the number of the material of each (m,); the materials.
    """
    materials = list({id(p.material): p.material or _WHITE for p in parts}.values())
    place = {id(material): number for number, material in enumerate(materials)}
    uvs = [np.zeros((len(p.faces), 3, 2)) if p.uvs is None else p.uvs[p.faces] for p in parts]
    numbers = [np.full(len(p.faces), place[id(p.material or _WHITE)]) for p in parts]
    has = any(p.uvs is not None for p in parts)
    corners = np.concatenate(uvs)
    if not np.isfinite(corners).all():
        has = False
    return corners if has else None, np.concatenate(numbers), materials


def paint(
    uvs: np.ndarray, numbers: np.ndarray, materials: Sequence[Material]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Put the images of all materials into one, those without an image as their colour.

    Args:
        uvs: Texture coordinates of the corners (m, 3, 2), v up.
        numbers: Material of each triangle (m,).
        materials: The materials.

    Returns:
        Texture coordinates in the image (m, 3, 2), and the image (height, width, 4), uint8, None if no
        material that is used has one; the texture coordinates are as they were then.
    """
    used = np.unique(numbers).tolist()
    images = {number: _pixels(materials[number]) for number in used}
    if all(image is None for image in images.values()):
        return uvs, None
    if len(used) == 1:
        return uvs, images[used[0]]
    shifted, cells = uvs.copy(), []
    for number in used:
        rows = numbers == number
        cell, shifted[rows] = _cell(images[number], materials[number], uvs[rows])
        cells.append(cell)
    return _pile(shifted, numbers, dict(zip(used, cells)))


def _cell(image: np.ndarray | None, material: Material, uvs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An image as often as triangles repeat it, and texture coordinates in it, 0..1."""
    if image is None:
        color = np.clip(np.round(255.0 * np.array(material.rgba)), 0, 255).astype(np.uint8)
        return color.reshape(1, 1, 4), np.full_like(uvs, 0.5)
    uvs = uvs - np.floor(uvs.min(axis=1, keepdims=True))
    repeats = np.maximum(np.ceil(uvs.max(axis=(0, 1))), 1.0)
    if repeats.max() > _MAX_REPEATS:
        text = f"a texture of a mesh is repeated {repeats.max():g} times, drawn {_MAX_REPEATS} times"
        warnings.warn(text, UnsupportedElementWarning, stacklevel=2)
        repeats = np.minimum(repeats, _MAX_REPEATS)
    return np.tile(image, (int(repeats[1]), int(repeats[0]), 1)), np.clip(uvs / repeats, 0.0, 1.0)


def _pile(
    uvs: np.ndarray, numbers: np.ndarray, cells: dict[int, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Put images below each other."""
    height, width = sum(len(cell) for cell in cells.values()), max(c.shape[1] for c in cells.values())
    image, top = np.full((height, width, 4), 255, np.uint8), 0
    for number, cell in cells.items():
        h, w = cell.shape[:2]
        image[top : top + h, :w] = cell
        rows = numbers == number
        texels = np.clip(uvs[rows] * (w, h), _MARGIN, np.array((w, h)) - _MARGIN)
        uvs[rows] = np.add(texels, (0.0, height - top - h)) / (width, height)
        top += h
    return uvs, image


def _pixels(material: Material) -> np.ndarray | None:
    """The image of a material (height, width, 4), None if it has none or that cannot be read."""
    if not material.texture and material.image is None:
        return None
    try:
        if material.image is None:
            return _file_pixels(material.texture)
        return _opaque(pixels_of(material.image, "in a mesh"))
    except (OSError, ValueError) as error:
        name = material.texture or "in a mesh"
        text = f"texture {name} cannot be read; its mesh has no texture: {error}"
        warnings.warn(text, UnsupportedElementWarning, stacklevel=2)
        return None


def _file_pixels(path: str) -> np.ndarray:
    """The image of a file, the same object as long as a mesh wears it."""
    key = (path, Path(path).stat().st_mtime_ns)
    image = _images.get(key)
    if image is None:
        image = _images[key] = _opaque(read_image(path))
    return image


def _opaque(pixels: np.ndarray) -> np.ndarray:
    """Pixels with an alpha channel, solid where they have none."""
    full = np.full((*pixels.shape[:2], 4), 255, np.uint8)
    full[..., : pixels.shape[2]] = pixels
    return full
