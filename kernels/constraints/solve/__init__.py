"""Solve of the constraint rows: sweeps, then Newton's method."""
