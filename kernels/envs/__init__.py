"""Environments: actions, observations, rewards, episodes, randomisation."""
