"""Extended position-based dynamics of particles."""
