"""Sums of rows against NumPy in double precision, for widths with and without remainders."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.algebra.row_blas import add_rows, pull_row, push_row

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(__name__, add_rows, pull_row, push_row)

WIDTHS = [1, 7, 8, 39, 40, 75]
# rows of ancestors of row 4, and the row of the factor, which ends with what row 4 is multiplied by
ANCESTORS = [0, 2, 3]
FACTOR = np.array([0.5, -1.5, 0.0, 2.0])


def floats(values, device) -> wp.array:
    return wp.array(np.asarray(values, np.float32), dtype=float, device=device)


def rows_of(width: int) -> np.ndarray:
    return np.random.default_rng(width).normal(size=(6, width)).astype(np.float32)


@pytest.mark.parametrize("width", WIDTHS)
def test_added_rows(device, width):
    x, y = rows_of(width), rows_of(width)[::-1].copy()
    factors = np.random.default_rng(1).normal(size=(2, 3, 4))
    factors[1, 1, 2] = 0.0
    found = floats(y.reshape(-1), device)
    shares = wp.array(factors, dtype=float, device=device)
    call(device, add_rows, width, 4, -0.1, shares, 16, floats(x.reshape(-1), device), width, found, 2 * width)
    expected = y.astype(float)
    expected[2] -= 0.1 * factors[1, 1] @ x[1:5]
    np.testing.assert_allclose(found.numpy().reshape(6, width), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("lane", "lanes"), [(0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("width", WIDTHS)
def test_rows_of_a_factor(device, width, lane, lanes):
    """Lane 1 of 2 has every other column, and leaves the rest."""
    y = rows_of(width)
    index = wp.array([9, *ANCESTORS, 4], dtype=int, device=device)
    L = floats([9.0, *FACTOR], device)
    own = np.arange(width) % lanes == lane
    pushed, pulled = y.astype(float), y.astype(float)
    pushed[np.ix_(ANCESTORS, own)] -= np.outer(FACTOR[:3], y[4, own])
    pushed[4, own] *= FACTOR[3]
    pulled[4, own] = FACTOR[3] * y[4, own] - FACTOR[:3] @ y[np.ix_(ANCESTORS, own)].astype(float)
    for function, expected in ((push_row, pushed), (pull_row, pulled)):
        found = floats(y.reshape(-1), device)
        call(device, function, lane, lanes, width, 3, index, 1, L, 4, found)
        np.testing.assert_allclose(found.numpy().reshape(6, width), expected, rtol=1e-5, atol=1e-5)
