"""Buffers of the constraint solve: islands, laws of the rows, Newton's method and its matrix."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.algebra.block_system import BlockSystemView
from newtonsim.kernels.algebra.dense_inverse import DenseView
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.laws import LawView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.coupled import MOST_UNKNOWNS
from newtonsim.kernels.constraints.solve.views import MOST_KEPT, NewtonView, SolveReport, SolveViews
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of

_FILL = 320
"""Room for entries of a world's panels for each dof, beyond those of its own tree."""
_PATTERN = 64
"""Room for trees that a tree couples to when it is eliminated, on the average."""


class SolveBuffers:
    """Buffers of the solve.

    Args:
        model: The model.
        views: What the solve works on, of which rows, their impulses and velocities are there already; gets
            all else.

    Attributes:
        views: The same.
        islands: Trees and rows by islands.
        system: Matrices of Newton's method.
        sweeps_first: Whether `sweep_stage` begins the solve.
        reports: Its reports by island.
    """

    def __init__(self, model: Model, views: SolveViews):
        self.views = views
        views.islands = _islands(model, views.rows)
        views.laws = _laws(model, views.rows)
        views.sys = _block_system(model, views.islands)
        views.newton = _newton(model, views.rows)
        views.newton.dense = _dense(model, views.islands, views.sys)
        self.islands, self.system = views.islands, views.sys
        self.reports = zeros(0, dtype=SolveReport, device=model.device)
        views.totals = zeros(model.world_count, dtype=SolveReport, device=model.device)
        self.sweeps_first = False
        if model.device.is_cuda:
            self.sweep_first(model)

    def sweep_first(self, model: Model) -> None:
        """Let `sweep_stage` begin the solve; this has no benefit on the CPU, where no launch waits."""
        self.reports = zeros(topology_of(model).tree_count, dtype=SolveReport, device=model.device)
        self.sweeps_first = True


def _islands(model: Model, rows: RowsView) -> IslandView:
    topology, device = topology_of(model), model.device
    world = topology.view.world.numpy()
    tree = np.argsort(world, kind="stable")
    home = np.empty(len(tree), np.int32)
    home[tree] = np.arange(len(tree))
    tree_start = np.searchsorted(world[tree], np.arange(model.world_count + 1))
    view = IslandView()
    view.tree_start = put(tree_start, dtype=int, device=device)
    view.world_tree = put(tree, dtype=int, device=device)
    view.home = put(home, dtype=int, device=device)
    view.label = zeros(len(tree), dtype=int, device=device)
    view.count = zeros(model.world_count, dtype=int, device=device)
    view.trees = zeros(len(tree), dtype=wp.vec2i, device=device)
    view.dofs = zeros(len(tree), dtype=wp.vec2i, device=device)
    view.pairs = zeros(len(tree), dtype=wp.vec2i, device=device)
    view.contacts = zeros(len(tree), dtype=wp.vec2i, device=device)
    view.tree = zeros(len(tree), dtype=int, device=device)
    view.dof_row = zeros(len(rows.dof.impulse), dtype=int, device=device)
    view.pair = zeros(len(rows.pair.impulse), dtype=int, device=device)
    view.contact = zeros(len(rows.contact.impulse), dtype=int, device=device)
    view.dof_start = topology.view.dof_start
    view.dof = topology.view.dof
    view.energy = zeros(len(tree), dtype=float, device=device)
    return view


def _laws(model: Model, rows: RowsView) -> LawView:
    device, contacts, spins = model.device, len(rows.contact.impulse), len(rows.spin.impulse)
    view = LawView()
    view.centre.dof = zeros(len(rows.dof.impulse), dtype=float, device=device)
    view.dof_R = zeros(len(rows.dof.impulse), dtype=float, device=device)
    view.pair_R = zeros(len(rows.pair.impulse), dtype=float, device=device)
    view.centre.pair = zeros(len(rows.pair.impulse), dtype=float, device=device)
    view.contact_v = zeros(contacts, dtype=wp.vec3, device=device)
    view.centre.contact = zeros(contacts, dtype=wp.vec3, device=device)
    view.contact_R = zeros(contacts, dtype=wp.vec2, device=device)
    view.contact_bound = zeros(contacts, dtype=float, device=device)
    view.contact_slope = zeros(contacts, dtype=float, device=device)
    view.dof_branch = zeros(len(rows.dof.impulse), dtype=int, device=device)
    view.pair_branch = zeros(len(rows.pair.impulse), dtype=int, device=device)
    view.contact_branch = zeros(contacts, dtype=int, device=device)
    view.spin_branch = zeros(spins, dtype=int, device=device)
    view.centre.spin = zeros(spins, dtype=wp.vec3, device=device)
    view.spin_bound = zeros(spins, dtype=wp.vec2, device=device)
    return view


