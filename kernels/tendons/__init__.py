"""Tendons: lengths along joint coordinates or through points of bodies, their forces, and their rows."""
