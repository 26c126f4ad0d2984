"""One articulated body in many configurations, in double precision, for the PyBullet facade."""
