"""Signed distance fields."""

import numpy as np
import numpy.typing as npt
import warp as wp


class SDF:
    """A signed distance field stored in a `wp.Volume`, with mass properties at density 1.

    Attributes:
        volume: Field of distances [m], negative inside, or None.
        I: Inertia about the centre of mass at density 1 (3, 3) [kg m^2].
        mass: Mass at density 1 [kg].
        com: Centre of mass (3,) [m].
    """

    def __init__(
        self,
        volume: wp.Volume | None = None,
        I: npt.ArrayLike | None = None,
        mass: float = 1.0,
        com: npt.ArrayLike | None = None,
    ):
        self.volume = volume
        self.I = np.eye(3) if I is None else np.array(I, dtype=np.float64).reshape(3, 3)
        self.mass = mass
        self.com = np.zeros(3) if com is None else np.array(com, dtype=np.float64).reshape(3)
        self.has_inertia = True
        self.is_solid = True

    def finalize(self, device: wp.DeviceLike = None) -> int:
        """Return the id of the volume for kernels, 0 without one."""
        return self.volume.id if self.volume is not None else 0
