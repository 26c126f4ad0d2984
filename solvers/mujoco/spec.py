"""Bodies, joints and drives of a model as an MjSpec.

Sources: MuJoCo's documentation, chapters "XML reference" and "Model editing".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import ModelError, did_you_mean
from newtonsim.geometry.principal_axes import principal_axes
from newtonsim.geometry.transforms import quat_rotate, transform_inverse, transform_multiply
from newtonsim.scene.enums import JointMode, JointType
from newtonsim.scene.joint_types import FLOATING, least_effort
from newtonsim.solvers.mujoco.source import HostModel, Selection

if TYPE_CHECKING:
    import mujoco

_ENDLESS = 1.0e10
"""Stands for an infinite limit where the other side has one [rad or m]: MuJoCo wants finite numbers."""
_LOCKED = 1.0e-6
"""Room between limits that are equal [rad or m], since MuJoCo wants the lower one below the upper."""
_FLAT = 1.0e-5
"""How far, as a share, rounding may take a principal moment above the sum of the other two."""


def wxyz(q: np.ndarray) -> np.ndarray:
    """Return a quaternion (4,) in MuJoCo's order."""
    return q[[3, 0, 1, 2]]


class Names:
    """Unique names for MuJoCo's elements, which may not share any within one kind."""

    def __init__(self) -> None:
        self._used = {("body", "world")}  # what MuJoCo calls its own

    def of(self, kind: str, name: str) -> str:
        """Return a name, or one with a number after it if it is taken."""
        base = name or kind
        name, number = base, 1
        while (kind, name) in self._used:
            number += 1
            name = f"{base}_{number}"
        self._used.add((kind, name))
        return name


