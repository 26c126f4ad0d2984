"""Things that are drawn in addition to bodies: axes of joints and points of contact, on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.collision.contacts import check_contacts
from newtonsim.geometry.transforms import quat_rotate, transform_point
from newtonsim.scene.enums import JointType

if TYPE_CHECKING:
    from newtonsim.collision.contacts import Contacts
    from newtonsim.scene.model import Model

JOINT_COLOR = (0.15, 0.35, 0.85)
CONTACT_COLOR = (0.90, 0.15, 0.10)
NORMAL_COLOR = (0.10, 0.60, 0.20)
_ENDLESS = 1.0e3
"""Shapes that extend farther than this are infinite planes [m]."""


@dataclass(frozen=True)
class JointMark:
    """A joint as its anchor and its axes, which do not move in the frame of the parent body.

    Attributes:
        joint: Number of the joint.
        world: World of the joint, -1 for the global one.
        body: Parent body, -1 for the world.
        frame: Joint frame in the frame of the parent body, shape (7,).
        axes: Unit axes in the frame of the parent body, shape (n, 3); none for ball and fixed joints.
    """

    joint: int
    world: int
    body: int
    frame: np.ndarray
    axes: np.ndarray


def joint_marks(model: Model) -> list[JointMark]:
    """Return marks of all joints of a model except free ones."""
    if not model.joint_count:
        return []
    kind, parent = model.joint_type.numpy(), model.joint_parent.numpy()
    frame, world = model.joint_X_p.numpy().astype(np.float64), model.joint_world.numpy()
    first, count = model.joint_axis_start.numpy(), model.joint_axis_dim.numpy().reshape(-1, 2).sum(axis=1)
    axis = model.joint_axis.numpy().astype(np.float64) if model.joint_axis_count else np.zeros((0, 3))
    marks = []
    for joint in np.flatnonzero(kind != JointType.FREE):
        axes = axis[first[joint] : first[joint] + count[joint]]
        turned = quat_rotate(frame[joint, 3:], axes) if len(axes) else axes
        marks.append(JointMark(int(joint), int(world[joint]), int(parent[joint]), frame[joint], turned))
    return marks


def typical_size(model: Model) -> float:
    """Return the median radius of the finite shapes [m], 0.1 if there are none."""
    if not model.shape_count:
        return 0.1
    radius = model.shape_collision_radius.numpy()
    radius = radius[(radius > 0.0) & (radius < _ENDLESS)]
    return float(np.median(radius)) if len(radius) else 0.1


@dataclass(frozen=True)
class ContactMarks:
    """Contacts of all worlds.

    Attributes:
        world: World of each, shape (n,).
        place: Index of each in the arrays of the buffer, shape (n,).
        point0: Touching points of shape 0 in the world [m], shape (n, 3).
        point1: Touching points of shape 1, likewise.
        normal: Directions from shape 1 to shape 0, shape (n, 3).
    """

    world: np.ndarray
    place: np.ndarray
    point0: np.ndarray
    point1: np.ndarray
    normal: np.ndarray

    @classmethod
    def of(cls, model: Model, contacts: Contacts, body_q: np.ndarray) -> ContactMarks:
        """Read a contact buffer that was filled at body poses (bodies, 7).

        Raises:
            ModelError: It is a buffer of another model.
        """
        check_contacts(model, contacts)
        start, count = contacts.world_start.numpy()[:-1], contacts.world_count.numpy()
        world = np.repeat(np.arange(len(count)), count)
        place = np.arange(len(world)) + np.repeat(start - np.cumsum(count) + count, count)
        ends = []
        for side in "01":
            shape = getattr(contacts, f"rigid_contact_shape{side}").numpy()[place]
            point = getattr(contacts, f"rigid_contact_point{side}").numpy()[place].astype(np.float64)
            point += getattr(contacts, f"rigid_contact_offset{side}").numpy()[place]
            body = model.shape_body.numpy()[shape]
            moving = body >= 0
            point[moving] = transform_point(body_q[body[moving]], point[moving])
            ends.append(point)
        normal = contacts.rigid_contact_normal.numpy()[place].astype(np.float64)
        return cls(world, place, ends[0], ends[1], normal)
