"""Attributes of URDF elements, with those that PyBullet and Gazebo's importers add.

Reference: http://wiki.ros.org/urdf/XML
"""

from collections.abc import Iterator

from newtonsim.importers.files.attributes import meet_unknown_attributes
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.xml import Node

ATTRIBUTES: dict[str, frozenset[str]] = {
    name: frozenset(attributes.split())
    for name, attributes in {
        "axis": "xyz rpy",
        "box": "size",
        "calibration": "falling reference_position rising",
        "capsule": "length name radius",
        "child": "link",
        "collision": "concave group mask name",
        "color": "rgba",
        "cylinder": "length name radius",
        "dynamics": "damping friction spring_reference spring_stiffness",
        "geometry": "name",
        "inertia": "ixx ixy ixz iyy iyz izz",
        "inertial": "name",
        "joint": "dont_collapse name type",
        "limit": "effort lower twist upper velocity",
        "link": "concave name type",
        "mass": "value",
        "material": "name",
        "mesh": "filename name scale",
        "mimic": "joint multiplier offset",
        "origin": "rpy xyz",
        "parent": "link",
        "plane": "name normal",
        "robot": "name version",
        "safety_controller": "k_position k_velocity soft_lower_limit soft_upper_limit",
        "sphere": "name radius",
        "texture": "filename",
        "visual": "name",
        **dict.fromkeys(
            (
                *("contact_cfm", "contact_erp", "damping", "inertia_scaling", "lateral_friction"),
                *("restitution", "rolling_friction", "spinning_friction", "stiffness"),
            ),
            "value",
        ),
    }.items()
}
"""By element; elements with the same name in <gazebo> or <transmission> are those of other formats."""

_OWN = ("link", "joint", "material")


def meet_misspellings(root: Node, faults: Faults) -> None:
    """Meet attributes that URDF does not know in a robot, its links, joints and materials."""
    meet_unknown_attributes(_elements(root), ATTRIBUTES, faults)


def _elements(root: Node) -> Iterator[Node]:
    yield root
    for child in root.children:
        if child.tag in _OWN:
            yield from child.walk()
