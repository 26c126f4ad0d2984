"""Gradients of rollouts, their check against differences, and linearisation."""

from newtonsim.diff.check_report import ArrayCheck, GradCheck
from newtonsim.diff.gradcheck import gradcheck
from newtonsim.diff.jax_bridge import jax_function
from newtonsim.diff.linearize import Linearization, Linearizer, linearize
from newtonsim.diff.rollout import Rollout, RolloutResult, rollout
from newtonsim.diff.smoothing import SmoothedGradient, smoothed_gradient
from newtonsim.diff.torch_bridge import torch_function

__all__ = [
    "ArrayCheck",
    "GradCheck",
    "Linearization",
    "Linearizer",
    "Rollout",
    "RolloutResult",
    "SmoothedGradient",
    "gradcheck",
    "jax_function",
    "linearize",
    "rollout",
    "smoothed_gradient",
    "torch_function",
]
