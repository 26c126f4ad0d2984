"""What the backward pass takes rows to be, and the slopes of their friction, by finite differences."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.constraints.adjoint.contact_terms import (
    relative_spin,
    relative_velocity,
    slide_term,
    wanted_velocity,
)
from newtonsim.kernels.constraints.adjoint.modes import (
    ROW_BOUNDED,
    ROW_HOLDS,
    ROW_OPEN,
    friction_mode,
    row_mode,
)
from newtonsim.kernels.constraints.adjoint.solution_error import bound_error, row_error
from newtonsim.kernels.constraints.adjoint.solve import slide_slope
from newtonsim.kernels.constraints.adjoint.worlds import compare_velocities
from newtonsim.kernels.constraints.solve.gauss_seidel import target_impulse

call = DeviceFunctions(
    __name__,
    wanted_velocity,
    relative_spin,
    relative_velocity,
    slide_term,
    friction_mode,
    row_mode,
    bound_error,
    row_error,
    slide_slope,
    target_impulse,
)


def test_modes_of_rows_and_of_friction(device):
    # an inequality that does not act, one that does, an equality without impulse, one at its bound, no row
    impulse = [0.0, 0.4, 0.0, 1.0, 0.4]
    target = [[-1.0, 1.0], [-1.0, 1.0], [0.2, 0.2], [0.2, 0.2], [0.2, 0.2]]
    found = call(device, row_mode, impulse, [1.0, 1.0, 1.0, 1.0, 0.0], target, [-1.0, 1.0])
    assert found.tolist() == [int(m) for m in (ROW_OPEN, ROW_HOLDS, ROW_HOLDS, ROW_BOUNDED, ROW_OPEN)]
    # sticking, at the cone but at rest, sliding, without a normal impulse
    t = [[0.1, 0.1], [0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]
    slip = [[0.0, 0.0], [0.0, 0.0], [-0.3, -0.4], [1.0, 0.0]]
    found = call(device, friction_mode, t, [1.0, 1.0, 1.0, 0.0], slip, 0.0)
    assert found.tolist() == [int(m) for m in (ROW_HOLDS, ROW_HOLDS, ROW_BOUNDED, ROW_BOUNDED)]
    # softened friction is a law of the slip, and never an equation
    assert (call(device, friction_mode, t, 1.0, slip, 0.1) == int(ROW_BOUNDED)).all()


def test_a_solved_row_lacks_nothing_and_a_changed_one_does(device):
    rng = np.random.default_rng(0)
    n = 400
    free, delassus = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    softness = rng.choice([0.0, 0.3], n)
    target = np.sort(rng.normal(size=(n, 2)), axis=1)
    target[:100, 1] = target[:100, 0]
    bounds = np.array([-0.5, 0.5])
    p = call(device, target_impulse, free, 0.0, delassus, softness, target, bounds).astype(np.float64)
    solved = call(device, row_error, free + delassus * p, p, delassus, softness, target, bounds)
    bounded = np.abs(p) == 0.5
    assert bounded.sum() > 50
    # at a bound the velocity that is missing is no fault
    np.testing.assert_allclose(solved["residual"], 0.0, atol=1e-5)
    # what is pulled out of its interval has to come back to the nearest end
    off = call(device, row_error, target[:, 0] - 0.2, 0.0, delassus, softness, target, bounds)
    np.testing.assert_allclose(off["residual"], 0.2, atol=1e-5)
    assert np.all(off["weight"] > 0.0)


@pytest.mark.parametrize("width", [0.0, 0.6])
def test_sliding_friction_and_its_slope(device, width):
    rng = np.random.default_rng(1)
    slip, bound = rng.normal(size=(50, 2)), rng.uniform(0.1, 2.0, 50)
    nu = rng.normal(size=(50, 2))

    def friction(u: np.ndarray) -> np.ndarray:
        speed = np.linalg.norm(u, axis=1, keepdims=True)
        x = np.minimum(speed / width, 2.0) if width else 2.0
        return -bound[:, None] * x * (1.0 - 0.25 * x) * u / speed

    np.testing.assert_allclose(
        call(device, slide_term, nu, slip, bound, width), -np.sum(nu * friction(slip), axis=1), atol=1e-5
    )
    K = call(device, slide_slope, bound, slip, width)
    h = 1e-6
    for axis in range(2):
        change = (friction(slip + h * np.eye(2)[axis]) - friction(slip - h * np.eye(2)[axis])) / (2.0 * h)
        np.testing.assert_allclose(-K[:, :, axis], change, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(call(device, bound_error, bound, slip, friction(slip), width), 0.0, atol=1e-5)


def test_normal_velocity_that_a_contact_wants(device):
    settings = {"dt": 0.01, "contact_skin": 1e-4, "contact_slop": 1e-3, "max_push_speed": 0.5}
    gap = [0.02, -5e-4, -3e-3, -1.0]
    rigid = call(device, wanted_velocity, gap, 0.0, 50.0, 0, 1, 1.0, settings)
    np.testing.assert_allclose(rigid, [-2.0, 0.0, 0.1, 0.5], rtol=1e-5)
    # penetrations that are not to be removed stay, gaps close all the same
    held = call(device, wanted_velocity, gap, 0.0, 50.0, 0, 0, 1.0, settings)
    np.testing.assert_allclose(held, [-2.0, 0.0, 0.0, 0.0], rtol=1e-5)
    soft = call(device, wanted_velocity, gap, 0.0, 50.0, 1, 1, 1.0, settings)
    np.testing.assert_allclose(soft, [-2.0, 0.025, 0.15, 50.0], rtol=1e-5)
    # softened: with the depth, up to the speed of pushes
    smooth = call(device, wanted_velocity, gap, 0.0, 50.0, 2, 1, 1.0, settings | {"smoothing": 2e-3})
    np.testing.assert_allclose(smooth, [-2.0, *(0.5 * np.tanh(-100.0 * np.array(gap[1:])))], rtol=1e-5)


def test_relative_motion_of_two_bodies_and_of_one_and_the_world(device):
    rng = np.random.default_rng(2)
    poses = np.hstack([rng.normal(size=(2, 3)), np.tile([0.0, 0.0, 0.0, 1.0], (2, 1))])
    com, spin, speed = rng.normal(size=(3, 2, 3))
    body_q = wp.array(poses, dtype=wp.transform, device=device)
    body_com = wp.array(com, dtype=wp.vec3, device=device)
    body_qd = wp.array(np.hstack([spin, speed]), dtype=wp.spatial_vector, device=device)
    x = rng.normal(size=3)
    at = [speed[b] + np.cross(spin[b], x - poses[b, :3] - com[b]) for b in range(2)]
    pairs = np.array([[0, 1], [1, -1], [-1, 0]])
    found = call(device, relative_velocity, *pairs.T, x, x, body_q, body_com, body_qd)
    np.testing.assert_allclose(found, [at[0] - at[1], at[1], -at[0]], atol=1e-5)
    found = call(device, relative_spin, *pairs.T, body_qd)
    np.testing.assert_allclose(found, [spin[0] - spin[1], spin[1], -spin[0]], atol=1e-6)


def test_worlds_whose_velocities_are_not_found_again_are_marked(device):
    def floats(values) -> wp.array:
        return wp.array(np.float32(values), dtype=float, device=device)

    starts = wp.array([0, 2, 4, 6], dtype=int, device=device)
    dofs = wp.array([4, 5, 0, 1, 2, 3], dtype=int, device=device)
    free = floats([0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    end = floats([1.0, 2.0, np.nan, 0.0, 1.0, 2.0])
    again = floats([1.0, 2.0, 0.0, 0.0, 1.0, 2.5])
    reason = wp.zeros(3, dtype=int, device=device)
    wp.launch(compare_velocities, 3, [0, starts, dofs, free, end, again, reason], device=device)
    # world 0 has dofs 4 and 5, world 1 has 0 and 1, world 2 has 2 and 3
    marked = reason.numpy()
    assert (marked != 0).tolist() == [True, False, True]
    assert marked[0] != marked[2]
