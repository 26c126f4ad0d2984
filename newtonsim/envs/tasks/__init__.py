"""The environments, one file for each family."""

from newtonsim.envs.task import Task
from newtonsim.envs.tasks.cartpole import CartPole, CartPoleSwingUp

ALL: tuple[type[Task], ...] = (CartPole, CartPoleSwingUp)
