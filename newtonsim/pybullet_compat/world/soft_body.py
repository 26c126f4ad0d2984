"""Soft bodies as clients know them; see `soft_bodies.world`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np


class SoftBody(Protocol):
    """What the client asks of a soft body."""

    def names(self) -> tuple[bytes, bytes]:
        """Names of the base and of the body."""
        ...

    def base_pose(self) -> tuple:
        """Position and quaternion."""
        ...

    def base_velocity(self) -> tuple:
        """Linear and angular velocity."""
        ...

    def place(self, position: np.ndarray, rotation: np.ndarray, at: slice | np.ndarray) -> None:
        """Move the body rigidly in some worlds."""

    def set_velocity(
        self, linear: np.ndarray | None, angular: np.ndarray | None, at: slice | np.ndarray
    ) -> None:
        """Move on rigidly in some worlds."""

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities of its points."""
        ...

    def restore(self, x: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> None:
        """Put its points back, in some worlds."""

    def dynamics_info(self) -> tuple:
        """What getDynamicsInfo returns."""
        ...

    def bounds(self) -> tuple:
        """Lower and upper corner of its box [m]."""
        ...

    def mesh_data(self, flags: int) -> tuple:
        """What getMeshData returns."""
        ...
