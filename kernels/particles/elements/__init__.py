"""Elements between particles: energies, and what is the same in all solvers."""
