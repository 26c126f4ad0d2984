"""Endings of USD files, and names of the custom attributes that `export_usd` writes and `parse_usd` reads.

The attributes hold what UsdPhysics has no schema for, in SI units and radians. A joint with one axis has its
limits and its drive in UsdPhysics alone; one with several axes has them here too, and these count, as
UsdPhysics does not say in which order its degrees of freedom follow each other.
"""

USD_ENDINGS = (".usd", ".usda", ".usdc", ".usdz")
"""Endings of the names of USD files."""

NAMESPACE = "newtonsim"

PASSIVE_ATTRIBUTES = {
    "limit_ke": "limitKe",
    "limit_kd": "limitKd",
    "stiffness": "stiffness",
    "spring_ref": "springRef",
    "effort_lower": "effortLower",
    "velocity_limit": "velocityLimit",
}
"""Fields of a joint axis and their attributes: float[], one number for each axis of any joint."""

DRIVE_ATTRIBUTES = {
    "limit_lower": "lower",
    "limit_upper": "upper",
    "target_ke": "targetKe",
    "target_kd": "targetKd",
    "effort_limit": "effortLimit",
}
"""The same for joints with several axes, beside "mode" (int[])."""

REFERENCE_ATTRIBUTES = {
    "limit_solref": ("limitSolref", 2),
    "limit_solimp": ("limitSolimp", 5),
    "limit_margin": ("limitMargin", 1),
}
"""Fields of limits by reference, their attributes, float[], and the numbers of each axis."""

FRICTION_ATTRIBUTES = {"friction_solref": ("frictionSolref", 2), "friction_solimp": ("frictionSolimp", 5)}
"""The same of dry friction by reference, and the numbers of each degree of freedom."""

DOF_ATTRIBUTES = ("armature", "damping", "friction")
"""float[], one number for each degree of freedom."""

FLOATING_ATTRIBUTES = {name: f"floating{name.capitalize()}" for name in DOF_ATTRIBUTES}
"""The same of the joint that lets a body float, which is not a prim: float[] of the body."""
