"""Elements between particles: energies and functions that all solvers share."""
