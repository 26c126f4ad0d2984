"""Solvers: each advances a State by one time step."""

from newtonsim.solvers.base import SolverBase as SolverBase
from newtonsim.solvers.featherstone import FeatherstoneSolver as FeatherstoneSolver
from newtonsim.solvers.xpbd import XPBDSolver as XPBDSolver
