"""What a body may be made of, checked before the world has it: a world that has it steps."""

from __future__ import annotations

import numpy as np

from newtonsim.builder.validate import LARGEST_INERTIA, LARGEST_MASS, LEAST_INERTIA, LEAST_MASS
from newtonsim.pybullet_compat.descriptions.description import BodyDescription, Link
from newtonsim.pybullet_compat.descriptions.kinds import Geom, JointKind
from newtonsim.pybullet_compat.descriptions.mass import local_box
from newtonsim.pybullet_compat.surface.arguments import LARGEST

_WITH_AXIS = (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.PLANAR)


def check_description(body: BodyDescription) -> None:
    """Raise a ValueError for what single precision cannot work with, and for joint axes of length zero.

    Args:
        body: The body.
    """
    _check_lengths("position", body.pose.p)
    if body.patterns:  # its parts were checked with the first body
        return
    for link in (body.base, *body.links):
        masses = link.masses or (link.mass,)
        if any(masses) and not all(LEAST_MASS <= mass <= LARGEST_MASS for mass in masses):
            raise ValueError(f"masses must be 0, or from {LEAST_MASS:g} to {LARGEST_MASS:g} kg")
        if all(shape.kind != Geom.PLANE for shape in link.collisions):  # which have no end
            _check_moments(link)
        if link is not body.base and link.joint_type in _WITH_AXIS and not np.any(link.axis):
            raise ValueError(f"joint {link.joint_name!r}: the axis has length zero")
        _check_lengths("frame of a link", link.joint_pose.p)
        _check_lengths("inertial frame", link.inertial_pose.p)
        for shape in (*link.collisions, *(visual.geometry for visual in link.visuals)):
            _check_lengths("frame of a shape", shape.pose.p)
            if shape.kind not in (Geom.PLANE, Geom.HEIGHTFIELD) and (shape.kind != Geom.MESH or shape.meshes):
                _check_lengths("shape", np.array(local_box(shape)))


def _check_moments(link: Link) -> None:
    largest = float(np.max(link.inertia))
    if not largest <= LARGEST_INERTIA:
        raise ValueError(f"moments of inertia must be at most {LARGEST_INERTIA:g} kg m^2")
    if link.mass > 0.0 and 0.0 < largest < LEAST_INERTIA:
        raise ValueError(f"moments of inertia must be at least {LEAST_INERTIA:g} kg m^2")


def _check_lengths(what: str, values: np.ndarray) -> None:
    if not (np.abs(values) <= LARGEST).all():
        raise ValueError(f"{what}: lengths must be at most {LARGEST:g} m")
