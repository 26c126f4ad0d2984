"""The tasks of the benchmark of gradients in MuJoCo, whose gradients are finite differences."""

from __future__ import annotations

import numpy as np
from tasks.gradients import Task

import newtonsim

STEP = 1.0e-6
"""Of central differences in float64; what `mjd_transitionFD` is called with in MuJoCo's own examples."""


class MujocoEngine:
    """MuJoCo: a rollout in float64, and gradients by differences.

    Args:
        task: A task of bodies.
        transition: Whether to multiply the derivatives of each step that `mjd_transitionFD` finds, instead of
            differences of whole rollouts.
    """

    def __init__(self, task: Task, transition: bool):
        import mujoco

        self.mujoco, self.task, self.transition = mujoco, task, transition
        self.name = "MuJoCo transitionFD" if transition else "MuJoCo differences"
        builder = task.builder(task.dt, False)
        self.model = mujoco.MjModel.from_xml_string(mujoco_xml(task, builder))
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = builder.joint_q
        nv = self.model.nv
        qd = np.array(builder.joint_qd)
        if builder.joint_type[0] == newtonsim.JOINT_FREE:
            x, y, z, w = builder.joint_q[3:7]
            self.data.qpos[3:7] = [w, x, y, z]
            qd = _free_velocity(mujoco, qd, self.data.qpos[3:7], np.array(builder.body_com[0]))
        self._qpos = self.data.qpos.copy()
        self.start = np.concatenate([qd, np.zeros(nv)]) if task.torques else qd
        self._weights = task.weights(builder.body_count).astype(np.float64)

    def loss(self, inputs: np.ndarray) -> float:
        self._begin(inputs)
        for _ in range(self.task.steps):
            self.mujoco.mj_step(self.model, self.data)
        return self._value()

    def _begin(self, inputs: np.ndarray) -> None:
        model, data = self.model, self.data
        self.mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = self._qpos, inputs[: model.nv]
        if self.task.torques:
            data.ctrl[:] = inputs[model.nv :]

    def _value(self) -> float:
        self.mujoco.mj_kinematics(self.model, self.data)
        axes = self.data.xmat[1:].reshape(-1, 3, 3)[:, :, 0]
        return float((self._weights * np.hstack([self.data.xpos[1:], axes])).sum())

    def gradient(self) -> np.ndarray:
        return self._chain() if self.transition else self._differences()

    def _differences(self) -> np.ndarray:
        steps = STEP * np.eye(len(self.start))
        pairs = [(self.loss(self.start + h), self.loss(self.start - h)) for h in steps]
        return np.array([(high - low) / (2.0 * STEP) for high, low in pairs])

    def _chain(self) -> np.ndarray:
        """Reverse accumulation over the steps: gᵀ A and gᵀ B of each, with g of the final state first."""
        model, data, nv = self.model, self.data, self.model.nv
        self._begin(self.start)
        state, control = (
            np.zeros((self.task.steps, 2 * nv, 2 * nv)),
            np.zeros((self.task.steps, 2 * nv, model.nu)),
        )
        for A, B in zip(state, control):
            self.mujoco.mjd_transitionFD(model, data, STEP, True, A, B if model.nu else None, None, None)
            self.mujoco.mj_step(model, data)
        g, total = np.concatenate([self._slope(), np.zeros(nv)]), np.zeros(model.nu)
        for A, B in zip(state[::-1], control[::-1]):
            total += g @ B
            g = g @ A
        return np.concatenate([g[nv:], total])

    def _slope(self) -> np.ndarray:
        """Derivative of the loss with respect to the final coordinates, in the tangent (nv,)."""
        qpos, slope = self.data.qpos.copy(), np.zeros(self.model.nv)
        for k, direction in enumerate(np.eye(self.model.nv)):
            values = []
            for h in (STEP, -STEP):
                self.data.qpos[:] = qpos
                self.mujoco.mj_integratePos(self.model, self.data.qpos, direction, h)
                values.append(self._value())
            slope[k] = (values[0] - values[1]) / (2.0 * STEP)
        return slope

    def forward(self, count: int) -> None:
        for _ in range(count):
            self.loss(self.start)

    def both(self, count: int) -> None:
        for _ in range(count):
            self.gradient()


def _free_velocity(mujoco, qd: np.ndarray, quaternion: np.ndarray, com: np.ndarray) -> np.ndarray:
    """MuJoCo's velocity of a free joint, that of the frame's origin and the spin in its axes, from (ω, v)."""
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, quaternion)
    turn = turn.reshape(3, 3)
    return np.concatenate([qd[3:] - np.cross(qd[:3], turn @ com), turn.T @ qd[:3]])


def mujoco_xml(task: Task, b: newtonsim.ModelBuilder) -> str:
    """Return the bodies of a builder on hinges or free joints, and the shape of the only one, as MJCF."""
    children: dict[int, list[int]] = {}
    for joint, parent in enumerate(b.joint_parent):
        children.setdefault(parent, []).append(joint)

    def body(joint: int) -> str:
        child = b.joint_child[joint]
        free = b.joint_type[joint] == newtonsim.JOINT_FREE
        frame, inertia = b.joint_X_p[joint], np.array(b.body_inertia[child]).reshape(3, 3)
        six = [inertia[i, k] for i, k in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
        x, y, z, w = frame.q
        axis = "" if free else _numbers(b.joint_axis[b.joint_axis_start[joint]])
        kind = "<freejoint/>" if free else f'<joint name="j{joint}" type="hinge" axis="{axis}"/>'
        inner = "".join(body(j) for j in children.get(child, []))
        return (
            f'<body pos="{_numbers(frame.p)}" quat="{_numbers((w, x, y, z))}">{kind}'
            f'<inertial pos="{_numbers(b.body_com[child])}" mass="{b.body_mass[child]}" '
            f'fullinertia="{_numbers(six)}"/>{_shape(task, b)}{inner}</body>'
        )

    motors = "".join(f'<motor joint="j{joint}"/>' for joint in range(b.joint_count)) if task.torques else ""
    # stiffness and damping of the contact, undamped, instead of time and damping ratio
    solref = "-10000 0" if task.height else "0.02 1"
    mu = b.shape_material_mu[0] if task.contact else 0.0
    ground = '<geom type="plane" size="0 0 1"/>' if task.contact else ""
    return (
        f'<mujoco><compiler angle="radian"/>'
        f'<option timestep="{task.dt}" gravity="0 0 -9.81" cone="elliptic"/>'
        f'<default><geom solref="{solref}" friction="{mu} 0 0"/></default>'
        f"<worldbody>{ground}{''.join(body(j) for j in children[-1])}</worldbody>"
        f"<actuator>{motors}</actuator></mujoco>"
    )


def _shape(task: Task, b: newtonsim.ModelBuilder) -> str:
    if not task.contact:
        return ""
    sphere = b.shape_geo_type[0] == newtonsim.GEO_SPHERE
    return f'<geom type="{"sphere" if sphere else "box"}" size="{_numbers(b.shape_geo_scale[0])}"/>'


def _numbers(values) -> str:
    return " ".join(f"{float(value):.9g}" for value in values)
