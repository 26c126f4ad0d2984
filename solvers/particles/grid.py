"""Neighbours of particles."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.particles import grid as particles_grid
from newtonsim.kernels.particles.grid import BLOCK_X, BLOCK_Y, BLOCK_Z, CHUNK, GROUP
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.particles.contacts import OwnKinds

_LEAST_CELLS = 8 * int(BLOCK_X) * int(BLOCK_Y) * int(BLOCK_Z)
"""Cells of the smallest grid, two blocks along each axis; all have a multiple of it."""
_CELLS_PER_PARTICLE = 2


class ParticleGrid:
    """Particles sorted into cells, world by world, so that each finds its neighbours.

    Worlds do not see each other. A model with particles in the global world has one grid for all; those who
    search it compare the worlds of what they find.

    Args:
        model: The particles.

    Attributes:
        view: What kernels see; `cell_of` and `span_of` in `kernels.particles.grid` say how they search it.
        shared: Whether all worlds share one grid.
        kinds: Launchers for the kinds of index "cell", "chunk of cells", "grid", "particle" and "group".
        chunk_first: First cell of each chunk and the end of the last, shape (chunks + 1,).
    """

    def __init__(self, model: Model):
        self.model, device, count = model, model.device, model.particle_count
        owner = model.particle_world.numpy() if count else np.zeros(0, int)
        self.shared = bool(np.any(owner < 0))
        grids = 1 if self.shared else model.world_count
        first = np.array([0, count]) if self.shared else np.searchsorted(owner, np.arange(grids + 1))
        members = np.diff(first)
        cells = np.where(members > 0, _LEAST_CELLS, 0)
        spacious = np.exp2(np.ceil(np.log2(np.maximum(members * _CELLS_PER_PARTICLE, 1)))).astype(int)
        cells = np.where(members > 0, np.maximum(cells, spacious), 0)
        cell_first = _starts(cells)
        group_start, group_first = _runs_of(first, int(GROUP))
        chunk_start, chunk_first = _runs_of(cell_first, int(CHUNK))
        self.kinds = OwnKinds()
        kinds = {"particle": first, "group": group_start, "cell": cell_first, "chunk of cells": chunk_start}
        kinds["grid"] = np.arange(grids + 1)
        self.kinds.starts.update(kinds)
        self.chunk_first = put(chunk_first, dtype=int, device=device)
        view = particles_grid.GridView()
        view.first = put(first, dtype=int, device=device)
        view.cell_first = put(cell_first, dtype=int, device=device)
        view.group_first = put(group_first, dtype=int, device=device)
        view.group_start = put(group_start, dtype=int, device=device)
        view.chunk_start = put(chunk_start, dtype=int, device=device)
        view.cell_grid = put(np.repeat(np.arange(grids), cells), dtype=int, device=device)
        view.grid = put(np.repeat(np.arange(grids), members), dtype=int, device=device)
        total, chunks, groups = int(cell_first[-1]), int(chunk_start[-1]), int(group_start[-1])
        view.cell = zeros(count, dtype=int, device=device)
        view.rank = zeros(count, dtype=int, device=device)
        view.order = zeros(count, dtype=int, device=device)
        view.count = zeros(total, dtype=int, device=device)
        view.start = zeros(total, dtype=int, device=device)
        view.chunk_sum = zeros(max(chunks, groups), dtype=int, device=device)
        view.corner = zeros(grids, dtype=wp.vec3i, device=device)
        view.cells = zeros(grids, dtype=wp.vec3i, device=device)
        view.place = zeros(count, dtype=wp.vec3i, device=device)
        view.group_lower = zeros(groups, dtype=wp.vec3i, device=device)
        view.group_upper = zeros(groups, dtype=wp.vec3i, device=device)
        self.view = view

    def build(self, launch: Launcher, x: wp.array, reach: float) -> None:
        """Sort the particles.

        Args:
            launch: For the worlds.
            x: Positions [m]; what is not a number is in no cell.
            reach: Distance within which neighbours are found [m].
        """
        launch, view = self.kinds.of(launch), self.view
        view.size = max(reach, np.finfo(np.float32).tiny)
        launch(particles_grid.bound_groups, "group", reads=dict(x=x), writes=dict(grid=view))
        launch(particles_grid.lay_out_grids, "grid", writes=dict(grid=view))
        launch(particles_grid.clear_cells, "cell", writes=dict(grid=view))
        launch(particles_grid.count_particles, "particle", reads=dict(x=x), writes=dict(grid=view))
        self.scan(launch, "chunk of cells", view.count, view.first, view.start)
        launch(particles_grid.clear_places, "particle", writes=dict(grid=view))
        launch(particles_grid.place_particles, "particle", writes=dict(grid=view))
        launch(particles_grid.sort_cells, "cell", writes=dict(grid=view))

    def scan(self, launch: Launcher, kind: str, count: wp.array, base: wp.array, start: wp.array) -> None:
        """Find where things that are counted start, if those of each grid follow each other.

        Args:
            launch: For the worlds, with the kinds of the grid.
            kind: "chunk of cells" for things of each cell, "group" for things of each particle.
            count: How many things each cell or particle has.
            base: Where those of each grid start, shape (grids + 1,).
            start: Receives where those of each cell or particle start.
        """
        view = self.view
        firsts, starts = self.chunk_first, view.chunk_start
        if kind == "group":
            firsts, starts = view.group_first, view.group_start
        launch(
            particles_grid.sum_chunks,
            kind,
            reads=dict(chunk_first=firsts, count=count),
            writes=dict(total=view.chunk_sum),
        )
        launch(
            particles_grid.scan_sums,
            "grid",
            reads=dict(chunk_start=starts, base=base),
            writes=dict(total=view.chunk_sum),
        )
        launch(
            particles_grid.scan_chunks,
            kind,
            reads=dict(chunk_first=firsts, count=count, total=view.chunk_sum),
            writes=dict(start=start),
        )


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(counts))).astype(int)


def _runs_of(first: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut runs that start at `first` into parts of a size: first part of each run, first index of each."""
    counts = -(-np.diff(first) // size)
    start = _starts(counts)
    inside = np.arange(start[-1]) - np.repeat(start[:-1], counts)
    begins = np.repeat(first[:-1], counts) + inside * size
    return start, np.append(begins, first[-1])
