"""Dynamics: what getDynamicsInfo reports and changeDynamics changes, and external forces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.builder.validate import LARGEST_INERTIA, LARGEST_MASS, LEAST_INERTIA, LEAST_MASS
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.pybullet_compat.descriptions.kinds import Geom
from newtonsim.pybullet_compat.descriptions.mass import inertia_of_shapes
from newtonsim.pybullet_compat.engine import link_properties
from newtonsim.pybullet_compat.surface.arguments import LARGEST_NUMBER, finite, numbers, rows
from newtonsim.pybullet_compat.surface.constants import LINK_FRAME, WORLD_FRAME
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.link_shapes import LinkShapes
from newtonsim.pybullet_compat.world.plain_kinematics import cross, rotated

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.engine import Engine

MULTI_BODY = 2
_SURFACE = ("lateral_friction", "spinning_friction", "rolling_friction", "restitution", "collision_margin")
"""Contact properties of links, in the order of `_SIZES`."""

_ANY_SIZE = (0.0, LARGEST_NUMBER)
_SIZES = {
    **dict.fromkeys(("lateralFriction", "spinningFriction", "rollingFriction"), _ANY_SIZE),
    "restitution": (0.0, 1.0),
    "collisionMargin": _ANY_SIZE,
    "mass": (LEAST_MASS, LARGEST_MASS),
    **dict.fromkeys(("linearDamping", "angularDamping", "jointDamping"), _ANY_SIZE),
    **dict.fromkeys(("contactStiffness", "contactDamping"), _ANY_SIZE),
    "localInertiaDiagonal": (LEAST_INERTIA, LARGEST_INERTIA),
}
"""Least and largest size of what changeDynamics takes, in the order in which it is looked at."""


def getDynamicsInfo(client: Client, bodyUniqueId: int, linkIndex: int) -> tuple:
    """Return mass, friction, inertia and contact properties of a link as PyBullet's 12 fields."""
    body = client.bodies.get(bodyUniqueId)
    if body is None and bodyUniqueId in client.soft_bodies:
        return client.soft_bodies[bodyUniqueId].dynamics_info()
    if body is None or not -1 <= linkIndex < len(body.links) - 1:
        what = "bodyUniqueId" if bodyUniqueId < 0 else "linkIndex" if linkIndex < -1 else "return status"
        raise error(f"getDynamicsInfo failed; invalid {what}")
    if client.num_worlds > 1:
        return _dynamics_info(client, body, linkIndex + 1)
    known = body.dynamics_infos.get(linkIndex)
    if known is None:
        known = body.dynamics_infos[linkIndex] = _dynamics_info(client, body, linkIndex + 1)
    return known


def _dynamics_info(client: Client, body: Body, place: int) -> tuple:
    surface = {name: values[:, place] for name, values in body.surface.items()}
    mass, inertia = body.mass[:, place], body.inertia[:, place]
    if place == 0 and not body.floating:
        mass, inertia = np.zeros_like(mass), np.zeros_like(inertia)
    position, rotation = body.inertial_tuples[place]
    if client.num_worlds == 1:
        return (
            float(mass[0]),
            float(surface["lateral_friction"][0]),
            tuple(inertia[0].tolist()),
            position,
            rotation,
            float(surface["restitution"][0]),
            float(surface["rolling_friction"][0]),
            float(surface["spinning_friction"][0]),
            float(surface["contact_damping"][0]),
            float(surface["contact_stiffness"][0]),
            MULTI_BODY,
            float(surface["collision_margin"][0]),
        )
    names = ("restitution", "rolling_friction", "spinning_friction", "contact_damping", "contact_stiffness")
    head = (mass.copy(), surface["lateral_friction"].copy(), inertia.copy(), position, rotation)
    tail = (MULTI_BODY, surface["collision_margin"].copy())
    return head + tuple(surface[name].copy() for name in names) + tail


