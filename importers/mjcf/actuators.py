"""Actuators on joints and tendons: those of which the force is affine in control, position and velocity.

MuJoCo computes the force of an actuator on a joint as

    tau = gear * (gain * ctrl + b0 + b1 * gear * q + b2 * gear * qd)

A drive of newtonsim applies act (force mode), ke (act - q) - kd qd (position) or ke (act - qd) (velocity).
With the sums over the actuators of one joint K = -sum(b1 gear^2) and D = -sum(b2 gear^2) the same torque
results from

- K > 0: position mode, ke = K, kd = D, act = sum(gear (gain ctrl + b0)) / K - ref;
- K = 0, D > 0: velocity mode, ke = D, act = sum(gear (gain ctrl + b0)) / D;
- K = D = 0: force mode, act = sum(gear (gain ctrl + b0)).

`ImportReport.actuators` holds for each actuator of the file, in the file's order, a dict with

    name, joint     their names in the file
    type            its element, such as "motor"
    target          kind and name of what it acts on, such as ("joint", "knee")
    axis            entry of `Control.joint_act` that it writes, None when it is on a tendon or not modelled
    tendon          entry of `Control.tendon_act` that it writes, None when it is on no tendon
    actuator        entry of `Control.actuator_ctrl` that holds its ctrl, None when it is a drive
    key             name of its joint in the model, None for none
    place           number of its axis among those of that joint, None for none
    activation      what is between its ctrl and the drive, as arguments of `newtonsim.actuators.Activation`;
                    None where no drive has its whole law, as where several share one
    scale, offset   what it adds to that entry: scale * ctrl + offset
    ctrl_range      (low, high) that MuJoCo clamps ctrl to, or None; of a motor that shares its joint or
                    tendon, the controls whose forces are within its force range, too
    law             all of it as arguments of `newtonsim.actuators.General`; None if it is not affine
"""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from newtonsim.builder import ActuatorTarget
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.damping_ratios import ratio_of
from newtonsim.importers.mjcf.document import ACTUATOR_TAGS, Document
from newtonsim.importers.mjcf.laws import dynamics_of, general_parts, law_of, parts_of
from newtonsim.importers.mjcf.muscles import (
    activation_times,
    has_length_range,
    has_own_bias,
    is_muscle,
    muscle_of,
)
from newtonsim.importers.mjcf.records import Actuator, Joint, Muscle, Scene
from newtonsim.importers.mjcf.whole_actuators import TARGETS, UNLESS, UNLESS_MUJOCO
from newtonsim.importers.mjcf.whole_actuators import law_of as whole_law_of
from newtonsim.scene.enums import JointMode

_OTHER_TARGETS = ("site", "body", "slidersite", "cranksite", "refsite", "jointinparent")
_UNLESS = "newtonsim.actuators is given general_actuators(report.actuators)"
_UNLESS_TENDON = "newtonsim.actuators is given tendon_actuators(report.actuators, model.tendon_key)"
"""Calls by which the model has what is reported."""

DYNAMICS = ("integrator", "filter", "filterexact")
"""Activation dynamics of one time constant."""

_INHERITING = ("position", "intvelocity")
_NO_DRIVES = ("damper", "muscle", "adhesion")


