"""MuJoCo's general actuator, and those of MJCF files."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import warp as wp

from newtonsim.actuators.activation import Activation, Dynamic, activation_view
from newtonsim.actuators.groups import EffortGroup, Pass, Sites
from newtonsim.actuators.models import Actuator, check_number
from newtonsim.actuators.patterns import AxisOf, Key, Pattern, as_pattern
from newtonsim.errors import NewtonsimError, UnsupportedElementWarning
from newtonsim.kernels.actuators import general
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put

_ANY = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True)
class General(Dynamic):
    """MuJoCo's general actuator: an effort gear (gain(l, l') a + bias(l, l')) with l = gear q.

    It is explicit, unlike a drive: unstable if the time step is too long for its gains. Its command is
    MuJoCo's `ctrl`; a is the control, or an activation that follows it. Gain and bias are affine in
    length and velocity. `general_actuators` makes them from an MJCF file.

    Source: MuJoCo's documentation, "Computation: Actuation model".

    Attributes:
        gear: Length of the actuator per position of the joint.
        gain: Factors of 1, length and velocity in the gain.
        bias: Factors of 1, length and velocity in the bias.
        dynamics: "none", "integrator", "filter", "filterexact" or "muscle", as `dyntype`.
        time_constant: Time constant of the filters, and of a muscle's rising activation [s].
        release: Time constant of a muscle's falling activation [s].
        smoothing: Width of the band of controls in which one of these blends into the other.
        reference: Position that the file gives to coordinate 0 of the joint [rad or m].
        control_range: Smallest and largest control.
        force_range: Smallest and largest force before the gear.
        activation_range: Smallest and largest activation.
        early: Whether the activation at the end of a step determines its force, as `actearly`.
        initial: Initial control, see `Activation`.
        start: Activation of worlds that start, likewise.
    """

    gear: float = 1.0
    gain: tuple[float, float, float] = (1.0, 0.0, 0.0)
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    reference: float = 0.0
    force_range: tuple[float, float] = _ANY

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("gain", "bias"):
            if len(getattr(self, name)) != 3:
                raise NewtonsimError(f"{name}: expected 3 factors, got {getattr(self, name)}")
        for name in ("gear", "reference", "gain", "bias"):
            for value in np.ravel(getattr(self, name)):
                check_number(name, float(value), -math.inf, strict=True)
        self._check_range("force_range")


class GeneralGroup(EffortGroup):
    """General actuators.

    Attributes:
        view: Their law; `gear`, `gain` and `bias` have an entry for each, (count,).
        follows: How activations follow controls; `time_constant` and `release` have one, likewise.
    """

    def __init__(self, model: General, sites: Sites):
        super().__init__(model, sites)
        view = self.view = general.GeneralView()
        view.gear, self.follows = sites.fill(model.gear), activation_view(model, sites)
        options = {"dtype": wp.vec3, "device": self._device, "requires_grad": self._requires_grad}
        view.gain = put(np.tile(model.gain, (self.count, 1)), **options)
        view.bias = put(np.tile(model.bias, (self.count, 1)), **options)
        view.reference, view.force = model.reference, wp.vec2(*model.force_range)

    def memory(self) -> dict[str, int]:
        """See `ActuatorGroup.memory`."""
        found = super().memory()
        return {**found, "general": 1} if self.follows.dynamics else found

    def rooms(self) -> dict[str, int]:
        """See `ActuatorGroup.rooms`."""
        return {**super().rooms(), "general": 2}

    def launch_effort(self, launch: Launcher, p: Pass, command: wp.array) -> wp.array:
        """See `EffortGroup.launch_effort`."""
        before, after = (p.before, p.after) if self.follows.dynamics else (p.room, p.room)
        launch(
            general.apply_general,
            "actuator",
            reads=dict(
                view=self.view,
                follows=self.follows,
                coord=self.coord,
                dof=self.dof,
                dt=p.dt,
                q=p.state.joint_q,
                qd=p.state.joint_qd,
                command=command,
                activation=before["general"],
            ),
            writes=dict(activation_out=after["general"], effort=p.room["effort"]),
        )
        return p.room["effort"]


def general_actuators(actuators: Sequence[Mapping[str, Any]]) -> dict[Key, Actuator]:
    """Return the actuators of an MJCF file for `Actuators`, with joints of the same law grouped.

    They act as in MuJoCo, including what drives leave out: activation dynamics, gains that depend on position
    and velocity, ranges of control and of force. `Control.joint_act` then holds MuJoCo's `ctrl`, and starts
    with that of the file, or of the keyframe that `parse_mjcf` starts in. Where a drive has the law, it is an
    `Activation` in front of that implicit drive, otherwise a `General`, which is explicit. Those of tendons
    are left to the drives of these, see `tendon_actuators`, and those that are actuators of the model (whose
    entries have a number as "actuator") to the solver.

    Axes of joints with several actuators, and actuators of kinds that are not known, are left as they are in
    the model, and named in an `UnsupportedElementWarning`.

    Args:
        actuators: `ImportReport.actuators` of `parse_mjcf`.
    """
    own = [entry for entry in actuators if entry["tendon"] is None and entry["actuator"] is None]
    shares = Counter((entry["key"], entry["place"]) for entry in own if entry["key"] is not None)
    keys: dict[General | Activation, list[tuple[Pattern, Any, Any]]] = {}
    left: list[str] = []
    for entry in own:
        name, joint, place = entry["name"], entry["key"], entry["place"]
        law, activation = entry["law"], entry["activation"]
        made = Activation(**activation) if activation is not None else law and General(**law)
        if joint is None or made is None:
            left.append(f"{name!r}, which is not an affine actuator of one joint axis")
        elif shares[joint, place] > 1:
            left.append(f"{name!r}, one of {shares[joint, place]} of the joint {entry['joint']!r}")
        else:
            initial = None if made.initial is None else 0.0  # that laws are grouped wherever they start
            found = keys.setdefault(replace(made, initial=initial, start=0.0), [])
            found.append((AxisOf(as_pattern(joint), place), made.initial, made.start))
    if left:
        text = f"general_actuators leaves to the drives of the model, and their inputs: {'; '.join(left)}"
        warnings.warn(text, UnsupportedElementWarning, stacklevel=2)
    return {
        tuple(pattern for pattern, *_ in found): replace(
            law, initial=_common([one for _, one, _ in found]), start=_common([one for *_, one in found])
        )
        for law, found in keys.items()
    }


def _common(starts: list[float]) -> float | tuple[float, ...]:
    """One number for all where they agree."""
    return starts[0] if len(set(starts)) == 1 else tuple(starts)
