"""Is it the same robot? A file as it is read here, beside the engine that such files are written for."""

from newtonsim.fidelity.comparison import Comparison, Item, compare_mujoco_solver, compare_with_oracle

__all__ = ["Comparison", "Item", "compare_mujoco_solver", "compare_with_oracle"]
