"""Rigid bodies in maximal coordinates, which XPBDSolver and VBDSolver share."""
