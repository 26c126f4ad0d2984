"""Chains of links for inverse dynamics, Jacobians, mass matrices and inverse kinematics."""
