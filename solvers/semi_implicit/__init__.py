"""SemiImplicitSolver: penalty forces and symplectic Euler; the step is in `solver`."""
