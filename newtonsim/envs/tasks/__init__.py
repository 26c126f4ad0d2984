"""The environments, one file for each family."""

from newtonsim.envs.task import Task
from newtonsim.envs.tasks.cartpole import CartPole, CartPoleSwingUp
from newtonsim.envs.tasks.planar import HalfCheetah, Hopper, Walker2d

ALL: tuple[type[Task], ...] = (CartPole, CartPoleSwingUp, Hopper, Walker2d, HalfCheetah)
