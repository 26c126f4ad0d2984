"""Delayed commands; the delay may differ between worlds.

A ring stores the last commands. A delay that is not a whole number of steps is interpolated linearly between
two of them.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/actuators.py, newtonsim/actuators/groups.py
Reads: command, count, delay, episode, key, mask, ring, world
Writes: delay, delayed, ring_out
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.func
def past_command(
    i: int, lag: int, count: int, command: wp.array(dtype=float), ring: wp.array2d(dtype=float)
) -> float:
    """Command from a number of steps ago, or the first one if there are fewer."""
    k = wp.min(lag, count)
    if k == 0:
        return command[i]
    return ring[i, (count - k) % ring.shape[1]]


@wp.kernel
def delay_commands(
    first: int,
    world: wp.array(dtype=int),
    delay: wp.array(dtype=float),
    dt: float,
    copies: int,
    command: wp.array(dtype=float),
    count: wp.array(dtype=int),
    ring: wp.array2d(dtype=float),
    ring_out: wp.array2d(dtype=float),
    delayed: wp.array(dtype=float),
):
    """One thread per actuator: the command from `delay` ago; the current one goes into the ring.

    `copies` is 1 if the ring is written to another array, 0 if it is updated in place.
    """
    i = first + wp.tid()
    room = ring.shape[1]
    steps = delay[world[i]] / dt
    # the ring has room for the longest delay plus one
    whole = wp.min(int(wp.floor(steps)), room - 2)
    share = steps - float(whole)
    newer = past_command(i, whole, count[i], command, ring)
    older = past_command(i, whole + 1, count[i], command, ring)
    delayed[i] = (1.0 - share) * newer + share * older
    own = count[i] % room
    if copies == 1:
        for k in range(room):
            if k != own:
                ring_out[i, k] = ring[i, k]
    ring_out[i, own] = command[i]


@wp.kernel(enable_backward=False)
def draw_delays(
    first: int,
    low: float,
    high: float,
    purpose: int,
    mask: wp.array(dtype=bool),
    key: wp.array(dtype=int),
    episode: wp.array(dtype=int),
    delay: wp.array(dtype=float),
):
    """One thread per world: the masked ones draw a delay, which depends on key and episode alone."""
    w = first + wp.tid()
    if mask[w]:
        of_episode = wp.rand_init(key[w], episode[w])
        state = wp.rand_init(int(of_episode), purpose)
        delay[w] = low + (high - low) * wp.randf(state)
