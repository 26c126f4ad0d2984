"""Cameras in double precision: matrices as in OpenGL, and the rays of their pixels by unprojection."""

import numpy as np

from newtonsim.render.camera.camera import RayCamera, camera_rays
from newtonsim.render.camera.light import Lighting

NEAR, FAR = 0.1, 50.0
FLAT = Lighting(ambient=1.0, diffuse=0.0, specular=0.0, shadow=False, transparency=False)
"""Light in which everything has its own colour."""


def look_at(eye, target, up=(0.0, 0.0, 1.0)) -> np.ndarray:
    """World to eye frame."""
    eye, target = np.asarray(eye, float), np.asarray(target, float)
    back = (eye - target) / np.linalg.norm(eye - target)
    right = np.cross(up, back)
    right /= np.linalg.norm(right)
    view = np.eye(4)
    view[:3, :3] = [right, np.cross(back, right), back]
    view[:3, 3] = -view[:3, :3] @ eye
    return view


def frustum(left, right, bottom, top, near=NEAR, far=FAR) -> np.ndarray:
    """Perspective through a window in the near plane."""
    m = np.zeros((4, 4))
    m[0, 0], m[1, 1] = 2.0 * near / (right - left), 2.0 * near / (top - bottom)
    m[0, 2], m[1, 2] = (right + left) / (right - left), (top + bottom) / (top - bottom)
    m[2, 2], m[2, 3] = -(far + near) / (far - near), -2.0 * far * near / (far - near)
    m[3, 2] = -1.0
    return m


def orthographic(width, height, near=NEAR, far=FAR) -> np.ndarray:
    """Parallel rays."""
    m = np.diag([2.0 / width, 2.0 / height, -2.0 / (far - near), 1.0])
    m[2, 3] = -(far + near) / (far - near)
    return m


def fov(degrees: float, aspect: float = 1.0) -> np.ndarray:
    """Symmetric perspective."""
    half = NEAR * np.tan(np.radians(0.5 * degrees))
    return frustum(-half * aspect, half * aspect, -half, half)


def pixel_rays(view, projection, width, height) -> tuple[np.ndarray, np.ndarray]:
    """Points of the pixels' centres on the near plane and directions to the far one, not of length one."""
    x = (np.arange(width) + 0.5) / width * 2.0 - 1.0
    y = 1.0 - (np.arange(height) + 0.5) / height * 2.0
    grid = np.stack([*np.meshgrid(x, y), np.zeros((height, width)), np.ones((height, width))], -1)
    back = np.linalg.inv(projection @ view)
    ends = []
    for z in (-1.0, 1.0):
        grid[..., 2] = z
        point = grid @ back.T
        ends.append((point[..., :3] / point[..., 3:]).reshape(-1, 3))
    return ends[0], ends[1] - ends[0]


def window_depth(view, projection, points) -> np.ndarray:
    """What OpenGL's depth buffer holds for points."""
    clip = np.concatenate([points, np.ones((*points.shape[:-1], 1))], -1) @ (projection @ view).T
    return 0.5 * (clip[..., 2] / clip[..., 3] + 1.0)


def take(scene, view, projection, size=(40, 30), light=FLAT, **options):
    """Colour, depth and segmentation of the first world and camera."""
    camera = RayCamera(scene, *size, **options).light(light)
    return tuple(a[0, 0].copy() for a in camera.look(camera_rays(view, projection)).render().numpy())
