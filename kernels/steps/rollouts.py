"""Book-keeping of differentiated rollouts: states kept along the way, gradients carried from step to step.

Stage: between the steps of a differentiated rollout
Called by: newtonsim/diff/inputs.py, newtonsim/diff/passes.py, newtonsim/diff/rollout.py
Reads: 9 arrays
Writes: 12 arrays
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def count_step(first: int, by: int, step: wp.array(dtype=int), slot: wp.array(dtype=int)):
    """One thread: move the number of steps done and the place of the current state in the history."""
    i = first + wp.tid()
    step[i] = step[i] + by
    slot[i] = slot[i] + by


@wp.kernel
def keep_state(
    first: int,
    slot: wp.array(dtype=int),
    state: wp.array(dtype=float),
    history: wp.array2d(dtype=float),
    next_state: wp.array(dtype=float),
):
    """One thread per value: write the new state to the history, and make it the start of the next step."""
    i = first + wp.tid()
    x = state[i]
    history[slot[0], i] = x
    next_state[i] = x


@wp.kernel
def fetch_states(
    first: int,
    slot: wp.array(dtype=int),
    history: wp.array2d(dtype=float),
    state_in: wp.array(dtype=float),
    state_out: wp.array(dtype=float),
):
    """One thread per value: read the end of the last step and its start from the history."""
    i = first + wp.tid()
    state_in[i] = history[slot[0] - 1, i]
    state_out[i] = history[slot[0], i]


@wp.kernel
def keep_row(
    first: int, slot: wp.array(dtype=int), values: wp.array(dtype=float), history: wp.array2d(dtype=float)
):
    """One thread per value: write a row of a history."""
    i = first + wp.tid()
    history[slot[0], i] = values[i]


@wp.kernel
def fetch_row(
    first: int,
    step: wp.array(dtype=int),
    offset: int,
    rows: wp.array2d(dtype=float),
    values: wp.array(dtype=float),
):
    """One thread per value: read a row of a sequence."""
    i = first + wp.tid()
    values[i] = rows[step[0] + offset, i]


@wp.kernel
def store_row(
    first: int,
    step: wp.array(dtype=int),
    offset: int,
    values: wp.array(dtype=float),
    rows: wp.array2d(dtype=float),
):
    """One thread per value: move values to a row of a sequence, and leave zeros."""
    i = first + wp.tid()
    rows[step[0] + offset, i] = values[i]
    values[i] = 0.0


@wp.kernel
def carry_back(
    first: int,
    step: wp.array(dtype=int),
    world: wp.array(dtype=int),
    grad_in: wp.array(dtype=float),
    grad_out: wp.array(dtype=float),
    nonfinite: wp.array(dtype=int),
):
    """One thread per value: the gradient of the start of a step becomes that of the end of the one before.

    The last state of each world in which it is not finite is recorded, counted from 0 for the first one;
    states of no world count as those of a world after all others.
    """
    i = first + wp.tid()
    g = grad_in[i]
    grad_out[i] = g
    grad_in[i] = 0.0
    if not wp.isfinite(g):
        w = world[i]
        if w < 0:
            w = nonfinite.shape[0] - 1
        wp.atomic_max(nonfinite, w, step[0] - 1)


@wp.kernel
def note_nonfinite(
    first: int,
    state: int,
    world: wp.array(dtype=int),
    values: wp.array2d(dtype=float),
    columns: int,
    nonfinite: wp.array(dtype=int),
):
    """One thread per column: record a state, plus the row, in worlds whose values are not finite.

    See `carry_back`.
    """
    i = first + wp.tid()
    for row in range(values.shape[0]):
        if not wp.isfinite(values[row, i]):
            w = world[i / columns]
            if w < 0:
                w = nonfinite.shape[0] - 1
            wp.atomic_max(nonfinite, w, state + row)


@wp.kernel
def spread_nonfinite(
    first: int,
    world: wp.array(dtype=int),
    nonfinite: wp.array(dtype=int),
    columns: int,
    values: wp.array2d(dtype=float),
):
    """One thread per column: NaN where steps contribute from which no gradient came back, shared or not.

    Otherwise, such steps might omit terms: contacts of a world that is not finite are not even found. Each
    row of a sequence belongs to one step, and all other values to all steps.
    """
    i = first + wp.tid()
    w = world[i / columns]
    last = int(-1)
    if w >= 0:
        last = nonfinite[w]
    else:
        for k in range(nonfinite.shape[0]):
            last = wp.max(last, nonfinite[k])
    for row in range(wp.min(last + 1, values.shape[0])):
        values[row, i] = wp.nan


@wp.kernel
def add_squares(
    first: int,
    world: wp.array(dtype=int),
    values: wp.array2d(dtype=float),
    columns: int,
    squares: wp.array(dtype=wp.float64),
):
    """One thread per column of a sequence: add the squares of its values to those of its world."""
    i = first + wp.tid()
    w = world[i / columns]
    if w >= 0:
        total = wp.float64(0.0)
        for row in range(values.shape[0]):
            total += wp.float64(values[row, i]) * wp.float64(values[row, i])
        wp.atomic_add(squares, w, total)


@wp.kernel
def shrink(
    first: int,
    world: wp.array(dtype=int),
    squares: wp.array(dtype=wp.float64),
    longest: float,
    columns: int,
    values: wp.array2d(dtype=float),
):
    """One thread per column of a sequence: scale worlds whose gradients are longer than allowed."""
    i = first + wp.tid()
    w = world[i / columns]
    if w >= 0:
        length = wp.sqrt(squares[w])
        if length > wp.float64(longest):
            scale = wp.float64(longest) / length
            for row in range(values.shape[0]):
                values[row, i] = float(wp.float64(values[row, i]) * scale)
