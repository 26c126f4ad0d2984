"""What the segmentation of `newtonsim.render.Camera` shows besides numbers of shapes, bodies and joints."""

from newtonsim.kernels import camera

SEEN_NOTHING = int(camera.SEEN_NOTHING)
"""Nothing is seen."""

SEEN_STATIC = int(camera.SEEN_STATIC)
"""A shape without body, or a body without joint."""

SEEN_SURFACE = int(camera.SEEN_SURFACE)
"""Cloth or a soft body."""

SEEN_PARTICLE = int(camera.SEEN_PARTICLE)
"""A particle."""

SEEN_SPRING = int(camera.SEEN_SPRING)
"""A spring between particles."""