def parse_actuators(document: Document, scene: Scene, report: ImportReport) -> None:
    """Read the <actuator> sections into `scene.actuators`."""
    joints = {joint.name: joint for body in scene.bodies for joint in body.joints if joint.name}
    nodes = [node for section in document.sections("actuator") for node in section.children]
    scalar = {name for name, joint in joints.items() if joint.kind in ("hinge", "slide")}
    shares = Counter((name, node.text_of(name)) for node in nodes for name in ("joint", "tendon"))
    shares.update(("joint", name) for node in nodes if (name := node.text_of("jointinparent")) in scalar)
    for section in document.sections("actuator"):
        scene.has_actuators = True
        for node in section.children:
            tag = node.tag
            node = document.defaults.resolve(node, None)[0]
            if node.text_of("jointinparent") in scalar:
                # along an axis, the frame of the gear does not matter
                node.attrib["joint"] = node.attrib.pop("jointinparent")
            scene.actuator_order.append(node)
            _keep_law(node, joints, document, scene)
            target = next((name for name in _OTHER_TARGETS if name in node.attrib), None)
            if _keep_whole(node, target, joints, shares, document, scene, report):
                continue
            if is_muscle(node) and target is None:
                _add_muscle(node, document, scene, report)
            elif tag not in ACTUATOR_TAGS or tag in _NO_DRIVES:
                unless = _UNLESS if id(node) in scene.laws else ""
                report.unsupported(node, f"actuators of type {tag}", unless=unless)
            elif target is not None:
                report.unsupported(node, f"actuators on a {target}")
            elif "tendon" in node.attrib:
                _add_on_tendon(node, document, scene, report)
            elif node.text_of("joint") not in scene.ignored_names:
                _add(node, joints, document, scene, report)
    _part_servos(joints, document, scene)


def _part_servos(joints: dict[str, Joint], document: Document, scene: Scene) -> None:
    """Let servos with a range of force that share a joint pull along tendons of that joint alone.

    The joint has one drive and one range: that of the servo whose range only a joint can have, which is none
    that is symmetric, or else of the stiffest. A joint that bounds the sum of its forces keeps them all.
    """
    groups: dict[str, list[Actuator]] = {}
    for actuator in scene.actuators:
        if not actuator.on_tendon and joints[actuator.joint].effort_limit == math.inf:
            groups.setdefault(actuator.joint, []).append(actuator)
    for joint, actuators in groups.items():
        bound_inputs(actuators)
        bounded = [[one] for one in actuators if one.force_range is not None and not _stays_inside(one)]
        others = [one for one in actuators if one.force_range is None or _stays_inside(one)]
        parts = [*bounded, others] if others else bounded
        own = max(parts, key=lambda part: (_is_lopsided(part), max(-one.bias[1] for one in part)))
        for part in parts if len(parts) > 1 and bounded else ():
            if part is not own:
                first = part[0].node
                name = _joint_tendon(f"{part[0].name or joint}_servo", joint, first, document, scene)
                for one in part:
                    one.joint, one.on_tendon = name, True


def _is_lopsided(actuators: list[Actuator]) -> bool:
    """Whether the range of force of a servo is not symmetric."""
    low, high = actuators[0].force_range or (0.0, 0.0)
    return len(actuators) == 1 and low != -high


def target_of(node: Node) -> tuple[str, str]:
    """Kind and name of what an actuator acts on, in words of MJCF; two empty texts if it says nothing."""
    kind = next((name for name in TARGETS if name in node.attrib), "")
    return kind, node.text_of(kind, "")


def _keep_whole(
    node: Node,
    target: str | None,
    joints: dict[str, Joint],
    shares: Counter,
    document: Document,
    scene: Scene,
    report: ImportReport,
) -> bool:
    """Keep an actuator as a whole if drives, also behind `newtonsim.actuators`, cannot do what it does."""
    shared = any(shares[name, node.text_of(name)] > 1 for name in ("joint", "tendon") if name in node.attrib)
    what = _beyond_drives(node, target, joints.get(node.text_of("joint", "")), shared)
    names = {node.text_of(name) for name in TARGETS if name in node.attrib}
    if what is None or names & scene.ignored_names:
        return False
    law = whole_law_of(node, document)
    if law is None:
        return False
    kind = ActuatorTarget.SITE if target is not None else ActuatorTarget.JOINT
    unless = UNLESS_MUJOCO if law.lacks(kind) else UNLESS
    report.unsupported(node, what, unless=unless, by_solver=True)
    scene.whole_actuators.append((node, law))
    return True


