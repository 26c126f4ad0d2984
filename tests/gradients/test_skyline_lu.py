"""LU factorization in a skyline against NumPy."""

import numpy as np
import warp as wp

from newtonsim.kernels.algebra import skyline_lu
from newtonsim.kernels.algebra.skyline_lu import SkylineView
from newtonsim.solvers.featherstone.skyline import skyline_of

wp.set_module_options({"enable_backward": False})


@wp.kernel
def solve_blocks(
    sky: SkylineView,
    pairs: wp.array(dtype=wp.vec2i),
    pair_start: wp.array(dtype=int),
    matrix: wp.array3d(dtype=wp.float64),
    b: wp.array(dtype=wp.float64),
    share: wp.array(dtype=wp.float64),
):
    """One thread per world: solve with blocks of three unknowns that are coupled by pairs."""
    w = wp.tid()
    skyline_lu.clear_skyline(sky, w)
    base = sky.world_start[w]
    for p in range(pair_start[w], pair_start[w + 1]):
        skyline_lu.couple(sky, base, 3 * pairs[p][0], 3, 3 * pairs[p][1], 3)
    if not skyline_lu.lay_out_skyline(sky, w):
        share[w] = wp.float64(-1.0)
        return
    n = sky.world_start[w + 1] - base
    for i in range(n):
        for j in range(n):
            if matrix[w, i, j] != wp.float64(0.0):
                skyline_lu.add_entry(sky, base, i, j, matrix[w, i, j])
        sky.x[base + i] = b[base + i]
    share[w] = skyline_lu.factorize_skyline(sky, w)
    skyline_lu.solve_skyline(sky, w)


def _worlds(rng, blocks):
    """Random couplings, and matrices with a dominant symmetric part and an unsymmetric one."""
    pairs, starts = [], [0]
    size = 3 * max(blocks)
    matrices = np.zeros((len(blocks), size, size))
    for w, count in enumerate(blocks):
        own = [(i, i) for i in range(count)]
        own += [tuple(rng.integers(0, count, 2)) for _ in range(count // 2)]
        for i, j in own:
            block = rng.normal(size=(3, 3)) * 100.0
            a, b = slice(3 * i, 3 * i + 3), slice(3 * j, 3 * j + 3)
            # a row's JᵀJ, and a part that is not symmetric
            rows = np.zeros((3, size))
            rows[:, a] += block
            rows[:, b] -= np.roll(block, 1)
            skew = 0.3 * rng.normal(size=(3, 3)) @ rows
            matrices[w] += rows.T @ (rows + skew)
        matrices[w, : 3 * count, : 3 * count] += np.eye(3 * count)
        pairs += own
        starts.append(len(pairs))
    return pairs, starts, matrices


def _run(blocks, pairs, starts, matrices, b, device, most=None):
    sky = skyline_of(np.concatenate(([0], np.cumsum(3 * np.array(blocks)))), wp.get_device(device), most)
    share = wp.zeros(len(blocks), dtype=wp.float64, device=device)
    inputs = [
        sky,
        wp.array(pairs, dtype=wp.vec2i, device=device),
        wp.array(starts, dtype=int, device=device),
        wp.array(matrices, dtype=wp.float64, device=device),
        wp.array(b, dtype=wp.float64, device=device),
        share,
    ]
    wp.launch(solve_blocks, len(blocks), inputs, device=device)
    return sky.x.numpy(), share.numpy()


def test_solution_of_every_world_is_that_of_a_dense_solve(device):
    rng = np.random.default_rng(0)
    blocks = [1, 7, 3, 12, 2]
    pairs, starts, matrices = _worlds(rng, blocks)
    ends = np.cumsum(3 * np.array(blocks))
    b = rng.normal(size=ends[-1])
    x, share = _run(blocks, pairs, starts, matrices, b, device)
    assert (share > 1.0e-9).all()
    for w, (count, end) in enumerate(zip(blocks, ends)):
        own = slice(end - 3 * count, end)
        A = matrices[w, : 3 * count, : 3 * count]
        expected = np.linalg.solve(A, b[own])
        error = np.abs(x[own] - expected).max() / np.abs(expected).max()
        assert error < 1.0e-13 * np.linalg.cond(A), w


def test_a_singular_matrix_is_told_by_its_pivot(device):
    matrix = np.array([[[2.0, 1.0, 0.0], [4.0, 2.0, 0.0], [0.0, 0.0, 1.0]]])
    _, share = _run([1], [(0, 0)], [0, 1], matrix, np.ones(3), device)
    assert not share[0] > 1.0e-12


def test_a_skyline_without_room_is_refused_and_others_are_not(device):
    rng = np.random.default_rng(1)
    blocks = [2, 6]
    pairs = [(0, 0), (1, 1), (0, 0), (0, 5)]
    matrices = np.stack([np.eye(18)] * 2)
    x, share = _run(blocks, pairs, [0, 2, 4], matrices, rng.normal(size=24), device, most=30)
    # two blocks take 12 entries; 18 unknowns, the last three of which reach to the first, take more than 30
    assert share[0] == 1.0
    assert share[1] == -1.0
    assert np.isfinite(x).all()