@dataclass
class DriveOptions:
    """How axes of joints become actuators.

    Attributes:
        arguments: Further attributes of every actuator, by their names in MjSpec.
        gear: Transmission ratio of joints that `gears` does not name.
        gears: Transmission ratios by name of the joint.
        axes: Axes that are driven; None for all.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    gear: float = 1.0
    gears: Mapping[str, float] = field(default_factory=dict)
    axes: Collection[int] | None = None


class BodyWriter:
    """Writes the kinematic trees of the selected elements into a spec.

    Args:
        host: The model.
        chosen: What to write.
        spec: Where to.
        names: Names in use.
        default_damping: Damping of degrees of freedom for which the model has none [N m s/rad or N s/m].
        limit_threshold: From this size on a limit is none [rad or m].
        drives: How axes become actuators.
        carried: Bodies that are one with another, and that one, see `links.carried_by_links`.

    Attributes:
        bodies: Bodies of the spec by body of the model; the world by -1.
        joints: Joints of the spec by joint of the model, in the order of their coordinates.
        actuators: Actuators of the spec by axis of the model.
        mocap: Bodies without joint.
    """

    def __init__(
        self,
        host: HostModel,
        chosen: Selection,
        spec: mujoco.MjSpec,
        names: Names,
        default_damping: float,
        limit_threshold: float,
        drives: DriveOptions,
        carried: Mapping[int, int],
    ):
        self.host, self.chosen, self.spec, self.names = host, chosen, spec, names
        self.default_damping, self.limit_threshold, self.drives = default_damping, limit_threshold, drives
        self.carried = carried
        self.bodies: dict[int, Any] = {-1: spec.worldbody}
        self.joints: dict[int, list] = {}
        self.actuators: dict[int, Any] = {}
        self.mocap: list[int] = []

    def write(self) -> None:
        """Write all bodies, tree by tree, and then the actuators."""
        host = self.host
        by_parent: dict[int, list[int]] = {}
        for joint in self.chosen.joints.tolist():
            by_parent.setdefault(int(host.joint_parent[joint]), []).append(joint)
        moved = set(host.joint_child[self.chosen.joints].tolist()) if len(self.chosen.joints) else set()
        self.mocap = [body for body in self.chosen.bodies.tolist() if body not in moved]
        for body in self.mocap:
            self._add_body(body, -1, host.body_q[body], mocap=True)
        waiting = by_parent.get(-1, [])[::-1]
        while waiting:
            joint = waiting.pop()
            self._add_joined(joint)
            waiting.extend(reversed(by_parent.get(int(host.joint_child[joint]), [])))
        for joint in self.chosen.joints.tolist():
            self._add_drives(joint)

    def _add_body(self, body: int, parent: int, pose: np.ndarray, mocap: bool = False) -> None:
        host = self.host
        element = self.bodies[parent].add_body(
            name=self.names.of("body", host.body_key[body]), pos=pose[:3], quat=wxyz(pose[3:]), mocap=mocap
        )
        self.bodies[body] = element
        element.mass = host.body_mass[body]
        if host.body_mass[body] > 0.0 or host.body_inertia[body].any():
            moments, frame = self._moments(body)
            element.ipos = host.body_com[body]
            element.inertia, element.iquat = moments, frame
            element.explicitinertial = True

    def _moments(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Principal moments (3,) and axes of a body's inertia as a quaternion wxyz."""
        import mujoco

        host = self.host
        turns = host.shape_transform[host.shape_body == body, 3:]
        moments, axes = principal_axes(host.body_inertia[body], turns)
        largest = int(moments.argmax())
        others = float(np.delete(moments, largest).sum())
        if moments[largest] <= (1.0 + _FLAT) * others:
            moments[largest] = min(moments[largest], others)
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, axes.reshape(-1))
        return moments, quaternion

    def axis_name(self, axis: int) -> str:
        """Return the name of the joint of the spec that an axis became."""
        host = self.host
        last = host.joint_axis_start + host.joint_axis_dim.sum(axis=1)
        joint = int(np.flatnonzero((host.joint_axis_start <= axis) & (axis < last))[0])
        return self.joints[joint][axis - int(host.joint_axis_start[joint])].name

    # -- joints ----------------------------------------------------------------------------------------------

    def _add_joined(self, joint: int) -> None:
        """Add the child of a joint with the joints that MuJoCo moves it by."""
        host = self.host
        kind, parent = JointType(host.joint_type[joint]), int(host.joint_parent[joint])
        body = int(host.joint_child[joint])
        inner = transform_inverse(host.joint_X_c[joint])
        floating = kind in FLOATING
        frame = host.joint_X_p[joint]
        if floating and parent < 0:
            start = int(self.host.model.joint_q_start.numpy()[joint])
            frame = transform_multiply(frame, host.joint_q[start : start + 7])
        if body not in self.bodies:
            end = self.carried.get(body, body)
            self._add_body(end, parent, transform_multiply(frame, inner))
            self.bodies |= {link: self.bodies[end] for link, of in self.carried.items() if of == end}
        if floating and parent < 0:
            self.joints[joint] = [self._add_free(joint)]
        elif floating:
            slides = [self._add_slide(joint, axis, f"_{'xyz'[k]}") for k, axis in enumerate(np.eye(3))]
            self.joints[joint] = [*slides, self._add_ball(joint, "_ball")]
        elif kind == JointType.BALL:
            self.joints[joint] = [self._add_ball(joint, "")]
        else:
            self.joints[joint] = self._add_axes(joint)

    def _new(self, joint: int, suffix: str, **attributes: object):
        body = self.bodies[int(self.host.joint_child[joint])]
        key = self.host.joint_key[joint] or f"joint_{joint}"
        return body.add_joint(name=self.names.of("joint", key + suffix), **attributes)

    def _add_free(self, joint: int):
        import mujoco

        return self._new(joint, "", type=mujoco.mjtJoint.mjJNT_FREE, **self._whole_passive(joint))

    def _add_slide(self, joint: int, axis: np.ndarray, suffix: str):
        import mujoco

        axis = quat_rotate(self.host.joint_X_c[joint, 3:], axis)
        passive = self._whole_passive(joint)
        return self._new(joint, suffix, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis, **passive)

    def _add_ball(self, joint: int, suffix: str):
        import mujoco

        ball = self._new(joint, suffix, type=mujoco.mjtJoint.mjJNT_BALL, **self._whole_passive(joint))
        ball.pos = self.host.joint_X_c[joint, :3]
        limits = [self.host.joint_swing_limit[joint], self.host.joint_twist_upper[joint]]
        limits.append(-self.host.joint_twist_lower[joint])
        if self.host.joint_type[joint] == JointType.BALL and min(limits) < self.limit_threshold:
            if max(limits) - min(limits) > _LOCKED:
                raise ModelError(
                    f"{self.host.label('joint', joint)}: MuJoCo limits the angle of a ball joint as a whole; "
                    "swing and twist need the same limit"
                )
            ball.limited, ball.range = True, [0.0, limits[0]]
        return ball

    def _whole_passive(self, joint: int) -> dict[str, Any]:
        """Armature, damping and friction of a joint without axes, which MuJoCo has one number for."""
        host, found = self.host, {}
        span = slice(*host.model.joint_qd_start.numpy()[joint : joint + 2].tolist())
        names = {"armature": "armature", "damping": "damping", "friction": "frictionloss"}
        if host.joint_friction_solref[span].any():
            names |= {"friction_solref": "solref_friction", "friction_solimp": "solimp_friction"}
        for name, target in names.items():
            values = getattr(host, f"joint_{name}")[span]
            if np.ptp(values, axis=0).any():
                raise ModelError(
                    f"{host.label('joint', joint)}: joint_{name} {values.tolist()} differs between its "
                    "degrees of freedom, and MuJoCo has one for all"
                )
            found[target] = values[0]
        found["damping"] = [found["damping"], 0.0, 0.0]
        return found

    def _add_axes(self, joint: int) -> list:
        import mujoco

        host = self.host
        linear, angular = host.joint_axis_dim[joint].tolist()
        start = int(host.joint_axis_start[joint])
        dof = int(host.model.joint_qd_start.numpy()[joint])
        added = []
        for k in range(linear + angular):
            axis, anchor = start + k, host.joint_X_c[joint]
            element = self._new(joint, "" if linear + angular == 1 else f"_{k}")
            element.type = mujoco.mjtJoint.mjJNT_SLIDE if k < linear else mujoco.mjtJoint.mjJNT_HINGE
            element.axis, element.pos = quat_rotate(anchor[3:], host.joint_axis[axis]), anchor[:3]
            damping = host.joint_damping[dof + k]
            element.damping = [damping if damping > 0.0 else self.default_damping, 0.0, 0.0]
            element.armature, element.frictionloss = (
                host.joint_armature[dof + k],
                host.joint_friction[dof + k],
            )
            element.stiffness = [host.joint_stiffness[axis], 0.0, 0.0]
            element.springref = host.joint_spring_ref[axis]
            self._limit(element, joint, host.joint_limit_lower[axis], host.joint_limit_upper[axis])
            if host.joint_limit_solref[axis].any():
                element.solref_limit, element.solimp_limit = (
                    host.joint_limit_solref[axis],
                    host.joint_limit_solimp[axis],
                )
                element.margin = host.joint_limit_margin[axis]
            self._dry_friction(element, dof + k)
            added.append(element)
        return added

    def _dry_friction(self, element, dof: int) -> None:
        """How the dry friction of a joint yields, if the model says."""
        host = self.host
        if host.joint_friction_solref[dof].any():
            element.solref_friction = host.joint_friction_solref[dof]
            element.solimp_friction = host.joint_friction_solimp[dof]

    def _limit(self, element, joint: int, lower: float, upper: float) -> None:
        element.limited = lower > -self.limit_threshold or upper < self.limit_threshold
        if not element.limited:
            return
        if lower > upper:
            label = self.host.label("joint", joint)
            raise ModelError(f"{label}: its lower limit {lower:g} is above its upper limit {upper:g}")
        room = 0.5 * _LOCKED if upper - lower < _LOCKED else 0.0
        element.range = [max(lower - room, -_ENDLESS), min(upper + room, _ENDLESS)]

    # -- drives ----------------------------------------------------------------------------------------------

    def _add_drives(self, joint: int) -> None:
        """Add an actuator for each driven axis that can push."""
        host, drives = self.host, self.drives
        start, axes = int(host.joint_axis_start[joint]), int(host.joint_axis_dim[joint].sum())
        gear = float(drives.gears.get(host.joint_key[joint], drives.gear))
        for k in range(axes):
            axis = start + k
            mode, ke, kd = host.joint_axis_mode[axis], host.joint_target_ke[axis], host.joint_target_kd[axis]
            pushes = mode == JointMode.FORCE or ke > 0.0 or (mode == JointMode.TARGET_POSITION and kd > 0.0)
            if pushes and (drives.axes is None or axis in drives.axes):
                self.actuators[axis] = self._add_drive(axis, self.joints[joint][k].name, mode, ke, kd, gear)

    def _add_drive(self, axis: int, name: str, mode: int, ke: float, kd: float, gear: float):
        import mujoco

        actuator = self.spec.add_actuator(
            name=self.names.of("actuator", name), target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        gain, bias = 1.0, [0.0, 0.0, 0.0]
        if mode == JointMode.TARGET_POSITION:
            gain, bias = ke, [0.0, -ke, -kd]
        elif mode == JointMode.TARGET_VELOCITY:
            gain, bias = ke, [0.0, 0.0, -ke]
        actuator.gaintype, actuator.gainprm[0] = mujoco.mjtGain.mjGAIN_FIXED, gain
        actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE if any(bias) else mujoco.mjtBias.mjBIAS_NONE
        actuator.biasprm[:3] = bias
        actuator.gear[0] = gear
        most = min(float(self.host.joint_effort_limit[axis]), _ENDLESS)
        least = max(float(least_effort(self.host.joint_effort_lower[axis], most)), -_ENDLESS)
        if most < _ENDLESS or least > -_ENDLESS:
            actuator.forcelimited, actuator.forcerange = True, [least, max(most, least + 1.0e-12)]
        for attribute, value in self.drives.arguments.items():
            if not hasattr(actuator, attribute):
                known = [one for one in dir(actuator) if not one.startswith("_")]
                raise ModelError(
                    f"default_actuator_args: actuators have no {attribute!r}{did_you_mean(attribute, known)}"
                )
            setattr(actuator, attribute, value)
        return actuator
