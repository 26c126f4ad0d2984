"""Constraints of a model as equalities and tendons of an MjSpec.

Sources: MuJoCo's documentation, "XML reference", elements equality and spatial.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_rotate, transform_inverse, transform_multiply
from newtonsim.scene.enums import ConstraintType, JointType
from newtonsim.solvers.mujoco.source import HostModel, Selection
from newtonsim.solvers.mujoco.spec import BodyWriter, Names, wxyz

if TYPE_CHECKING:
    import mujoco

_HINGE_ARM = 0.1
"""Distance of the two points on the axis by which a hinge loop is held [m]."""
_ROD = 1.0e-6
"""Play of a rod [m]: MuJoCo wants the lower limit of a tendon below the upper one."""


class ConstraintWriter:
    """Writes the selected constraints and distance joints into a spec that holds the bodies.

    Args:
        host: The model.
        chosen: What to write.
        spec: Where to.
        names: Names in use.
        trees: Bodies, joints and actuators of the spec.

    Attributes:
        equalities: One or two equalities of the spec by constraint.
    """

    def __init__(
        self, host: HostModel, chosen: Selection, spec: mujoco.MjSpec, names: Names, trees: BodyWriter
    ):
        self.host, self.chosen, self.spec, self.names, self.trees = host, chosen, spec, names, trees
        self.equalities: dict[int, list[Any]] = {}

    def write(self) -> None:
        """Write all of them.

        Raises:
            ModelError: MuJoCo has nothing of the kind.
        """
        host = self.host
        for joint in self.chosen.joints.tolist():
            if host.joint_type[joint] == JointType.DISTANCE:
                ends = (host.joint_parent[joint], host.joint_child[joint])
                frames = (host.joint_X_p[joint], host.joint_X_c[joint])
                limits = (host.joint_distance_lower[joint], host.joint_distance_upper[joint])
                self._add_tendon(host.joint_key[joint], ends, frames, limits)
        kinds = {
            ConstraintType.LOOP: self._add_loop,
            ConstraintType.DISTANCE: self._add_distance,
            ConstraintType.COUPLING: self._add_coupling,
        }
        for index in self.chosen.constraints.tolist():
            self._check_soft(index)
            kinds[ConstraintType(int(host.constraint_type[index]))](index)

    def _refuse(self, index: int, what: str) -> None:
        raise ModelError(f"{self.host.label('constraint', index)}: MuJoCo has no {what}")

    def _check_soft(self, index: int) -> None:
        host = self.host
        if math.isfinite(host.constraint_max_force[index]):
            self._refuse(index, "largest force of a constraint (max_force)")
        if host.constraint_linear_compliance[index] or host.constraint_angular_compliance[index]:
            self._refuse(index, "compliance of constraints (linear_compliance, angular_compliance)")

    def _ends(self, index: int) -> tuple[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
        host = self.host
        ends = (int(host.constraint_parent[index]), int(host.constraint_child[index]))
        return ends, (host.constraint_X_p[index], host.constraint_X_c[index])

    # -- distances -------------------------------------------------------------------------------------------

    def _add_distance(self, index: int) -> None:
        host = self.host
        if not host.constraint_enabled[index]:
            return
        limits = (host.constraint_distance_lower[index], host.constraint_distance_upper[index])
        self._add_tendon(host.constraint_key[index], *self._ends(index), limits)

    def _add_tendon(
        self,
        key: str,
        ends: tuple[int, int],
        frames: tuple[np.ndarray, np.ndarray],
        limits: tuple[float, float],
    ) -> None:
        """Keep the distance of two points between limits; negative or infinite ones are none."""
        lower, upper = limits
        if lower < 0.0 and not 0.0 <= upper < math.inf:
            return
        low = max(lower, 0.0)
        high = upper if 0.0 <= upper < math.inf else 1.0e10
        tendon = self.spec.add_tendon(name=self.names.of("tendon", key))
        for body, frame in zip(ends, frames):
            site = self.names.of("site", f"{key}_end")
            self.trees.bodies[int(body)].add_site(name=site, pos=frame[:3])
            tendon.wrap_site(site)
        tendon.limited, tendon.range = True, [low, max(high, low + _ROD)]

    # -- couplings -------------------------------------------------------------------------------------------

    def _add_coupling(self, index: int) -> None:
        import mujoco

        first, second = self.host.constraint_coupled_axes[index].tolist()
        equality = self._new(index, mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtObj.mjOBJ_JOINT)
        equality.name1 = self.trees.axis_name(first)
        if second >= 0:
            equality.name2 = self.trees.axis_name(second)
        equality.data[:5] = self.host.constraint_coefficients[index]

    def _new(self, index: int, kind, among):
        host = self.host
        equality = self.spec.add_equality(
            name=self.names.of("equality", host.constraint_key[index]), type=kind, objtype=among
        )
        equality.active = bool(host.constraint_enabled[index])
        recovery = host.constraint_recovery_time[index]
        if host.constraint_solref[index].any():
            equality.solref, equality.solimp = host.constraint_solref[index], host.constraint_solimp[index]
        elif recovery > 0.0:
            equality.solref = [recovery, 1.0]
        self.equalities.setdefault(index, []).append(equality)
        return equality

    # -- loops -----------------------------------------------------------------------------------------------

    def _add_loop(self, index: int) -> None:
        host = self.host
        linear, angular = host.constraint_axis_dim[index].tolist()
        start = int(host.constraint_axis_start[index])
        limits = np.concatenate(
            [getattr(host, f"constraint_limit_{side}")[start : start + linear + angular] for side in _SIDES]
        )
        if linear or angular not in (0, 1, 3):
            self._refuse(index, f"loops with {linear} sliding and {angular} turning axes")
        if (np.abs(limits) < self.trees.limit_threshold).any():
            self._refuse(index, "limits of loops")
        if angular == 0:
            self._add_weld(index)
            return
        self._add_connect(index, np.zeros(3))
        if angular == 1:
            self._add_connect(index, _HINGE_ARM * host.constraint_axis[start])

    def _body_name(self, body: int) -> str:
        return self.trees.bodies[body].name

    def _add_connect(self, index: int, offset: np.ndarray) -> None:
        """Hold a point of the anchor frames together."""
        import mujoco

        equality = self._new(index, mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtObj.mjOBJ_SITE)
        for number, (body, frame) in enumerate(zip(*self._ends(index)), start=1):
            site = self.names.of("site", f"{equality.name}_end")
            point = frame[:3] + quat_rotate(frame[3:], offset)
            self.trees.bodies[body].add_site(name=site, pos=point)
            setattr(equality, f"name{number}", site)

    def _add_weld(self, index: int) -> None:
        import mujoco

        equality = self._new(index, mujoco.mjtEq.mjEQ_WELD, mujoco.mjtObj.mjOBJ_BODY)
        (parent, child), (X_p, X_c) = self._ends(index)
        equality.name1, equality.name2 = self._body_name(parent), self._body_name(child)
        turn = transform_multiply(X_p, transform_inverse(X_c))[3:]
        # MuJoCo holds the same point of both bodies together, each given in its body
        equality.data[:3], equality.data[3:6], equality.data[6:10] = X_c[:3], X_p[:3], wxyz(turn)
        equality.data[10] = self.host.constraint_torque_scale[index]


_SIDES = ("lower", "upper")
