"""The backward pass of an implicit step of particles."""
