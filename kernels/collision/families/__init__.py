"""Narrow phases: one kernel for each family of pairs of shapes."""
