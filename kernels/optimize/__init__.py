"""Optimisers: controls of many worlds, their costs, and the quadratic models of these."""
