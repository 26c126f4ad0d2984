"""Particles at the start and end of a step of FeatherstoneSolver.

Stage: first and last of a step with particles
Called by: solvers/featherstone/deformable_stage.py, solvers/nonfinite.py, solvers/particles/sweep_solver.py
Reads: v, world, x
Writes: MarksView, v_out, x_out
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.steps.nonfinite import MarksView, mark

wp.set_module_options({"enable_backward": False})


@wp.kernel
def copy_particles(
    first: int,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    x_out: wp.array(dtype=wp.vec3),
    v_out: wp.array(dtype=wp.vec3),
):
    """One thread per particle: copy its state."""
    i = first + wp.tid()
    x_out[i] = x[i]
    v_out[i] = v[i]


@wp.kernel
def mark_nonfinite(
    first: int,
    world: wp.array(dtype=int),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    marks: MarksView,
):
    """One thread per particle: mark it and its world if its position is not finite."""
    i = first + wp.tid()
    broken = not (wp.isfinite(x[i]) and wp.isfinite(v[i])) and world[i] >= 0
    mark(marks, world[i], i, broken, 0)
