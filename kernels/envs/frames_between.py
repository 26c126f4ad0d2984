"""Poses of bodies relative to another body.

Stage: environment, sensors
Called by: newtonsim/envs/frame_sensors.py
Reads: EnvView, FramesView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class FramesView:
    """Frames of N bodies relative to another one."""

    source: int  # reference body, counted from the first of its world; -1 for the world
    pose: wp.transform  # of the frame in that body's frame
    target: wp.array(dtype=int)  # (N) observed bodies
    offset: wp.array(dtype=wp.transform)  # (N) frames in theirs
    column: int  # first of the readings


@wp.kernel
def sense_frames(first: int, env: EnvView, frames: FramesView, mask: wp.array(dtype=bool)):
    """One thread per frame: its position and quaternion, w not negative, in the frame of the source."""
    i = first + wp.tid()
    n = frames.target.shape[0]
    w = i // n
    k = i % n
    if not mask[w]:
        return
    source = frames.pose
    if frames.source >= 0:
        source = env.body_q[w * env.bodies + frames.source] * frames.pose
    seen = wp.transform_inverse(source) * env.body_q[w * env.bodies + frames.target[k]] * frames.offset[k]
    p = wp.transform_get_translation(seen)
    q = wp.normalize(wp.transform_get_rotation(seen))
    if q[3] < 0.0:
        q = -q
    at = frames.column + 7 * k
    for c in range(3):
        env.sensed[w, at + c] = p[c]
    for c in range(4):
        env.sensed[w, at + 3 + c] = q[c]
