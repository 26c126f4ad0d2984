"""One body whose size differs between worlds, from readings of its file in several scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from newtonsim.pybullet_compat.descriptions.description import BodyDescription
from newtonsim.pybullet_compat.descriptions.kinds import Geom

_WITH_SIZES = (Geom.SPHERE, Geom.BOX, Geom.CAPSULE, Geom.CYLINDER)


def of_several_scales(bodies: Sequence[BodyDescription]) -> BodyDescription:
    """Return a body that has the size of each of some in its own world.

    What is seen is the first one's.

    Args:
        bodies: The same file in the scale of each world (W).

    Raises:
        ValueError: The engine has one place of joints, meshes and frames for all worlds.
    """
    first = bodies[0]
    if first.links:
        raise ValueError("a body of several links has the same scale in all worlds")
    bases = [body.base for body in bodies]
    shapes = list(zip(*(base.collisions for base in bases), strict=True))
    if any(shape[0].kind not in _WITH_SIZES for shape in shapes):
        raise ValueError("shapes other than spheres, boxes, capsules and cylinders have one in all worlds")
    frames = [[base.inertial_pose for base in bases], *([one.pose for one in shape] for shape in shapes)]
    if any(np.ptp([frame.p for frame in of_worlds], axis=0).any() for of_worlds in frames):
        raise ValueError("a body whose frames lie apart has the same scale in all worlds")
    base = replace(
        bases[0],
        collisions=[replace(shape[0], variants=tuple(shape)) for shape in shapes],
        inertia=np.array([np.broadcast_to(base.inertia, 3) for base in bases]),
    )
    return replace(first, base=base, patterns=None)
