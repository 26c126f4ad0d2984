"""VBDSolver: vertex block descent; the step is in `solver`."""
