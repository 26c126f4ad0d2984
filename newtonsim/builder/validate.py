"""Checks of a builder before anything is allocated. Every error names the element by its key."""

import os
import warnings

import numpy as np

from newtonsim.errors import InertiaWarning, ModelError
from newtonsim.scene.arrays import (
    COUNT_LISTS,
    LARGEST_NUMBER,
    LARGEST_RATE,
    MODEL_ARRAYS,
    SPECS,
    ArraySpec,
)
from newtonsim.scene.columns import Column, distinct, to_array
from newtonsim.scene.enums import ConstraintType, JointMode, JointType, among
from newtonsim.scene.joint_types import coordinate_counts

_KEY_LISTS = {
    "body": "body_key",
    "joint": "joint_key",
    "constraint": "constraint_key",
    "shape": "shape_key",
    "tendon": "tendon_key",
    "tendon_equality": "tendon_equality_key",
    "actuator": "actuator_key",
}
_MAY_BE_NONE = (
    "joint_parent",
    "constraint_parent",
    "constraint_child",
    "constraint_coupled_axes",
    "shape_body",
    "muscle_bodies",
    "tendon_element_axis",
    "tendon_element_body",
    "tendon_equality_tendons",
    "actuator_joint",
    "actuator_axis",
    "actuator_tendon",
    "actuator_bodies",
)
_CONDIMS = (0, 1, 3, 4, 6)
_STARTS = ("axis", "coord", "dof", "constraint_axis", "muscle_point", "tendon_element")
"""Kinds of elements that ranges consist of; the start of an empty range may be at the end."""


def element_name(builder, per: str, index: int) -> str:
    """Return the name of an element in messages, such as "joint 'knee'" or "particle 12"."""
    if per in _KEY_LISTS:
        return f"{per} '{getattr(builder, _KEY_LISTS[per])[index]}'"
    starts = {"axis": "joint_axis_start", "coord": "joint_q_start", "dof": "joint_qd_start"}
    if per in starts:
        joint = int(np.searchsorted(getattr(builder, starts[per]), index, side="right")) - 1
        return f"joint '{builder.joint_key[joint]}'" if joint >= 0 else f"{per} {index}"
    names = {"tri": "triangle", "tet": "tetrahedron", "muscle_point": "muscle point"}
    names |= {"contact_pair": "contact pair", "tendon_element": "tendon element"}
    names["constraint_axis"] = "constraint axis"
    return f"{names.get(per, per)} {index}"


def check_structure(builder) -> None:
    """Check that lists fit together and indices point to something.

    Raises:
        ModelError: A list has the wrong length or an index is out of range.
    """
    counts = {per: builder._count(per) for per in COUNT_LISTS}
    for spec, values in builder._lists():
        expected = counts[spec.per] * spec.flat
        if len(values) != expected:
            raise ModelError(
                f"{spec.name}: expected {expected} entries, one per {spec.per}, got {len(values)}"
            )
    for spec, values in builder._lists():
        if spec.index_of and len(values):
            _check_indices(builder, spec, values, counts)
    shapes = counts["shape"]
    pairs = builder.shape_collision_filter_pairs.array()
    outside = ((pairs < 0) | (pairs >= shapes)).any(axis=1)
    if outside.any():
        pair = tuple(pairs[np.argmax(outside)].tolist())
        raise ModelError(f"shape_collision_filter_pairs: {pair} is outside 0..{shapes - 1}")
    joints = counts["joint"]
    for mimic in builder.joint_mimic:
        if not (0 <= mimic[0] < joints and 0 <= mimic[1] < joints):
            raise ModelError(f"joint_mimic: {mimic} names a joint outside 0..{joints - 1}")
    _check_joint_layout(builder)


