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

    picture: wp.array3d(dtype=wp.vec3ub)  # (W, S height, S width)
    samples: int  # S
    channels: int
    stack: wp.array4d(dtype=wp.uint8)  # (W, height, width, F channels)
    final: wp.array4d(dtype=wp.uint8)  # likewise, of the last episode that ended


@wp.func
def channel_of_frame(frames: FrameView, w: int, line: int, column: int, channel: int) -> wp.uint8:
    """One channel of a pixel of the newest frame."""
    total = int(0)
    for y in range(line * frames.samples, (line + 1) * frames.samples):
        for x in range(column * frames.samples, (column + 1) * frames.samples):
            color = frames.picture[w, y, x]
            if frames.channels == 1:
                luma = LUMA_RED * int(color[0]) + LUMA_GREEN * int(color[1])
                total += luma + (1000 - LUMA_RED - LUMA_GREEN) * int(color[2])
            else:
                total += 1000 * int(color[channel])
    count = 1000 * frames.samples * frames.samples
    return wp.uint8((total + count // 2) // count)


@wp.kernel
def push_frames(
    first: int,
    frames: FrameView,
    run: int,
    ended: wp.array(dtype=bool),
    broken: wp.array(dtype=bool),
):
    """One thread per `run` pixels: the newest frame takes the place of the oldest.

    Where an episode has ended, keep its last stack, which is zeros in a broken world.
    """
    height = frames.stack.shape[1]
    width = frames.stack.shape[2]
    depth = frames.stack.shape[3]
    start = (first + wp.tid()) * run
    for pixel in range(start, start + run):
        w = pixel // (height * width)
        line = (pixel // width) % height
        column = pixel % width
        for k in range(depth - frames.channels):
            frames.stack[w, line, column, k] = frames.stack[w, line, column, k + frames.channels]
        for c in range(frames.channels):
            newest = channel_of_frame(frames, w, line, column, c)
            frames.stack[w, line, column, depth - frames.channels + c] = newest
        if broken[w]:
            for k in range(depth):
                frames.stack[w, line, column, k] = wp.uint8(0)
        if ended[w]:
            for k in range(depth):
                frames.final[w, line, column, k] = frames.stack[w, line, column, k]


@wp.kernel
def fill_frames(first: int, frames: FrameView, run: int, mask: wp.array(dtype=bool)):
    """One thread per `run` pixels: all frames of the masked worlds become the newest."""
    height = frames.stack.shape[1]
    width = frames.stack.shape[2]
    start = (first + wp.tid()) * run
    for pixel in range(start, start + run):
        w = pixel // (height * width)
        if mask[w]:
            line = (pixel // width) % height
            column = pixel % width
            for c in range(frames.channels):
                newest = channel_of_frame(frames, w, line, column, c)
                for k in range(c, frames.stack.shape[3], frames.channels):
                    frames.stack[w, line, column, k] = newest
