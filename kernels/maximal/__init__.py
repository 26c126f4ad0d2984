"""Rigid bodies in maximal coordinates: joints and contacts by sweeps over positions and velocities."""
