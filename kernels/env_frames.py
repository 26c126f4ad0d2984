"""Pictures as observations: the last few of each world, one over the other.

Mnih et al. ("Human-level control through deep reinforcement learning", Nature, 2015) observe the luminance of
the last four pictures, from which velocities can be told.
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# luminance of red and green in thousandths, ITU-R BT.601; blue has the rest
LUMA_RED = wp.constant(299)
LUMA_GREEN = wp.constant(587)


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
def channel_of_frame(frames: FrameView, pixel: int, channel: int) -> wp.uint8:
    """One channel of a pixel of the newest frame, counted over all worlds."""
    size = frames.samples
    corner = (pixel // frames.width * size * frames.width + pixel % frames.width) * size
    total = int(0)
    for y in range(size):
        for x in range(size):
            color = frames.picture[corner + y * size * frames.width + x]
            if frames.channels == 1:
                luma = LUMA_RED * int(color[0]) + LUMA_GREEN * int(color[1])
                total += luma + (1000 - LUMA_RED - LUMA_GREEN) * int(color[2])
            else:
                total += 1000 * int(color[channel])
    count = 1000 * size * size
    return wp.uint8((total + count // 2) // count)


@wp.kernel
def push_frames(
    first: int,
    frames: FrameView,
    run: int,
    ended: wp.array(dtype=bool),
    broken: wp.array(dtype=bool),
):
    """One thread per `run` pixels of a world: the newest frame takes the place of the oldest.

    Where an episode has ended, keep its last stack, which is zeros in a broken world.
    """
    start = (first + wp.tid()) * run
    w = start // (frames.height * frames.width)
    older = frames.depth - frames.channels
    for pixel in range(start, start + run):
        place = pixel * frames.depth
        for k in range(place, place + older):
            frames.stack[k] = frames.stack[k + frames.channels]
        for c in range(frames.channels):
            frames.stack[place + older + c] = channel_of_frame(frames, pixel, c)
    if ended[w]:
        for k in range(start * frames.depth, (start + run) * frames.depth):
            if broken[w]:
                frames.stack[k] = wp.uint8(0)
            frames.final[k] = frames.stack[k]


@wp.kernel
def fill_frames(first: int, frames: FrameView, run: int, mask: wp.array(dtype=bool)):
    """One thread per `run` pixels of a world: all frames of the masked worlds become the newest."""
    start = (first + wp.tid()) * run
    if not mask[start // (frames.height * frames.width)]:
        return
    for pixel in range(start, start + run):
        for c in range(frames.channels):
            newest = channel_of_frame(frames, pixel, c)
            for k in range(c, frames.depth, frames.channels):
                frames.stack[pixel * frames.depth + k] = newest
