"""Random values of a model's fields, drawn for each world at the start, for each episode, or at intervals.

Stage: environment, starts and pushes
Called by: newtonsim/envs/draws.py
Reads: DrawView, EnvView, mask
Writes: DrawView, due, present
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import RANDOMISE, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

UNIFORM = wp.constant(0)
LOG_UNIFORM = wp.constant(1)
NORMAL = wp.constant(2)
# how a number modifies the initial value
SCALE = wp.constant(0)
ADD = wp.constant(1)
SET = wp.constant(2)
# elements with their own random number
EACH_NUMBER = wp.constant(0)
EACH_ELEMENT = wp.constant(1)
EACH_WORLD = wp.constant(2)
# when it is drawn
AT_START = wp.constant(0)
AT_RESET = wp.constant(1)
AT_INTERVALS = wp.constant(2)

# standard deviations at which normal numbers are cut off
CUT = wp.constant(3.0)


@wp.struct
class DrawView:
    """Random values of a field: N entries of K numbers in each of W worlds."""

    index: wp.array2d(dtype=int)  # (W, N) entries of the array
    low: wp.array(dtype=float)  # (K) least number, or mean
    high: wp.array(dtype=float)  # (K) greatest number, or standard deviation
    nominal: wp.array(dtype=float)  # (W N K) initial values
    target: wp.array(dtype=float)  # the array, number by number
    distribution: int
    how: int
    each: int
    when: int
    every: int  # steps of the environment between two draws at intervals
    stream: int  # stream of the random numbers, unlike those of other draws


@wp.func
def draw_number(distribution: int, low: float, high: float, state: wp.uint32) -> float:
    """A number of a distribution; `low` and `high` are mean and standard deviation of a normal one."""
    number = float(0.0)
    if distribution == NORMAL:
        number = low + high * wp.clamp(wp.randn(state), -CUT, CUT)
    elif distribution == LOG_UNIFORM:
        number = wp.exp(uniform(wp.log(low), wp.log(high), wp.randf(state)))
    else:
        number = uniform(low, high, wp.randf(state))
    return number


@wp.func
def state_of(start: int, each: int, element: int, component: int, width: int) -> wp.uint32:
    """Start of the random numbers of one number of a field."""
    place = int(0)
    if each == EACH_ELEMENT:
        place = element
    elif each == EACH_NUMBER:
        place = element * width + component
    return wp.rand_init(start, place)


@wp.func
def changed(how: int, nominal: float, number: float) -> float:
    """The modified value."""
    value = number
    if how == SCALE:
        value = nominal * number
    elif how == ADD:
        value = nominal + number
    return value


@wp.kernel
def mark_due(first: int, env: EnvView, every: int, due: wp.array(dtype=bool)):
    """One thread per world: whether a value is drawn before this step of the episode."""
    w = first + wp.tid()
    due[w] = env.length[w] > 0 and env.length[w] % every == 0


@wp.func
def is_due(env: EnvView, w: int, mask: wp.array(dtype=bool), draw: DrawView) -> bool:
    """Whether a draw is made for a world; draws for the start are made in the first episode only."""
    return mask[w] and (draw.when != AT_START or env.episode[w] == 0)


@wp.func
def start_of(env: EnvView, w: int, draw: DrawView) -> int:
    """Start of the random numbers of a draw for a world."""
    state = wp.rand_init(int(random_of(env, w, RANDOMISE)), draw.stream)
    return int(wp.rand_init(int(state), env.length[w]))


@wp.kernel
def draw_present(
    first: int, env: EnvView, mask: wp.array(dtype=bool), draw: DrawView, present: wp.array(dtype=int)
):
    """One thread per world: choose which of its N trees are present, in masked worlds.

    All numbers of present trees from `low` to `high` are equally likely, and so are all sets of the same
    size: Algorithm S of Knuth, The Art of Computer Programming, vol. 2, 3.4.2.
    """
    w = first + wp.tid()
    if not is_due(env, w, mask, draw):
        return
    state = wp.rand_init(start_of(env, w, draw))
    missing = wp.randi(state, int(draw.low[0]), int(draw.high[0]) + 1)
    count = draw.index.shape[1]
    for i in range(count):
        there = int(0)
        if float(count - i) * wp.randf(state) < float(missing):
            there = 1
        present[draw.index[w, i]] = there
        missing -= there


@wp.kernel
def draw_field(first: int, env: EnvView, mask: wp.array(dtype=bool), draw: DrawView):
    """One thread per world: draw for the masked ones."""
    w = first + wp.tid()
    if not is_due(env, w, mask, draw):
        return
    start = start_of(env, w, draw)
    width = draw.low.shape[0]
    for i in range(draw.index.shape[1]):
        place = draw.index[w, i]
        for k in range(width):
            number = draw_number(
                draw.distribution, draw.low[k], draw.high[k], state_of(start, draw.each, i, k, width)
            )
            nominal = draw.nominal[(w * draw.index.shape[1] + i) * width + k]
            draw.target[place * width + k] = changed(draw.how, nominal, number)
