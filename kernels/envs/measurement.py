"""Imperfections of real sensors: drifting bias, noise, and delay.

Stage: environment, sensors
Called by: newtonsim/envs/measured.py
Reads: EnvView, MeasurementView, mask
Writes: EnvView, MeasurementView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import SENSE, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

BIAS = wp.constant(-(1 << 30))
LATENCY = wp.constant(-(1 << 30) - 1)


@wp.struct
class MeasurementView:
    """Imperfections of N readings in each world; R places for delayed readings."""

    column: int  # first of the readings
    noise: wp.array(dtype=float)  # (N) standard deviation
    bias: wp.array(dtype=float)  # (N) standard deviation at the start of an episode
    drift: wp.array(dtype=float)  # (N) standard deviation of the change of the bias in a second [1/√s]
    low: float  # [s] shortest delay
    high: float  # [s] longest
    offset: wp.array2d(dtype=float)  # (W, N) current bias
    ring: wp.array3d(dtype=float)  # (W, N, R) last readings


@wp.kernel
def measure_readings(
    first: int, env: EnvView, measured: MeasurementView, mask: wp.array(dtype=bool), fresh: int
):
    """One thread per reading: add bias and noise, and return the measurement from a delay ago.

    Each world draws a delay for each episode; readings are interpolated between two steps. Until the first
    measurement arrives, the reading is that at the start of the episode.
    """
    i = first + wp.tid()
    n = measured.noise.shape[0]
    w = i // n
    c = i % n
    if not mask[w]:
        return
    at = measured.column + c
    number = wp.where(fresh == 1, 0, env.length[w] + 1)
    noise = wp.rand_init(int(random_of(env, w, SENSE - number)), at)
    offset = measured.offset[w, c]
    if fresh == 1:
        offset = measured.bias[c] * wp.randn(wp.rand_init(int(random_of(env, w, BIAS)), at))
    value = env.sensed[w, at] + measured.noise[c] * wp.randn(noise)
    if fresh == 0:
        offset = offset + measured.drift[c] * wp.sqrt(env.control_dt) * wp.randn(noise)
    measured.offset[w, c] = offset
    value = value + offset
    room = measured.ring.shape[2]
    measured.ring[w, c, number % room] = value
    if room > 1:
        of_world = wp.rand_init(int(random_of(env, w, LATENCY)), measured.column)
        late = uniform(measured.low, measured.high, wp.randf(of_world)) / env.control_dt
        whole = wp.min(int(wp.floor(late)), room - 2)
        share = late - float(whole)
        newer = measured.ring[w, c, (number - wp.min(whole, number)) % room]
        older = measured.ring[w, c, (number - wp.min(whole + 1, number)) % room]
        value = (1.0 - share) * newer + share * older
    env.sensed[w, at] = value
