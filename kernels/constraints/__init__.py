"""Constraint rows at velocity level, in energy coordinates, and their solve."""
