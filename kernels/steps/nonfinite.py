"""Marks of worlds that became NaN or infinite, with the place and time at which this began.

Stage: last of a step, check of its numbers
Called by: kernels/constraints/energy_coordinates.py, kernels/particles/coupling.py, kernels/steps/motion.py
Reads: its arguments
Writes: MarksView
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class MarksView:
    """Marks of worlds, and of one kind of element: trees, bodies or particles."""

    world: wp.array(dtype=bool)  # (W) until the world is reset
    any: wp.array(dtype=int)  # (1) 1 if a world was marked since the last check by the host
    steps: wp.array(dtype=int)  # (1) steps made
    age: wp.array(dtype=int)  # (N) steps for which each element has been broken, 0 for none
    cause: wp.array(dtype=int)  # (N) cause that its kernel reported in the first of these


@wp.func
def mark(marks: wp.ref[MarksView], world: int, element: int, broken: bool, cause: int):
    """Count the step for one element, and mark its world if it is broken; element 0 counts the steps."""
    if element == 0:
        marks.steps[0] = marks.steps[0] + 1
    age = int(0)
    if broken:
        age = marks.age[element] + 1
        if age == 1:
            marks.cause[element] = cause
        marks.any[0] = 1
        if world >= 0:
            marks.world[world] = True
    marks.age[element] = age
