"""Reverse passes of trees written by hand, against those that Warp derives from the forward kernels."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.algebra.rotation_adjoint import (
    inverse_transform_slope,
    left_transform_slope,
    right_transform_slope,
    rotation_slope,
    unit_slope,
)
from newtonsim.kernels.trees import forward_kinematics, rnea
from newtonsim.kernels.trees.adjoint.sums import taken
from newtonsim.runtime import compilation
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.enums import JointType
from newtonsim.testing import random_model, random_state

call = DeviceFunctions(
    __name__,
    inverse_transform_slope,
    left_transform_slope,
    right_transform_slope,
    rotation_slope,
    unit_slope,
    taken,
)

# joints of all kinds, and a second base, so that there are two trees with one gravity
BASES = [None, JointType.FREE, JointType.BALL, JointType.D6]


def two_trees(seed: int, base: JointType | None, device: str):
    builder = random_model(seed, base=base)
    builder.add_builder(random_model(seed + 50, body_count=3, joint_types=[JointType.DISTANCE]))
    # some axes have another length than one, as those of PyBullet's clients
    axes = builder.joint_axis
    for a in range(0, len(axes), 3):
        axes[a] = tuple(1.5 * np.asarray(axes[a]))
    return builder.finalize(device, requires_grad=True)


class Pass:
    """One evaluation of everything, with random gradients of all results."""

    def __init__(self, model, seed: int):
        self.model, self.device = model, model.device
        self.state = random_state(model, seed)
        rng = np.random.default_rng(seed + 1)
        self.launch = Launcher(model, record_tape=True)
        self.motion = Motion(model, requires_grad=True)
        self.qd, self.qdd = (self._floats(rng.normal(size=model.joint_dof_count)) for _ in range(2))
        f = rng.normal(size=(model.body_count, 6)).astype(np.float32)
        self.body_f = wp.array(f, dtype=wp.spatial_vector, device=self.device, requires_grad=True)
        self.seeds = [rng.normal(size=a.numpy().shape).astype(np.float32) for a in self.motion.arrays]

    def _floats(self, values: np.ndarray) -> wp.array:
        return wp.array(values.astype(np.float32), dtype=float, device=self.device, requires_grad=True)

    def results(self) -> list[wp.array]:
        return self.motion.arrays

    def inputs(self) -> dict[str, wp.array]:
        model = self.model
        return {
            "q": self.state.joint_q,
            "qd": self.qd,
            "qdd": self.qdd,
            "body_f": self.body_f,
            "X_p": model.joint_X_p,
            "X_c": model.joint_X_c,
            "axis": model.joint_axis,
            "mass": model.body_mass,
            "com": model.body_com,
            "inertia": model.body_inertia,
            "gravity": model.gravity_vec,
        }

    def gradients(self, forward, accelerations: bool) -> dict[str, np.ndarray]:
        for array in [*self.inputs().values(), *self.results()]:
            array.grad.zero_()
        with wp.Tape() as tape:
            forward(accelerations)
        for array, seed in zip(self.results(), self.seeds):
            array.grad.assign(seed)
        if accelerations:
            for array in (self.motion.body_F, self.motion.tau):
                array.grad.zero_()
        tape.backward()
        found = {name: array.grad.numpy().copy() for name, array in self.inputs().items()}
        return found | {f"result {k}": a.grad.numpy().copy() for k, a in enumerate(self.results())}

    def by_hand(self, accelerations: bool) -> None:
        self.launch.poses(self.motion, self.state.joint_q)
        self.launch.inertias(self.motion)
        self.launch.velocities(self.motion, self.qd)
        if accelerations:
            self.launch.accelerations(self.motion, self.qd, self.qdd)
        else:
            self.launch.inverse_dynamics(self.motion, self.qd, self.qdd, self.body_f)

    def by_warp(self, accelerations: bool) -> None:
        model, v, m = self.model, self.launch.views, self.motion

        def run(kernel, count, *inputs):
            wp.launch(kernel, count, [0, v.tree, *inputs], device=self.device)

        trees = len(v.tree.world)
        self.launch.off_tape(
            forward_kinematics.place_origins,
            "tree",
            reads=dict(tree=v.tree, joint=v.joint, q=self.state.joint_q),
            writes=dict(origin=m.kin.origin),
        )
        run(forward_kinematics.compute_poses, trees, v.joint, model.body_com, self.state.joint_q, m.kin)
        run(forward_kinematics.turn_inertias, model.body_count, v.body, m.kin)
        run(forward_kinematics.compute_velocities, trees, v.joint, self.qd, m.kin)
        moves = (m.kin, self.qd, self.qdd)
        if accelerations:
            run(rnea.accelerate_bodies, trees, v.joint, model.gravity_vec, *moves, m.dof_A, m.body_A)
        else:
            forces = (self.body_f, m.dof_A, m.body_A, m.body_F, m.tau)
            run(rnea.inverse_dynamics, trees, v.joint, v.body, model.gravity_vec, *moves, *forces)


@pytest.mark.parametrize("accelerations", [False, True])
@pytest.mark.parametrize("base", BASES)
def test_reverse_passes_are_those_of_the_forward_kernels(device, base, accelerations):
    """To rounding in single precision, of sums of a few hundred products."""
    compilation.enable_backward(*(wp.get_module(k.__name__) for k in (forward_kinematics, rnea)))
    evaluation = Pass(two_trees(3, base, device), 7)
    ours = evaluation.gradients(evaluation.by_hand, accelerations)
    warps = evaluation.gradients(evaluation.by_warp, accelerations)
    for name, theirs in warps.items():
        size = np.abs(theirs).max()
        np.testing.assert_allclose(ours[name], theirs, atol=3e-5 * size + 1e-12, err_msg=name)
    unused = {"mass", "inertia", "com", "body_f"} if accelerations else set()
    for name in evaluation.inputs():
        assert ours[name].any() or name in unused, name


def test_inputs_without_gradients_are_left_out(device):
    builder = random_model(0)
    evaluation = Pass(builder.finalize(device, requires_grad=True), 1)
    whole = evaluation.gradients(evaluation.by_hand, False)
    evaluation.qd.requires_grad = False
    evaluation.model.body_mass.requires_grad = False
    evaluation.inputs = lambda: {"q": evaluation.state.joint_q, "qdd": evaluation.qdd}
    part = evaluation.gradients(evaluation.by_hand, False)
    for name in ("q", "qdd"):
        np.testing.assert_array_equal(part[name], whole[name])


def turned(q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Warp's formula, for quaternions of any length."""
    u, w = q[:3], q[3]
    return (2.0 * w * w - 1.0) * x + 2.0 * w * np.cross(u, x) + 2.0 * u * (u @ x)


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    u, v = a[:3], b[:3]
    return np.append(a[3] * v + b[3] * u + np.cross(u, v), a[3] * b[3] - u @ v)