def _check_indices(builder, spec: ArraySpec, values: Column, counts: dict[str, int]) -> None:
    limit = counts[spec.index_of]  # pyright: ignore[reportArgumentType]
    block = to_array(spec, values).reshape(counts[spec.per], -1)
    lowest = np.full(block.shape[1], -1 if spec.name in _MAY_BE_NONE else 0)
    if spec.name == "edge_indices":
        lowest[:2] = -1  # a border has a triangle on one side only
    inclusive = spec.index_of in _STARTS and spec.name != "constraint_coupled_axes"
    bad = (block < lowest) | (block >= limit + inclusive)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        what = spec.name.replace(f"{spec.per}_", "", 1)
        raise ModelError(
            f"{element_name(builder, spec.per, int(row))}: {what} {block[row, column]} is not a "
            f"valid {spec.index_of} (there are {limit})"
        )


def _check_joint_layout(builder) -> None:
    """Check that the coordinates and axes of the joints lie one after the other."""
    dim = np.array(builder.joint_axis_dim, np.int64).reshape(-1, 2).sum(axis=1)
    kind = np.array(builder.joint_type, np.int64)
    coords, dofs = coordinate_counts(kind, dim)
    layout = (
        ("joint_q_start", coords, "joint_q"),
        ("joint_qd_start", dofs, "joint_qd"),
        ("joint_axis_start", dim, "joint_axis"),
    )
    for name, sizes, values in layout:
        ends = np.cumsum(sizes)
        wrong = np.array(getattr(builder, name), np.int64) != ends - sizes
        if wrong.any():
            raise ModelError(
                f"joint '{builder.joint_key[int(np.argmax(wrong))]}': {name} does not fit its joint type"
            )
        if sizes.sum() != len(getattr(builder, values)):
            raise ModelError(f"{values}: expected {sizes.sum()} entries, got {len(getattr(builder, values))}")


def check_values(builder, arrays: dict[str, np.ndarray]) -> None:
    """Check numbers: finite, limits in order, masses, inertias.

    Args:
        builder: The builder, for names.
        arrays: Its lists as arrays.

    Raises:
        ModelError: Something is wrong with an element, which the message names.
    """
    for spec in MODEL_ARRAYS:
        if spec.name in arrays and arrays[spec.name].dtype.kind == "f" and arrays[spec.name].size:
            block = arrays[spec.name].reshape(len(arrays[spec.name]), -1)
            bad = np.isnan(block) if spec.allow_inf else ~np.isfinite(block)
            if bad.any():
                row = int(np.argwhere(bad)[0, 0])
                name = element_name(builder, spec.per, row)
                raise ModelError(f"{name}: {spec.name} is {_show(block[row])}")
    _check_scalars(builder)
    _check_appearance(builder)
    _check_kinds(builder, arrays)
    _check_limits(builder, arrays)
    _check_sizes(builder, arrays)
    _check_extents(builder, arrays)
    _check_magnitudes(builder, arrays)
    _check_masses(builder, arrays)
    _check_references(builder, arrays)


_BY_REFERENCE = (
    "joint_limit",
    "joint_friction",
    "constraint",
    "shape",
    "contact_pair",
    "tendon_limit",
    "tendon_equality",
)
"""Arrays with solref and solimp, by what stands before them."""


def _check_references(builder, arrays: dict[str, np.ndarray]) -> None:
    """Check solref and solimp as MuJoCo's documentation allows them, and condim."""
    for stem in _BY_REFERENCE:
        ref, imp = (arrays[f"{stem}_{name}"] for name in ("solref", "solimp"))
        mixed = (ref > 0.0).any(axis=1) & (ref <= 0.0).any(axis=1)
        unfit = (imp[:, :2] < 0.0).any(axis=1) | (imp[:, :2] > 1.0).any(axis=1) | (imp[:, 2] < 0.0)
        unfit |= (imp[:, 3] <= 0.0) | (imp[:, 3] >= 1.0) | (imp[:, 4] < 1.0)
        for name, bad, expected in (
            ("solref", mixed, "two positive numbers, or two that are not"),
            (
                "solimp",
                unfit,
                "two fractions, a width, a midpoint between 0 and 1, and a power of at least 1",
            ),
        ):
            if bad.any():
                at = int(np.argmax(bad))
                element = element_name(builder, SPECS[f"{stem}_{name}"].per, at)
                values = arrays[f"{stem}_{name}"][at].tolist()
                raise ModelError(f"{element}: {stem}_{name} is {values}, expected {expected}")
    condim = arrays["shape_condim"]
    unknown = ~among(condim, _CONDIMS)
    if unknown.any():
        at = int(np.argmax(unknown))
        raise ModelError(
            f"{element_name(builder, 'shape', at)}: shape_condim is {condim[at]}, expected one of {_CONDIMS}"
        )


