"""Dense systems of linear models against NumPy, their slopes and rotations against differences."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.kernels.algebra.dense import solve_dense
from newtonsim.kernels.constraints.linear.contacts import smooth_slopes
from newtonsim.kernels.constraints.linear.models import left_jacobian
from newtonsim.kernels.constraints.linear.selection import limit_slope

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(__name__, solve_dense, left_jacobian, limit_slope, smooth_slopes)

ALONE = dict(index=0, lane=0, shift=0)
GUARD = 77.0


@pytest.mark.parametrize("n", [1, 2, 7, 24])
def test_systems_with_and_without_order(device, n):
    """Random rows, a zero on the diagonal, and weights that differ by 1e6; nothing beside is touched."""
    rng = np.random.default_rng(n)
    columns = 2 * n + 3
    matrix = rng.normal(size=(n, n)) * np.where(rng.random(n) < 0.5, 1.0, 1.0e6)[:, None]
    if n > 1:
        matrix[0, 0] = 0.0
    right = rng.normal(size=(n, columns))
    flat = np.concatenate([[GUARD], np.hstack([matrix, right]).reshape(-1), [GUARD]])
    M = wp.array(flat, dtype=wp.float64, device=device)
    call(device, solve_dense, ALONE, n, columns, n + columns, M, 1)
    found = M.numpy()
    assert found[0] == found[-1] == GUARD
    solution = found[1:-1].reshape(n, n + columns)[:, n:]
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-10)


def test_left_jacobian_of_rotations(device):
    """exp(turn + e) exp(turn)⁻¹ by differences in double precision, from tiny turns to nearly half a one."""
    rng = np.random.default_rng(3)
    turns = rng.normal(size=(8, 3))
    turns *= (np.array([1e-6, 5e-4, 2e-3, 0.1, 0.5, 1.0, 2.0, 3.0]) / np.linalg.norm(turns, axis=1))[:, None]
    found = call(device, left_jacobian, turns)
    step = 1e-6
    for turn, J in zip(turns, found):
        for k, e in enumerate(step * np.eye(3)):
            there, back = Rotation.from_rotvec(turn + e), Rotation.from_rotvec(turn - e)
            np.testing.assert_allclose(J[:, k], (there * back.inv()).as_rotvec() / (2.0 * step), atol=2e-5)


def touch(gap, approach, width, rate, fastest, dt):
    """Wanted speed, and softness over its least value: the formulas of `smoothing` in double precision."""
    first, last = -gap, -gap - dt * approach
    if first > 0.0 and last > 0.0:
        mean, depth = 0.5 * (first + last), (first**2 + first * last + last**2) / (1.5 * (first + last))
    else:
        most = max(first, last)
        mean, depth = most**2 / (2.0 * abs(last - first)), 2.0 / 3.0 * most
    return np.array([fastest * np.tanh(rate * depth / fastest), width / mean])


@pytest.mark.parametrize("approach", [-0.5, -0.01, 0.01, 0.3])
@pytest.mark.parametrize("gap", [-3e-3, -5e-4, 5e-4])
def test_slopes_of_a_softened_touch(device, gap, approach):
    """What overlaps for all of the step, begins to, or leaves off; nothing where it does not touch."""
    dt, width, rate, fastest = 0.01, 1e-3, 30.0, 0.5
    settings = {"dt": dt, "smoothing": width, "max_push_speed": fastest}
    if max(-gap, -gap - dt * approach) <= 0.0:
        found = call(device, smooth_slopes, gap, approach, 1.0, rate, settings)[0]
        np.testing.assert_allclose([*found["target"], *found["softness"]], [-1.0 / dt, 0.0, 0.0, 0.0])
        return
    given = (width, rate, fastest, dt)
    softness = float(touch(gap, approach, *given)[1])
    found = call(device, smooth_slopes, gap, approach, softness, rate, settings)[0]
    by_gap = (touch(gap + 1e-7, approach, *given) - touch(gap - 1e-7, approach, *given)) / 2e-7
    by_approach = (touch(gap, approach + 1e-6, *given) - touch(gap, approach - 1e-6, *given)) / 2e-6
    np.testing.assert_allclose(found["target"], [by_gap[0], by_approach[0]], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["softness"], [by_gap[1], by_approach[1]], rtol=1e-4, atol=1e-6)


def test_slopes_of_limits(device):
    """Open, violated, beyond the fastest recovery, and beyond the velocity limit; rigid and softened."""
    settings = {"dt": 0.01, "limit_rate": 20.0, "max_limit_speed": 1.0}
    gap, top = [0.02, -0.01, -0.2, 0.02], [5.0, 5.0, 5.0, 1.0]
    rigid = call(device, limit_slope, gap, top, 1.0, settings)
    np.testing.assert_allclose(rigid, [-100.0, -20.0, 0.0, 0.0], rtol=1e-5)
    width, lever = 2e-3, 0.5
    soft = call(device, limit_slope, gap, top, lever, settings | {"smoothing": width})
    bend = np.tanh(20.0 * 0.01**2 * lever / width)
    expected = -2.0 * 20.0 * 0.01 * lever / width * (1.0 - bend**2)
    np.testing.assert_allclose(soft[:2], [-100.0, expected], rtol=1e-4)
