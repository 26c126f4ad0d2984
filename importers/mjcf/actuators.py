"""Actuators: every joint actuator whose force is affine in control, position and velocity becomes a drive.

MuJoCo computes the force of an actuator on a joint as

    tau = gear * (gain * ctrl + b0 + b1 * gear * q + b2 * gear * qd)

A drive of newtonsim applies act (force mode), ke (act - q) - kd qd (position) or ke (act - qd) (velocity). So

- b1 = 0 and b2 = 0: force mode, act = gear * gain * ctrl;
- b1 < 0: position mode, ke = -b1 gear^2, kd = -b2 gear^2, act = (gain * ctrl + b0) / (-b1 gear) - ref;
- b1 = 0 and b2 < 0: velocity mode, ke = -b2 gear^2, act = (gain * ctrl + b0) / (-b2 gear).

`ImportReport.actuators` holds for each actuator of the file, in the file's order, a dict with

    name, joint, axis   names and the entry of `Control.joint_act` that it writes, None when it is not
    modelled scale, offset       act = scale * ctrl + offset ctrl_range          (low, high) of ctrl, or None
"""

from collections.abc import Sequence

import numpy as np

from newtonsim.importers.mjcf.document import ACTUATOR_TAGS, Document
from newtonsim.importers.mjcf.records import Actuator, Joint, Scene
from newtonsim.importers.report import ImportReport
from newtonsim.importers.xml import Node

_OTHER_TARGETS = ("tendon", "site", "body", "slidersite", "cranksite", "refsite", "jointinparent")
_STATEFUL = ("intvelocity", "damper", "cylinder", "muscle", "adhesion")


def parse_actuators(document: Document, scene: Scene, report: ImportReport) -> None:
    """Read the <actuator> sections into `scene.actuators`."""
    joints = {joint.name: joint for body in scene.bodies for joint in body.joints if joint.name}
    for section in document.sections("actuator"):
        scene.has_actuators = True
        for node in section.children:
            tag = node.tag
            node = document.defaults.resolve(node, None)[0]
            scene.actuator_order.append(node)
            target = next((name for name in _OTHER_TARGETS if name in node.attrib), None)
            if tag not in ACTUATOR_TAGS or tag in _STATEFUL:
                report.unsupported(node, f"actuators of type {tag}")
            elif target is not None:
                report.unsupported(node, f"actuators on a {target}")
            elif node.text_of("joint") not in scene.ignored_names:
                _add(node, joints, document, scene, report)


def _add(
    node: Node, joints: dict[str, Joint], document: Document, scene: Scene, report: ImportReport
) -> None:
    joint = joints.get(node.required("joint"))
    if joint is None:
        raise node.error(f"the joint {node.text_of('joint')!r} is not defined")
    gears = node.floats("gear", 6, (1.0,), at_least=1)
    if joint.kind in ("ball", "free"):
        report.unsupported(node, f"actuators on a {joint.kind} joint")
        return
    if node.text_of("dyntype", "none") != "none" or node.float("timeconst", 0.0) > 0.0:
        report.unsupported(node, "the activation dynamics of an actuator")
    if node.float("dampratio", 0.0) != 0.0:
        report.unsupported(node, "dampratio of a position actuator")
    law = _law(node, report)
    if law is None:
        return
    ctrl = _range(node, "ctrllimited", "ctrlrange", document)
    inherit = node.float("inheritrange", 0.0)
    if inherit > 0.0 and joint.lower is not None and joint.upper is not None:
        middle, half = 0.5 * (joint.lower + joint.upper) + joint.ref, 0.5 * (joint.upper - joint.lower)
        ctrl = (middle - inherit * half, middle + inherit * half)
    force = _range(node, "forcelimited", "forcerange", document)
    scene.actuators.append(
        Actuator(node.text_of("name"), node, joint.name, float(gears[0]), *law, ctrl, force)
    )


