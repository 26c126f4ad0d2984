"""MuJoCoSolver: the adapter to the packages mujoco and mujoco_warp; the step is in `solver`."""