def _beyond_drives(node: Node, target: str | None, joint: Joint | None, shared: bool) -> str | None:
    """What of an actuator nothing but its whole law has, None for nothing."""
    if target is not None:
        kind = "cranksite" if "cranksite" in node.attrib else target
        return f"actuators of type {node.tag}" if node.tag == "adhesion" else f"actuators on a {kind}"
    if joint is not None and joint.kind in ("ball", "free"):
        return f"actuators on a {joint.kind} joint"
    on_tendon = "tendon" in node.attrib
    if is_muscle(node):
        if not has_length_range(node):
            return "a muscle without lengthrange"
        if has_own_bias(node):
            return "a muscle whose bias differs from its gain"
        return "a muscle on a tendon with other actuators" if on_tendon and shared else None
    if not (on_tendon or shared):
        return None
    if node.text_of("dyntype") == "muscle":
        return None if on_tendon and not shared else "activation dynamics of type muscle"
    parts = parts_of(node) if node.tag != "general" else general_parts(node)
    if parts is None:
        return f"actuators of type {node.tag}"
    gain, bias, dynamics, _ = parts
    if max(bias[1:]) > 0.0:
        return "actuators that push away from their target"
    if any(gain[1:]):
        return "actuators whose gain varies"
    return "the activation dynamics of one of several actuators" if shared and dynamics != "none" else None


def _keep_law(node: Node, joints: dict[str, Joint], document: Document, scene: Scene) -> None:
    """Keep the whole law of an actuator of a joint, for who wants what drives leave out."""
    joint = joints.get(node.text_of("joint", ""))
    if node.tag not in ACTUATOR_TAGS or joint is None or joint.kind not in ("hinge", "slide"):
        return
    control = _range(node, "ctrllimited", "ctrlrange", document) or _inherited_range(node, joint)
    force = _range(node, "forcelimited", "forcerange", document)
    law = law_of(node, joint, control, force, _range(node, "actlimited", "actrange", document))
    if law is not None:
        scene.laws[id(node)] = law


def _inherited_range(node: Node, joint: Joint) -> tuple[float, float] | None:
    """Range of control that a position actuator takes from its joint; classes may say so to motors, too."""
    inherit = node.float("inheritrange", 0.0)
    if node.tag not in _INHERITING or inherit <= 0.0 or joint.lower is None or joint.upper is None:
        return None
    middle, half = 0.5 * (joint.lower + joint.upper) + joint.ref, 0.5 * (joint.upper - joint.lower)
    return middle - inherit * half, middle + inherit * half


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
    activation, unless = _activation(node, document), _UNLESS if id(node) in scene.laws else ""
    if activation is not None or node.text_of("dyntype", "none") != "none":
        unless = unless if activation is None else _UNLESS
        report.unsupported(node, "the activation dynamics of an actuator", unless=unless)
    law = _law(node, report, unless)
    if law is None:
        return
    ctrl = _inherited_range(node, joint) or _range(node, "ctrllimited", "ctrlrange", document)
    force = _range(node, "forcelimited", "forcerange", document)
    ranges = {"ctrl_range": ctrl, "force_range": force, "activation": activation}
    scene.actuators.append(Actuator(node.text_of("name"), node, joint.name, float(gears[0]), *law, **ranges))


def _add_on_tendon(node: Node, document: Document, scene: Scene, report: ImportReport) -> None:
    name = node.required("tendon")
    if name not in {one.text_of("name") for s in document.sections("tendon") for one in s.children}:
        raise node.error(f"the tendon {name!r} is not defined")
    activation = _activation(node, document)
    if activation is not None:
        report.unsupported(node, "the activation dynamics of an actuator", unless=_UNLESS_TENDON)
    elif node.text_of("dyntype", "none") != "none":
        report.unsupported(node, f"activation dynamics of type {node.text_of('dyntype')}")
    law = _law(node, report)
    if law is None:
        return
    gear = float(node.floats("gear", 6, (1.0,), at_least=1)[0])
    ranges = [_range(node, f"{kind}limited", f"{kind}range", document) for kind in ("ctrl", "force")]
    scene.actuators.append(
        Actuator(node.text_of("name"), node, name, gear, *law, *ranges, on_tendon=True, activation=activation)
    )


