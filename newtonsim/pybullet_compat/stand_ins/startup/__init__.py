"""Code that Python runs at the start of processes that a script starts."""
