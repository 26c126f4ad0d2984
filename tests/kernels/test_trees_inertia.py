"""Factors of the joint-space inertia, energy coordinates and rows in them, against dense matrices."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from small_trees import SmallTree

from newtonsim.kernels.constraints.adjoint.velocities import to_energy_gradient
from newtonsim.kernels.constraints.chains import push_row, row_velocity, shared_prefix, whiten_sides
from newtonsim.kernels.constraints.energy_coordinates import to_energy_coordinates, to_joint_velocities
from newtonsim.kernels.constraints.solve.prediction import solve_pairs
from newtonsim.kernels.trees.crba import eliminate, solve
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.pair_rows import PairRowView
from newtonsim.runtime.teams import teams_from

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(__name__, eliminate, push_row, row_velocity, shared_prefix, to_joint_velocities)

PARENTS = [-1, 0, 1, 2, 1, 4, 4]
DEPTH = 4
ALONE = {"index": 0, "lane": 0, "shift": 0}
"""A team of one thread, of world 0."""


@wp.kernel
def whiten(
    tree: TreeView, L: wp.array(dtype=float), leaf: wp.array(dtype=wp.vec2i), B: wp.array2d(dtype=float)
):
    """One thread per row: bring it into energy coordinates."""
    c = wp.tid()
    whiten_sides(tree, L, c, leaf[c], B.shape[1] // 2, B)


class Factors:
    """A random inertia and its factors on a device."""

    def __init__(self, device: str, seed: int):
        self.rng = np.random.default_rng(seed)
        self.tree = SmallTree(PARENTS, device)
        self.H = self.tree.random_inertia(self.rng)
        self.L = self.tree.sparse(self.H)
        floor = self.tree.floats([1e-9] * len(PARENTS))
        call(device, eliminate, ALONE, self.tree.view, floor, self.L)


def test_sparse_factors_solve_like_the_dense_matrix(device):
    f = Factors(device, 0)
    right, base = f.rng.normal(size=(2, len(PARENTS)))
    x = f.tree.floats(np.zeros(len(PARENTS)))
    inputs = [
        teams_from(0),
        f.tree.view,
        f.tree.levels,
        f.L,
        f.tree.floats(right),
        0.5,
        f.tree.floats(base),
        x,
    ]
    wp.launch(solve, 1, inputs, device=device)
    np.testing.assert_allclose(x.numpy(), base + 0.5 * np.linalg.solve(f.H, right), rtol=1e-4, atol=1e-5)


def test_pivots_do_not_fall_below_the_floor(device):
    tree = SmallTree([-1, 0], device)
    # singular: both degrees of freedom do the same, as at gimbal lock
    L = tree.sparse(np.ones((2, 2)))
    call(device, eliminate, ALONE, tree.view, tree.floats([0.25, 0.25]), L)
    np.testing.assert_allclose(L.numpy(), [2.0, 1.0, 1.0], rtol=1e-6)


def test_energy_coordinates_hold_the_kinetic_energy_and_lead_back(device):
    f = Factors(device, 1)
    qd = f.rng.normal(size=len(PARENTS))
    velocity, z = f.tree.floats(qd), f.tree.floats(np.zeros(len(PARENTS)))
    wp.launch(to_energy_coordinates, len(PARENTS), [0, f.tree.view, f.L, velocity, z], device=device)
    energy = z.numpy()
    assert energy @ energy == pytest.approx(qd @ f.H @ qd, rel=1e-4)
    back = f.tree.floats(np.zeros(len(PARENTS)))
    call(device, to_joint_velocities, f.tree.view, f.L, 0, z, back)
    np.testing.assert_allclose(back.numpy(), qd, rtol=1e-4, atol=1e-5)
    # a gradient keeps its product with every velocity
    gradient, y = f.rng.normal(size=len(PARENTS)), f.tree.floats(np.zeros(len(PARENTS)))
    wp.launch(to_energy_gradient, 1, [0, f.tree.view, f.L, f.tree.floats(gradient), y], device=device)
    assert y.numpy() @ energy == pytest.approx(gradient @ qd, abs=1e-4)


def test_rows_in_energy_coordinates_have_the_delassus_matrix_and_push_as_forces_do(device):
    f = Factors(device, 2)
    n = len(PARENTS)
    pairs = [(3, 5), (5, 6), (2, -1), (-1, 6), (3, 1)]
    jacobians = np.zeros((len(pairs), n))
    B = np.zeros((len(pairs), 2 * DEPTH))
    for c, pair in enumerate(pairs):
        # each side has its own entries; those of common ancestors add up
        for side, leaf in enumerate(pair):
            if leaf >= 0:
                own = f.rng.normal(size=len(f.tree.chains[leaf]))
                jacobians[c, f.tree.chains[leaf]] += own
                B[c, side * DEPTH : side * DEPTH + len(own)] = own
    rows = wp.array(B, dtype=float, device=device)
    leaves = wp.array(pairs, dtype=wp.vec2i, device=device)
    wp.launch(whiten, len(pairs), [f.tree.view, f.L, leaves, rows], device=device)
    delassus = jacobians @ np.linalg.solve(f.H, jacobians.T)
    for c, pair in enumerate(pairs):
        z = f.tree.floats(np.zeros(n))
        call(device, push_row, f.tree.view, pair, c, DEPTH, 1.0, rows, z)
        qd = f.tree.floats(np.zeros(n))
        call(device, to_joint_velocities, f.tree.view, f.L, 0, z, qd)
        np.testing.assert_allclose(qd.numpy(), np.linalg.solve(f.H, jacobians[c]), rtol=1e-3, atol=1e-4)
        velocities = call(device, row_velocity, f.tree.view, pairs, range(len(pairs)), DEPTH, rows, z)
        np.testing.assert_allclose(velocities, delassus[c], rtol=1e-3, atol=1e-4)


def test_sweeps_end_where_equalities_hold_and_inequalities_push_or_are_open(device):
    f = Factors(device, 3)
    n, pairs = len(PARENTS), [(3, -1), (5, -1), (6, -1), (-1, 2), (1, -1)]
    count = len(pairs)
    jacobians, B = np.zeros((count, n)), np.zeros((count, 2 * DEPTH))
    for c, pair in enumerate(pairs):
        leaf = max(pair)
        jacobians[c, f.tree.chains[leaf]] = f.rng.normal(size=len(f.tree.chains[leaf]))
        own = jacobians[c, f.tree.chains[leaf]]
        B[c, pair.index(leaf) * DEPTH :][: len(own)] = own
    rows = PairRowView()
    rows.B = wp.array(B, dtype=float, device=device)
    rows.leaf = wp.array(pairs, dtype=wp.vec2i, device=device)
    wp.launch(whiten, count, [f.tree.view, f.L, rows.leaf, rows.B], device=device)
    delassus = jacobians @ np.linalg.solve(f.H, jacobians.T)
    # rows that move no mass worth a softness
    rows.kind, rows.mass = f.tree.ints([0] * count), f.tree.floats(np.zeros(count))
    rows.world_start, rows.delassus = f.tree.ints([0, count]), f.tree.floats(np.diag(delassus))
    rows.softness, rows.impulse = f.tree.floats(np.zeros(count)), f.tree.floats(np.zeros(count))
    # two equalities, two contacts that may only push, one row with bounded force
    rows.target_lower = f.tree.floats([0.2, -0.3, 0.0, 0.0, 5.0])
    rows.target_upper = f.tree.floats([0.2, -0.3, 1e30, 1e30, 5.0])
    rows.lower = f.tree.floats([-1e30, -1e30, 0.0, 0.0, -0.1])
    rows.upper = f.tree.floats([1e30, 1e30, 1e30, 1e30, 0.1])
    qd = f.rng.normal(size=n)
    z, acted = f.tree.floats(np.zeros(n)), f.tree.ints([0])
    inputs = [0, f.tree.view, f.L, f.tree.floats(qd), z]
    wp.launch(to_energy_coordinates, n, inputs, device=device)
    views = [
        wp.array([view], dtype=type_, device=device)
        for view, type_ in ((f.tree.view, TreeView), (rows, PairRowView))
    ]
    wp.launch(solve_pairs, 1, [teams_from(0), *views, DEPTH, 2000, 1e-7, z, acted], device=device)
    p = rows.impulse.numpy().astype(np.float64)
    v = jacobians @ qd + delassus @ p
    np.testing.assert_allclose(v[:2], [0.2, -0.3], atol=1e-3)
    assert np.all(p[2:4] >= 0.0)
    assert np.all(v[2:4] > -1e-3)
    np.testing.assert_allclose(p[2:4] * v[2:4], 0.0, atol=1e-3)
    assert p[4] == np.float32(0.1)
    assert v[4] < 5.0
    # the velocities are those that the impulses lead to
    found = call(device, row_velocity, f.tree.view, pairs, range(count), DEPTH, rows.B, z)
    np.testing.assert_allclose(found, v, atol=1e-3)
    assert acted.numpy()[0] == 1


def test_common_ancestors_of_two_bodies(device):
    tree = SmallTree([*PARENTS, -1, 7], device)
    pairs = [(a, b) for a in range(9) for b in range(9)] + [(-1, 3), (3, -1)]
    common = [len(set(tree.chains[a]) & set(tree.chains[b])) if min(a, b) >= 0 else 0 for a, b in pairs]
    a, b = np.transpose(pairs)
    assert call(device, shared_prefix, tree.view, a, b).tolist() == common
