"""Starting OpenGL: with a window if there is a display, otherwise without one through EGL."""

from __future__ import annotations

import ctypes.util
import os
import sys
from typing import Any

import warp as wp

from newtonsim.errors import RendererUnavailableError
from newtonsim.runtime.devices import find_device

_LEAST_VERSION = (3, 3)


def start_opengl(headless: bool | None) -> bool:
    """Start pyglet with or without a window; the first call decides for the process.

    Args:
        headless: Whether to draw without a window; None to do so if there is no display.

    Returns:
        Whether windows are invisible.

    Raises:
        RendererUnavailableError: pyglet, a display, EGL or a driver is missing.
    """
    try:
        import pyglet
    except ImportError as error:
        raise RendererUnavailableError(
            "SimRendererOpenGL needs the package pyglet: pip install 'newtonsim[opengl]'"
        ) from error
    display = sys.platform != "linux" or bool(os.environ.get("DISPLAY"))
    headless = not display if headless is None else headless
    if "pyglet.display" not in sys.modules:
        pyglet.options["headless"] = sys.platform == "linux" and headless
    elif not pyglet.options["headless"] and not display:
        raise RendererUnavailableError(
            "pyglet was imported for windows, and $DISPLAY names no display: set "
            "pyglet.options['headless'] = True before anything imports pyglet.window"
        )
    elif pyglet.options["headless"] and not headless:
        raise RendererUnavailableError(
            "pyglet draws without windows in this process, since its first renderer was headless; "
            "create the one with a window first"
        )
    if pyglet.options["headless"] and ctypes.util.find_library("EGL") is None:
        raise RendererUnavailableError(
            "drawing without a window needs EGL, and libEGL is not installed (Debian and Ubuntu: apt-get "
            "install libegl1 libgl1 libgl1-mesa-dri); or give the program a display: xvfb-run python ..."
        )
    _open_context()
    return headless


def _open_context() -> None:
    """Open pyglet's hidden first window, which shows whether OpenGL works."""
    try:
        import pyglet.window

        version = pyglet.gl.gl_info.get_version()
    except Exception as error:
        display = os.environ.get("DISPLAY", "")
        raise RendererUnavailableError(
            f"OpenGL cannot be started: {type(error).__name__}: {error}. Either there is no driver (Debian "
            "and Ubuntu: apt-get install libgl1 libgl1-mesa-dri), or the display "
            f"{display!r} does not answer"
        ) from error
    if tuple(version[:2]) < _LEAST_VERSION:
        raise RendererUnavailableError(f"OpenGL 3.3 is required, but this machine has {version}")


class GLBuffer(wp.RegisteredGLBuffer):
    """Buffer of OpenGL as a Warp array, on the CPU too.

    Warp 1.19 registers every buffer with CUDA and reads it through page-locked memory, both of which fail
    where there is no CUDA.
    """

    def __init__(
        self,
        gl_buffer_id: int,
        device: wp.DeviceLike = None,
        flags: int = wp.RegisteredGLBuffer.NONE,
        fallback_to_copy: bool = True,
    ):
        if find_device(device).is_cuda:
            super().__init__(gl_buffer_id, device, flags, fallback_to_copy)
            return
        self.gl_buffer_id, self.device, self.flags = gl_buffer_id, find_device(device), flags
        self.fallback_to_copy, self.resource, self.warp_buffer = True, None, None

    def map(self, dtype: type, shape: int | tuple[int, ...]) -> wp.array:
        """Return the values as an array, which `unmap` writes back."""
        if self.device.is_cuda:
            return super().map(dtype, shape)
        from pyglet import gl

        if self.flags == self.READ_ONLY:
            # Mesa's llvmpipe reads a buffer without waiting for a picture that is being copied into it
            gl.glFinish()
        self.warp_buffer = wp.empty(shape, dtype=dtype, device=self.device)
        gl.glBindBuffer(gl.GL_ARRAY_BUFFER, self.gl_buffer_id)
        values: Any = self.warp_buffer.numpy()
        gl.glGetBufferSubData(gl.GL_ARRAY_BUFFER, 0, values.nbytes, values.ctypes.data)
        gl.glBindBuffer(gl.GL_ARRAY_BUFFER, 0)
        return self.warp_buffer


# warp.render asks for the class by this name
wp.RegisteredGLBuffer = GLBuffer
