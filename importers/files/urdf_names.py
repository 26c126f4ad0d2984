"""Names that `export_urdf` writes and `parse_urdf` reads, beside those of the format."""

BALL = "newtonsim_ball"
"""Element of a robot with a spherical <joint>, for which other readers see the hinges and links it names."""
