"""All constraint rows of a step.

Stage: constraints, from assembly to backward pass
Used by: solvers/featherstone/, kernels/constraints/, kernels/constraints/adjoint/
"""

import warp as wp

from newtonsim.kernels.constraints.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.constraints.dof_rows import DofRowView
from newtonsim.kernels.constraints.pair_rows import PairRowView


@wp.struct
class RowsView:
    """Rows by family."""

    dof: DofRowView
    pair: PairRowView
    contact: ContactRowView
    spin: SpinRowView
    spins: int  # 1 if contacts have torsional and rolling friction
