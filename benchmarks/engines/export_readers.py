"""What engines make of a model that was written as MJCF, URDF or USD, in the coordinates of that model.

MJCF is compiled by MuJoCo, URDF read by pinocchio, and USD by `parse_usd`. Each side has velocity coordinates
of its own, v_theirs = T(q) v, so that M = Tᵀ M_theirs T:

- A free joint has (ω, v of the centre of mass) in world axes here; (v of the origin in world axes, ω in body
  axes) in MuJoCo; (v of the origin, ω), both in the axes of the link, in pinocchio.
- A ball has ω in the axes of the parent joint frame here and in those of the body in MuJoCo; a free joint
  below another body is three slides and a ball there.
- A ball is three hinges about x, y and z in pinocchio.
- Hinges and slides are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.fidelity.comparison import joint_space_inertia
from newtonsim.geometry.transforms import (
    quat_conjugate,
    quat_matrix,
    quat_multiply,
    transform_inverse,
    transform_multiply,
)
from newtonsim.importers import parse_usd
from newtonsim.kinematics import eval_fk
from newtonsim.scene.enums import JointMode, JointType
from newtonsim.scene.joint_types import FLOATING

AXES = (
    "target_ke",
    "target_kd",
    "axis_mode",
    "effort_limit",
    "velocity_limit",
    "act",
    "stiffness",
    "spring_ref",
)
"""Arrays of the model by axis."""

DOFS = ("armature", "damping", "friction")
"""Arrays of the model by degree of freedom."""


class NotPlacedError(Exception):
    """Something of the model has no counterpart by its name."""


@dataclass
class Pairs:
    """Joints of our model and their names in the file.

    Attributes:
        model: The model that was written.
        names: Names in the file, by joint that has any.
        kinds: Types of the joints.
        q: First coordinate of each joint, and one more.
        qd: First degree of freedom, likewise.
    """

    model: Any
    names: dict[int, list[str]]
    kinds: np.ndarray
    q: np.ndarray
    qd: np.ndarray

    @classmethod
    def of(cls, model: Any, written: Any) -> Pairs:
        starts = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
        return cls(model, written.joints, model.joint_type.numpy(), *starts)

    def moving(self) -> Iterator[tuple[int, list[str], slice, slice]]:
        """Joints that move, with their names, coordinates and degrees of freedom."""
        for joint in range(self.model.joint_count):
            at, dofs = slice(*self.q[joint : joint + 2]), slice(*self.qd[joint : joint + 2])
            if dofs.stop > dofs.start:
                yield joint, self.names.get(joint, []), at, dofs

    def axes(self) -> Iterator[tuple[str, int, int]]:
        """Name, axis and degree of freedom of all hinges and slides."""
        first = self.model.joint_axis_start.numpy()
        for joint, names, _, dofs in self.moving():
            if self.kinds[joint] not in (*FLOATING, JointType.BALL) and len(names) == dofs.stop - dofs.start:
                yield from ((name, first[joint] + i, dofs.start + i) for i, name in enumerate(names))

    def values(self, axis: int, dof: int) -> dict[str, float]:
        """Settings of a hinge or slide."""
        by_axis = {key: float(getattr(self.model, f"joint_{key}").numpy()[axis]) for key in AXES}
        return by_axis | {key: float(getattr(self.model, f"joint_{key}").numpy()[dof]) for key in DOFS}

    def child(self, joint: int) -> int:
        """Body that a joint moves."""
        return int(self.model.joint_child.numpy()[joint])

    def axes_of(self, joint: int, poses: np.ndarray) -> np.ndarray:
        """Axes (3, 3) of the velocities of a floating joint: the world's, or its frame's in another body."""
        parent = int(self.model.joint_parent.numpy()[joint])
        if parent < 0:
            return np.eye(3)
        frame = self.model.joint_X_p.numpy()[joint].astype(np.float64)
        return quat_matrix(quat_multiply(poses[parent, 3:], frame[3:]))


# -- engines -------------------------------------------------------------------------------------------------


class InMujoco:
    """An exported MJCF file in MuJoCo."""

    def __init__(self, model: Any, written: Any):
        import mujoco

        self.mujoco, self.written, self.pairs = mujoco, written, Pairs.of(model, written)
        self.theirs = mujoco.MjModel.from_xml_path(written.path)
        self.data = mujoco.MjData(self.theirs)
        self.com = model.body_com.numpy().astype(np.float64) if model.body_count else np.zeros((0, 3))

    def mass(self) -> float:
        """Total mass [kg]."""
        return float(self.theirs.body_mass[1:].sum())

    def limits(self) -> dict[str, tuple[float, float]]:
        """Limits of hinges and slides by name."""
        model, free = self.theirs, (-np.inf, np.inf)
        single = (int(self.mujoco.mjtJoint.mjJNT_HINGE), int(self.mujoco.mjtJoint.mjJNT_SLIDE))
        return {
            model.joint(i).name: tuple(model.jnt_range[i]) if model.jnt_limited[i] else free
            for i in range(model.njnt)
            if int(model.jnt_type[i]) in single
        }

    def settings(self) -> Iterator[tuple[str, float, float]]:
        """Name of each setting of a hinge or slide, its value, and the one in the file."""
        model, find = self.theirs, self.mujoco.mj_name2id
        for name, axis, own in self.pairs.axes():
            mine, joint = self.pairs.values(axis, own), model.joint(name)
            dof, theirs = joint.dofadr[0], {"stiffness": model.jnt_stiffness[joint.id]}
            theirs |= {"damping": model.dof_damping[dof], "armature": model.dof_armature[dof]}
            theirs["friction"] = model.dof_frictionloss[dof]
            if mine["stiffness"]:
                theirs["spring_ref"] = model.qpos_spring[joint.qposadr[0]]
            actuator = find(model, self.mujoco.mjtObj.mjOBJ_ACTUATOR, name)
            limited = model.actuator_forcelimited[actuator]
            theirs["effort_limit"] = model.actuator_forcerange[actuator, 1] if limited else np.inf
            gain, _, *bias = *model.actuator_gainprm[actuator, :1], *model.actuator_biasprm[actuator, :3]
            mode = JointMode(int(mine["axis_mode"]))
            if mode == JointMode.TARGET_POSITION:
                theirs |= {"target_ke": gain, "target_kd": -bias[1]}
                yield f"proportional bias of {name}", mine["target_ke"], -bias[0]
            elif mode == JointMode.TARGET_VELOCITY:
                theirs["target_ke"] = gain
                yield f"bias of {name}", mine["target_ke"], -bias[1]
            yield from ((f"{key} of {name}", mine[key], float(value)) for key, value in theirs.items())

    def place(self, state: Any, q: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """Return M(q) in our coordinates, and the poses of our bodies."""
        model, data = self.theirs, self.data
        T = np.zeros((model.nv, self.pairs.model.joint_dof_count))
        for joint, names, at, dofs in self.pairs.moving():
            places = [self.mujoco.mj_name2id(model, self.mujoco.mjtObj.mjOBJ_JOINT, name) for name in names]
            if -1 in places or not places:
                raise NotPlacedError(f"the joint {self.pairs.model.joint_key[joint]!r} is not in the file")
            qpos, qvel = model.jnt_qposadr[places[0]], model.jnt_dofadr[places[0]]
            if self.pairs.kinds[joint] in FLOATING and len(names) == 1:
                body = self.pairs.child(joint)
                pose, r = poses[body], quat_matrix(poses[body, 3:]) @ self.com[body]
                data.qpos[qpos : qpos + 7] = [*pose[:3], pose[6], *pose[3:6]]
                T[qvel : qvel + 3, dofs] = np.hstack([_cross(r), np.eye(3)])
                T[qvel + 3 : qvel + 6, dofs] = np.hstack([quat_matrix(pose[3:]).T, np.zeros((3, 3))])
            elif self.pairs.kinds[joint] in FLOATING:
                self._float_below(joint, places, q[at], dofs, T)
            elif self.pairs.kinds[joint] == JointType.BALL:
                frame = self.pairs.model.joint_X_c.numpy()[joint, 3:].astype(np.float64)
                turn = quat_multiply(quat_multiply(frame, q[at]), quat_conjugate(frame))
                data.qpos[qpos : qpos + 4] = [turn[3], *turn[:3]]
                T[qvel : qvel + 3, dofs] = quat_matrix(frame) @ quat_matrix(q[at]).T
            elif len(names) == dofs.stop - dofs.start:
                for i, place in enumerate(places):
                    data.qpos[model.jnt_qposadr[place]] = q[at.start + i]
                    T[model.jnt_dofadr[place], dofs.start + i] = 1.0
            else:
                raise NotPlacedError(f"{len(names)} joints for {self.pairs.model.joint_key[joint]!r}")
        self.mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        self.mujoco.mj_fullM(model, data, M)
        return T.T @ M @ T, {body: self._pose(name) for body, name in self.written.bodies.items()}

    def _float_below(self, joint: int, places: list[int], q: np.ndarray, dofs: slice, T: np.ndarray) -> None:
        """Three slides and a ball, by which a body floats below another one."""
        model = self.theirs
        frame = self.pairs.model.joint_X_c.numpy()[joint].astype(np.float64)
        turn = quat_multiply(quat_multiply(frame[3:], q[3:]), quat_conjugate(frame[3:]))
        inner = transform_inverse(frame)
        R = quat_matrix(q[3:])
        arm = R @ (inner[:3] + quat_matrix(inner[3:]) @ self.com[self.pairs.child(joint)])
        for place, row, value in zip(places, np.hstack([_cross(arm), np.eye(3)]), q[:3]):
            self.data.qpos[model.jnt_qposadr[place]] = value
            T[model.jnt_dofadr[place], dofs] = row
        at, dof = model.jnt_qposadr[places[3]], model.jnt_dofadr[places[3]]
        self.data.qpos[at : at + 4] = [turn[3], *turn[:3]]
        T[dof : dof + 3, dofs] = np.hstack([quat_matrix(frame[3:]) @ R.T, np.zeros((3, 3))])

    def _pose(self, name: str) -> np.ndarray:
        body = self.data.body(name)
        return np.array([*body.xpos, *body.xquat[[1, 2, 3, 0]]])


class InPinocchio:
    """An exported URDF file in pinocchio."""

    def __init__(self, model: Any, written: Any):
        import pinocchio as pin

        self.pin, self.written, self.pairs = pin, written, Pairs.of(model, written)
        root = [pin.JointModelFreeFlyer()] if written.read_with["floating"] else []
        self.theirs = pin.buildModelFromUrdf(written.path, *root)
        self.data = self.theirs.createData()
        self.com = model.body_com.numpy().astype(np.float64)
        self.links = {f.name: i for i, f in enumerate(self.theirs.frames) if f.type == pin.FrameType.BODY}

    def mass(self) -> float:
        """Total mass [kg], what stands still included."""
        return float(sum(body.mass for body in self.theirs.inertias))

    def limits(self) -> dict[str, tuple[float, float]]:
        """Limits of hinges and slides by name."""
        model, found = self.theirs, {}
        for name, joint in list(zip(model.names, model.joints, strict=True))[1:]:
            at = joint.idx_q
            if joint.nv == 1:
                free = joint.nq == 2  # cosine and sine of a hinge that turns without end
                ends = (-np.inf, np.inf)
                found[name] = ends if free else (model.lowerPositionLimit[at], model.upperPositionLimit[at])
        return found

    def settings(self) -> Iterator[tuple[str, float, float]]:
        """Name of each setting that the format holds, its value, and the one in the file."""
        model = self.theirs
        for name, axis, own in self.pairs.axes():
            mine, dof = self.pairs.values(axis, own), model.joints[model.getJointId(name)].idx_v
            yield f"damping of {name}", mine["damping"], float(model.damping[dof])
            yield f"friction of {name}", mine["friction"], float(model.friction[dof])
            for key, theirs in (("effort", model.effortLimit), ("velocity", model.velocityLimit)):
                yield f"largest {key} of {name}", mine[f"{key}_limit"], float(theirs[dof])

    def place(self, state: Any, q: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """Return M(q) in our coordinates, and the poses of our bodies."""
        pin, model, data = self.pin, self.theirs, self.data
        theirs = pin.neutral(model)
        T = np.zeros((model.nv, self.pairs.model.joint_dof_count))
        for joint, named, at, dofs in self.pairs.moving():
            names = self.written.hinges.get(joint, named) or ["root_joint"]
            places = [model.getJointId(name) for name in names]
            if max(places) >= model.njoints:
                raise NotPlacedError(f"the joint {self.pairs.model.joint_key[joint]!r} is not in the file")
            if self.pairs.kinds[joint] in FLOATING:
                self._float(joint, places[0], dofs, poses, theirs, T)
                continue
            if self.pairs.kinds[joint] == JointType.BALL:
                self._turn(places, q[at], dofs, theirs, T)
                continue
            for i, place in enumerate(places):
                one, value = model.joints[place], q[at.start + i]
                theirs[one.idx_q : one.idx_q + one.nq] = (
                    [value] if one.nq == 1 else [np.cos(value), np.sin(value)]
                )
                T[one.idx_v, dofs.start + i] = 1.0
        M = pin.crba(model, data, theirs)
        M = np.triu(M) + np.triu(M, 1).T
        pin.framesForwardKinematics(model, data, theirs)
        return T.T @ M @ T, {body: self._pose(body, name) for body, name in self.written.bodies.items()}

    def _float(
        self, joint: int, place: int, dofs: slice, poses: np.ndarray, theirs: np.ndarray, T: np.ndarray
    ) -> None:
        """Coordinates and velocities of a joint by which a link floats in the world."""
        one, body = self.theirs.joints[place], self.pairs.child(joint)
        if self.theirs.parents[place] != 0:
            raise NotPlacedError(f"the joint {self.pairs.model.joint_key[joint]!r} floats below another body")
        link = transform_multiply(poses[body], self._frame(body))
        outer = np.asarray(self.pin.SE3ToXYZQUAT(self.theirs.jointPlacements[place]))
        theirs[one.idx_q : one.idx_q + 7] = transform_multiply(transform_inverse(outer), link)
        axes = self.pairs.axes_of(joint, poses)
        R = axes.T @ quat_matrix(link[3:])
        arm = axes.T @ (poses[body, :3] + quat_matrix(poses[body, 3:]) @ self.com[body] - link[:3])
        T[one.idx_v : one.idx_v + 3, dofs] = R.T @ np.hstack([_cross(arm), np.eye(3)])
        T[one.idx_v + 3 : one.idx_v + 6, dofs] = np.hstack([R.T, np.zeros((3, 3))])

    def _turn(
        self, places: list[int], quaternion: np.ndarray, dofs: slice, theirs: np.ndarray, T: np.ndarray
    ) -> None:
        """Angles and rates of the hinges about x, y and z that stand for a ball, R = Rx(a) Ry(b) Rz(c)."""
        R = quat_matrix(quaternion)
        angles = (
            np.arctan2(-R[1, 2], R[2, 2]),
            np.arcsin(np.clip(R[0, 2], -1, 1)),
            np.arctan2(-R[0, 1], R[0, 0]),
        )
        axes = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(angles[0]), np.sin(angles[0])], R[:, 2]]).T
        rates = np.linalg.inv(axes)
        for i, place in enumerate(places):
            one = self.theirs.joints[place]
            theirs[one.idx_q : one.idx_q + 2] = np.cos(angles[i]), np.sin(angles[i])
            T[one.idx_v, dofs] = rates[i]

    def _frame(self, body: int) -> np.ndarray:
        """Pose of a link's frame in that of our body (7,)."""
        return np.array(self.written.frames.get(body, (0, 0, 0, 0, 0, 0, 1)), np.float64)

    def _pose(self, body: int, name: str) -> np.ndarray:
        link = np.asarray(self.pin.SE3ToXYZQUAT(self.data.oMf[self.links[name]]))
        return transform_multiply(link, transform_inverse(self._frame(body)))


