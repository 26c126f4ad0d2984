"""Spans of indices that threads share: one index a thread on a GPU, all of them in one thread on the CPU.

A thread begins by copying the arguments of its kernel, and in a backward pass by clearing as many gradients.
Where most indices have nothing to do, as most places for contacts, this takes the CPU longer than the work. A
kernel over a span takes `span: Span` where others take `first: int`, and goes through

    for i in range(span.first + wp.tid(), span.end, span.step):

Stage: any
Used by: newtonsim/runtime/launcher.py, kernels/constraints/adjoint/contact_terms.py,
    kernels/constraints/adjoint/row_terms.py, kernels/trees/joint_forces.py
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Span:
    """The indices of a launch, from the first on."""

    first: int
    end: int
    step: int  # number of threads
