"""All that the solve of a world's rows works on, as one view.

The solve is a chain of functions that are not inlined, each of which hands on what the next ones need. Every
argument takes registers of a thread in each link of such a chain: one reference takes two, as many as one of
the views here would.

Stage: constraints, solve
Used by: solvers/featherstone/, kernels/constraints/adjoint/outcome.py, kernels/constraints/solve/
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_system import BlockSystemView
from newtonsim.kernels.algebra.dense_inverse import DenseView
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.laws import LawView
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView, UnsolvedView

# steps that Broyden's correction uses
MOST_KEPT = wp.constant(6)


@wp.struct
class NewtonView:
    """Workspace: D dofs, T trees, R rows on dofs, P rows between bodies, C contacts."""

    z: wp.array(dtype=float)  # (D) velocities that the impulses cause, energy coordinates; that of the solve
    y: wp.array(dtype=float)  # (D) velocities of the iteration, energy coordinates
    centre: wp.array(dtype=float)  # (D) velocities that the impulses at the centres of the laws cause
    gap: wp.array(dtype=float)  # (D) y minus the velocities that its impulses cause
    step: wp.array(dtype=float)  # (D)
    steps: wp.array(dtype=float)  # (MOST_KEPT D) steps with the current factor, one after the other
    leap: ImpulseView  # direction of rows on dofs, of rows between bodies, and of z, see `leaps`
    shift: ImpulseView  # changes of the same in a round, then those that a leap adds to them
    dense: DenseView  # matrix of a small island
    tree_reach: wp.array(dtype=float)  # (T) square root of the largest Delassus number of the rows of a tree
    dof_v: wp.array(dtype=wp.vec2)  # (R) velocity, and its change in the step, or that of the impulse
    pair_v: wp.array(dtype=wp.vec2)  # (P)
    contact_dv: wp.array(dtype=wp.vec3)  # (C) change of a contact's velocity in the step, or of its impulse
    spin_v: wp.array(dtype=wp.vec3)  # (C)
    spin_dv: wp.array(dtype=wp.vec3)  # (C)
    dof_slope: wp.array(dtype=float)  # (R) negative slopes of the laws in a dense matrix
    pair_slope: wp.array(dtype=float)  # (P)
    contact_slope: wp.array(dtype=wp.mat33)  # (C) impulses by velocities; unsymmetric
    spin_slope: wp.array(dtype=wp.mat33)  # (C)
    spin_by_contact: wp.array(dtype=wp.mat33)  # (C) impulses of spin rows by velocities of contact rows


@wp.struct
class SolveReport:
    """Report on the solve of an island."""

    sweeps: int
    factorizations: int
    residual: float  # [m/s or rad/s]
    passed: float  # velocity error of rows due to the regularisation [m/s or rad/s]
    at_start: float  # change of a velocity in the first sweep [m/s or rad/s]
    unsolved: int  # 1 if it ended above the tolerance
    resting: int  # 1 if all its rows are slow
    laid_out: int  # 1 if its matrix is laid out, -1 if that would cost too much, or LAID_OUT_BEFORE
    thorough: int  # 1 for as many rounds as it takes, 2 if it is not in motion either, or LEAPS, LEAPT
    factorized: int  # 1 if its matrix is factorized for the current laws
    hopeless: int  # 1 if Newton's method has to continue, 2 if only rebounds or pushes have to be weakened


@wp.struct
class SolveViews:
    """What a solve changes."""

    rows: RowsView  # all rows
    islands: IslandView  # trees and rows by islands
    laws: LawView  # what the laws of the rows depend on
    newton: NewtonView  # iterations of Newton's method
    sys: BlockSystemView  # its matrices
    moving: ImpulseView  # impulses of the solution that moves the positions
    unsolved: UnsolvedView  # what it leaves unsolved
    z_moving: wp.array(dtype=float)  # (D) z that moves the positions; until then, z without impulses
    start: wp.array(dtype=wp.vec3)  # (C) impulses with which the next step starts
    totals: wp.array(dtype=SolveReport)  # (W) the worst of all islands of a world
    iterations: wp.array(dtype=int)  # (W) most sweeps of an island
    factorizations: wp.array(dtype=int)  # (W)
    residual: wp.array(dtype=float)  # (W) [m/s or rad/s]
    passed: wp.array(dtype=float)  # (W) velocity error due to the regularisation [m/s or rad/s]