def _activation(node: Node, document: Document) -> dict[str, Any] | None:
    """Arguments of an `Activation`, None without dynamics or with such as are not known."""
    times = activation_times(node)
    if node.tag == "muscle" or node.text_of("dyntype") == "muscle":
        found = {"dynamics": "muscle", "time_constant": times[0], "release": times[1], "smoothing": times[2]}
    else:
        dynamics, constant = dynamics_of(node)
        if dynamics not in DYNAMICS:
            return None
        found = {"dynamics": dynamics, "time_constant": constant}
    for name, short in (("control_range", "ctrl"), ("activation_range", "act")):
        span = _range(node, f"{short}limited", f"{short}range", document)
        if span is not None:
            found[name] = span
    return found | {"early": node.text_of("actearly", "false") == "true"}


def _add_muscle(node: Node, document: Document, scene: Scene, report: ImportReport) -> None:
    """Add a muscle; one on a joint pulls along a tendon of that joint alone."""
    gear = float(node.floats("gear", 6, (1.0,), at_least=1)[0])
    if "tendon" in node.attrib:
        name = node.required("tendon")
    else:
        joint = node.required("joint")
        if joint in scene.ignored_names:
            return
        name = _joint_tendon(f"{node.text_of('name') or joint}_muscle", joint, node, document, scene)
    muscle = muscle_of(node, gear)
    if muscle is None:
        return
    activation = _activation(node, document)
    if activation is not None:
        report.unsupported(node, "the activation dynamics of an actuator", unless=_UNLESS_TENDON)
    ranges = [_range(node, f"{kind}limited", f"{kind}range", document) for kind in ("ctrl", "force")]
    scene.actuators.append(
        Actuator(
            node.text_of("name"),
            node,
            name,
            gear,
            1.0,
            (0.0, 0.0, 0.0),
            *ranges,
            on_tendon=True,
            muscle=muscle,
            activation=activation,
        )
    )


def _joint_tendon(wanted: str, joint: str, node: Node, document: Document, scene: Scene) -> str:
    """Add a tendon whose length is the coordinate of a joint; return its name."""
    name = _own_name(wanted, document, scene)
    part = Node("joint", {"joint": joint}, node.path, node.line)
    scene.joint_tendons.append(Node("fixed", {"name": name}, node.path, node.line, [part]))
    return name


def _own_name(wanted: str, document: Document, scene: Scene) -> str:
    """Return a name that no other tendon has."""
    taken = {one.text_of("name") for section in document.sections("tendon") for one in section.children}
    taken |= {one.text_of("name") for one in scene.joint_tendons}
    names = (wanted if number == 1 else f"{wanted}_{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def _law(
    node: Node, report: ImportReport, unless: str = ""
) -> tuple[float, tuple[float, float, float]] | None:
    """Gain and bias (b0, b1, b2) of an actuator, None when it is not affine; with a reader's way out."""
    found = _affine_law(node, report, unless)
    if found is not None and max(found[1][1:]) > 0.0:
        report.unsupported(node, "actuators that push away from their target", unless=unless)
        return None
    return found


def _affine_law(
    node: Node, report: ImportReport, unless: str
) -> tuple[float, tuple[float, float, float]] | None:
    parts = parts_of(node) if node.tag != "general" else None
    if parts is not None:
        return parts[0][0], parts[1]
    gain_type, bias_type = node.text_of("gaintype", "fixed"), node.text_of("biastype", "none")
    gain = node.floats("gainprm", default=(1.0,))
    bias = np.zeros(3)
    if bias_type == "affine":
        given = node.floats("biasprm", default=(0.0, 0.0, 0.0))[:3]
        bias[: len(given)] = given
    if ratio_of(node) > 0.0:  # which the third number is
        bias[2] = 0.0
    if (
        gain_type not in ("fixed", "affine")
        or bias_type not in ("none", "affine")
        or (gain_type == "affine" and gain[1:3].any())
    ):
        what = f"actuators with gain {gain_type!r} and bias {bias_type!r}"
        report.unsupported(node, what, unless=unless)
        return None
    return (float(gain[0]) if len(gain) else 1.0), (float(bias[0]), float(bias[1]), float(bias[2]))


