"""The table of fields: names under which users read and change a model, its state and its inputs.

One row says where the values are, which elements have one each, and which values are valid. Views,
randomisation, gradients and identification take their names from here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from newtonsim.errors import NewtonsimError, did_you_mean

GROUPS = ("bodies", "joints", "shapes", "constraints", "particles")
"""Groups of elements; worlds also have fields, such as "gravity"."""


@dataclass(frozen=True)
class FieldSpec:
    """One field.

    Attributes:
        name: Name, such as "bodies.mass", "joints.q", "gravity".
        owner: "model", "state" or "control".
        attribute: Attribute of the owner, such as "shape_materials.mu".
        per: Kind of element with one entry each: "world", or see `newtonsim.scene.arrays`.
        least: Smallest valid value.
        most: Largest valid value.
        positive: Whether values must be greater than `least`.
        stays_positive: Whether positive values must remain so, and zeros stand for what has no value.
        initial: Array of the model with the initial values of a state or an input, "" if there is none.
    """

    name: str
    owner: str
    attribute: str
    per: str
    least: float = -math.inf
    most: float = math.inf
    positive: bool = False
    stays_positive: bool = False
    initial: str = ""

    @property
    def group(self) -> str:
        """Group that it belongs to: "bodies", ..., or "" for fields of worlds."""
        return self.name.rpartition(".")[0]

    @property
    def key(self) -> str:
        """Its name within the group."""
        return self.name.rpartition(".")[2]

    @property
    def place(self) -> str:
        """Its name among arrays, such as "model.body_mass", by which gradients are requested."""
        return f"{self.owner}.{self.attribute}"

    def allowed(self) -> str:
        """Describe the valid values."""
        if self.key == "inertia":
            return "symmetric matrices with positive moments"
        positive = self.positive or self.stays_positive
        least = "positive numbers" if positive else f"numbers from {self.least:g}"
        if self.most < math.inf:
            return f"{least} to {self.most:g}"
        return least if positive or self.least > -math.inf else "finite numbers"


def _of(group: str, prefix: str, per: str, *keys: str, least: float = -math.inf) -> list[FieldSpec]:
    """Return the rows of arrays of the model whose names are a prefix and the key."""
    return [FieldSpec(f"{group}.{key}", "model", prefix + key, per, least) for key in keys]


_STATE = [
    FieldSpec("bodies.q", "state", "body_q", "body", initial="body_q"),
    FieldSpec("bodies.qd", "state", "body_qd", "body", initial="body_qd"),
    FieldSpec("bodies.f", "state", "body_f", "body"),
    FieldSpec("joints.q", "state", "joint_q", "coord", initial="joint_q"),
    FieldSpec("joints.qd", "state", "joint_qd", "dof", initial="joint_qd"),
    FieldSpec("particles.q", "state", "particle_q", "particle", initial="particle_q"),
    FieldSpec("particles.qd", "state", "particle_qd", "particle", initial="particle_qd"),
    FieldSpec("particles.f", "state", "particle_f", "particle"),
    FieldSpec("joints.act", "control", "joint_act", "axis", initial="joint_act"),
    FieldSpec("joints.f", "control", "joint_f", "dof"),
]
_BODIES = [
    FieldSpec("bodies.present", "model", "body_present", "body", 0.0, 1.0),
    FieldSpec("bodies.mass", "model", "body_mass", "body", 0.0, positive=True),
    FieldSpec("bodies.inertia", "model", "body_inertia", "body"),
    FieldSpec("bodies.com", "model", "body_com", "body"),
    FieldSpec("particles.mass", "model", "particle_mass", "particle", 0.0, positive=True),
]
_JOINTS = [
    *_of("joints", "joint_", "dof", "armature", "damping", "friction", least=0.0),
    *_of("joints", "joint_", "axis", "target_ke", "target_kd", "stiffness", least=0.0),
    *_of("joints", "joint_", "axis", "limit_ke", "limit_kd", "effort_limit", "velocity_limit", least=0.0),
    FieldSpec("joints.effort_lower", "model", "joint_effort_lower", "axis", most=0.0),
    *_of("joints", "joint_", "axis", "limit_lower", "limit_upper", "spring_ref"),
    *_of("joints", "joint_", "joint", "X_p", "X_c"),
]
_SHAPES = [
    FieldSpec("shapes.friction", "model", "shape_materials.mu", "shape", 0.0),
    FieldSpec("shapes.restitution", "model", "shape_materials.restitution", "shape", 0.0, 1.0),
    *_of("shapes", "shape_materials.", "shape", "ke", "kd", "kf", "ka", least=0.0),
    *_of("shapes", "shape_", "shape", "mu_torsion", "mu_rolling", least=0.0),
    FieldSpec("shapes.scale", "model", "shape_geo.scale", "shape", 0.0, stays_positive=True),
    *_of("shapes", "shape_", "shape", "transform"),
]
_CONSTRAINTS = [
    *_of("constraints", "constraint_", "constraint", "X_p", "X_c"),
    FieldSpec("constraints.enabled", "model", "constraint_enabled", "constraint", 0.0, 1.0),
    *_of("constraints", "constraint_", "constraint", "max_force", "recovery_time", least=0.0),
    *_of("constraints", "constraint_", "constraint", "linear_compliance", "angular_compliance", least=0.0),
]

FIELDS: dict[str, FieldSpec] = {
    spec.name: spec
    for spec in (
        FieldSpec("gravity", "model", "gravity_vec", "world"),
        *_STATE,
        *_BODIES,
        *_JOINTS,
        *_SHAPES,
        *_CONSTRAINTS,
    )
}
"""Every field by its name."""


def find_field(name: str) -> FieldSpec:
    """Look up a field.

    Raises:
        NewtonsimError: There is none of that name; the error lists the existing ones.
    """
    if name not in FIELDS:
        raise NewtonsimError(
            f"there is no field {name!r}{did_you_mean(name, FIELDS)}; there are {', '.join(FIELDS)}"
        )
    return FIELDS[name]


def array_name(name: str) -> str:
    """Return the name of a field's array, such as "model.body_mass"; other names are returned as they are."""
    return FIELDS[name].place if name in FIELDS else name