def changeDynamics(
    client: Client,
    bodyUniqueId: int,
    linkIndex: int,
    mass=None,
    lateralFriction=None,
    spinningFriction=None,
    rollingFriction=None,
    restitution=None,
    linearDamping=None,
    angularDamping=None,
    contactStiffness=None,
    contactDamping=None,
    frictionAnchor=None,
    localInertiaDiagonal=None,
    ccdSweptSphereRadius=None,
    contactProcessingThreshold=None,
    activationState=None,
    jointDamping=None,
    anisotropicFriction=None,
    maxJointVelocity=None,
    collisionMargin=None,
    jointLowerLimit=None,
    jointUpperLimit=None,
    jointLimitForce=None,
    sleepThreshold=None,
) -> None:
    """Change properties of a link; what is None or negative stays, unknown bodies and links do nothing.

    Numbers of several worlds come as arrays (W,), localInertiaDiagonal as (3,) or (W, 3); what is negative
    stays in its own world alone. A base stands still, with mass 0, in all worlds or in none.

    A new mass gives the inertia that the collision shapes have with it. Damping and maxJointVelocity hold for
    the whole body, whichever link is named. Continuous collision detection is always on here, islands do not
    sleep and friction is isotropic: ccdSweptSphereRadius, contactProcessingThreshold, activationState,
    sleepThreshold, anisotropicFriction and jointLimitForce have no effect.
    """
    body = client.bodies.get(bodyUniqueId)
    if body is None or not -1 <= linkIndex < len(body.links) - 1:
        return
    surface = (lateralFriction, spinningFriction, rollingFriction, restitution, collisionMargin)
    others = (mass, linearDamping, angularDamping, jointDamping, contactStiffness, contactDamping)
    for (name, (least, largest)), value in zip(_SIZES.items(), (*surface, *others, localInertiaDiagonal)):
        if value is not None:
            _check_size(name, value, least, largest)
    stiff = _is_meant(contactStiffness)
    if stiff != _is_meant(contactDamping):
        raise error("Both contactStiffness and contactDamping needs to be set together.")
    if localInertiaDiagonal is not None:
        message = "localInertiaDiagonal needs 3 numbers."
        localInertiaDiagonal = rows(localInertiaDiagonal, 3, client, message, LARGEST_INERTIA)
    place, heavy = linkIndex + 1, _is_meant(mass)
    if heavy:
        _check_mass(client, body, place, mass)
    body.dynamics_infos.clear()
    body.made_from = None
    for name, value in zip(_SURFACE, surface):
        if value is not None and _is_meant(value):
            _change_surface(client, body, place, name, value)
    if stiff:
        _change_surface(client, body, place, "contact_stiffness", contactStiffness)
        _change_surface(client, body, place, "contact_damping", contactDamping)
    if frictionAnchor is not None:
        body.surface["friction_anchor"][client.chosen, place] = float(bool(frictionAnchor))
    if heavy or localInertiaDiagonal is not None:
        _change_mass(client, body, place, mass if heavy else None, localInertiaDiagonal)
    if linearDamping is not None or angularDamping is not None or maxJointVelocity is not None:
        _change_motion(client, body, linearDamping, angularDamping, maxJointVelocity)
    if jointDamping is not None or jointLowerLimit is not None or jointUpperLimit is not None:
        _change_joint(client, body, place, jointDamping, jointLowerLimit, jointUpperLimit)


def _check_size(name: str, value: object, least: float, largest: float) -> None:
    """Raise unless numbers are zero, negative, which means that they stay, or such as the engine can hold."""
    if value.__class__ is float and (value <= 0.0 or least <= value <= largest):  # type: ignore[operator]
        return
    sizes = np.asarray(value, np.float64)
    finite(sizes, name)
    if (sizes > largest).any() or ((sizes > 0.0) & (sizes < least)).any():
        zero = "0 or " if least > 0.0 else ""
        raise error(f"{name} must be {zero}from {least:g} to {largest:g}.")


