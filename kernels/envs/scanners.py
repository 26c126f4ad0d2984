"""Ray casters of environments: distances along rays that a body carries; lidars whose rays spin.

Stage: environment, sensors
Called by: newtonsim/envs/ray_sensors.py
Reads: EnvView, ScannerView, SceneView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import EnvView
from newtonsim.kernels.queries.rays import SEE_BACKS, SceneView, cast_ray

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

EVERY_SHAPE = wp.constant(wp.uint32(0xFFFFFFFF))


@wp.struct
class ScannerView:
    """A ray caster in each world; R rays."""

    body: int  # body that carries it, counted from the first of its world
    pose: wp.transform  # in the body's frame
    level: int  # 1 if it stays level and follows only the body's heading, 0 if it rotates with the body
    turn: float  # [rad] about its z axis from step to step
    origin: wp.array(dtype=wp.vec3)  # (R) [m] in its frame
    direction: wp.array(dtype=wp.vec3)  # (R) unit, in its frame
    reach: float  # [m] longest distance, and the reading of a ray that hits nothing
    column: int  # first of its readings


@wp.func
def scanner_pose(scanner: ScannerView, body: wp.transform) -> wp.transform:
    """Pose of a scanner in the world."""
    X = body * scanner.pose
    if scanner.level == 0:
        return X
    ahead = wp.transform_vector(X, wp.vec3(1.0, 0.0, 0.0))
    heading = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), wp.atan2(ahead[1], ahead[0]))
    return wp.transform(wp.transform_get_translation(X), heading)


@wp.kernel
def scan_distances(
    first: int, env: EnvView, scanner: ScannerView, scene: SceneView, mask: wp.array(dtype=bool), fresh: int
):
    """One thread per ray: distance to its first hit."""
    i = first + wp.tid()
    n = scanner.origin.shape[0]
    w = i // n
    r = i % n
    if not mask[w]:
        return
    X = scanner_pose(scanner, env.body_q[w * env.bodies + scanner.body])
    if scanner.turn != 0.0:
        step = wp.where(fresh == 1, 0, env.length[w] + 1)
        # whole turns are subtracted first, since a large angle would be rounded
        angle = wp.mod(float(step) * (scanner.turn / wp.TAU), 1.0) * wp.TAU
        X = X * wp.transform(wp.vec3(), wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), angle))
    start = wp.transform_point(X, scanner.origin[r])
    along = wp.transform_vector(X, scanner.direction[r])
    hit = cast_ray(scene, w, start, along, scanner.reach, EVERY_SHAPE, -1, SEE_BACKS)
    env.sensed[w, scanner.column + r] = wp.min(hit.distance, scanner.reach)
