"""All constraint rows of a step, and a solution of them.

Stage: constraints, from assembly to backward pass
Called by: kernels/constraints/apart.py, kernels/constraints/laws.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import warp as wp

from newtonsim.kernels.constraints.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.constraints.dof_rows import DofRowView
from newtonsim.kernels.constraints.pair_rows import PairRowView

wp.set_module_options({"enable_backward": False})


@wp.struct
class RowsView:
    """Rows by family."""

    dof: DofRowView
    pair: PairRowView
    contact: ContactRowView
    spin: SpinRowView
    spins: int  # 1 if contacts have torsional and rolling friction


@wp.struct
class ImpulseView:
    """Impulses of a solution, and the velocities that belong to it in energy coordinates."""

    dof: wp.array(dtype=float)  # (R)
    pair: wp.array(dtype=float)  # (P)
    contact: wp.array(dtype=wp.vec3)  # (C)
    spin: wp.array(dtype=wp.vec3)  # (C)
    z: wp.array(dtype=float)  # (D)


@wp.func
def impulses_of(rows: wp.ref[RowsView], z: wp.array(dtype=float)) -> ImpulseView:
    """The present impulses of all rows, and z after them."""
    view = ImpulseView()
    view.dof = rows.dof.impulse
    view.pair = rows.pair.impulse
    view.contact = rows.contact.impulse
    view.spin = rows.spin.impulse
    view.z = z
    return view


@wp.struct
class WorldDofsView:
    """Degrees of freedom by worlds."""

    world_start: wp.array(dtype=int)  # (W + 1) first entry of each world in `dof`
    dof: wp.array(dtype=int)  # (D)
