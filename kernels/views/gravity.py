"""Gravity of a world.

Stage: all
Called by: kernels/constraints/step_end.py, kernels/maximal/adjoint/substep.py,
    kernels/maximal/moving_bodies.py, kernels/particles/adjoint/steps.py, kernels/particles/vbd/particles.py,
    kernels/particles/xpbd/particles.py, kernels/steps/, kernels/trees/
Reads: gravity
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def gravity_of(gravity: wp.array(dtype=wp.vec3), w: int) -> wp.vec3:
    """Gravity [m/s²] of world w; bodies in the global world -1 fall as in world 0.

    All worlds have the same gravity if the global world has moving bodies, see `Model.gravity`.
    """
    return gravity[wp.max(w, 0)]
