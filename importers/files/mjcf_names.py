"""Names by which `export_mjcf` keeps in <custom> what MJCF cannot hold, for `parse_mjcf`."""

INERTIA = "newtonsim:inertia:"
"""Before the name of a body: numeric with Ixx, Iyy, Izz, Ixy, Ixz, Iyz about its centre of mass [kg m^2]."""