def faults_of(path: str) -> list[str]:
    """Return what OpenUSD's validators, which `usdchecker` runs, say of a stage."""
    from pxr import Usd, UsdValidation

    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    found = UsdValidation.ValidationContext(validators).Validate(Usd.Stage.Open(path))
    return [f"{error.GetName()}: {error.GetMessage()}" for error in found]


class InUsd:
    """An exported USD stage that we read again."""

    def __init__(self, model: Any, written: Any):
        self.written, self.pairs = written, Pairs.of(model, written)
        builder = ModelBuilder(up_vector=tuple(model.up_vector))
        self.read = parse_usd(written.path, builder, **written.read_with)["report"]
        self.theirs = builder.finalize("cpu")

    def mass(self) -> float:
        """Total mass [kg]."""
        return float(self.theirs.body_mass.numpy().sum()) if self.theirs.body_count else 0.0

    def _axis(self, name: str, joint: int, axis: int) -> int:
        """Axis of their model that is an axis of a joint of ours."""
        first = self.theirs.joint_axis_start.numpy()[self.read.joints[name]]
        return int(first + axis - self.pairs.model.joint_axis_start.numpy()[joint])

    def axes(self) -> Iterator[tuple[str, int, int, int, int]]:
        """Name, axis and degree of freedom here, and both there."""
        first, dof = self.pairs.model.joint_axis_start.numpy(), self.theirs.joint_qd_start.numpy()
        for joint, names, _, dofs in self.pairs.moving():
            if self.pairs.kinds[joint] in (*FLOATING, JointType.BALL):
                continue
            for i in range(dofs.stop - dofs.start):
                axis = first[joint] + i
                other = self._axis(names[0], joint, axis)
                place = int(dof[self.read.joints[names[0]]]) + i
                yield f"{names[0]} {i}", int(axis), dofs.start + i, other, place

    def limits(self) -> dict[str, tuple[float, float]]:
        """Limits of axes by name and number."""
        low, high = self.theirs.joint_limit_lower.numpy(), self.theirs.joint_limit_upper.numpy()
        return {name: (low[axis], high[axis]) for name, _, _, axis, _ in self.axes()}

    def place(self, state: Any, q: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """Return M(q) in our coordinates, and the poses of our bodies."""
        model, other = self.pairs.model, self.theirs.joint_q.numpy().astype(np.float64)
        T = np.zeros((self.theirs.joint_dof_count, model.joint_dof_count))
        for joint, names, at, dofs in self.pairs.moving():
            body = self.read.bodies[self.written.bodies[self.pairs.child(joint)]]
            place = self.read.joints.get(names[0]) if names else None
            if place is None:  # a body that floats has no joint in the file
                place = self.theirs.joint_child.numpy().tolist().index(body)
            coord, dof = (s.numpy()[place] for s in (self.theirs.joint_q_start, self.theirs.joint_qd_start))
            count = dofs.stop - dofs.start
            block, values = np.eye(count), q[at]
            if self.pairs.kinds[joint] == JointType.FREE and self.theirs.joint_parent.numpy()[place] < 0:
                values = poses[self.pairs.child(joint)]
                axes = self.pairs.axes_of(joint, poses)
                block = np.kron(np.eye(2), axes)  # of a body that stands still, which the file leaves out
            other[coord : coord + len(values)] = values
            T[dof : dof + count, dofs] = block
        twin = _state(self.theirs, other)
        found = twin.body_q.numpy().astype(np.float64)
        bodies = {body: found[self.read.bodies[path]] for body, path in self.written.bodies.items()}
        return T.T @ joint_space_inertia(self.theirs, twin, True) @ T, bodies

    def settings(self) -> Iterator[tuple[str, float, float]]:
        """Name of each setting of a hinge or slide, its value, and the one in the file."""
        for names, kind in ((AXES, 0), (DOFS, 1)):
            for key in names:
                mine, theirs = (
                    getattr(m, f"joint_{key}").numpy() if m.joint_dof_count else np.zeros(0)
                    for m in (self.pairs.model, self.theirs)
                )
                for name, axis, dof, other_axis, other_dof in self.axes():
                    place, other = ((axis, other_axis), (dof, other_dof))[kind]
                    yield f"{key} of {name}", float(mine[place]), float(theirs[other])


def _cross(r: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])


def _state(model: Any, q: np.ndarray) -> Any:
    state = model.state()
    if model.joint_dof_count:
        state.joint_q.assign(q.astype(np.float32))
        eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state