def _show(row: np.ndarray) -> str:
    return str(row[0]) if len(row) == 1 else str(row.tolist())


def _check_scalars(builder) -> None:
    if not np.all(np.isfinite(np.asarray(builder.gravity, np.float64))):
        raise ModelError(f"gravity is {builder.gravity}")
    if np.abs(np.asarray(builder.gravity, np.float64)).max() > LARGEST_RATE:
        raise ModelError(f"gravity is {builder.gravity}, expected at most {LARGEST_RATE:g} m/s^2")
    up = np.asarray(builder.up_vector, np.float64)
    if up.shape != (3,) or not np.all(np.isfinite(up)) or not np.linalg.norm(up) > 0.0:
        raise ModelError(f"up_vector {up.tolist()} is not a direction")


def _check_appearance(builder) -> None:
    for name, fits, expected in (
        ("shape_color", _is_color, "four finite numbers RGBA"),
        ("shape_texture", _is_path, "the path of an image"),
    ):
        values, place = distinct(getattr(builder, name))
        for number, value in enumerate(values):
            if value is not None and not fits(value):
                shape = element_name(builder, "shape", int(np.argmax(place == number)))
                given = f"array {value.shape}" if isinstance(value, np.ndarray) else repr(value)
                raise ModelError(f"{shape}: {name}: expected {expected} or None, got {given}")


def _is_color(value: object) -> bool:
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return numbers.shape == (4,) and bool(np.isfinite(numbers).all())


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _check_kinds(builder, arrays: dict[str, np.ndarray]) -> None:
    for name, kinds in (("joint_type", JointType), ("joint_axis_mode", JointMode)):
        unknown = ~among(arrays[name], kinds)
        if unknown.any():
            at = int(np.argmax(unknown))
            element = element_name(builder, SPECS[name].per, at)
            raise ModelError(f"{element}: {name} {arrays[name][at]} is not a {kinds.__name__}")


def _check_limits(builder, arrays: dict[str, np.ndarray]) -> None:
    limits = (("joint_limit", "axis"), ("joint_twist", "joint"), ("tendon_limit", "tendon"))
    for stem, per in (*limits, ("tendon_spring", "tendon")):
        lower, upper = arrays[f"{stem}_lower"], arrays[f"{stem}_upper"]
        reversed_ = lower > upper
        if reversed_.any():
            at = int(np.argmax(reversed_))
            name = element_name(builder, per, at)
            raise ModelError(f"{name}: lower limit {lower[at]:g} is above upper limit {upper[at]:g}")
    most, least = arrays["joint_effort_limit"], arrays["joint_effort_lower"]
    outside = (most < 0.0) | (least > 0.0)
    if outside.any():
        at = int(np.argmax(outside))
        bounds = f"effort_lower {least[at]:g} and effort_limit {most[at]:g} do not enclose zero"
        raise ModelError(f"{element_name(builder, 'axis', at)}: {bounds}")
    swing = arrays["joint_swing_limit"]
    if (swing < 0.0).any():
        at = int(np.argmax(swing < 0.0))
        raise ModelError(f"{element_name(builder, 'joint', at)}: swing limit {swing[at]:g} is negative")
    lower, upper = arrays["joint_distance_lower"], arrays["joint_distance_upper"]
    reversed_ = (lower > upper) & (upper >= 0.0)
    if reversed_.any():
        at = int(np.argmax(reversed_))
        name = element_name(builder, "joint", at)
        raise ModelError(f"{name}: least distance {lower[at]:g} is above largest distance {upper[at]:g}")
    axes = arrays["joint_axis"]
    if len(axes):
        zero = np.linalg.norm(axes, axis=1) < 1e-6
        if zero.any():
            raise ModelError(
                f"{element_name(builder, 'axis', int(np.argmax(zero)))}: its axis has no direction"
            )


