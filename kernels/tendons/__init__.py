"""Tendons: lengths along joint coordinates or through points of bodies, what pulls them, and their rows."""
