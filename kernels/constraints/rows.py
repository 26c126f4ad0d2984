"""All constraint rows of a step, and a solution of them.

Stage: constraints, from assembly to backward pass
Used by: solvers/absent_bodies.py, solvers/featherstone/, kernels/constraints/adjoint/, kernels/constraints/,
    kernels/constraints/linear/, kernels/constraints/solve/
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.constraints.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.constraints.dof_rows import DofRowView
from newtonsim.kernels.views.pair_rows import PairRowView


@wp.struct
class ImpulseView:
    """Impulses of a solution, and its velocities in energy coordinates."""

    dof: wp.array(dtype=float)  # (R)
    pair: wp.array(dtype=float)  # (P)
    contact: wp.array(dtype=wp.vec3)  # (C)
    spin: wp.array(dtype=wp.vec3)  # (C)
    z: wp.array(dtype=float)  # (D)


@wp.struct
class RowsView:
    """Rows by family."""

    dof: DofRowView
    pair: PairRowView
    contact: ContactRowView
    spin: SpinRowView
    spins: int  # 1 if contacts have torsional and rolling friction
    impulse: ImpulseView  # the same impulses as in the families; no z


@wp.struct
class WorldDofsView:
    """Degrees of freedom by worlds."""

    world_start: wp.array(dtype=int)  # (W + 1) first entry of each world in `dof`
    dof: wp.array(dtype=int)  # (D)


WEDGED_CONTACT = wp.constant(1)  # a contact cannot push its bodies apart
WEDGED_ROW = wp.constant(2)  # a row between two bodies demands what others exclude
STRAINED_ROW = wp.constant(3)  # a distance bears so much that a step does not resolve how it swings
SAGGING_CONTACT = wp.constant(4)  # contacts at rest yield to a load, as finding their impulses takes too long


@wp.struct
class UnsolvedView:
    """Steps that ended with a residual above the tolerance, and what cannot be solved at all."""

    steps: wp.array(dtype=int)  # (W) their number
    worst: wp.array(dtype=float)  # (W) their largest residual [m/s or rad/s]
    any: wp.array(dtype=int)  # (1) 1 after the first such step; threads write no other value
    wedged: wp.array(dtype=wp.vec2i)  # (W) last dofs of a wedged contact or row, plus 1, or zeros
    wedged_now: wp.array(dtype=int)  # (W) WEDGED_* if an island has such a contact or row in the current step
    wedged_by: wp.array(dtype=int)  # (W) the same in the last step that had one
    wedged_run: wp.array(dtype=int)  # (W) consecutive steps with such an island, up to the last step
    wedged_steps: wp.array(dtype=int)  # (W) largest number of consecutive ones
    any_wedged: wp.array(dtype=int)  # (1) 1 after `wedges.LONG_WEDGED` of them in a world
