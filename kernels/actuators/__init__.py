"""Actuators, which turn commands into joint efforts."""
