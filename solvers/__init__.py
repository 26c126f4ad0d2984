"""Solvers: each advances a State by one time step."""

from newtonsim.solvers.base import SolverBase as SolverBase
from newtonsim.solvers.featherstone.servos import JointServos as JointServos
from newtonsim.solvers.featherstone.servos import ServoMode as ServoMode
from newtonsim.solvers.featherstone.solver import FeatherstoneSolver as FeatherstoneSolver
from newtonsim.solvers.featherstone.stages import BodyDamping as BodyDamping
from newtonsim.solvers.featherstone.stages import JointDamping as JointDamping
from newtonsim.solvers.featherstone.stages import PDForces as PDForces
from newtonsim.solvers.featherstone.stages import StepForces as StepForces
from newtonsim.solvers.featherstone.stages import StepStage as StepStage
from newtonsim.solvers.mujoco.solver import MuJoCoSolver as MuJoCoSolver
from newtonsim.solvers.semi_implicit.solver import SemiImplicitSolver as SemiImplicitSolver
from newtonsim.solvers.vbd.solver import VBDSolver as VBDSolver
from newtonsim.solvers.xpbd.solver import XPBDSolver as XPBDSolver
