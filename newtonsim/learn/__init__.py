"""Reinforcement learning: policies for the environments of `newtonsim.envs`, and what they learn with."""
