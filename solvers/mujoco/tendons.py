"""Tendons of a model, and equalities between them, as elements of an MjSpec.

Sources: MuJoCo's documentation, "XML reference", elements tendon and equality/tendon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.builder.tendons import MUSCLE_VMAX
from newtonsim.dynamics.tendon_paths import reference_lengths, tendon_worlds
from newtonsim.geometry.transforms import quat_between
from newtonsim.scene.enums import AXIS, ON_AXIS, PULLEY, SIDE, WRAP, JointMode
from newtonsim.solvers.mujoco.source import HostModel, Selection
from newtonsim.solvers.mujoco.spec import BodyWriter, Names

if TYPE_CHECKING:
    import mujoco

_ENDLESS = 1.0e10


class TendonWriter:
    """Writes the tendons of the selected world into a spec that holds bodies and joints.

    MuJoCo's lengths are without the offset of the model's, which ranges, rest lengths and controls therefore
    are given without.

    Args:
        host: The model.
        chosen: What to write.
        spec: Where to.
        names: Names in use.
        trees: Bodies, joints and actuators of the spec.

    Attributes:
        row: World of MuJoCo of each tendon, int (tendon_count,).
        tendons: Tendons of the spec by tendon of the model.
        actuators: Actuators of the spec by tendon of the model.
    """

    def __init__(
        self, host: HostModel, chosen: Selection, spec: mujoco.MjSpec, names: Names, trees: BodyWriter
    ):
        self.host, self.spec, self.names, self.trees = host, spec, names, trees
        separate = chosen.rows > 1
        world = tendon_worlds(host.model) if host.model.tendon_count else np.zeros(0, np.int64)
        self.row = world if separate else np.zeros_like(world)
        self.tendons: dict[int, Any] = {}
        self.actuators: dict[int, Any] = {}

    def write(self) -> None:
        """Write all of them.

        Raises:
            ModelError: A tendon's drive has what MuJoCo cannot do.
        """
        for t in np.flatnonzero(self.row == 0).tolist():
            self._add(t)
        equalities = np.asarray(self.host.tendon_equality_tendons, np.int64).tolist()
        lengths = reference_lengths(self.host.model) if equalities else np.zeros(0)
        for k, (first, second) in enumerate(equalities):
            if first in self.tendons:
                self._add_equality(k, first, second, lengths)

    def _add(self, t: int) -> None:
        host = self.host
        tendon = self.tendons[t] = self.spec.add_tendon(name=self.names.of("tendon", host.tendon_key[t]))
        self._add_path(t, tendon)
        offset = host.tendon_offset[t]
        tendon.stiffness, tendon.damping = [host.tendon_stiffness[t], 0, 0], [host.tendon_damping[t], 0, 0]
        rest = np.array([host.tendon_spring_lower[t], host.tendon_spring_upper[t]], np.float64) - offset
        if (rest == -1.0).all():
            rest[1] += 1.0e-9  # to MuJoCo, -1 alone stands for the length in the reference pose
        tendon.springlength = rest
        tendon.frictionloss, tendon.armature = host.tendon_friction[t], host.tendon_armature[t]
        lower, upper = host.tendon_limit_lower[t] - offset, host.tendon_limit_upper[t] - offset
        tendon.limited = bool(np.isfinite([lower, upper]).any())
        if tendon.limited:
            tendon.range = [max(lower, -_ENDLESS), min(upper, _ENDLESS)]
            tendon.solref_limit, tendon.solimp_limit = (
                host.tendon_limit_solref[t],
                host.tendon_limit_solimp[t],
            )
            tendon.margin = host.tendon_limit_margin[t]
        self._add_drive(t, tendon.name)

    def _add_path(self, t: int, tendon: Any) -> None:
        host = self.host
        ends = np.append(host.tendon_start, host.model.tendon_element_count)
        for i in range(ends[t], ends[t + 1]):
            kind, factor = host.tendon_element_kind[i], float(host.tendon_element_factor[i])
            if kind == ON_AXIS:
                tendon.wrap_joint(self.trees.axis_name(int(host.tendon_element_axis[i])), factor)
            elif kind == PULLEY:
                tendon.wrap_pulley(factor)
            elif kind == WRAP:
                side = i + (2 if host.tendon_element_kind[i + 1] == AXIS else 1)
                sided = host.tendon_element_kind[side] == SIDE
                tendon.wrap_geom(self._add_geom(t, i), self._add_site(t, side) if sided else "")
            elif kind not in (AXIS, SIDE):
                tendon.wrap_site(self._add_site(t, i))

    def _add_site(self, t: int, i: int) -> str:
        """Add the point of an element as a site; return its name."""
        host = self.host
        site = self.names.of("site", f"{host.tendon_key[t]}_{i - host.tendon_start[t]}")
        body = self.trees.bodies[int(host.tendon_element_body[i])]
        body.add_site(name=site, pos=host.tendon_element_point[i])
        return site

    def _add_geom(self, t: int, i: int) -> str:
        """Add what a tendon wraps around as a geom that touches nothing; return its name."""
        import mujoco

        host = self.host
        name = self.names.of("geom", f"{host.tendon_key[t]}_{i - host.tendon_start[t]}")
        radius, centre = float(host.tendon_element_factor[i]), host.tendon_element_point[i]
        geom = self.trees.bodies[int(host.tendon_element_body[i])].add_geom(
            name=name, pos=centre, size=[radius, radius, 0.0], mass=0.0, contype=0, conaffinity=0, group=5
        )
        geom.type = mujoco.mjtGeom.mjGEOM_SPHERE
        if host.tendon_element_kind[i + 1] == AXIS:
            x, y, z, w = quat_between((0.0, 0.0, 1.0), host.tendon_element_point[i + 1] - centre)
            geom.type, geom.quat = mujoco.mjtGeom.mjGEOM_CYLINDER, [w, x, y, z]
        return name

    def _add_drive(self, t: int, name: str) -> None:
        """Add an actuator, whose ctrl is the tendon's control input."""
        import mujoco

        host = self.host
        mode, ke, kd = int(host.tendon_mode[t]), host.tendon_target_ke[t], host.tendon_target_kd[t]
        actuator = self.actuators[t] = self.spec.add_actuator(
            name=self.names.of("actuator", name), target=name, trntype=mujoco.mjtTrn.mjTRN_TENDON
        )
        gain, bias = 1.0, [0.0, 0.0, 0.0]
        if mode == JointMode.TARGET_POSITION:
            gain, bias = ke, [-ke * host.tendon_offset[t], -ke, -kd]
        elif mode == JointMode.TARGET_VELOCITY:
            gain, bias = ke, [0.0, 0.0, -ke]
        actuator.gaintype, actuator.gainprm[0] = mujoco.mjtGain.mjGAIN_FIXED, gain
        actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE if any(bias) else mujoco.mjtBias.mjBIAS_NONE
        actuator.biasprm[:3] = bias
        if host.tendon_muscle[t, MUSCLE_VMAX] > 0.0:
            self._make_muscle(t, actuator)
        effort = host.tendon_effort_limit[t]
        if effort < _ENDLESS:
            actuator.forcelimited, actuator.forcerange = True, [-effort, max(effort, 1.0e-12)]

    def _make_muscle(self, t: int, actuator: Any) -> None:
        """Make an actuator a muscle, whose ctrl is the activation."""
        import mujoco

        low, high, force, *curves, shortest, longest = self.host.tendon_muscle[t, :10].tolist()
        numbers = [low, high, force, 1.0, *curves]
        actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_MUSCLE, mujoco.mjtBias.mjBIAS_MUSCLE
        actuator.gainprm[: len(numbers)] = actuator.biasprm[: len(numbers)] = numbers
        actuator.gear[0] = 1.0 if shortest < longest else -1.0
        actuator.lengthrange = actuator.gear[0] * (np.array([shortest, longest]) - self.host.tendon_offset[t])

    def _add_equality(self, k: int, first: int, second: int, lengths: np.ndarray) -> None:
        """Add an equality of changes from the lengths that the tendons have where coordinates are zero."""
        import mujoco

        host = self.host
        equality = self.spec.add_equality(
            name=self.names.of("equality", host.tendon_equality_key[k]),
            type=mujoco.mjtEq.mjEQ_TENDON,
            objtype=mujoco.mjtObj.mjOBJ_TENDON,
        )
        equality.active = bool(host.tendon_equality_enabled[k])
        equality.name1 = self.tendons[first].name
        own, other = host.tendon_equality_lengths[k]
        polynomial = np.polynomial.Polynomial(host.tendon_equality_coefficients[k])
        if second >= 0:
            equality.name2 = self.tendons[second].name
            polynomial = polynomial(np.polynomial.Polynomial([lengths[second] - other, 1.0]))
        else:
            polynomial = np.polynomial.Polynomial(polynomial.coef[:1])
        coefficients = np.zeros(5)
        coefficients[: len(polynomial.coef)] = polynomial.coef
        coefficients[0] += own - lengths[first]
        equality.data[:5] = coefficients
        if host.tendon_equality_solref[k].any():
            equality.solref, equality.solimp = host.tendon_equality_solref[k], host.tendon_equality_solimp[k]
