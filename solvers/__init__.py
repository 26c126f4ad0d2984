"""Solvers: each advances a State by one time step. They are imported on first use."""

from typing import TYPE_CHECKING

from newtonsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from newtonsim.solvers.base import SolverBase as SolverBase
    from newtonsim.solvers.featherstone.servos import JointServos as JointServos
    from newtonsim.solvers.featherstone.servos import ServoMode as ServoMode
    from newtonsim.solvers.featherstone.solver import FeatherstoneSolver as FeatherstoneSolver
    from newtonsim.solvers.featherstone.stages import BodyDamping as BodyDamping
    from newtonsim.solvers.featherstone.stages import GravityCompensation as GravityCompensation
    from newtonsim.solvers.featherstone.stages import JointDamping as JointDamping
    from newtonsim.solvers.featherstone.stages import Medium as Medium
    from newtonsim.solvers.featherstone.stages import PDForces as PDForces
    from newtonsim.solvers.featherstone.stages import StepForces as StepForces
    from newtonsim.solvers.featherstone.stages import StepStage as StepStage
    from newtonsim.solvers.mujoco.solver import MuJoCoSolver as MuJoCoSolver
    from newtonsim.solvers.semi_implicit.solver import SemiImplicitSolver as SemiImplicitSolver
    from newtonsim.solvers.vbd.solver import VBDSolver as VBDSolver
    from newtonsim.solvers.xpbd.solver import XPBDSolver as XPBDSolver

_LAZY = {
    "BodyDamping": "newtonsim.solvers.featherstone.stages",
    "FeatherstoneSolver": "newtonsim.solvers.featherstone.solver",
    "GravityCompensation": "newtonsim.solvers.featherstone.stages",
    "JointDamping": "newtonsim.solvers.featherstone.stages",
    "JointServos": "newtonsim.solvers.featherstone.servos",
    "Medium": "newtonsim.solvers.featherstone.stages",
    "MuJoCoSolver": "newtonsim.solvers.mujoco.solver",
    "PDForces": "newtonsim.solvers.featherstone.stages",
    "SemiImplicitSolver": "newtonsim.solvers.semi_implicit.solver",
    "ServoMode": "newtonsim.solvers.featherstone.servos",
    "SolverBase": "newtonsim.solvers.base",
    "StepForces": "newtonsim.solvers.featherstone.stages",
    "StepStage": "newtonsim.solvers.featherstone.stages",
    "VBDSolver": "newtonsim.solvers.vbd.solver",
    "XPBDSolver": "newtonsim.solvers.xpbd.solver",
}

__all__ = list(_LAZY)

__getattr__, __dir__ = lazy_names(globals(), _LAZY)
