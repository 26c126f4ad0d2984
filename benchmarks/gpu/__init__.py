"""What can be said of a step on a GPU without one: registers of its kernels, and what a card can do."""
