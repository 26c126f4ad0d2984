"""The backward sweep of optimisers against the recursion of the linear-quadratic regulator in NumPy."""

import numpy as np
import pytest

from newtonsim.optimize.riccati import BackwardSweep, Expansion


@pytest.mark.parametrize(("states", "inputs"), [(3, 1), (9, 4), (14, 7), (41, 10)])
def test_gains_and_changes_are_those_of_the_regulator(states: int, inputs: int):
    horizon, count = 6, states + inputs
    rng = np.random.default_rng(states)
    A = np.eye(states) + 0.1 * rng.normal(size=(horizon, states, states))
    B = rng.normal(size=(horizon, states, inputs))
    half = rng.normal(size=(horizon, count, count))
    curvature = half @ half.transpose(0, 2, 1) / count + np.eye(count)
    slope = rng.normal(size=(horizon, count))
    unbounded = np.full((horizon, inputs), 1.0e9)
    sweep = BackwardSweep(horizon, states, inputs)
    step = sweep(A, B, Expansion(slope, curvature, ()), -unbounded, unbounded, 0.0)
    V, v = np.zeros((states, states)), np.zeros(states)
    for t in reversed(range(horizon)):
        # from (x, u) to (x⁺, u)
        T = np.block([[A[t], B[t]], [np.zeros((inputs, states)), np.eye(inputs)]])
        after, rise = curvature[t].copy(), slope[t].copy()
        after[:states, :states] += V
        rise[:states] += v
        Q, q = T.T @ after @ T, T.T @ rise
        K = -np.linalg.solve(Q[states:, states:], Q[states:, :states])
        k = -np.linalg.solve(Q[states:, states:], q[states:])
        np.testing.assert_allclose(step.gains[t], K, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(step.change[t], k, rtol=1e-8, atol=1e-9)
        V, v = Q[:states, :states] + Q[:states, states:] @ K, q[:states] + Q[:states, states:] @ k
