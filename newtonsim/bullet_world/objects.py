"""Objects of a world: robots, environments and items, from one file each."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

import newtonsim.pybullet_compat as p
from newtonsim.bullet_world import descriptions
from newtonsim.bullet_world.attachments import Attachment, carry
from newtonsim.bullet_world.base_world import World
from newtonsim.bullet_world.errors import ObjectRemovedError
from newtonsim.bullet_world.frames import (
    IDENTITY,
    Pose,
    as_color,
    as_orientation,
    as_pose,
    as_position,
    expect,
    numbers,
)
from newtonsim.bullet_world.joint_types import ONE_COORDINATE, JointType
from newtonsim.bullet_world.mimics import with_followers
from newtonsim.bullet_world.object_states import ObjectState, capture, stop
from newtonsim.bullet_world.snapshots import undone

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.bullet_client import BulletClient

BASE = -1
ROUNDING = 1.0e-6
"""How far beyond its limits a joint may be set without a warning [rad or m]."""
WHITE = (1.0, 1.0, 1.0, 1.0)


class Object:
    """Anything in a world: a robot, an environment such as a kitchen, an item such as a mug.

    Poses of objects are those of the frame of their root link in the world; those of links are those of
    their link frames. Setting a pose or a joint is a teleport: velocities become zero, and all attached
    objects follow.

    Args:
        name: Its name; several may have the same.
        type: Groups objects: "environment", "robot", "milk", ...
        path: URDF, OBJ, STL, DAE or PLY; searched for in the working directory, the resource paths of the
            worlds and the models that come with newtonsim; or package://….
        position: Position of the root link [m] (3,).
        orientation: Its quaternion x, y, z, w; it is normalised.
        world: The world, the current one if None.
        color: RGBA in 0..1 of objects made from a mesh.
        ignoreCachedFiles: Whether to regenerate the URDF of a mesh.
        fixed_base: Whether the root link cannot move, as in an environment.
        mass: Mass of objects made from a mesh [kg]; None for 0.1.

    Attributes:
        name, type, world: As given.
        path: The URDF that was loaded, which may be a generated one.
        id: PyBullet's body unique id.
        joints: Index of each joint by name.
        links: Index of each link by name, -1 for the root.
        mimics: Leader, multiplier and offset of each joint that mimics another one.
        root: Name of the root link.
        attachments: Attachment by the other object.
        original_pose: Its pose at creation.

    Raises:
        WorldExitedError: The world has ended, or there is none.
        FileNotFoundError: There is no such file.
        TypeError: A name, the path, the world or a truth value has the wrong type.
        ValueError: A number, or the type of the file, is wrong.
        pybullet_compat.error: The file cannot be loaded.
    """

    def __init__(
        self,
        name: str,
        type: str,
        path: str | os.PathLike,
        position: Sequence[float] | None = None,
        orientation: Sequence[float] | None = None,
        world: World[Object] | None = None,
        color: Sequence[float] | None = None,
        ignoreCachedFiles: bool = False,
        fixed_base: bool = False,
        mass: float | None = None,
    ):
        world = World.required() if world is None else world
        if not isinstance(world, World):
            raise TypeError(f"world: expected a BulletWorld, got {world!r}")
        expect(name, str, "name")
        expect(type, str, "type")
        expect(path, (str, os.PathLike), "path")
        expect(fixed_base, bool, "fixed_base")
        pose = Pose(
            IDENTITY.position if position is None else as_position(position),
            IDENTITY.orientation if orientation is None else as_orientation(orientation),
        )
        rgba = WHITE if color is None else as_color(color)
        if mass is not None and not numbers((mass,), 1, "mass")[0] > 0.0:
            raise ValueError(f"mass: expected a positive number, got {mass!r}")
        description = descriptions.describe(os.fspath(path), rgba, world.resource_paths(), ignoreCachedFiles)
        if mass is not None and not description.generated:
            raise ValueError(f"mass: {os.fspath(path)} already defines its mass")
        self._load(world, name, type, description.urdf, fixed_base, pose)
        if mass is not None:
            self.client.changeDynamics(self.id, BASE, mass=float(mass))

    def _load(
        self, world: World[Object], name: str, type: str, urdf: str, fixed_base: bool, pose: Pose
    ) -> None:
        self.name, self.type, self.path, self.fixed_base = name, type, urdf, fixed_base
        self.world, self.original_pose = world, pose
        self.attachments: dict[Object, Attachment] = {}
        self.mimics = descriptions.mimics_of(urdf)
        self._endless = descriptions.endless_joints_of(urdf)
        client = world.client
        self._removed = False
        self.id = client.loadURDF(urdf, *pose, useFixedBase=fixed_base)
        self.root = client.getBodyInfo(self.id)[0].decode()
        self._infos = [client.getJointInfo(self.id, j) for j in range(client.getNumJoints(self.id))]
        self.joints = {info[1].decode(): info[0] for info in self._infos}
        self.links = {self.root: BASE} | {info[12].decode(): info[0] for info in self._infos}
        self.movable = [info[0] for info in self._infos if info[2] != p.JOINT_FIXED]
        self._inertial: dict[int, Pose] = {}
        if self.mimics:
            self._put_joints(self._rest())
        self.teleport(pose)
        world.remember(self)

    def copy_into(self, world: World[Object]) -> Object:
        """Return a new object of another world, made from the same file, with the pose of this one."""
        twin = object.__new__(type(self))
        twin._load(world, self.name, self.type, self.path, self.fixed_base, self.get_frame())
        twin.original_pose = self.original_pose
        return twin

    def twin_in(self, world: World[Object]) -> Object:
        """Return the object that represents the same body in a world that has become like this one."""
        twin = copy(self)
        twin.world, twin.attachments = world, {}
        return twin

    def __repr__(self) -> str:
        return f"Object({self.name!r}, {self.type!r}, id={self.id}{', removed' if self._removed else ''})"

    @property
    def client(self) -> BulletClient:
        """The client of the world.

        Raises:
            WorldExitedError: The world has ended.
            ObjectRemovedError: The object was removed.
        """
        self.require()
        return self.world.client

    def require(self) -> None:
        """Do nothing if the object can be used.

        Raises:
            WorldExitedError: The world has ended.
            ObjectRemovedError: The object was removed.
        """
        self.world.client  # noqa: B018 (raises if the world has ended)
        if self._removed:
            raise ObjectRemovedError(f"object {self.name!r} was removed")

    @property
    def cids(self) -> dict[Object, int]:
        """Unique ids of the constraints of all attachments by the other object."""
        return {other: attachment.id for other, attachment in self.attachments.items()}

    def remove(self) -> None:
        """Detach everything and remove the object from its world; a second call does nothing."""
        if self._removed:
            return
        client = self.client
        self.detach_all()
        client.removeBody(self.id)
        self.gone()

    def gone(self) -> None:
        """Record that the body no longer exists."""
        self._removed = True
        self.attachments.clear()
        self.world.forget(self)

    # -- attachments -----------------------------------------------------------------------------------------

    def attach(self, object: Object, link: str | None = None, loose: bool = False) -> None:
        """Hold another object, in simulation and when one of them is moved.

        Objects that are already attached are not changed.

        Args:
            object: The other object.
            link: The link at which it is held: one of this object, or, if it has none of that name, one of
                the other. If both have it, the one with several links is meant; if both have several, this
                object with a warning.
            loose: Whether this object stays where it is when the other one is moved.

        Raises:
            TypeError: It is not an object, or `loose` is not a truth value.
            ValueError: It is this object, or one of another world.
            KeyError: Neither object has such a link.
        """
        expect(object, Object, "attach")
        expect(loose, bool, "loose")
        if object is self:
            raise ValueError(f"attach: {self.name!r} cannot be attached to itself")
        if object.world is not self.world:
            raise ValueError(f"attach: {self.name!r} and {object.name!r} are in different worlds")
        owners = [item for item in (self, object) if link is None or link in item.links]
        if not owners:
            raise KeyError(f"neither {self.name!r} nor {object.name!r} has a link {link!r}")
        self.require()
        object.require()
        if object in self.attachments:
            return
        if len(owners) == 2 and len(self.links) == 1 < len(object.links):
            owners = [object]  # this one has no choice of links that a name could mean
        elif link is not None and len(owners) == 2 and min(len(self.links), len(object.links)) > 1:
            both = f"both {self.name!r} and {object.name!r} have a link {link!r}"
            warnings.warn(f"attach: {both}; that of {self.name!r} is meant", stacklevel=2)
        self.hold(object, *((link, None) if owners[0] is self else (None, link)), loose)
        self.world.attachment_event(self, [self, object])

    def hold(
        self,
        other: Object,
        link: str | None = None,
        other_link: str | None = None,
        loose: bool = False,
        offset: Pose | None = None,
    ) -> None:
        """Do what `attach` does, without checks and the event, with a given offset if it is not None."""
        attachment = Attachment(self, other, link, other_link, loose, offset)
        self.attachments[other] = other.attachments[self] = attachment

    def detach(self, object: Object) -> None:
        """Detach an object, whichever of the two was attached to the other.

        Raises:
            TypeError: It is not an object.
            KeyError: They are not attached.
        """
        expect(object, Object, "detach")
        self.require()
        if object not in self.attachments:
            raise KeyError(f"{self.name!r} and {object.name!r} are not attached")
        self.let_go(object)
        self.world.detachment_event(self, [self, object])

    def let_go(self, other: Object) -> None:
        """Do what `detach` does, without the event."""
        self.require()
        attachment = self.attachments.pop(other)
        del other.attachments[self]
        attachment.release()

    def detach_all(self) -> None:
        """Detach all attached objects."""
        self.require()
        for other in list(self.attachments):
            self.detach(other)

    # -- pose ------------------------------------------------------------------------------------------------

    def get_frame(self) -> Pose:
        """Pose of the root link in the world."""
        return self.link_frame(None)

    def link_frame(self, link: str | None) -> Pose:
        """Pose of a link in the world, of the root for None."""
        index = BASE if link is None else self.get_link_id(link)
        if index == BASE:
            base = Pose(*self.client.getBasePositionAndOrientation(self.id))
            inertial = self.inertial_frame(None)
            return base if inertial == IDENTITY else base @ inertial.inverse()
        return Pose(*self.client.getLinkState(self.id, index, computeForwardKinematics=1)[4:6])

    def inertial_frame(self, link: str | None) -> Pose:
        """Inertial frame of a link in its link frame, of the root for None."""
        index = BASE if link is None else self.links[link]
        if index not in self._inertial:
            self._inertial[index] = Pose(*self.client.getDynamicsInfo(self.id, index)[3:5])
        return self._inertial[index]

    def root_in_link(self, link: str | None) -> Pose:
        """Pose of the root in the frame of a link."""
        if link is None or self.links[link] == BASE:
            return IDENTITY
        return self.link_frame(link).inverse() @ self.get_frame()

    def teleport(self, pose: Pose) -> None:
        """Move the root and stop the object; attached objects stay."""
        inertial = self.inertial_frame(None)
        base = pose if inertial == IDENTITY else pose @ inertial
        self.client.resetBasePositionAndOrientation(self.id, *base)
        stop(self)

    def get_position(self) -> list[float]:
        """Position of the root link in the world [m]."""
        return list(self.get_frame().position)

    def get_pose(self) -> list[float]:
        """Same as `get_position`."""
        return self.get_position()

    def get_orientation(self) -> list[float]:
        """Quaternion x, y, z, w of the root link in the world."""
        return list(self.get_frame().orientation)

    def get_position_and_orientation(self) -> list[list[float]]:
        """Position and quaternion of the root link in the world."""
        return self.get_frame().lists()

    def set_position_and_orientation(
        self, position: Sequence[float], orientation: Sequence[float], base: bool = False
    ) -> None:
        """Move the object, with all that is attached to it.

        Args:
            position: Position of the root link, or with `base` of the middle of the object's lower side [m].
            orientation: Quaternion x, y, z, w; it is normalised.
            base: See above.

        Raises:
            ValueError: There are too few or too many numbers, or the quaternion is zero.
        """
        pose = as_pose((position, orientation))
        self.require()
        self.teleport(pose)
        if base:
            low = self.get_base_origin()
            self.teleport(Pose(tuple(2.0 * x - y for x, y in zip(pose.position, low)), pose.orientation))
        self._moved()

    def set_position(self, position: Sequence[float], base: bool = False) -> None:
        """Move the object and keep its orientation; see `set_position_and_orientation`."""
        self.set_position_and_orientation(position, self.get_frame().orientation, base)

    def set_orientation(self, orientation: Sequence[float]) -> None:
        """Rotate the object about the origin of its root link; see `set_position_and_orientation`."""
        self.set_position_and_orientation(self.get_frame().position, orientation)

    def move_base_to_origin_pos(self) -> None:
        """Move the object so that the middle of its lower side is where its origin was."""
        self.set_position(self.get_position(), base=True)

    def get_base_origin(self, link_name: str | None = None) -> list[float]:
        """Middle of the lower side of the bounding box of the object, or of a link [m]."""
        low, high = self.get_AABB(link_name)
        return [(low[0] + high[0]) / 2.0, (low[1] + high[1]) / 2.0, low[2]]

    def get_AABB(self, link_name: str | None = None) -> list[list[float]]:
        """Lower and upper corner of the bounding box of the object, or of a link [m]."""
        links = self.links.values() if link_name is None else [self.get_link_id(link_name)]
        boxes = [self.client.getAABB(self.id, link) for link in links if self._has_shape(link)]
        if not boxes:
            point = list(self.link_frame(link_name).position)
            return [point, point.copy()]
        lows, highs = zip(*boxes)
        return [[min(x) for x in zip(*lows)], [max(x) for x in zip(*highs)]]

    def _has_shape(self, link: int) -> bool:
        return bool(self.client.getCollisionShapeData(self.id, link))

    def _moved(self) -> None:
        self.world.manipulation_event(self, carry(self))

    # -- links -----------------------------------------------------------------------------------------------

    def get_link_id(self, name: str) -> int:
        """Index of a link, -1 for the root.

        Raises:
            KeyError: There is none of that name.
        """
        return _found(self.links, name, f"{self.name!r} has no link")

    def get_link_by_id(self, id: int) -> str:
        """Name of the link of an index.

        Raises:
            KeyError: There is none.
        """
        return _found({v: k for k, v in self.links.items()}, id, f"{self.name!r} has no link")

    def get_link_position(self, name: str) -> list[float]:
        """Position of a link in the world [m]."""
        return list(self.link_frame(name).position)

    def get_link_orientation(self, name: str) -> list[float]:
        """Quaternion x, y, z, w of a link in the world."""
        return list(self.link_frame(name).orientation)

    def get_link_position_and_orientation(self, name: str) -> list[list[float]]:
        """Position and quaternion of a link in the world."""
        return self.link_frame(name).lists()

    get_link_pose = get_link_position_and_orientation

    def get_link_relative_to_other_link(self, source_frame: str, target_frame: str) -> list[list[float]]:
        """Position and quaternion of one link in the frame of another."""
        return (self.link_frame(target_frame).inverse() @ self.link_frame(source_frame)).lists()

    # -- joints ----------------------------------------------------------------------------------------------

    def get_joint_id(self, name: str) -> int:
        """Index of a joint.

        Raises:
            KeyError: There is none of that name.
        """
        return _found(self.joints, name, f"{self.name!r} has no joint")

    def get_joint_by_id(self, id: int) -> str:
        """Name of the joint of an index.

        Raises:
            KeyError: There is none.
        """
        return _found({v: k for k, v in self.joints.items()}, id, f"{self.name!r} has no joint")

    def get_joint_state(self, joint_name: str) -> float:
        """Value of a joint [rad or m]."""
        return self.client.getJointState(self.id, self.get_joint_id(joint_name))[0]

    def get_complete_joint_state(self) -> dict[str, float]:
        """Values of all joints by name."""
        self.require()
        return {name: self.client.getJointState(self.id, index)[0] for name, index in self.joints.items()}

    def set_joint_state(self, joint_name: str, joint_pose: float) -> None:
        """Set the value of a joint [rad or m] and stop it; see `set_joint_states`."""
        self._set_joints({joint_name: joint_pose})

    def set_joint_states(self, joint_poses: Mapping[str, float]) -> None:
        """Set the values of several joints and stop them; what is attached to moved links follows.

        Joints that mimic one of them are set with it; if they are given a different value here, their leader
        decides and a warning names them, as it does if a joint is set but not its leader. As in PyBullet,
        limits are not enforced; a warning names joints beyond them.

        Args:
            joint_poses: Values by name [rad or m].

        Raises:
            TypeError: They are not a mapping, or a value is a truth value.
            KeyError: There is no joint of a name.
            ValueError: A value is not finite, or the joint does not have exactly one coordinate.
        """
        self._set_joints(joint_poses)

    def _set_joints(self, joint_poses: Mapping[str, float]) -> None:
        expect(joint_poses, Mapping, "joint_poses")
        self.require()
        values = {name: self._checked(name, value) for name, value in joint_poses.items()}
        led = with_followers(values, self.mimics, self.joints)
        for name, value in values.items():
            self._warn_of_leader(name, value, led)
            self._warn_of_limits(name, led[name])
        self._put_joints(values)
        self._moved()

    def reset(self) -> None:
        """Move the object to its pose at creation, with joints at zero, except those that mimic others."""
        self._put_joints(self._rest())
        self.set_position_and_orientation(*self.original_pose)

    def _rest(self) -> dict[str, float]:
        """Values of the joints that follow no other, in an object that was just made."""
        free = [name for name in self.joints if name not in self.mimics]
        return {name: 0.0 for name in free if self.get_joint_type(name) in ONE_COORDINATE}

    def _checked(self, name: str, value: float) -> float:
        """The value for a joint.

        Raises:
            KeyError: There is no such joint.
            TypeError: It is a truth value.
            ValueError: It is not finite, or the joint does not have exactly one coordinate.
        """
        kind = self.get_joint_type(name)
        if kind not in ONE_COORDINATE:
            raise ValueError(f"joint {name!r} of {self.name!r} is {kind.name.lower()}")
        if isinstance(value, bool):
            raise TypeError(f"joint {name!r}: expected a number, got {value!r}")
        return numbers((value,), 1, f"joint {name!r}")[0]

    def _warn_of_limits(self, name: str, value: float) -> None:
        low, high = self.get_joint_limits(name)
        if not low - ROUNDING <= value <= high + ROUNDING:
            warnings.warn(
                f"joint {name!r} of {self.name!r}: {value:g} is beyond its limits {low:g} and {high:g}",
                stacklevel=4,
            )

    def _warn_of_leader(self, name: str, value: float, values: Mapping[str, float]) -> None:
        """Warn if a joint that mimics another one is set to a different value than the one that follows."""
        if name not in self.mimics or self.mimics[name][0] not in self.joints:
            return
        leader, multiplier, offset = self.mimics[name]
        law = multiplier * values.get(leader, self.get_joint_state(leader)) + offset
        if abs(value - law) > ROUNDING:
            warnings.warn(
                f"joint {name!r} of {self.name!r} mimics {leader!r}, which requires {law:g}: "
                f"it is set to {values[name]:g}, but {value:g} was given",
                stacklevel=4,
            )

    def _put_joints(self, values: Mapping[str, float]) -> None:
        """Set joints, and those that mimic them, and stop them."""
        for name, value in with_followers(values, self.mimics, self.joints).items():
            self.client.resetJointState(self.id, self.joints[name], value, 0.0)

    def get_joint_limits(self, joint: str) -> tuple[float, float]:
        """Lower and upper limit of a joint [rad or m], infinite if it has none, like continuous ones."""
        low, high = self._joint_info(joint)[8:10]
        return (-math.inf, math.inf) if low > high or joint in self._endless else (low, high)

    def get_joint_axis(self, joint: str) -> tuple[float, float, float]:
        """Axis of a joint in the frame of its link (3,)."""
        return self._joint_info(joint)[13]

    def get_joint_type(self, joint: str) -> JointType:
        """Type of a joint."""
        return JointType(self._joint_info(joint)[2])

    def _joint_info(self, joint: str) -> tuple:
        self.require()
        return self._infos[self.get_joint_id(joint)]

    # -- contacts and colours --------------------------------------------------------------------------------

    def contact_points(self) -> tuple:
        """Current contact points with other objects, as PyBullet's getContactPoints returns them."""
        self.client.performCollisionDetection()
        return self.client.getContactPoints(self.id)

    def contact_points_simulated(self) -> tuple:
        """Contact points after one step of simulation, which is then undone."""
        with undone(self.world):
            self.client.stepSimulation()
            return self.client.getContactPoints(self.id)

    def set_color(self, color: Sequence[float], link: str | None = None) -> None:
        """Set RGBA in 0..1 of the object, or of a link.

        Raises:
            ValueError: It is not four numbers.
            KeyError: There is no such link.
        """
        rgba = as_color(color)
        links = [self.get_link_id(link)] if link else sorted({row[1] for row in self._visuals()})
        for index in links:
            self.client.changeVisualShape(self.id, index, rgbaColor=rgba)

    def get_color(self, link: str | None = None) -> list[float] | dict[str, list[float]] | None:
        """RGBA in 0..1 of a link, or of all that can be seen.

        Returns:
            The colour of the link; without one, that of an object with one visible link, colours by name of
            one with more. None of what cannot be seen.

        Raises:
            KeyError: There is no such link.
        """
        colors = {self.get_link_by_id(row[1]): list(row[7]) for row in reversed(self._visuals())}
        if link:
            self.get_link_id(link)
            return colors.get(link)
        return colors if len(colors) > 1 else next(iter(colors.values()), None)

    def _visuals(self) -> tuple:
        return self.client.getVisualShapeData(self.id)

    def state(self) -> ObjectState:
        """The current state of all that moves, with its colours."""
        return capture(self)


def _found(table: Mapping, key: object, what: str):
    try:
        return table[key]
    except KeyError:
        raise KeyError(f"{what} {key!r}; there are {', '.join(map(str, table))}") from None
