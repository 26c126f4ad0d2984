"""The backward pass of the constraint stage."""
