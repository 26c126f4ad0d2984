"""Height scan of environments: a grid of vertical rays around a body, rotated with its heading.

Stage: environment, sensors
Called by: newtonsim/envs/sensors.py
Reads: EnvView, ScanView, SceneView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import EnvView
from newtonsim.kernels.queries.rays import SEE_BACKS, SceneView, cast_ray

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

EVERY_SHAPE = wp.constant(wp.uint32(0xFFFFFFFF))


@wp.struct
class ScanView:
    """A height scan in each world; R rays."""

    body: int  # body in the middle, counted from the first of its world
    x: wp.array(dtype=float)  # (R) [m] ahead of the body
    y: wp.array(dtype=float)  # (R) [m] to its left
    above: float  # [m] from the body up to the start of the rays
    depth: float  # [m] from the body down to their end
    column: int  # first of its readings


@wp.kernel
def scan_heights(first: int, env: EnvView, scan: ScanView, scene: SceneView, mask: wp.array(dtype=bool)):
    """One thread per ray: height of the hit, minus that of the body."""
    i = first + wp.tid()
    n = scan.x.shape[0]
    w = i // n
    r = i % n
    if not mask[w]:
        return
    X = env.body_q[w * env.bodies + scan.body]
    ahead = wp.transform_vector(X, wp.vec3(1.0, 0.0, 0.0))
    ahead[2] = 0.0
    # a body that points straight up has no heading; any will do
    ahead = wp.where(wp.length(ahead) > 1.0e-6, wp.normalize(ahead), wp.vec3(1.0, 0.0, 0.0))
    left = wp.vec3(-ahead[1], ahead[0], 0.0)
    start = wp.transform_get_translation(X) + scan.x[r] * ahead + scan.y[r] * left
    start[2] = start[2] + scan.above
    down = wp.vec3(0.0, 0.0, -1.0)
    reach = scan.above + scan.depth
    hit = cast_ray(scene, w, start, down, reach, EVERY_SHAPE, -1, SEE_BACKS)
    env.sensed[w, scan.column + r] = scan.above - wp.min(hit.distance, reach)