def _newton(model: Model, rows: RowsView) -> NewtonView:
    device, dofs = model.device, model.joint_dof_count
    contacts, spins = len(rows.contact.impulse), len(rows.spin.impulse)
    view = NewtonView()
    view.z = zeros(dofs, dtype=float, device=device)
    view.y = zeros(dofs, dtype=float, device=device)
    view.centre = zeros(dofs, dtype=float, device=device)
    view.gap = zeros(dofs, dtype=float, device=device)
    view.step = zeros(dofs, dtype=float, device=device)
    for part in (view.leap, view.shift):
        part.dof = zeros(len(rows.dof.impulse), dtype=float, device=device)
        part.pair = zeros(len(rows.pair.impulse), dtype=float, device=device)
        part.contact = zeros(contacts, dtype=wp.vec3, device=device)
        part.spin = zeros(spins, dtype=wp.vec3, device=device)
        part.z = zeros(dofs, dtype=float, device=device)
    view.steps = zeros(dofs * int(MOST_KEPT), dtype=float, device=device)
    view.tree_reach = zeros(topology_of(model).tree_count, dtype=float, device=device)
    view.dof_v = zeros(len(rows.dof.impulse), dtype=wp.vec2, device=device)
    view.pair_v = zeros(len(rows.pair.impulse), dtype=wp.vec2, device=device)
    view.contact_dv = zeros(contacts, dtype=wp.vec3, device=device)
    view.spin_v = zeros(spins, dtype=wp.vec3, device=device)
    view.spin_dv = zeros(spins, dtype=wp.vec3, device=device)
    view.dof_slope = zeros(len(rows.dof.impulse), dtype=float, device=device)
    view.pair_slope = zeros(len(rows.pair.impulse), dtype=float, device=device)
    view.contact_slope = zeros(contacts, dtype=wp.mat33, device=device)
    view.spin_slope = zeros(spins, dtype=wp.mat33, device=device)
    view.spin_by_contact = zeros(spins, dtype=wp.mat33, device=device)
    return view


def _dense(model: Model, islands: IslandView, system: BlockSystemView) -> DenseView:
    device = model.device
    size = np.diff(topology_of(model).view.dof_start.numpy())
    tree_start, tree = islands.tree_start.numpy(), islands.world_tree.numpy()
    view = DenseView()
    view.unknowns = zeros(model.world_count, dtype=int, device=device)
    view.inverted = zeros(model.world_count, dtype=int, device=device)
    view.start = put(_starts(size[tree])[tree_start][:-1], dtype=int, device=device)
    view.unknown = zeros(len(islands.dof), dtype=int, device=device)
    view.dof = zeros(len(islands.dof), dtype=int, device=device)
    view.pivot = zeros(len(islands.dof), dtype=int, device=device)
    # a world has one matrix at a time
    view.entry_start, view.M = system.entry_start, system.L
    return view


def _block_system(model: Model, islands: IslandView) -> BlockSystemView:
    topology, device = topology_of(model), model.device
    dof_start, dof = topology.view.dof_start.numpy(), topology.view.dof.numpy()
    size = np.diff(dof_start)
    tree_start, tree = islands.tree_start.numpy(), islands.world_tree.numpy()
    place = np.empty(len(dof), np.int32)
    place[dof] = np.arange(len(dof)) - np.repeat(dof_start[:-1], size)
    trees = np.diff(tree_start).astype(np.int64)
    # rows of free bodies are padded, see `block_system`
    padded = np.where(size == 6, 8, size)[tree].astype(np.int64)
    dofs, squares = (_sums(a, tree_start) for a in (padded, padded**2))
    whole = np.diff(_starts(size[tree])[tree_start])
    small = np.minimum(whole, int(MOST_UNKNOWNS))
    dense = small * (-(-small // 8) * 8)
    entries = np.maximum(np.minimum(dofs**2, squares + _FILL * dofs), dense)
    patterns = np.minimum(trees * (trees - 1) // 2, _PATTERN * trees)
    words = trees * ((trees + 31) // 32)

    sys = BlockSystemView()
    sys.tree_start = islands.tree_start
    sys.nodes = zeros(model.world_count, dtype=int, device=device)
    sys.size = put(size, dtype=int, device=device)
    sys.start = put(dof_start[:-1], dtype=int, device=device)
    sys.place = put(place, dtype=int, device=device)
    sys.node = zeros(len(tree), dtype=int, device=device)
    sys.width = zeros(len(tree), dtype=int, device=device)
    sys.entry = zeros(len(tree), dtype=int, device=device)
    sys.degree = zeros(len(tree), dtype=int, device=device)
    sys.rank = zeros(len(tree), dtype=int, device=device)
    sys.order = zeros(len(tree), dtype=int, device=device)
    sys.first = zeros(len(tree), dtype=int, device=device)
    sys.count = zeros(len(tree), dtype=int, device=device)
    sys.panel = zeros(len(tree), dtype=int, device=device)
    sys.word_start = put(_starts(words), dtype=int, device=device)
    sys.words = zeros(int(words.sum()), dtype=wp.uint32, device=device)
    sys.pattern_start = put(_starts(patterns), dtype=int, device=device)
    sys.pattern = zeros(int(patterns.sum()), dtype=int, device=device)
    sys.offset = zeros(int(patterns.sum()), dtype=int, device=device)
    sys.entry_start = put(_starts(entries), dtype=int, device=device)
    sys.L = zeros(int(entries.sum()), dtype=float, device=device)
    sys.x = zeros(len(dof), dtype=float, device=device)
    return sys


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Starts of consecutive ranges of these lengths, and the end."""
    return np.concatenate(([0], np.cumsum(lengths)))


def _sums(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Sum of the values of each range."""
    return np.diff(_starts(values)[start])
