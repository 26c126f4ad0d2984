"""Kernels that all solvers share: integration, reset, replay, rollouts."""
