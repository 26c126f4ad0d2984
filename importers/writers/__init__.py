"""Writers of robot files: a finalized model becomes USD, MJCF or URDF."""
