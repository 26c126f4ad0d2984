"""What <flag> switches off: gravity, contacts, equalities, and forces of joints and tendons.

Reference: https://mujoco.readthedocs.io/en/stable/XMLreference.html#option-flag
"""

from __future__ import annotations

import numpy as np

from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.records import Joint, Scene, Tendon

_WORDS: dict[str, object] = {"enable": True, "disable": False}
_FORCES = ("frictionloss", "limit", "spring", "damper")
_NOT_MODELLED = ("actuation",)
_LIMITS = ("limit_lower", "limit_upper", "limit_margin", "limit_solref", "limit_solimp")


def read_flags(node: Node, scene: Scene, report: ImportReport) -> None:
    """Read a <flag>.

    Args:
        node: The element.
        scene: Receives what is off.
        report: Receives what cannot be switched off.
    """
    off = {name for name in (*_FORCES, *_NOT_MODELLED) if not node.bool(name, True, _WORDS)}
    if not node.bool("passive", True, _WORDS):  # of earlier versions
        off |= {"spring", "damper"}
    if not node.bool("gravity", True, _WORDS):
        scene.gravity = np.zeros(3)
    if not node.bool("contact", True, _WORDS):
        scene.contacts_enabled = False
    if not node.bool("equality", True, _WORDS):
        scene.equalities_enabled = False
    if not node.bool("constraint", True, _WORDS):
        off |= {"frictionloss", "limit"}
        scene.contacts_enabled = scene.equalities_enabled = False
    for name in _NOT_MODELLED:
        if name in off:
            report.unsupported(node, f"{name}='disable'")
    scene.switched_off |= off & set(_FORCES)


def switch_off(scene: Scene, report: ImportReport) -> None:
    """Take the forces that are off from joints and tendons, in place, once actuators have read the ranges."""
    if not scene.switched_off:
        return
    for body in scene.bodies:
        for joint in body.joints:
            _still(joint, scene.switched_off, report)
    for tendon in scene.tendons.values():
        _slack(tendon, scene.switched_off)


def _still(joint: Joint, off: set[str], report: ImportReport) -> None:
    if "frictionloss" in off:
        joint.friction = 0.0
    if "limit" in off:
        joint.lower = joint.upper = None
    if "damper" in off:
        joint.damping = 0.0
    if "spring" in off:
        joint.stiffness = 0.0
        joint.mujoco.pop("stiffness", None)
    both = {"spring", "damper"}
    if joint.spring_damper is not None and off & both:
        if not off >= both:
            report.unsupported(joint.node, "a springdamper of which <flag> disables one half")
        joint.spring_damper = None


def _slack(tendon: Tendon, off: set[str]) -> None:
    options = tendon.options
    for name, flag in (("friction", "frictionloss"), ("stiffness", "spring"), ("damping", "damper")):
        if flag in off:
            options[name] = 0.0
            tendon.mujoco.pop(flag if flag == "frictionloss" else name, None)
    if "limit" in off:
        for name in _LIMITS:
            options.pop(name, None)
