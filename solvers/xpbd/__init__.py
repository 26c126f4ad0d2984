"""XPBDSolver: extended position-based dynamics; the step is in `solver`."""
