"""What changeDynamics changes, handed to the arrays of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.fields.table import find_field
from newtonsim.fields.updates import check_changeable, follow
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.surface.constants import GEOM_BOX, GEOM_SPHERE
from newtonsim.pybullet_compat.world.body import Body

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from newtonsim.pybullet_compat.descriptions.description import Geometry
    from newtonsim.pybullet_compat.world.engine import Engine
    from newtonsim.pybullet_compat.world.structure import BodySlot
    from newtonsim.scene.model import Model

_IDENTITY = np.eye(3)
SHAPE_ARRAYS = {
    "lateral_friction": "shape_materials.mu",
    "restitution": "shape_materials.restitution",
    "rolling_friction": "shape_mu_rolling",
    "spinning_friction": "shape_mu_torsion",
    "contact_stiffness": "shape_materials.ke",
    "contact_damping": "shape_materials.kd",
}
"""Arrays of the model, by the property of links that they hold for each shape."""
SIZES, SIZE_ARRAY = "shapes.scale", "shape_geo.scale"
"""Field and array of the model with the sizes of shapes."""
LIMIT_ARRAYS = ("joint_limit_lower", "joint_limit_upper")
"""Arrays of the model with the limits of joints."""
NEED_ROWS = ("rolling_friction", "spinning_friction")
"""Properties for which the solver makes rows only if a shape has them when it is built."""


def write_masses(engine: Engine, body: Body) -> None:
    """Hand over masses and inertias of all links."""
    rows = slice(body.first_row, body.first_row + len(body.links))
    mass, inertia = body.solver_masses()
    engine.write("body_mass", rows, mass)
    engine.write("body_inertia", rows, inertia[..., None] * _IDENTITY)


def write_mass(engine: Engine, body: Body, place: int) -> None:
    """Hand over mass and inertia of one link."""
    if engine.worlds > 1:
        write_masses(engine, body)
        return
    mass, (x, y, z) = body.solver_mass(place)
    engine.write_numbers("body_mass", body.first_row + place, (mass,))
    engine.write_numbers("body_inertia", body.first_row + place, (x, 0.0, 0.0, 0.0, y, 0.0, 0.0, 0.0, z))


def write_surface(engine: Engine, body: Body, names: Iterable[str]) -> None:
    """Hand over contact properties of all links."""
    slot = engine.content.find(body.uid)
    if not slot.places:
        return
    links = [place for place, _ in slot.places] if len(body.links) > 1 else slice(0, 1)
    for name in names:
        if name in SHAPE_ARRAYS:
            engine.write(SHAPE_ARRAYS[name], slot.shapes, np.maximum(body.surface[name][:, links], 0.0))


def write_link_surface(engine: Engine, body: Body, name: str, place: int) -> None:
    """Hand over a contact property of one link."""
    if engine.worlds > 1:
        write_surface(engine, body, (name,))
    elif name in SHAPE_ARRAYS:
        slot, numbers = engine.content.find(body.uid), (max(body.surface[name].item(place), 0.0),)
        for shape, (owner, _) in enumerate(slot.places, slot.shapes.start):
            if owner == place:
                engine.write_numbers(SHAPE_ARRAYS[name], shape, numbers)


def write_joint_damping(engine: Engine, body: Body) -> None:
    """Hand over the damping of all joints."""
    columns = engine.columns[body.uid][1]
    if columns.stop > columns.start:
        values = np.repeat(body.joint_damping, body.u_count, axis=1)
        engine.write("joint_damping", columns, values)


def write_damping_of_joint(engine: Engine, body: Body, place: int) -> None:
    """Hand over the damping of one joint."""
    if engine.worlds > 1 or body.u_count[place] > 1:
        write_joint_damping(engine, body)
    elif body.u_count[place]:
        dof = engine.columns[body.uid][1].start + body.u_start[place]
        engine.write_numbers("joint_damping", dof, (body.joint_damping.item(place),))


def write_all(engine: Engine, body: Body) -> None:
    """Pass on everything that changeDynamics can change without a new engine."""
    write_masses(engine, body)
    write_joint_damping(engine, body)
    write_limits(engine, body)
    write_surface(engine, body, SHAPE_ARRAYS)


def write_differences(engine: Engine, body: Body) -> None:
    """Pass on what differs between worlds; the model was built from the first one."""
    if differs(body.mass) or differs(body.inertia):
        write_masses(engine, body)
    if differs(body.joint_damping):
        write_joint_damping(engine, body)
    write_surface(engine, body, [name for name, values in body.surface.items() if differs(values)])
    if any(shape.variants for link in body.links for shape in link.collisions):
        _write_sizes(engine, body)
    if differs(body.limits):
        write_limits(engine, body)


def differs(values: np.ndarray) -> bool:
    """Whether an array (W, ...) is not the same in all worlds."""
    return len(values) > 1 and bool((values != values[0]).any())


def _write_sizes(engine: Engine, body: Body) -> None:
    """Hand over the sizes of shapes that differ between worlds, and what bounds them."""
    slot, model = engine.content.find(body.uid), engine.model
    of_world = model.shape_count // engine.worlds * np.arange(engine.worlds)
    for shape, (place, number) in enumerate(slot.places, slot.shapes.start):
        variants = body.links[place].collisions[number].variants
        if variants:
            check_changeable(model, find_field(SIZES), of_world + shape)
            engine.write(SIZE_ARRAY, shape, [_size_of(variant) for variant in variants])
            follow(model, SIZE_ARRAY)


def _size_of(shape: Geometry) -> tuple[float, float, float]:
    """Size of a primitive as the model has it [m]."""
    if shape.kind == GEOM_BOX:
        return shape.half_extents
    return (shape.radius, 0.0 if shape.kind == GEOM_SPHERE else 0.5 * shape.height, 0.0)


def write_limits(engine: Engine, body: Body) -> None:
    """Hand over the limits of joints with one coordinate."""
    places = [place for place, count in enumerate(body.u_count) if place and count == 1]
    if not places:
        return
    axes = [engine.axis_starts[body.first_joint + place] for place in places]
    lower, upper = body.limits[:, places, 0], body.limits[:, places, 1]
    free = (lower > upper) | ~body.stops[:, places]
    for name, values, none in zip(LIMIT_ARRAYS, (lower, upper), (-np.inf, np.inf)):
        engine.write(name, axes, np.where(free, none, values))


def write_limits_of_joint(engine: Engine, body: Body, place: int) -> None:
    """Hand over the limits of one joint if it has one coordinate."""
    if engine.worlds > 1:
        write_limits(engine, body)
    elif place and body.u_count[place] == 1:
        lower, upper = body.limits[0, place].tolist()
        if lower > upper or not body.stops[0, place]:
            lower, upper = -np.inf, np.inf
        axis = engine.axis_starts[body.first_joint + place]
        engine.write_numbers("joint_limit_lower", axis, (lower,))
        engine.write_numbers("joint_limit_upper", axis, (upper,))


def write_axes(model: Model, slots: Sequence[BodySlot], worlds: int) -> None:
    """Give joints the axes of their files, of any length, before a solver is made.

    PyBullet's motion subspace has the axis as it is given: with one of length 2 a link moves at twice the
    rate of its joint, and a torque accelerates that by a quarter; slides go twice as far, while hinges turn
    by their angle.
    """
    if all(link.axis_length == 1.0 for slot in slots for link in slot.pattern.links):
        return
    axes, start = HostArray(model.joint_axis, worlds), model.joint_axis_start.numpy()
    for slot in slots:
        for place, count in enumerate(slot.pattern.u_count):
            if place and count == 1:
                axes.host[:, start[slot.joint + place]] *= slot.pattern.links[place].axis_length
    axes.push()
