"""Number of restarts of each world, on which its random numbers depend.

Stage: actuators, as worlds start anew
Called by: newtonsim/actuators/actuators.py
Reads: mask
Writes: episode
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def count_episodes(first: int, mask: wp.array(dtype=bool), episode: wp.array(dtype=int)):
    """One thread per world: count another episode of the masked ones."""
    w = first + wp.tid()
    if mask[w]:
        episode[w] = episode[w] + 1