def _check_mass(client: Client, body: Body, place: int, mass: float | np.ndarray) -> None:
    """Raise for masses whose moments are too large, and for a base that would float in some worlds alone."""
    largest = mass if mass.__class__ is float else float(np.max(mass))
    unit = _unit_inertia(body, place)
    moment = largest * (max(unit.tolist()) if unit.ndim == 1 else float(unit.max()))
    if moment > LARGEST_INERTIA:
        if not any(shape.kind == Geom.PLANE for shape in body.links[place].collisions):
            raise error(f"The moments of inertia must be at most {LARGEST_INERTIA:g} kg m^2.")
    if place or client.num_worlds == 1:
        return
    masses = body.mass[:, place].copy()
    _put(masses, client.chosen, mass)
    if len(set((masses > 0.0).tolist())) > 1:
        raise error(f"mass: a base is static, with mass 0, in all worlds or in none, got {mass}.")


def _is_meant(value: float | np.ndarray | None) -> bool:
    """Whether a property is to change, in some world at least."""
    if value is None or value.__class__ is float:
        return value is not None and value >= 0.0  # pyright: ignore[reportOperatorIssue]
    return bool(np.any(np.asarray(value) >= 0.0))


def _put(known: np.ndarray, at: slice | np.ndarray, value: float | np.ndarray) -> None:
    """Write a number, or one for each of some worlds, over those of all worlds; negative ones leave them."""
    if value.__class__ is float:
        known[at] = value if value >= 0.0 else known[at]
    else:
        known[at] = np.where(np.asarray(value) >= 0.0, value, known[at])


def _change_surface(client: Client, body: Body, place: int, name: str, value) -> None:
    """Set a contact property of a link."""
    _put(body.surface[name][:, place], client.chosen, value)
    engine, shapes = client.engine, client.known_part(LinkShapes)
    if name == "collision_margin" and shapes is not None:
        shapes.margins_changed()
    if engine is None or (name in link_properties.NEED_ROWS and not engine.solver.constraints.rows.spins):
        client.structure_changed()  # the solver has no rows for these until a shape asks for them
    else:
        link_properties.write_link_surface(engine, body, name, place)


def _change_mass(client: Client, body: Body, place: int, mass, inertia) -> None:
    """Set the mass of a link, None or what changes in a world at least, and its moments if they are given."""
    at = client.chosen
    if mass is not None:
        _put(body.mass[:, place], at, mass)
        if not place and body.held:
            body.held = not np.any(body.mass[:, 0] > 0.0)
        unit = _unit_inertia(body, place)
        unit = unit if unit.ndim == 1 else unit[at]
        if mass.__class__ is float:
            body.inertia[at, place] = mass * unit
        else:
            given = np.reshape(mass, (-1, 1))
            body.inertia[at, place] = np.where(given >= 0.0, given * unit, body.inertia[at, place])
    if inertia is not None:
        body.inertia[at, place] = inertia
    body.revision += 1
    if place == 0 and body.mobility_changes():
        client.read_coordinates()
        client.read_poses(body)
        client.change_mobility(body)
    elif client.engine is None:
        client.structure_changed()
    else:
        link_properties.write_mass(client.engine, body, place)
        client.engine.loads_changed |= len(body.links) > 1 or _is_held(client, body)


def _is_held(client: Client, body: Body) -> bool:
    """Whether a constraint is on a body."""
    ends = ((held.parent_body, held.child_body) for held in client.constraints.values())
    return any(body.uid in pair for pair in ends)


def _unit_inertia(body: Body, place: int) -> np.ndarray:
    """Diagonal inertia (3,), or (W, 3), of a link that weighs 1 kg."""
    known = body.unit_inertias.get(place)
    if known is None:
        link = body.links[place]
        known = inertia_of_shapes(1.0, link.collisions, link.inertial_pose)
        body.unit_inertias[place] = known
    return known


def _change_motion(client: Client, body: Body, linear, angular, top_speed) -> None:
    engine = client.engine
    damped = _put_in_rows(client, body.linear_damping, linear)
    damped = _put_in_rows(client, body.angular_damping, angular) or damped
    bounded = _put_in_rows(client, body.max_joint_velocity, top_speed)
    if damped and engine is not None:
        engine.write_damping(body)
    elif bounded and engine is not None:
        engine.write_top_speed(body)


