"""The backward pass of a substep of bodies in maximal coordinates."""