def _range(node: Node, flag: str, name: str, document: Document) -> tuple[float, float] | None:
    if not document.is_limited(node, flag, name):
        return None
    node.required(name)
    low, high = node.bounds(name) or (0.0, 0.0)
    if low > high:
        raise node.error(f"attribute '{name}' is reversed: {node.text_of(name)!r}")
    return None if low == -math.inf and high == math.inf else (low, high)


@dataclass(slots=True)
class Drive:
    """What the actuators of one joint add up to.

    Attributes:
        mode: What the control input of the axis means.
        ke: Stiffness of the drive [N m/rad or N/m], or its velocity gain.
        kd: Damping of the drive.
        act: Control input that belongs to ctrl = 0, as MuJoCo starts.
        efforts: Least and largest effort [N m or N].
        maps: (scale, offset) of each actuator; the control input is the sum of scale * ctrl + offset.
        muscle: What takes the place of the law, None for none.
    """

    mode: JointMode
    ke: float
    kd: float
    act: float
    efforts: tuple[float, float]
    maps: list[tuple[float, float]]
    muscle: Muscle | None = None


def combine(actuators: list[Actuator], ref: float) -> Drive:
    """Add up the actuators of one joint or tendon; exact as long as no force range clamps one of several.

    Args:
        actuators: The actuators.
        ref: What the coordinate of the file has over ours.
    """
    if actuators[0].muscle is not None:
        return _muscle_drive(actuators[0])
    ke = sum(-actuator.bias[1] * actuator.gear**2 for actuator in actuators)
    kd = sum(-actuator.bias[2] * actuator.gear**2 for actuator in actuators)
    unit = ke or kd or 1.0
    maps = [(one.gear * one.gain / unit, one.gear * one.bias[0] / unit) for one in actuators]
    if ke > 0.0:
        mode = JointMode.TARGET_POSITION
        maps[0] = (maps[0][0], maps[0][1] - ref)
    elif kd > 0.0:
        mode, ke, kd = JointMode.TARGET_VELOCITY, kd, 0.0
    else:
        mode = JointMode.FORCE
    act = 0.0
    for actuator, (scale, offset) in zip(actuators, maps):
        low, high = actuator.ctrl_range or (0.0, 0.0)
        act += scale * min(max(0.0, low), high) + offset
    least, most = map(sum, zip(*map(_efforts, actuators)))
    return Drive(mode, ke, kd, act, (least, most), maps)


def _muscle_drive(actuator: Actuator) -> Drive:
    limit = math.inf
    if actuator.force_range is not None:
        limit = abs(actuator.gear) * max(map(abs, actuator.force_range))
    return Drive(JointMode.FORCE, 0.0, 0.0, 0.0, (-limit, limit), [(1.0, 0.0)], actuator.muscle)


def bound_inputs(actuators: list[Actuator]) -> None:
    """Narrow the controls of motors that share a joint or tendon to those within their ranges of force."""
    for one in actuators if len(actuators) > 1 else ():
        fixed = one.muscle is None and one.activation is None and not any(one.bias[1:])
        if one.force_range is None or not fixed or one.gain == 0.0:
            continue
        low, high = sorted((force - one.bias[0]) / one.gain for force in one.force_range)
        least, most = one.ctrl_range or (-math.inf, math.inf)
        one.ctrl_range = min(max(least, low), high), min(max(most, low), high)
        one.force_range = None  # which says nothing more


def bound_together(drive: Drive, actuators: list[Actuator], limit: float, report: ImportReport) -> None:
    """Bound the drive of a tendon by a limit on the sum of its actuators' forces before their gears."""
    if limit == math.inf:
        return
    gears = {actuator.gear for actuator in actuators}
    most = min(drive.efforts[1], limit * max(map(abs, gears)))
    drive.efforts = -most, most
    if len(gears) > 1:
        what = "the actuatorfrcrange of a tendon whose actuators have several gears; the largest one counts"
        report.approximated(actuators[0].node, what)