def _put_in_rows(client: Client, known: np.ndarray, value) -> bool:
    """Write a number over those of all links (W, links) of the chosen worlds; returns whether it is meant."""
    if not _is_meant(value):
        return False
    _put(known, client.chosen, value if value.__class__ is float else np.reshape(value, (-1, 1)))
    return True


def _change_joint(client: Client, body: Body, place: int, damping, lower, upper) -> None:
    engine = client.engine
    if _is_meant(damping):
        _put(body.joint_damping[:, place], client.chosen, damping)
        body.revision += 1
        if engine is None:
            client.structure_changed()
        else:
            link_properties.write_damping_of_joint(engine, body, place)
    if lower is None and upper is None:
        return
    for side, value in enumerate((lower, upper)):
        if value is not None:
            body.limits[client.chosen, place, side] = value
    body.stops[:, place] = True
    body.limits_changed()
    if engine is None:
        client.structure_changed()
    else:
        link_properties.write_limits_of_joint(engine, body, place)


def applyExternalForce(
    client: Client, objectUniqueId: int, linkIndex: int, forceObj, posObj, flags: int
) -> None:
    """Apply a force at a point of a link during the next step.

    Args:
        client: The client.
        objectUniqueId: The body; unknown bodies and links do nothing.
        linkIndex: The link, -1 for the base.
        forceObj: Force (3,) or (W, 3) [N].
        posObj: Point of application [m], likewise.
        flags: WORLD_FRAME, or LINK_FRAME for the inertial frame of the link.
    """
    force = numbers(forceObj, 3, client, "force needs a 3 coordinates [x,y,z].", LARGEST_NUMBER)
    point = numbers(posObj, 3, client, "position needs a 3 coordinates [x,y,z].")
    _check_frame(flags)
    _apply(client, objectUniqueId, linkIndex, force, point, None, flags)


def applyExternalTorque(client: Client, objectUniqueId: int, linkIndex: int, torqueObj, flags: int) -> None:
    """Apply a torque to a link during the next step, see `applyExternalForce`."""
    torque = numbers(torqueObj, 3, client, "torque needs a 3 coordinates [x,y,z].", LARGEST_NUMBER)
    _check_frame(flags)
    _apply(client, objectUniqueId, linkIndex, (0.0, 0.0, 0.0), None, torque, flags)


def _check_frame(flags: int) -> None:
    if flags not in (WORLD_FRAME, LINK_FRAME):
        raise error("flag has to be either WORLD_FRAME or LINK_FRAME")


def _apply(client: Client, uid: int, link: int, force, point, torque, flags: int) -> None:
    body = client.bodies.get(uid)
    if body is None or not -1 <= link < len(body.links) - 1:
        return
    engine = client.engine or client.ensure()
    if link < 0:
        client.read_poses(body)
        poses = body.pose
    else:
        poses = client.force_poses(body)
    if body.worlds == 1:
        _apply_to_one(engine, body, link + 1, poses[0, link + 1].tolist(), force, point, torque, flags)
        return
    pose = poses[:, link + 1]
    force, point, torque = (None if v is None else client.spread(v, 3) for v in (force, point, torque))
    if flags == LINK_FRAME:
        force = quat_rotate(pose[:, 3:], force)
        torque = None if torque is None else quat_rotate(pose[:, 3:], torque)
        arm = None if point is None else quat_rotate(pose[:, 3:], point)
    else:
        arm = None if point is None else point - pose[:, :3]
    moment = np.cross(arm, force) if torque is None else torque
    engine.add_force(body, link + 1, moment, force)


def _apply_to_one(
    engine: Engine, body: Body, place: int, pose: list[float], force, point, torque, flags: int
) -> None:
    """Do what `_apply` does in the only world, in plain numbers for speed."""
    if flags == LINK_FRAME:
        q = pose[3:]
        force = rotated(q, force)
        point = None if point is None else rotated(q, point)
        torque = None if torque is None else rotated(q, torque)
    elif point is not None:
        point = (point[0] - pose[0], point[1] - pose[1], point[2] - pose[2])
    engine.add_force_numbers(body, place, (*(cross(point, force) if torque is None else torque), *force))