def placed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.append(a[:3] + turned(a[3:], b[:3]), times(a[3:], b[3:]))


def inverted(a: np.ndarray) -> np.ndarray:
    back = a[3:] * [-1.0, -1.0, -1.0, 1.0]
    return np.append(-turned(back, a[:3]), back)


def differences(f, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Gradient of g · f(x)."""
    step = 1e-5 * np.eye(len(x))
    return np.array([g @ (f(x + d) - f(x - d)) for d in step]) / 2e-5


def test_slopes_of_rotations_and_transforms_are_those_of_differences(device):
    rng = np.random.default_rng(2)
    for _ in range(5):
        a, b, g = rng.normal(size=(3, 7))
        pairs = [
            (
                call(device, rotation_slope, a[3:], b[:3], g[:3]),
                lambda q, b=b: turned(q, b[:3]),
                a[3:],
                g[:3],
            ),
            (call(device, left_transform_slope, a, b, g), lambda x, b=b: placed(x, b), a, g),
            (call(device, right_transform_slope, a, g), lambda x, a=a: placed(a, x), b, g),
            (call(device, inverse_transform_slope, a, g), inverted, a, g),
            (call(device, unit_slope, a[3:], g[3:]), lambda q: q / np.linalg.norm(q), a[3:], g[3:]),
        ]
        for found, function, at, seed in pairs:
            np.testing.assert_allclose(found[0], differences(function, at, seed), rtol=1e-4, atol=1e-4)


def test_gradients_of_results_are_taken_once(device):
    values = np.arange(12.0, dtype=np.float32).reshape(2, 6)
    array = wp.array(values, dtype=wp.spatial_vector, device=device)
    assert (call(device, taken, array, [0, 1]) == values).all()
    assert not array.numpy().any()