def report_bounds(actuators: list[Actuator], report: ImportReport) -> None:
    """Report ranges of force that the effort limit of the drive of one joint or tendon only resembles."""
    for actuator in actuators:
        if actuator.force_range is None or actuator.muscle is not None or _stays_inside(actuator):
            continue
        low, high = actuator.force_range
        if len(actuators) > 1:
            what = "the force range of one of several actuators; the sum of their forces is bounded instead"
            report.unsupported(actuator.node, what)
        elif low != -high and actuator.on_tendon and any(actuator.bias[1:]):
            report.unsupported(actuator.node, "a force range that is not symmetric, of a servo on a tendon")
        elif low != -high and actuator.on_tendon:
            report.approximated(
                actuator.node, f"a force range that is not symmetric, unless {_UNLESS_TENDON}"
            )
        elif not low <= 0.0 <= high:
            report.approximated(actuator.node, f"a force range without zero, unless {_UNLESS}")


def activation_of(actuators: list[Actuator]) -> dict[str, Any] | None:
    """What is between the control and the drive of a joint or tendon, None where no drive has the whole law.

    Args:
        actuators: Those of the joint or tendon.

    Returns:
        Arguments of an `Activation`, without those of the drive's input.
    """
    actuator = actuators[0]
    low, high = actuator.force_range or (-math.inf, math.inf)
    # drives of joints are bounded by any range that includes zero, those of tendons by a symmetric one
    bounds = low == -high if actuator.on_tendon else low <= 0.0 <= high
    beyond, is_servo = not bounds and not _stays_inside(actuator), any(actuator.bias[1:])
    # on tendons, nothing but the drive bounds the force of a servo
    if len(actuators) > 1 or (beyond and is_servo and not actuator.on_tendon):
        return None
    found: dict[str, Any] = {"dynamics": "none", "initial": 0.0}
    if beyond and not is_servo and actuator.muscle is None:
        low, high = sorted((actuator.gear * low, actuator.gear * high))
        found["drive_range"] = low, high
    if actuator.ctrl_range is not None:
        found["control_range"] = actuator.ctrl_range
    return found | (actuator.activation or {})


def _stays_inside(actuator: Actuator) -> bool:
    """Whether the range of what the gain multiplies keeps the force of a motor within its range."""
    span = _input_range(actuator)
    if span is None or any(actuator.bias[1:]):
        return False
    low, high = actuator.force_range or (-math.inf, math.inf)
    return all(low <= actuator.gain * value + actuator.bias[0] <= high for value in span)


def _input_range(actuator: Actuator) -> tuple[float, float] | None:
    """Range of what the gain multiplies, the control or the activation; None for an unbounded one."""
    activation = actuator.activation
    if activation is None:
        return actuator.ctrl_range
    if "activation_range" in activation:
        return activation["activation_range"]
    if actuator.ctrl_range is None or not activation["dynamics"].startswith("filter"):
        return None
    low, high = actuator.ctrl_range
    return min(low, 0.0), max(high, 0.0)  # a filter starts at 0


def _efforts(actuator: Actuator) -> tuple[float, float]:
    """Least and largest effort of one actuator; of a tendon's, the larger number counts both ways."""
    limit = _effort(actuator)
    if actuator.force_range is None or actuator.on_tendon:
        return -limit, limit
    low, high = actuator.force_range
    if not low <= 0.0 <= high:
        return -limit, limit
    low, high = sorted((actuator.gear * low, actuator.gear * high))
    return max(low, -limit), min(high, limit)


def _effort(actuator: Actuator) -> float:
    """Largest effort of one actuator; that of a motor with a range of inputs is at the range's wider end."""
    limit = math.inf
    if actuator.force_range is not None:
        limit = max(map(abs, actuator.force_range))
    span = _input_range(actuator)
    if span is not None and not any(actuator.bias[1:]):
        limit = min(limit, max(abs(actuator.gain * value + actuator.bias[0]) for value in span))
    return abs(actuator.gear) * limit if actuator.gear != 0.0 else 0.0