def _law(node: Node, report: ImportReport) -> tuple[float, tuple[float, float, float]] | None:
    """Gain and bias (b0, b1, b2) of an actuator, None when it is not affine."""
    if node.tag == "motor":
        return 1.0, (0.0, 0.0, 0.0)
    if node.tag == "position":
        kp, kv = node.float("kp", 1.0), node.float("kv", 0.0)
        return kp, (0.0, -kp, -kv)
    if node.tag == "velocity":
        kv = node.float("kv", 1.0)
        return kv, (0.0, 0.0, -kv)
    gain_type, bias_type = node.text_of("gaintype", "fixed"), node.text_of("biastype", "none")
    gain = node.floats("gainprm", default=(1.0,))
    bias = np.zeros(3)
    if bias_type == "affine":
        given = node.floats("biasprm", default=(0.0, 0.0, 0.0))[:3]
        bias[: len(given)] = given
    if (
        gain_type not in ("fixed", "affine")
        or bias_type not in ("none", "affine")
        or (gain_type == "affine" and gain[1:3].any())
    ):
        report.unsupported(node, f"actuators with gain {gain_type!r} and bias {bias_type!r}")
        return None
    if bias[1] > 0.0 or bias[2] > 0.0:
        report.unsupported(node, "actuators that push away from their target")
        return None
    return (float(gain[0]) if len(gain) else 1.0), (float(bias[0]), float(bias[1]), float(bias[2]))


def _range(node: Node, flag: str, name: str, document: Document) -> tuple[float, float] | None:
    limited = node.bool(flag, "auto", {"auto": "auto"})
    if limited == "auto":
        limited = document.compiler.autolimits and name in node.attrib
    if not limited:
        return None
    node.required(name)
    low, high = node.floats(name, 2)
    if low > high:
        raise node.error(f"attribute '{name}' is reversed: {node.text_of(name)!r}")
    return float(low), float(high)


class Drives:
    """What all actuators of one joint add up to.

    Attributes:
        mode: "force", "position" or "velocity".
        ke: Stiffness of the drive [N m/rad or N/m], or its velocity gain.
        kd: Damping of the drive.
        act: Control input that belongs to ctrl = 0, as MuJoCo starts.
        effort_limit: Largest effort [N m or N].
    """

    def __init__(self) -> None:
        self.mode, self.ke, self.kd, self.act, self.effort_limit = "force", 0.0, 0.0, 0.0, np.inf
        self._count = 0

    def add(self, actuator: Actuator, joint: Joint, report: ImportReport) -> tuple[float, float] | None:
        """Add one actuator; return (scale, offset) of act = scale * ctrl + offset, None if it does not fit."""
        gear, gain, (b0, b1, b2) = actuator.gear, actuator.gain, actuator.bias
        mode = "position" if b1 < 0.0 else "velocity" if b2 < 0.0 else "force"
        if gear == 0.0 or (gain == 0.0 and mode == "force"):
            report.ignored(actuator.node, "an actuator without gear or gain")
            return None
        if self._count and mode == "velocity" and self.mode == "position" and b0 == 0.0:
            # A servo written as position and velocity actuator: without velocity command it is damping.
            self.kd += -b2 * gear**2
            report.approximated(
                actuator.node, "the velocity actuator became the damping of the position drive"
            )
            return None
        if self._count and not (mode == "force" and self.mode == "force"):
            report.unsupported(actuator.node, "a second actuator on one joint")
            return None
        self._count += 1
        self.mode = mode
        if mode == "force":
            scale, offset = gear * gain, gear * b0
        elif mode == "position":
            self.ke, self.kd = -b1 * gear**2, -b2 * gear**2
            scale, offset = gain / (-b1 * gear), b0 / (-b1 * gear) - joint.ref
        else:
            self.ke = -b2 * gear**2
            scale, offset = gain / (-b2 * gear), b0 / (-b2 * gear)
        start = (
            0.0
            if actuator.ctrl_range is None
            else min(max(0.0, actuator.ctrl_range[0]), actuator.ctrl_range[1])
        )
        self.act = scale * start + offset
        self._limit(actuator, scale, offset)
        return scale, offset

    def _limit(self, actuator: Actuator, scale: float, offset: float) -> None:
        """Largest effort; of a motor with a control range it is that of the range's wider side."""
        limits = []
        if actuator.force_range is not None:
            limits.append(abs(actuator.gear) * _widest(actuator.force_range))
        if self.mode == "force" and actuator.ctrl_range is not None:
            limits.append(_widest([scale * value + offset for value in actuator.ctrl_range]))
        if limits:
            added = min(limits)
            self.effort_limit = added if self._count == 1 else self.effort_limit + added
        elif self._count > 1:
            self.effort_limit = np.inf


def _widest(values: Sequence[float]) -> float:
    return max(abs(value) for value in values)
