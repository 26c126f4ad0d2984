"""Rays of cameras: linear in the picture for pinholes, equidistant in the angle for fisheyes.

The equidistant fisheye shows a direction at an angle theta from its axis at the distance f theta from the
principal point (Kannala and Brandt, "A generic camera model and calibration method for conventional,
wide-angle, and fish-eye lenses", PAMI, 2006, eq. 3).

Stage: ray casting, before the rays, cameras
Called by: render/camera/sensor.py, kernels/camera/pictures.py, kernels/camera/tiles.py
Reads: Mount, body_pose
Writes: CameraRays
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})

LENS_PINHOLE = wp.constant(0)
LENS_FISHEYE = wp.constant(1)


@wp.struct
class CameraRays:
    """Origins and directions of a camera's rays; x and y in -1..1 are right and up in the picture.

    The ray of a fisheye at (x, y) is at an angle |a| from its axis, in the direction a in the plane of
    direction_x and direction_y, unit vectors to the right and up, where a = shift + (x, y) * angle; its
    direction is a unit vector.
    """

    origin: wp.vec3  # [m] at the centre of the picture
    origin_x: wp.vec3  # [m] change with x
    origin_y: wp.vec3
    direction: wp.vec3  # 1 along the view axis, so that t is the depth [m]; for fisheyes, the axis
    direction_x: wp.vec3
    direction_y: wp.vec3
    near: float  # least t that is seen [m]
    far: float  # largest t that is seen [m]
    depth: wp.vec4  # (a, b, c, d): the depth picture shows (a + b t) / (c + d t) at t
    empty_depth: float  # its value without a hit
    lens: int  # LENS_*
    shift: wp.vec2  # [rad]
    angle: wp.vec2  # [rad]
    widest: float  # [rad] largest angle from the axis that is seen


@wp.struct
class Mount:
    """Mounting and lens of a camera. It looks along its -z axis, with x to the right and y up."""

    body: int  # -1 for the world frame
    pose: wp.transform  # in the frame of the body
    rays: CameraRays  # in the frame of the camera


@wp.func
def ray_origin(camera: CameraRays, x: float, y: float) -> wp.vec3:
    """Origin of a ray [m]."""
    return camera.origin + x * camera.origin_x + y * camera.origin_y


@wp.func
def ray_direction(camera: CameraRays, x: float, y: float) -> wp.vec3:
    """Direction of a ray, with the depth as its unit for pinholes; zero where a fisheye sees nothing."""
    if camera.lens == LENS_PINHOLE:
        return camera.direction + x * camera.direction_x + y * camera.direction_y
    a = camera.shift + wp.cw_mul(camera.angle, wp.vec2(x, y))
    theta = wp.length(a)
    if theta > camera.widest:
        return wp.vec3()
    # sin(theta) / theta is 1 on the axis
    s = float(1.0)
    if theta > 0.0:
        s = wp.sin(theta) / theta
    return wp.cos(theta) * camera.direction + s * (a[0] * camera.direction_x + a[1] * camera.direction_y)


@wp.kernel
def aim_cameras(
    mount: wp.array(dtype=Mount), body_pose: wp.array(dtype=wp.transform), camera: wp.array(dtype=CameraRays)
):
    """One thread per camera: its rays in the world."""
    k = wp.tid()
    own = mount[k]
    X = own.pose
    if own.body >= 0:
        X = wp.transform_multiply(body_pose[own.body], X)
    rays = own.rays
    rays.origin = wp.transform_point(X, rays.origin)
    rays.direction = wp.transform_vector(X, rays.direction)
    rays.direction_x = wp.transform_vector(X, rays.direction_x)
    rays.direction_y = wp.transform_vector(X, rays.direction_y)
    camera[k] = rays
