"""Inputs of actuator networks: position errors and velocities of a joint, now and a number of steps ago.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/network_group.py
Reads: HistoryView, coord, count, dof, q, qd, ring, target
Writes: inputs, ring_out
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class HistoryView:
    """Inputs of a network, H of each kind."""

    lag: wp.array(dtype=int)  # (H) steps ago
    position_first: int  # 1 for errors before velocities, 0 for velocities before errors
    position_scale: float
    velocity_scale: float
    room: int  # entries of each ring, more than the longest lag


@wp.kernel
def collect_inputs(
    first: int,
    view: HistoryView,
    coord: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    copies: int,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    target: wp.array(dtype=float),
    count: wp.array(dtype=int),
    ring: wp.array2d(dtype=float),
    ring_out: wp.array2d(dtype=float),
    inputs: wp.array2d(dtype=float),
):
    """One thread per actuator: scaled errors u - q and velocities; the current ones go into the ring.

    Steps before the first one have its values. `copies` is 1 if the ring is written to another array, 0 if it
    is updated in place.
    """
    i = first + wp.tid()
    error = view.position_scale * (target[i] - q[coord[i]])
    speed = view.velocity_scale * qd[dof[i]]
    n = count[i]
    own = n % view.room
    size = view.lag.shape[0]
    at_error = (1 - view.position_first) * size
    at_speed = view.position_first * size
    for k in range(size):
        back = wp.min(view.lag[k], n)
        if back == 0:
            inputs[i, at_error + k] = error
            inputs[i, at_speed + k] = speed
        else:
            slot = own - back  # modulo the room, which the lag is less than
            if slot < 0:
                slot += view.room
            inputs[i, at_error + k] = ring[i, 2 * slot]
            inputs[i, at_speed + k] = ring[i, 2 * slot + 1]
    if copies == 1:
        for k in range(view.room):
            if k != own:
                ring_out[i, 2 * k] = ring[i, 2 * k]
                ring_out[i, 2 * k + 1] = ring[i, 2 * k + 1]
    ring_out[i, 2 * own] = error
    ring_out[i, 2 * own + 1] = speed