LEAST_MASS, LARGEST_MASS = 1.0e-18, 1.0e20
"""Masses of moving bodies [kg] that single precision can invert, add and multiply by lengths."""
LEAST_INERTIA, LARGEST_INERTIA = 1.0e-30, 1.0e30
"""Moments of inertia of moving bodies [kg m^2] for which the same is true."""
INERTIA_TOLERANCE = 1.0e-3
"""Fraction by which the largest moment may exceed the sum of the others, since files have few digits."""
LEAST_GYRATION = 1.0e-9
"""Radius of gyration [m], a billionth of a metre, below which moments of inertia are rounding of zero."""
_MOST_NAMED = 3
LARGEST_LENGTH = 1.0e12
"""Largest coordinate or size [m]."""
_BOUNDED_ELSEWHERE = ("body_mass", "body_inertia", "constraint_recovery_time")  # a time may be endless
_RATES = ("joint_q", "joint_qd", "body_qd", "particle_qd")
_LENGTHS = {
    "joint_X_p": "its frame in the parent",
    "joint_X_c": "its frame in the child",
    "body_q": "its position",
    "body_com": "its centre of mass",
    "constraint_X_p": "its frame in the parent",
    "constraint_X_c": "its frame in the child",
    "shape_transform": "its position",
    "shape_geo_scale": "its size",
    "particle_q": "its position",
    "particle_radius": "its radius",
}
"""Arrays of lengths, and their names in messages; first the frames that may have placed the bodies."""

_NOT_NEGATIVE = (
    ("particle_mass", ()),
    ("particle_radius", ()),
    ("particle_ke", ()),
    ("particle_kd", ()),
    ("particle_kf", ()),
    ("particle_mu", ()),
    ("particle_cohesion", ()),
    ("particle_adhesion", ()),
    ("spring_rest_length", ()),
    ("spring_stiffness", ()),
    ("spring_damping", ()),
    ("tri_materials", ("tri_ke", None, "tri_kd", "tri_drag", "tri_lift")),
    ("edge_bending_properties", ("edge_ke", "edge_kd")),
    ("tet_materials", ("k_mu", None, "k_damp")),
    ("joint_armature", ()),
    ("joint_damping", ()),
    ("joint_friction", ()),
    ("constraint_torque_scale", ()),
    ("shape_solmix", ()),
    ("tendon_stiffness", ()),
    ("tendon_damping", ()),
    ("tendon_friction", ()),
    ("tendon_armature", ()),
    ("tendon_target_ke", ()),
    ("tendon_target_kd", ()),
    ("tendon_effort_limit", ()),
    ("contact_pair_friction", ("friction", "torsional friction", "rolling friction")),
)
"""Arrays whose entries must not be negative, with the names of their columns; None for others."""


