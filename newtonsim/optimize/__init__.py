"""Optimisers of controls: sampling (`MPPI`, `CEM`), `ILQR`, `Shooting`, and a `Controller` for any of them.

A `Problem` says what robot, over which horizon, at what cost; see docs/optimize.md.
"""

from newtonsim.kernels.optimize.views import CostView, stage_of, stage_weight
from newtonsim.optimize.closed_loop import run_policy
from newtonsim.optimize.contact_costs import ContactForceCost
from newtonsim.optimize.costs import ControlCost, Cost, FrameCost, JointCost, KernelCost
from newtonsim.optimize.fddp import FDDP
from newtonsim.optimize.identification import Identification, Identified, LogCost
from newtonsim.optimize.ilqr import ILQR
from newtonsim.optimize.mpc import ControlledMotion, Controller
from newtonsim.optimize.multiple_shooting import MultipleShooting
from newtonsim.optimize.parameters import Parameter
from newtonsim.optimize.problem import Problem
from newtonsim.optimize.rate_costs import ControlRateCost
from newtonsim.optimize.result import Result
from newtonsim.optimize.sampling import CEM, MPPI
from newtonsim.optimize.shac import SHAC, Learned
from newtonsim.optimize.shooting import Shooting
from newtonsim.optimize.time_costs import TimeCost

__all__ = [
    "CEM",
    "FDDP",
    "ILQR",
    "MPPI",
    "SHAC",
    "ContactForceCost",
    "ControlCost",
    "ControlRateCost",
    "ControlledMotion",
    "Controller",
    "Cost",
    "CostView",
    "FrameCost",
    "Identification",
    "Identified",
    "JointCost",
    "KernelCost",
    "Learned",
    "LogCost",
    "MultipleShooting",
    "Parameter",
    "Problem",
    "Result",
    "Shooting",
    "TimeCost",
    "run_policy",
    "stage_of",
    "stage_weight",
]
