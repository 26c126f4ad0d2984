"""The backward pass of a FeatherstoneSolver step."""
