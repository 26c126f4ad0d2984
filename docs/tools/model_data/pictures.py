"""Textures and heightmaps, drawn by formulas."""

from __future__ import annotations

import numpy as np
from PIL import Image


def _image(values: np.ndarray) -> Image.Image:
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def checker(size: int, squares: int, first: tuple, second: tuple) -> Image.Image:
    """Return a checker board."""
    place = np.arange(size) * squares // size
    odd = (place[:, None] + place) % 2 == 1
    return _image(np.where(odd[..., None], np.array(first), np.array(second)))


def uv_map(size: int) -> Image.Image:
    """Return squares whose colour says where in the texture they are."""
    place = np.arange(size) * 8 // size
    row, column = np.meshgrid(place, place, indexing="ij")
    shade = np.where((row + column) % 2, 1.0, 0.75)[..., None]
    return _image(shade * np.stack([32 + 28 * column, 32 + 28 * row, 200 - 12 * (row + column)], -1))


def palette(size: int) -> Image.Image:
    """Return 16 flat colours in 4 x 4 squares."""
    place = np.arange(size) * 4 // size
    index = place[:, None] * 4 + place
    wave = 2 * np.pi * index / 16
    return _image(127 + 120 * np.stack([np.cos(wave), np.cos(wave - 2.1), np.cos(wave + 2.1)], -1))


def wood(size: int, colour: tuple) -> Image.Image:
    """Return planks with a grain."""
    y, x = np.mgrid[0:size, 0:size] / size
    grain = np.sin(40 * y + 3 * np.sin(6 * x) + 2 * np.sin(17 * y)) * 0.06
    planks = np.where((y * 4) % 1 < 0.02, -0.3, 0.03 * (np.floor(y * 4) % 2))
    shade = np.round((0.92 + grain + planks) * 32) / 32
    return _image(shade[..., None] * np.array(colour))


def plain(size: int, colour: tuple, frame: tuple) -> Image.Image:
    """Return a colour with a frame of another."""
    place = np.minimum(np.arange(size), np.arange(size)[::-1])
    inside = np.minimum(place[:, None], place) >= size // 16
    return _image(np.where(inside[..., None], np.array(colour), np.array(frame)))


def football(height: int) -> Image.Image:
    """Return the twelve black pentagons of a football on a map of longitude and latitude."""
    golden = (1 + 5**0.5) / 2
    corners = [np.roll([0, a, b * golden], k) for a in (-1, 1) for b in (-1, 1) for k in range(3)]
    corners = np.array(corners) / np.hypot(1, golden)
    polar, turn = np.meshgrid(
        np.linspace(0, np.pi, height), np.linspace(0, 2 * np.pi, 2 * height), indexing="ij"
    )
    points = np.stack([np.sin(polar) * np.cos(turn), np.sin(polar) * np.sin(turn), np.cos(polar)], -1)
    near = np.sort(points @ corners.T, axis=-1)
    dark = near[..., -1] > 0.94
    seam = (near[..., -1] - near[..., -2] < 0.012) & ~dark
    value = np.where(dark, 25, np.where(seam, 120, 245))
    return _image(np.repeat(value[..., None], 3, -1))


def hills(size: int, waves: int, seed: int) -> np.ndarray:
    """Return smooth heights in -1..1 (size, size): a sum of plane waves with random directions and phases."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:size, 0:size] / size
    total = np.zeros((size, size))
    for octave in range(waves):
        angle, phase = random.uniform(0, 2 * np.pi, 2)
        frequency = 2 * np.pi * (1.5 + 1.2 * octave)
        wave = np.sin(frequency * (np.cos(angle) * x + np.sin(angle) * y) + phase)
        total += wave / (1 + octave)
    return total / np.abs(total).max()


def maze(size: int, cells: int, seed: int) -> Image.Image:
    """Return a maze, walls white, dug by a random walk that goes back where it is stuck."""
    random = np.random.default_rng(seed)
    side = 2 * cells + 1
    wall = np.ones((side, side), bool)
    path = [(1, 1)]
    wall[1, 1] = False
    while path:
        row, column = path[-1]
        steps = [(row + dr, column + dc) for dr, dc in ((2, 0), (-2, 0), (0, 2), (0, -2))]
        free = [(r, c) for r, c in steps if 0 < r < side and 0 < c < side and wall[r, c]]
        if not free:
            path.pop()
            continue
        r, c = free[random.integers(len(free))]
        wall[r, c] = wall[(row + r) // 2, (column + c) // 2] = False
        path.append((r, c))
    place = np.minimum(np.arange(size) * side // size, side - 1)
    return _image(np.repeat(wall[place][:, place][..., None] * 255, 3, -1))


def heights_image(values: np.ndarray) -> Image.Image:
    """Return heights in -1..1 as shades of grey."""
    return _image(127.5 + 127.5 * values)


def landscape(values: np.ndarray) -> Image.Image:
    """Return colours of water, grass, rock and snow for heights in -1..1."""
    stops = np.array([-1.0, -0.4, -0.35, 0.2, 0.6, 1.0])
    colours = np.array(
        [[40, 70, 150], [70, 120, 190], [90, 150, 70], [60, 120, 50], [130, 120, 110], [245] * 3]
    )
    return _image(
        np.stack([np.interp(np.round(values * 24) / 24, stops, colours[:, k]) for k in range(3)], -1)
    )
