"""The whole law of an actuator of a joint, as `newtonsim.actuators.General` takes it.

MuJoCo's shortcuts (position, velocity, cylinder, ...) are general actuators with fixed parameters; which ones
is said in "XML reference: actuator" of its documentation.
"""

from __future__ import annotations

import math
from typing import Any

from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.damping_ratios import ratio_of
from newtonsim.importers.mjcf.records import Joint

Factors = tuple[float, float, float]
Range = tuple[float, float]

_NOTHING: Factors = (0.0, 0.0, 0.0)


def law_of(
    node: Node, joint: Joint, control: Range | None, force: Range | None, activation: Range | None
) -> dict[str, Any] | None:
    """Return the arguments of a `General`.

    Args:
        node: The actuator, defaults filled in.
        joint: Its joint, with one axis.
        control: Range of the control.
        force: Range of the force.
        activation: Range of the activation.

    Returns:
        The arguments; None if the law is not affine.
    """
    parts = parts_of(node) if node.tag != "general" else general_parts(node)
    if parts is None:
        return None
    gain, bias, dynamics, time_constant = parts
    everything = (-math.inf, math.inf)
    return {
        "gear": _numbers(node, "gear", 1.0)[0],
        "gain": gain,
        "bias": bias,
        "dynamics": dynamics,
        "time_constant": time_constant,
        "reference": float(joint.ref),
        "control_range": control or everything,
        "force_range": force or everything,
        "activation_range": activation or everything,
        "early": node.text_of("actearly", "false") == "true",
        "initial": 0.0,
    }


def parts_of(node: Node) -> tuple[Factors, Factors, str, float] | None:
    """Gain, bias, dynamics and time constant of a shortcut; None if it is none of these."""
    kp, kv = _number(node, "kp", 1.0), _number(node, "kv", 1.0 if node.tag in ("velocity", "damper") else 0.0)
    if node.tag == "motor":
        return (1.0, 0.0, 0.0), _NOTHING, "none", 1.0
    if node.tag == "position":
        constant = _number(node, "timeconst", 0.0)
        dynamics = "filterexact" if constant > 0.0 else "none"
        return (kp, 0.0, 0.0), (0.0, -kp, -kv), dynamics, constant if constant > 0.0 else 1.0
    if node.tag == "velocity":
        return (kv, 0.0, 0.0), (0.0, 0.0, -kv), "none", 1.0
    if node.tag == "intvelocity":
        return (kp, 0.0, 0.0), (0.0, -kp, -kv), "integrator", 1.0
    if node.tag == "damper":
        return (0.0, 0.0, -kv), _NOTHING, "none", 1.0
    if node.tag == "cylinder":
        area = _number(node, "area", 1.0)
        if "diameter" in node.attrib:
            area = 0.25 * math.pi * _number(node, "diameter", 0.0) ** 2
        return (area, 0.0, 0.0), _three(node, "bias"), "filter", _number(node, "timeconst", 1.0)
    return None


def general_parts(node: Node) -> tuple[Factors, Factors, str, float] | None:
    """Gain, bias, dynamics and time constant of a general actuator; None if it is not affine."""
    gain_type, bias_type = node.text_of("gaintype", "fixed"), node.text_of("biastype", "none")
    dynamics = node.text_of("dyntype", "none")
    known = gain_type in ("fixed", "affine") and bias_type in ("none", "affine")
    if not known or dynamics not in ("none", "integrator", "filter", "filterexact"):
        return None
    gain, bias = _three(node, "gainprm", 1.0), _three(node, "biasprm")
    if ratio_of(node) > 0.0:  # which the third number is
        bias = (*bias[:2], 0.0)
    constant = _numbers(node, "dynprm", 1.0)[0]
    return (
        gain if gain_type == "affine" else (gain[0], 0.0, 0.0),
        bias if bias_type == "affine" else _NOTHING,
        dynamics,
        constant if constant > 0.0 else 1.0e-10,
    )


def dynamics_of(node: Node) -> tuple[str, float]:
    """Kind of activation dynamics and time constant of an actuator that is no muscle."""
    if node.tag == "general":
        constant = _numbers(node, "dynprm", 1.0)[0]
        return node.text_of("dyntype", "none") or "none", constant if constant > 0.0 else 1.0e-10
    parts = parts_of(node)
    return ("none", 1.0) if parts is None else parts[2:]


def state_count(node: Node) -> int | None:
    """How many activations an actuator has; None for what the compiler decides."""
    if node.tag in ("dcmotor", "plugin") or node.text_of("actdim", "-1") not in ("-1", "0", "1"):
        return None
    return int(node.tag == "muscle" or dynamics_of(node)[0] != "none")


def _number(node: Node, name: str, default: float) -> float:
    value = node.float(name, default)
    return default if value is None else float(value)


def _numbers(node: Node, name: str, first: float) -> list[float]:
    """The numbers of an attribute, at least one."""
    given = node.floats(name, default=(first,))
    return [first] if given is None or not len(given) else [float(value) for value in given]


def _three(node: Node, name: str, first: float = 0.0) -> Factors:
    """The first three numbers of an attribute, zeros for those that are missing."""
    a, b, c, *_ = [*_numbers(node, name, first), 0.0, 0.0]
    return a, b, c