def _check_sizes(builder, arrays: dict[str, np.ndarray]) -> None:
    for name, columns in _NOT_NEGATIVE:
        values = arrays[name]
        negative = values < 0.0
        if columns:
            negative &= [column is not None for column in columns]
        if negative.any():
            at = tuple(map(int, np.argwhere(negative)[0]))
            called = columns[at[1]] if columns else name
            element = element_name(builder, SPECS[name].per, at[0])
            raise ModelError(f"{element}: {called} {values[at]:g} is negative")
    _check_lame(builder, "tri", "tri_ka", arrays["tri_materials"], 1.0)
    _check_lame(builder, "tet", "k_lambda", arrays["tet_materials"], 2.0 / 3.0)
    mu, restitution = arrays["shape_material_mu"], arrays["shape_material_restitution"]
    if (mu < 0.0).any():
        at = int(np.argmax(mu < 0.0))
        raise ModelError(f"{element_name(builder, 'shape', at)}: friction mu {mu[at]:g} is negative")
    outside = (restitution < 0.0) | (restitution > 1.0)
    if outside.any():
        at = int(np.argmax(outside))
        name = element_name(builder, "shape", at)
        raise ModelError(f"{name}: restitution {restitution[at]:g} is not between 0 and 1")


def _check_lame(builder, per: str, name: str, materials: np.ndarray, share: float) -> None:
    """Check that the material resists growth: λ may be negative (auxetic), down to -2 μ / dimensions."""
    least = -share * materials[:, 0]
    unstable = materials[:, 1] < least
    if unstable.any():
        at = int(np.argmax(unstable))
        raise ModelError(
            f"{element_name(builder, per, at)}: {name} {materials[at, 1]:g} is below {least[at]:g}, "
            "where the material has no stable rest state"
        )


def _check_masses(builder, arrays: dict[str, np.ndarray]) -> None:
    mass, inertia = arrays["body_mass"], np.array(builder.body_inertia, np.float64).reshape(-1, 3, 3)
    if not len(mass):
        return
    if (mass < 0.0).any():
        raise ModelError(f"body '{builder.body_key[int(np.argmin(mass))]}': its mass is negative")
    outside = (mass > 0.0) & ((mass < LEAST_MASS) | (mass > LARGEST_MASS))
    if outside.any():
        at = int(np.argmax(outside))
        raise ModelError(
            f"body '{builder.body_key[at]}': its mass is {mass[at]:g} kg, expected 0 for a kinematic body or "
            f"{LEAST_MASS:g} to {LARGEST_MASS:g}"
        )
    dynamic = np.flatnonzero(mass > 0.0)
    if len(dynamic):
        tensors = inertia[dynamic]
        scale = np.abs(tensors).max(axis=(1, 2))
        lopsided = np.abs(tensors - tensors.transpose(0, 2, 1)).max(axis=(1, 2)) > 1e-4 * scale
        if lopsided.any():
            key = builder.body_key[int(dynamic[np.argmax(lopsided)])]
            raise ModelError(f"body '{key}': its inertia is not symmetric")
        moments = np.linalg.eigvalsh(0.5 * (tensors + tensors.transpose(0, 2, 1)))
        smallest = moments[:, 0]
        flat = ~(smallest > 1e-9 * scale)
        if flat.any():
            key = builder.body_key[int(dynamic[np.argmax(flat)])]
            raise ModelError(f"body '{key}': it has mass, but its inertia is not positive definite")
        outside = (smallest < LEAST_INERTIA) | (scale > LARGEST_INERTIA)
        if outside.any():
            at = int(np.argmax(outside))
            key = builder.body_key[int(dynamic[at])]
            raise ModelError(
                f"body '{key}': its moments of inertia are {smallest[at]:g} to "
                f"{scale[at]:g} kg m^2, expected {LEAST_INERTIA:g} to {LARGEST_INERTIA:g}"
            )
        _warn_of_impossible([builder.body_key[at] for at in dynamic], moments, mass[dynamic])


