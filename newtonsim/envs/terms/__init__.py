"""Tasks composed of terms: observations, rewards, ends and events by name.

A task's terms are kernels with one thread per world, all in the captured graph of the step. One line adds or
removes terms: `rewards={"slip_feet": -0.1, "leaning": None}`.
"""

from newtonsim.envs.terms import library as library
from newtonsim.envs.terms.robots import ZOO as ZOO
from newtonsim.envs.terms.robots import Robot as Robot
from newtonsim.envs.terms.rotors import Rotor as Rotor
from newtonsim.envs.terms.task import TermTask as TermTask
from newtonsim.envs.terms.term import Action as Action
from newtonsim.envs.terms.term import Ending as Ending
from newtonsim.envs.terms.term import Event as Event
from newtonsim.envs.terms.term import Observation as Observation
from newtonsim.envs.terms.term import Reward as Reward
from newtonsim.envs.terms.term import Term as Term
from newtonsim.kernels.envs.terms.views import TermView as TermView
from newtonsim.kernels.envs.terms.views import draw_of as draw_of

__all__ = [
    "ZOO",
    "Action",
    "Ending",
    "Event",
    "Observation",
    "Reward",
    "Robot",
    "Rotor",
    "Term",
    "TermTask",
    "TermView",
    "draw_of",
    "library",
]
