"""FeatherstoneSolver: reduced coordinates, one articulation per tree; the step is in `solver`."""
