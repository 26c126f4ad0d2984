"""Records become builder content: merging, masses, collision filters."""
