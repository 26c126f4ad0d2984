"""What scripts see of PyBullet's module: constants, errors, signatures, conversion of arguments, maths."""
