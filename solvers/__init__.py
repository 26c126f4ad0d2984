"""Solvers: each advances a State by one time step."""

from newtonsim.solvers.base import SolverBase as SolverBase
from newtonsim.solvers.featherstone import FeatherstoneSolver as FeatherstoneSolver
from newtonsim.solvers.mujoco_solver import MuJoCoSolver as MuJoCoSolver
from newtonsim.solvers.semi_implicit import SemiImplicitSolver as SemiImplicitSolver
from newtonsim.solvers.servos import JointServos as JointServos
from newtonsim.solvers.servos import ServoMode as ServoMode
from newtonsim.solvers.stages import BodyDamping as BodyDamping
from newtonsim.solvers.stages import JointDamping as JointDamping
from newtonsim.solvers.stages import PDForces as PDForces
from newtonsim.solvers.stages import StepForces as StepForces
from newtonsim.solvers.stages import StepStage as StepStage
from newtonsim.solvers.vbd import VBDSolver as VBDSolver
from newtonsim.solvers.xpbd import XPBDSolver as XPBDSolver
