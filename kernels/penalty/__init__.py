"""Penalty forces of SemiImplicitSolver and of compliant contact."""
