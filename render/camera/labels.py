"""Labels in the segmentation of `newtonsim.render.Camera` other than indices of shapes, bodies and joints."""

from newtonsim.kernels.camera import pictures as camera_pictures

SEEN_NOTHING = int(camera_pictures.SEEN_NOTHING)
"""Nothing is seen."""

SEEN_STATIC = int(camera_pictures.SEEN_STATIC)
"""A shape without body, or a body without joint."""

SEEN_SURFACE = int(camera_pictures.SEEN_SURFACE)
"""Cloth or a soft body."""

SEEN_PARTICLE = int(camera_pictures.SEEN_PARTICLE)
"""A particle."""

SEEN_SPRING = int(camera_pictures.SEEN_SPRING)
"""A spring between particles."""
