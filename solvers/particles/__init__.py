"""Particles among rigid bodies, which XPBDSolver, VBDSolver and SemiImplicitSolver share."""
