"""Actuators: what lies between a command and the effort that a joint feels."""
