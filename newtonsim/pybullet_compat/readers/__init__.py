"""Files and arguments of PyBullet's loading functions, read into the records of `descriptions`."""
