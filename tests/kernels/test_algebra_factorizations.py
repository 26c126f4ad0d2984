"""Sparse factorizations and the loops they are made of, against dense matrices of NumPy."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.algebra.block_lu import (
    BlockSkylineView,
    add_outer,
    add_to_block,
    block_sum,
    clear_blocks,
    couple_blocks,
    factorize_blocks,
    lay_out_blocks,
    solve_blocks,
)
from newtonsim.kernels.algebra.sparse_blas import (
    axpyi,
    doti,
    lane_eliminate,
    lane_fill,
    motion_products,
    point_velocities,
    row_gram3,
)

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(
    __name__,
    add_outer,
    add_to_block,
    block_sum,
    clear_blocks,
    couple_blocks,
    factorize_blocks,
    lay_out_blocks,
    solve_blocks,
    axpyi,
    doti,
    lane_eliminate,
    lane_fill,
    motion_products,
    point_velocities,
    row_gram3,
)


def doubles(values, device) -> wp.array:
    return wp.array(np.asarray(values, np.float64), dtype=wp.float64, device=device)


def test_unsymmetric_block_matrix_is_solved(device):
    rng = np.random.default_rng(0)
    starts, room = np.array([0, 4, 9]), 40
    pairs = {0: [(0, 3), (1, 2)], 1: [(0, 1), (1, 4), (2, 4), (3, 3)]}
    sky = BlockSkylineView()
    sky.world_start = wp.array(starts, dtype=int, device=device)
    sky.entry_start = wp.array([0, 15, room], dtype=int, device=device)
    sky.first, sky.row = (wp.zeros(9, dtype=int, device=device) for _ in range(2))
    sky.lower, sky.upper = (wp.zeros(36 * room, dtype=wp.float64, device=device) for _ in range(2))
    sky.x = doubles(rng.normal(size=54), device)
    call(device, clear_blocks, sky, [0, 1])
    for w, coupled in pairs.items():
        for i, j in coupled:
            call(device, couple_blocks, sky, starts[w], i, j)
    assert call(device, lay_out_blocks, sky, [0, 1]).all()
    dense = np.zeros((54, 54))
    for w, coupled in pairs.items():
        blocks = starts[w + 1] - starts[w]
        outers = [(i, i, 5.0) for i in range(blocks) for _ in range(8)] + [(i, j, 1.0) for i, j in coupled]
        for i, j, factor in outers + [(j, i, 0.5) for i, j in coupled]:
            row, column = np.float32(rng.normal(size=(2, 6)))
            call(device, add_outer, sky, starts[w], i, row, j, column, factor)
            a, b = 6 * (starts[w] + i), 6 * (starts[w] + j)
            dense[a : a + 6, b : b + 6] += factor * np.outer(row.astype(np.float64), column)
    right = sky.x.numpy().copy()
    assert np.all(call(device, factorize_blocks, sky, [0, 1]) > 1e-8)
    call(device, solve_blocks, sky, [0, 1])
    np.testing.assert_allclose(dense @ sky.x.numpy(), right, atol=1e-8)


def test_blocks_of_a_vector(device):
    v = np.arange(6.0)
    x = doubles(np.zeros(18), device)
    call(device, add_to_block, 1, 2.0, v, x)
    np.testing.assert_array_equal(x.numpy().reshape(3, 6), [np.zeros(6), 2.0 * v, np.zeros(6)])
    assert call(device, block_sum, 1.0, 1, v, x)[0] == 1.0 + 2.0 * v @ v


def test_loops_over_index_lists(device):
    rng = np.random.default_rng(3)
    x, y, index = rng.normal(size=10), rng.normal(size=20), rng.permutation(20)[:10]
    arrays = [wp.array(x, dtype=float, device=device), wp.array(index, dtype=int, device=device)]
    target = wp.array(y, dtype=float, device=device)
    # from entry 3 on, five of them
    assert call(device, doti, 5, *arrays, 3, target)[0] == pytest.approx(x[3:8] @ y[index[3:8]], abs=1e-5)
    call(device, axpyi, 5, 2.0, *arrays, 3, target)
    y[index[3:8]] += 2.0 * x[3:8]
    np.testing.assert_allclose(target.numpy(), y, atol=1e-6)


def test_velocities_of_a_point_by_unit_rates_and_their_gram_matrix(device):
    rng = np.random.default_rng(4)
    S, frame, arm = rng.normal(size=(6, 6)), np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.normal(size=3)
    twists = wp.array(S, dtype=wp.spatial_vector, device=device)
    index = wp.array([5, 0, 3, 2], dtype=int, device=device)
    found = wp.zeros((2, 5), dtype=wp.vec3, device=device)
    call(device, point_velocities, 3, twists, index, 1, frame, arm, found, 1, 2)
    exact = (S[[0, 3, 2], 3:] + np.cross(S[[0, 3, 2], :3], arm)) @ frame.T
    np.testing.assert_allclose(found.numpy()[1, 2:], exact, atol=1e-5)
    assert not found.numpy()[0].any()
    np.testing.assert_allclose(call(device, row_gram3, 3, found, 1, 2)[0], exact.T @ exact, atol=1e-4)


def test_products_of_a_wrench_with_the_motions_of_a_chain(device):
    rng = np.random.default_rng(5)
    S, wrench = rng.normal(size=(6, 6)), rng.normal(size=6)
    twists = wp.array(S, dtype=wp.spatial_vector, device=device)
    index = wp.array([5, 0, 3, 2], dtype=int, device=device)
    found = wp.zeros(4, dtype=float, device=device)
    call(device, motion_products, 3, twists, index, 1, wp.spatial_vector(*wrench), found)
    np.testing.assert_allclose(found.numpy(), [0.0, *(S[[0, 3, 2]] @ wrench)], atol=1e-5)


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_row_is_eliminated_from_those_of_its_ancestors(device, lanes):
    rng = np.random.default_rng(6)
    n = 9
    sizes = np.arange(n)
    packed = rng.normal(size=n * (n + 1) // 2).astype(np.float32)
    H = wp.array(packed, dtype=float, device=device)
    start = wp.array(sizes * (sizes + 1) // 2, dtype=int, device=device)
    ancestors = wp.array(np.concatenate([np.arange(d + 1) for d in sizes]), dtype=int, device=device)
    for lane in range(lanes):
        call(device, lane_eliminate, lane, lanes, n - 1, 0.5, start, ancestors, len(packed) - n, H)
    lower = np.zeros((n, n))
    lower[np.tril_indices(n)] = packed
    row = lower[-1, :-1].copy()
    lower[:-1, :-1] -= 0.5 * np.tril(np.outer(row, row))
    np.testing.assert_allclose(H.numpy(), lower[np.tril_indices(n)], atol=1e-5)


@pytest.mark.parametrize("lanes", [1, 3])
def test_entries_of_a_range_are_filled(device, lanes):
    found = wp.zeros(9, dtype=int, device=device)
    for lane in range(lanes):
        call(device, lane_fill, lane, lanes, -1, found, 2, 7)
    assert found.numpy().tolist() == [0, 0, -1, -1, -1, -1, -1, 0, 0]
