"""The physics of a client: its scene as a model, and the solver that steps it."""
