"""What an MJCF file says and a model does not hold, as the report of its import has it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newtonsim.builder import ActuatorLaw
from newtonsim.errors import ModelError
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.writers.records import NO_LIMIT, Scene
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.xml_text import numbers
from newtonsim.scene.enums import JointMode
from newtonsim.scene.model import Model

_ATTRIBUTES = {
    "actgravcomp": "actuatorgravcomp",
    "adhesion": "adhesion",
    "actfrclimited": "actuatorfrclimited",
    "actfrcrange": "actuatorfrcrange",
    "damping": "damping",
    "fluid_coefs": "fluidcoef",
    "margin": "margin",
    "solimp_friction": "solimpfriction",
    "solimp_limit": "solimplimit",
    "solref_friction": "solreffriction",
    "solref_limit": "solreflimit",
    "springyield": "springyield",
    "surfacevel": "surfacevel",
    "stiffness": "stiffness",
}
"""Attributes of MJCF by those of MjSpec, which `ImportReport.mujoco` holds."""

_SAME_POINT = 1.0e-6
"""How far [m] the centre of mass may be from where a file lets compensation of gravity act."""


@dataclass(slots=True)
class FileParts:
    """What is written besides the model; places are those of the model.

    Attributes:
        gravcomp: Share of the weight that is carried, by body.
        joints: Attributes of MjSpec by (joint, degree of freedom of it).
        tendons: Likewise by tendon.
        geoms: Likewise by shape.
        actuators: Entries of `ImportReport.actuators` with laws; None without a report.
    """

    gravcomp: dict[int, float] = field(default_factory=dict)
    joints: dict[tuple[int, int], Mapping[str, Any]] = field(default_factory=dict)
    tendons: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    geoms: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    actuators: list[dict] | None = None


def file_parts(imported: ImportReport | None, model: Model, scene: Scene, report: ExportReport) -> FileParts:
    """Return what the report of an import adds to the model that it filled.

    Where worlds are equal, what belongs to the first world's elements belongs to those of every world.

    Args:
        imported: The report, None for nothing.
        model: The model.
        scene: What is written of it.
        report: Receives what MJCF holds differently.

    Raises:
        ModelError: The report is not that of an import into this model.
    """
    if imported is None:
        return FileParts()
    if not isinstance(imported, ImportReport):
        raise ModelError(f"imported: expected an ImportReport, got {type(imported).__name__}")
    for name, body in imported.bodies.items():
        if body >= model.body_count or (body >= 0 and model.body_key[body] != name):
            there = model.body_key[body] if body < model.body_count else "none"
            raise ModelError(f"imported: body {body} of its file is {name!r}, that of the model {there!r}")
    starts = {"body": model.world_body_start, "joint": model.world_dof_start, "geom": model.world_shape_start}
    copies = {kind: _Copies(model.world_count, start) for kind, start in starts.items()}
    copies["tendon"] = _Copies(model.world_count, np.arange(model.world_count + 1) * _tendons_each(model))
    args = {
        kind: {copy: values for index, values in given.items() for copy in copies[kind].of(index)}
        for kind, given in imported.mujoco.items()
    }
    first = [] if model.joint_qd_start is None else model.joint_qd_start.numpy()
    owner = {dof: (j, dof - first[j]) for j in range(len(first) - 1) for dof in range(first[j], first[j + 1])}
    parts = FileParts(
        joints={owner[dof]: values for dof, values in args.get("joint", {}).items()},
        tendons=args.get("tendon", {}),
        geoms=args.get("geom", {}),
        actuators=imported.actuators if imported.format == "mjcf" else None,
    )
    centres = {body.index: body.props.com for body in scene.bodies}
    for body, (share, point) in imported.gravcomp.items():
        for copy in copies["body"].of(body):
            parts.gravcomp[copy] = share
            if copy in centres and np.abs(centres[copy] - point).max() > _SAME_POINT:
                what = "the force that compensates gravity acts at the centre of mass"
                report.approximated(model.body_key[copy], what)
    return parts


class _Copies:
    """Places of the same element in all worlds, if these are equal."""

    def __init__(self, worlds: int, starts: np.ndarray):
        sizes = np.diff(starts)
        self.end = int(starts[-1])
        self.size = int(sizes[0]) if worlds > 1 and len(set(sizes.tolist())) == 1 else 0

    def of(self, index: int) -> Iterator[int]:
        """Yield the place of an element of the first world in each."""
        yield from range(index, self.end, self.size) if self.size else (index,)


def _tendons_each(model: Model) -> int:
    return model.tendon_count // max(model.world_count, 1)


def spec_attributes(given: Mapping[str, Any], name: str, report: ExportReport) -> dict[str, str]:
    """Return attributes of MjSpec as those of MJCF.

    Args:
        given: Values by name.
        name: Name of the element, for the remark.
        report: Receives those that are not known.
    """
    found: dict[str, str] = {}
    for key, value in given.items():
        if key == "fluid_ellipsoid":
            found["fluidshape"] = "ellipsoid" if value else "none"
        elif key not in _ATTRIBUTES:
            report.unsupported(name, f"the attribute {key!r} of imported.mujoco is left out")
        elif isinstance(value, bool):
            found[_ATTRIBUTES[key]] = "true" if value else "false"
        else:
            found[_ATTRIBUTES[key]] = numbers(value)
    return found


# -- laws of actuators -----------------------------------------------------------------------------------


def law_on_joint(given: Mapping[str, Any]) -> ActuatorLaw:
    """Return the law of an actuator of a joint for coordinates of the model.

    Args:
        given: Arguments of `newtonsim.actuators.General`.
    """
    law = ActuatorLaw(
        gain_type="affine" if any(given["gain"][1:]) else "fixed",
        gain=tuple(given["gain"]),
        bias_type="affine" if any(given["bias"]) else "none",
        bias=tuple(given["bias"]),
        dynamics_type=given["dynamics"],
        dynamics=(given["time_constant"],),
        gear=(given["gear"],),
        control_range=_bounded(given["control_range"]),
        force_range=_bounded(given["force_range"]),
        activation_range=_bounded(given["activation_range"]),
        early=given["early"],
    )
    return law.shifted(given["gear"] * given["reference"])


def law_of_drive(
    entry: Mapping[str, Any],
    drive: tuple[JointMode, float, float],
    share: float,
    efforts: tuple[float, float],
) -> ActuatorLaw:
    """Return the law of an actuator that is a drive, with what is between its control and the drive.

    Args:
        entry: Of `ImportReport.actuators`.
        drive: Mode, stiffness and damping.
        share: What part of stiffness and damping it has where the drive has several actuators.
        efforts: Least and largest force.
    """
    mode, ke, kd = drive
    unit = 1.0 if mode == JointMode.FORCE else ke
    slopes = {JointMode.TARGET_POSITION: (-ke, -kd), JointMode.TARGET_VELOCITY: (0.0, -ke)}
    bias = (unit * entry["offset"], *(share * slope for slope in slopes.get(mode, (0.0, 0.0))))
    activation = entry["activation"] or {}
    kind = activation.get("dynamics", "none")
    times = (activation.get("time_constant", 1.0),)
    if kind == "muscle":
        times += (activation["release"], activation["smoothing"])
    return ActuatorLaw(
        gain=(unit * entry["scale"],),
        bias_type="affine" if any(bias) else "none",
        bias=bias,
        dynamics_type=kind,
        dynamics=times,
        control_range=activation.get("control_range", entry["ctrl_range"]),
        force_range=activation.get("drive_range", efforts if _bounds(efforts) else None),
        activation_range=activation.get("activation_range"),
        early=activation.get("early", False),
    )


def gains_of(laws: list[ActuatorLaw]) -> tuple[JointMode, float, float]:
    """Return mode, stiffness and damping of the drive that affine actuators of one axis add up to."""
    slopes = [(*law.bias, 0.0, 0.0, 0.0)[1:3] if law.bias_type == "affine" else (0.0, 0.0) for law in laws]
    ke, kd = (-sum(slope[i] * law.gear[0] ** 2 for slope, law in zip(slopes, laws)) for i in (0, 1))
    if ke > 0.0:
        return JointMode.TARGET_POSITION, ke, kd
    return (JointMode.TARGET_VELOCITY, kd, 0.0) if kd > 0.0 else (JointMode.FORCE, 0.0, 0.0)


def efforts_of(law: ActuatorLaw) -> tuple[float, float]:
    """Return least and largest effort of a law on an axis, infinite where nothing bounds it."""
    least, most = (-math.inf, math.inf) if law.force_range is None else law.force_range
    span = law.control_range if law.dynamics_type == "none" else law.activation_range
    if span is not None and not any(law.bias[1:]) and not any(law.gain[1:]):
        offset = law.bias[0] if law.bias else 0.0
        reach = max(abs(law.gain[0] * value + offset) for value in span)
        least, most = max(least, -reach), min(most, reach)
    if law.gear[0] == 0.0:
        return 0.0, 0.0
    ends = sorted((law.gear[0] * least, law.gear[0] * most))
    return ends[0], ends[1]


def _bounds(efforts: tuple[float, float]) -> bool:
    """Whether efforts are a range that MuJoCo reads, and no endless one."""
    least, most = efforts
    return least < most and least > -NO_LIMIT and most < NO_LIMIT


def _bounded(span: tuple[float, float]) -> tuple[float, float] | None:
    return span if math.isfinite(span[0]) and math.isfinite(span[1]) else None
