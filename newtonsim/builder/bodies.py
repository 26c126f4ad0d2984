"""Rigid bodies with their frames, masses and inertias, and muscles that run over them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.builder.lists import BuilderLists
from newtonsim.errors import ModelError
from newtonsim.geometry.inertia import combine
from newtonsim.geometry.transforms import (
    as_vector,
    as_warp_transform,
    quat_matrix,
    transform_point,
    warp_vector,
)

_AT_REST = bytes(24)  # what `wp.spatial_vector()` takes four times as long for


class BodyMethods(BuilderLists):
    """The part of ModelBuilder that adds bodies."""

    def add_body(
        self,
        origin: Sequence | wp.transform | None = None,
        armature: float = 0.0,
        com: npt.ArrayLike | None = None,
        I_m: npt.ArrayLike | None = None,
        mass: float = 0.0,
        key: str | None = None,
    ) -> int:
        """Add a rigid body.

        Shapes with a density that are attached later add their mass. A body whose mass stays 0 is kinematic.
        A body with mass that no joint connects moves freely.

        Args:
            origin: Pose of the body frame in the world, (position, quaternion) or seven numbers. With None,
                the joint that is added with this body as child places it, at joint coordinates of zero;
                without such a joint, or if it leaves the position free, it is the origin of the world.
            armature: Artificial inertia [kg m^2] added to the diagonal.
            com: Centre of mass in the body frame [m].
            I_m: Inertia about the centre of mass in body axes (3, 3) [kg m^2].
            mass: Mass [kg].
            key: Name.

        Returns:
            The index of the body.
        """
        index = self.body_count
        key = key if key is not None else f"body_{index}"
        if mass < 0.0:
            raise ModelError(f"body '{key}': mass {mass} is negative")
        inertia = np.zeros((3, 3)) if I_m is None else as_vector(I_m, 9, f"body '{key}': I_m").reshape(3, 3)
        self.body_q.append(as_warp_transform(origin, f"body '{key}': origin"))
        self.body_qd.append(wp.spatial_vector.from_buffer_copy(_AT_REST))
        center = wp.vec3() if com is None else warp_vector(as_vector(com, 3, f"body '{key}': com"))
        self.body_com.append(center)
        self.body_inertia.append(inertia + armature * np.eye(3) if armature else inertia.copy())
        self.body_mass.append(float(mass))
        self.body_world.append(-1)
        self.body_present.append(1)
        self.body_key.append(key)
        if origin is None:
            self._unplaced.add(index)
        return index

    @property
    def body_inv_mass(self) -> list[float]:
        """Inverse masses [1/kg] that `finalize` will compute, 0 for kinematic bodies."""
        return [1.0 / m if m > 0.0 else 0.0 for m in self.body_mass]

    @property
    def body_inv_inertia(self) -> list[np.ndarray]:
        """Inverse inertias that `finalize` will compute, 0 for kinematic bodies."""
        return list(inverse_inertia(np.array(self.body_mass), np.array(self.body_inertia).reshape(-1, 3, 3)))

    @property
    def body_shapes(self) -> dict[int, list[int]]:
        """The current shapes of each body, and under -1 the static ones."""
        shapes: dict[int, list[int]] = {body: [] for body in range(-1, self.body_count)}
        for shape, body in enumerate(self.shape_body):
            shapes.setdefault(body, []).append(shape)
        return shapes

    def _add_body_mass(
        self, body: int, mass: float, com: np.ndarray, inertia: np.ndarray, xform: npt.ArrayLike
    ) -> None:
        """Add a mass whose properties are given in a frame with the pose `xform` in the body frame."""
        if mass == 0.0 or not 0 <= body < self.body_count:
            return
        rotation = quat_matrix(np.asarray(xform)[3:])
        added = (mass, transform_point(xform, com), rotation @ inertia @ rotation.T)
        present = (
            self.body_mass[body],
            np.array(self.body_com[body], np.float64),
            np.array(self.body_inertia[body]),
        )
        if self.body_mass[body] == 0.0:
            total = (added[0], added[1], added[2] + present[2].reshape(3, 3))  # an armature stays
        else:
            total = combine(present, added)
        self.body_mass[body], self.body_inertia[body] = float(total[0]), total[2]
        self.body_com[body] = wp.vec3(*total[1])

    def add_muscle(
        self,
        bodies: list[int],
        positions: list[npt.ArrayLike],
        f0: float,
        lm: float,
        lt: float,
        lmax: float,
        pen: float,
    ) -> int:
        """Add a muscle-tendon unit that runs through waypoints on bodies; SemiImplicitSolver moves it.

        `newtonsim.kernels.trees.muscles` defines its tension.

        Args:
            bodies: Body of each waypoint, -1 for the world.
            positions: Waypoints in the body frames [m].
            f0: Active isometric force of the fibre at its optimal length [N].
            lm: Length of the fibre beyond which it resists passively [m].
            lt: Tendon length [m].
            lmax: Length of the fibre at which it is strongest [m].
            pen: Pennation angle at that length [rad].

        Returns:
            The index of the muscle.
        """
        index = self.muscle_count
        if len(bodies) != len(positions):
            raise ModelError(f"muscle {index}: {len(bodies)} bodies but {len(positions)} positions")
        self.muscle_start.append(len(self.muscle_bodies))
        self.muscle_params.append((f0, lm, lt, lmax, pen))
        self.muscle_activations.append(0.0)
        self.muscle_bodies.extend(bodies)
        self.muscle_points.extend(wp.vec3(*as_vector(p, 3, f"muscle {index}: position")) for p in positions)
        return index


def inverse_inertia(mass: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    """Invert inertias (n, 3, 3); the result is 0 for bodies without mass."""
    inverse = np.zeros_like(inertia)
    dynamic = mass > 0.0
    usable = dynamic & (np.abs(np.linalg.det(inertia)) > 0.0) if len(mass) else dynamic
    inverse[usable] = np.linalg.inv(inertia[usable])
    return inverse
