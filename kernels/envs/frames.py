"""Pictures as observations: stacks of the last pictures of each world.

Mnih et al. ("Human-level control through deep reinforcement learning", Nature, 2015) observe the luminance of
the last four pictures, which contain velocities.

Stage: environment, observations from cameras
Called by: newtonsim/envs/frames.py
Reads: FrameView, broken, ended, mask
Writes: FrameView
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class FrameView:
    """The newest picture of each of W worlds and their stacks of F frames, the oldest first.

    A pixel of a frame is the mean of S x S of the picture, its luminance or its three channels.
    """

    picture: wp.array(dtype=wp.vec3ub)  # (W, S height, S width), flat
    samples: int  # S
    height: int
    width: int
    channels: int  # of a frame: 1 or 3
    depth: int  # F channels
    stack: wp.array(dtype=wp.uint8)  # (W, height, width, depth), flat
    final: wp.array(dtype=wp.uint8)  # likewise, of the last episode that ended


@wp.func
def first_sample(frames: FrameView, pixel: int) -> int:
    """Place in the picture of the first of the samples of a pixel; pixels count over all worlds."""
    line = pixel // frames.width
    return (line * frames.samples * frames.width + (pixel - line * frames.width)) * frames.samples


@wp.func
def channel_of_frame(frames: FrameView, sample: int, channel: int) -> wp.uint8:
    """One channel of a pixel of the newest frame whose samples begin at a place in the picture."""
    size = frames.samples
    total = float(0.0)
    for y in range(size):
        for x in range(size):
            color = frames.picture[sample + y * size * frames.width + x]
            if frames.channels == 1:
                # luminance of ITU-R BT.601
                total += 0.299 * float(color[0]) + 0.587 * float(color[1]) + 0.114 * float(color[2])
            else:
                total += float(color[channel])
    return wp.uint8(total / float(size * size) + 0.5)


@wp.kernel
def push_frames(
    first: int,
    frames: FrameView,
    run: int,
    ended: wp.array(dtype=bool),
    broken: wp.array(dtype=bool),
):
    """One thread per `run` pixels of a line: the newest frame replaces the oldest one.

    Where an episode ended, store its last stack, which is zeros in a broken world.
    """
    start = (first + wp.tid()) * run
    w = start // (frames.height * frames.width)
    older = frames.depth - frames.channels
    sample = first_sample(frames, start)
    for pixel in range(run):
        place = (start + pixel) * frames.depth
        for k in range(place, place + older):
            frames.stack[k] = frames.stack[k + frames.channels]
        for c in range(frames.channels):
            frames.stack[place + older + c] = channel_of_frame(frames, sample + pixel * frames.samples, c)
    if ended[w]:
        for k in range(start * frames.depth, (start + run) * frames.depth):
            if broken[w]:
                frames.stack[k] = wp.uint8(0)
            frames.final[k] = frames.stack[k]


@wp.kernel
def fill_frames(first: int, frames: FrameView, run: int, mask: wp.array(dtype=bool)):
    """One thread per `run` pixels of a line: all frames of the masked worlds become the newest."""
    start = (first + wp.tid()) * run
    if not mask[start // (frames.height * frames.width)]:
        return
    sample = first_sample(frames, start)
    for pixel in range(run):
        for c in range(frames.channels):
            newest = channel_of_frame(frames, sample + pixel * frames.samples, c)
            for k in range(c, frames.depth, frames.channels):
                frames.stack[(start + pixel) * frames.depth + k] = newest