def _warn_of_impossible(keys: list[str], moments: np.ndarray, mass: np.ndarray) -> None:
    """Warn of principal moments A <= B <= C (n, 3) of masses (n,) with A + B < C, which no positive mass has.

    They are used as they are, and stay stable: an eighth of the robots that come with PyBullet have them.
    """
    rounding = mass * LEAST_GYRATION**2
    impossible = moments[:, 2] * (1.0 - INERTIA_TOLERANCE) > moments[:, 0] + moments[:, 1] + rounding
    if not impossible.any():
        return
    named = {keys[at]: moments[at] for at in np.flatnonzero(impossible)[::-1]}  # the first of copies
    texts = [f"'{key}' ({', '.join(f'{moment:.3g}' for moment in m)})" for key, m in reversed(named.items())]
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    text = (
        "no distribution of mass has the principal moments of inertia [kg m^2] of "
        f"{', '.join(texts[:_MOST_NAMED])}{more}: the largest is expected to be at most the sum of the "
        "others; they are used as they are"
    )
    warnings.warn(text, InertiaWarning, stacklevel=5)


def _check_extents(builder, arrays: dict[str, np.ndarray]) -> None:
    """Check that lengths are small enough for single precision to add and square them."""
    for name, what in _LENGTHS.items():
        spec = SPECS[name]
        if not arrays[name].size or np.abs(arrays[name]).max() <= LARGEST_LENGTH:
            continue
        values = np.abs(arrays[name].reshape(len(arrays[name]), -1))
        at, column = map(int, np.argwhere(values > LARGEST_LENGTH)[0])
        raise ModelError(
            f"{element_name(builder, spec.per, at)}: {what} contains {values[at, column]:g} m, expected at "
            "most "
            f"{LARGEST_LENGTH:g}"
        )


def _check_magnitudes(builder, arrays: dict[str, np.ndarray]) -> None:
    """Check that numbers are small enough for single precision to multiply them."""
    for spec in MODEL_ARRAYS:
        values = arrays.get(spec.name)
        if values is None or values.dtype.kind != "f" or not values.size or spec.allow_inf:
            continue
        if spec.name in _LENGTHS or spec.name in _BOUNDED_ELSEWHERE:
            continue
        limit = LARGEST_RATE if spec.name in _RATES else LARGEST_NUMBER
        if np.abs(values).max() <= limit:
            continue
        rows = np.abs(values.reshape(len(values), -1))
        at, column = map(int, np.argwhere(rows > limit)[0])
        raise ModelError(
            f"{element_name(builder, spec.per, at)}: {spec.name} contains {rows[at, column]:g}, expected at "
            f"most {limit:g}"
        )


def check_tree(builder, arrays: dict[str, np.ndarray]) -> None:
    """Check that joints form trees whose moving parts have mass.

    Raises:
        ModelError: A body is the child of two joints, joints form a cycle, a joint moves something without
            mass, or a body with mass belongs to no world.
    """
    child, parent = arrays["joint_child"].astype(np.int64), arrays["joint_parent"].astype(np.int64)
    bodies = builder.body_count
    if len(child):
        inbound = np.full(bodies, -1, np.int64)
        inbound[child] = np.arange(len(child))
        doubled = inbound[child] != np.arange(len(child))
        if doubled.any():
            first = int(np.argmax(doubled))
            a, b = builder.joint_key[first], builder.joint_key[int(inbound[child[first]])]
            raise ModelError(
                f"body '{builder.body_key[child[first]]}' is the child of two joints, '{a}' and '{b}'"
            )
        _check_cycles(builder, child, parent)
        _check_massless(builder, arrays, child, parent)
    if builder.num_envs > 1:
        outside = (arrays["body_mass"] > 0.0) & (arrays["body_world"] < 0)
        if outside.any():
            key = builder.body_key[int(np.argmax(outside))]
            raise ModelError(
                f"body '{key}' has mass but belongs to no world: add it to the builder that add_builder or "
                "replicate copies"
            )


