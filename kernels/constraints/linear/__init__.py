"""Linear models of a step of reduced coordinates, in closed form."""
