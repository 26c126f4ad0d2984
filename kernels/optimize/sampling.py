"""Random controls of many worlds, and the weighted averages of them.

Stage: optimisation, between runs
Called by: newtonsim/optimize/sampling.py
Reads: RunView, basis, deviation, least, mean, noise, sequence, weights
Writes: RunView, deviation, draws, mean, noise
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.optimize.views import RunView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def draw_controls(
    first: int,
    seed: int,
    mean: wp.array2d(dtype=float),
    deviation: wp.array2d(dtype=float),
    basis: wp.array2d(dtype=float),
    draws: wp.array(dtype=int),
    noise: wp.array3d(dtype=float),
    run: RunView,
):
    """One thread per world: controls about the mean within their bounds; world 0 has the mean itself.

    The noise is normal at the knots of a spline, whose values at the controls are the basis (T, K).
    """
    w = first + wp.tid()
    draws[w] = draws[w] + 1
    state = wp.rand_init(int(wp.rand_init(seed, draws[w])), w)
    for k in range(noise.shape[1]):
        for n in range(noise.shape[0]):
            noise[n, k, w] = 0.0
            if w > 0:
                noise[n, k, w] = deviation[n, k] * wp.randn(state)
        for t in range(mean.shape[0]):
            u = mean[t, k]
            for n in range(noise.shape[0]):
                u += basis[t, n] * noise[n, k, w]
            run.sequence[t, k, w] = wp.clamp(u, run.low[k], run.high[k])


@wp.kernel
def average_controls(
    first: int,
    weights: wp.array(dtype=float),
    sequence: wp.array3d(dtype=float),
    mean: wp.array2d(dtype=float),
):
    """One thread per number of the controls: their weighted mean over the worlds, whose weights sum to 1."""
    i = first + wp.tid()
    t = i / mean.shape[1]
    k = i % mean.shape[1]
    total = float(0.0)
    for w in range(weights.shape[0]):
        if weights[w] > 0.0:
            total += weights[w] * sequence[t, k, w]
    mean[t, k] = total


@wp.kernel
def fit_deviations(
    first: int,
    weights: wp.array(dtype=float),
    noise: wp.array3d(dtype=float),
    least: wp.array(dtype=float),
    deviation: wp.array2d(dtype=float),
):
    """One thread per number of the noise: its weighted standard deviation over the worlds."""
    i = first + wp.tid()
    n = i / deviation.shape[1]
    k = i % deviation.shape[1]
    mean = float(0.0)
    square = float(0.0)
    for w in range(weights.shape[0]):
        if weights[w] > 0.0:
            mean += weights[w] * noise[n, k, w]
    for w in range(weights.shape[0]):
        if weights[w] > 0.0:
            square += weights[w] * (noise[n, k, w] - mean) * (noise[n, k, w] - mean)
    deviation[n, k] = wp.max(wp.sqrt(square), least[k])