def check_constraints(builder, arrays: dict[str, np.ndarray]) -> None:
    """Check kinds, limits, axes and worlds of constraints.

    Raises:
        ModelError: Something is wrong with a constraint, which the message names.
    """

    def complain(wrong: np.ndarray, what: str) -> None:
        if wrong.any():
            raise ModelError(f"{element_name(builder, 'constraint', int(np.argmax(wrong)))}: {what}")

    kind = arrays["constraint_type"]
    complain(~among(kind, ConstraintType), "its type is not a ConstraintType")
    ends = [np.array(arrays[f"constraint_{end}"], np.int64) for end in ("parent", "child")]
    axes = arrays["constraint_coupled_axes"].astype(np.int64).reshape(-1, 2)
    coupling = kind == ConstraintType.COUPLING
    complain(coupling & (axes[:, 0] < 0), "it does not couple a joint axis")
    dim = arrays["constraint_axis_dim"].astype(np.int64).reshape(-1, 2).sum(axis=1)
    starts = np.cumsum(dim) - dim
    complain(arrays["constraint_axis_start"] != starts, "its axes do not follow those of the one before")
    complain((kind != ConstraintType.LOOP) & (dim > 0), "only loop joints have axes")
    lower, upper = arrays["constraint_distance_lower"], arrays["constraint_distance_upper"]
    complain((lower > upper) & (upper >= 0.0), "least distance is above largest distance")
    owner = np.repeat(np.arange(len(dim)), dim)
    reversed_ = np.zeros(len(dim), bool)
    reversed_[owner[arrays["constraint_limit_lower"] > arrays["constraint_limit_upper"]]] = True
    complain(reversed_, "lower limit is above upper limit")
    flat = np.zeros(len(dim), bool)
    flat[owner[np.linalg.norm(arrays["constraint_axis"], axis=1) < 1e-6]] = True
    complain(flat, "its axis has no direction")
    world = np.append(arrays["body_world"], -1)
    axis_joint = (
        np.searchsorted(arrays["joint_axis_start"], np.arange(len(arrays["joint_axis"])), "right") - 1
    )
    axis_world = np.append(arrays["joint_world"][axis_joint], -1)
    first = np.where(coupling, axis_world[axes[:, 0]], world[ends[0]])
    second = np.where(coupling, axis_world[axes[:, 1]], world[ends[1]])
    complain((first >= 0) & (second >= 0) & (first != second), "it connects two worlds")


def _check_cycles(builder, child: np.ndarray, parent: np.ndarray) -> None:
    above = np.append(
        np.full(builder.body_count, builder.body_count), builder.body_count
    )  # the last entry is the top
    above[child] = np.where(parent < 0, builder.body_count, parent)
    for _ in range(int(builder.body_count).bit_length() + 1):
        above = above[above]
    stuck = above[:-1] != builder.body_count
    if stuck.any():
        key = builder.body_key[int(np.argmax(stuck))]
        raise ModelError(f"the joints above body '{key}' form a cycle")


def rigid_groups(bodies: int, kind: np.ndarray, child: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Return for each body the topmost body that fixed joints weld it to, -1 for the world."""
    above = np.append(np.arange(bodies), bodies)
    fixed = kind == JointType.FIXED
    above[child[fixed]] = np.where(parent[fixed] < 0, bodies, parent[fixed])
    for _ in range(max(1, int(bodies).bit_length())):
        above = above[above]
    return np.where(above[:-1] == bodies, -1, above[:-1])


def _check_massless(builder, arrays: dict[str, np.ndarray], child: np.ndarray, parent: np.ndarray) -> None:
    kind = arrays["joint_type"]
    group = rigid_groups(builder.body_count, kind, child, parent)
    inside = group >= 0
    total = np.bincount(group[inside], arrays["body_mass"][inside], builder.body_count)
    moving = (kind != JointType.FIXED) & ~(
        (kind == JointType.D6) & (arrays["joint_axis_dim"].sum(axis=1) == 0)
    )
    empty = moving & ~(total[child] > 0.0)
    if empty.any():
        joint = int(np.argmax(empty))
        key = builder.body_key[child[joint]]
        raise ModelError(
            f"body '{key}' has no mass, but joint '{builder.joint_key[joint]}' moves it: give it a mass or "
            "a shape with a density"
        )
