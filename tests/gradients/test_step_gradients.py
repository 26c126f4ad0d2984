"""The tape's gradient of a rollout against central differences."""

import itertools
import math

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.errors import NotDifferentiableError
from newtonsim.examples import asset_path
from newtonsim.runtime.active_tape import active_tape
from newtonsim.testing import assert_gradients, random_model, random_state

STEPS = 20
# central differences of a float32 rollout of 20 steps are themselves only good to a few 1e-4
RTOL = 1.0e-3


@wp.kernel
def pack_bodies(
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    out: wp.array2d(dtype=float),
):
    b = wp.tid()
    for k in range(7):
        out[b, k] = body_q[b][k]
    for k in range(6):
        out[b, 7 + k] = body_qd[b][k]


def free_body() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    inertia = wp.mat33(0.02, 0.002, 0.001, 0.002, 0.05, 0.003, 0.001, 0.003, 0.06)
    body = builder.add_body(com=(0.05, -0.02, 0.1), I_m=inertia, mass=1.5, key="potato")
    builder.add_articulation()
    builder.add_joint_free(body)
    builder.joint_q[:] = [0.1, 0.2, 1.0, 0.1, 0.5, -0.2, 0.83]
    builder.joint_qd[:] = [4.0, -6.0, 2.0, 0.5, 0.3, 2.0]
    return builder


def double_pendulum() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    parent = -1
    for i in range(2):
        body = builder.add_body(key=f"rod{i}")
        builder.add_shape_capsule(body, pos=(0.0, 0.0, -0.25), radius=0.03, half_height=0.2, up_axis=2)
        anchor = wp.transform((0.0, 0.0, 0.0 if i == 0 else -0.5), wp.quat_identity())
        builder.add_joint_revolute(parent, body, parent_xform=anchor, axis=(0.0, 1.0, 0.0), armature=0.0)
        parent = body
    builder.joint_q[:] = [1.0, 0.6]
    builder.joint_qd[:] = [0.5, -1.5]
    return builder


def arm() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.utils.parse_urdf(
        str(asset_path("arm7.urdf")),
        builder,
        stiffness=200.0,
        damping=20.0,
        ignore_inertial_definitions=False,
    )
    builder.joint_velocity_limit[:] = [math.inf] * 7  # an acting limit has no gradient
    builder.joint_q[:] = [0.3, 0.4, -0.2, -1.2, 0.3, 0.9, 0.2]
    builder.joint_qd[:] = [0.2, -0.3, 0.5, 0.1, -0.6, 0.4, 0.3]
    builder.joint_act[:] = [0.35, 0.45, -0.25, -1.15, 0.25, 0.95, 0.25]
    return builder


def spinning_top() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    inertia = wp.mat33(0.004, 0.0, 0.0, 0.0, 0.004, 0.0, 0.0, 0.0, 0.006)
    body = builder.add_body(com=(0.0, 0.02, 0.15), I_m=inertia, mass=0.8, key="top")
    builder.add_articulation()
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.4)
    builder.add_joint_ball(-1, body, parent_xform=wp.transform((0.0, 0.0, 0.2), turn), armature=0.0)
    builder.joint_q[:] = [0.1, 0.2, 0.0, 0.97]
    builder.joint_qd[:] = [0.5, -1.0, 12.0]
    return builder


def every_joint_type() -> newtonsim.ModelBuilder:
    return random_model(3, body_count=10)


SCENES = {f.__name__: f for f in (free_body, spinning_top, double_pendulum, arm, every_joint_type)}


class Rollout:
    """States and inputs of a rollout without contacts."""

    def __init__(self, model: newtonsim.Model, dt: float, steps: int = STEPS):
        self.model = model
        self.dt = dt
        self.solver = newtonsim.FeatherstoneSolver(model)
        self.states = [model.state() for _ in range(steps + 1)]
        self.control = model.control()
        self.bodies = wp.zeros((model.body_count, 13), dtype=float, device=model.device, requires_grad=True)
        self._graph = None

    def again(self) -> wp.array:
        """`run`; without a tape it is a graph, after the first time."""
        if active_tape() is not None:
            return self.run()
        if self._graph is None:
            self.run()
            with wp.ScopedCapture(device=self.model.device) as capture:
                self.run()
            self._graph = capture.graph
        wp.capture_launch(self._graph)
        return self.bodies

    def run(self) -> wp.array:
        for before, after in itertools.pairwise(self.states):
            self.solver.step(self.model, before, after, self.control, None, self.dt)
        end = self.states[-1]
        wp.launch(
            pack_bodies,
            self.model.body_count,
            [end.body_q, end.body_qd],
            [self.bodies],
            device=self.model.device,
        )
        return self.bodies


def make_rollout(scene: str, device: str, requires_grad: bool = True, dt: float = 1.0 / 120.0) -> Rollout:
    model = SCENES[scene]().finalize(device, requires_grad=requires_grad)
    rollout = Rollout(model, dt)
    if scene == "every_joint_type":
        start = random_state(model, 5, angle=0.4, speed=0.5)
        rollout.states[0].joint_q.assign(start.joint_q.numpy())
        rollout.states[0].joint_qd.assign(start.joint_qd.numpy())
    return rollout


@pytest.mark.parametrize("scene", SCENES)
def test_gradient_of_rollout(scene, device):
    rollout = make_rollout(scene, device)
    start, model = rollout.states[0], rollout.model
    # the top is light: a wrench that suits the others would throw it about
    size = 0.05 if scene == "spinning_top" else 1.0
    force = size * np.random.default_rng(1).uniform(-2.0, 2.0, (model.body_count, 6))
    start.body_f.assign(force.astype(np.float32))
    for state in rollout.states[1:]:
        state.body_f = start.body_f
    # rounding of the float32 rollout drowns short differences, curvature long ones: steps per kind of input.
    # Differences by wrenches, whose effect is small, and those of the tumbling tree are good to a few 1e-3.
    rough = 4.0 * RTOL
    rtol = rough if scene == "every_joint_type" else RTOL
    groups = [
        ({"joint_q": start.joint_q}, (0.1, 0.06, 0.04, 0.02, 0.01), rtol),
        ({"joint_qd": start.joint_qd}, (0.4, 0.2, 0.1, 0.05), rtol),
        ({"body_f": start.body_f}, tuple(size * h for h in (2.0, 1.0, 0.5, 0.25)), rough),
        ({"body_mass": model.body_mass}, (0.3, 0.2, 0.1, 0.05), rtol),
    ]
    if model.joint_axis_count:
        groups.append(({"joint_act": rollout.control.joint_act}, (0.4, 0.2, 0.1, 0.05), rtol))
    errors = {}
    for arrays, steps, tolerance in groups:
        errors |= assert_gradients(rollout.again, arrays, rtol=tolerance, samples=6, steps=steps)
    print(scene, {name: f"{error:.1e}" for name, error in errors.items()})


def slope_along(
    rollout: Rollout, array: wp.array, direction: np.ndarray, steps, weights: np.ndarray
) -> float:
    """Derivative of the weighted output along a direction: differences extrapolated to step zero."""
    base = array.numpy().copy()
    slopes = []
    for step in steps:
        moved, losses = [], []
        for sign in (1.0, -1.0):
            moved.append((base + sign * step * direction).astype(np.float32))
            array.assign(moved[-1])
            losses.append(float((rollout.again().numpy().astype(np.float64) * weights).sum()))
        width = ((moved[0].astype(np.float64) - moved[1]) * direction).sum()
        slopes.append((losses[0] - losses[1]) / width)
    array.assign(base)
    return slopes[1] + (slopes[1] - slopes[0]) / ((steps[0] / steps[1]) ** 2 - 1.0)


@pytest.mark.parametrize("scene", SCENES)
def test_gradient_along_itself(scene, device):
    """The slope along the gradient is its length: a difference with the whole signal, so rounding is small.

    Single entries with little effect drown in the rounding of a float32 rollout; this check does not.
    """
    rollout = make_rollout(scene, device)
    start, model = rollout.states[0], rollout.model
    size = {"spinning_top": 0.05, "arm": 10.0}.get(scene, 1.0)
    rng = np.random.default_rng(1)
    start.body_f.assign((size * rng.uniform(-0.5, 0.5, (model.body_count, 6))).astype(np.float32))
    for state in rollout.states[1:]:
        state.body_f = start.body_f
    inputs = {
        "joint_q": (start.joint_q, (0.05, 0.025)),
        "joint_qd": (start.joint_qd, (0.2, 0.1)),
        "body_f": (start.body_f, (0.2 * size, 0.1 * size)),
        "body_mass": (model.body_mass, (0.3, 0.15)),
    }
    if model.joint_axis_count:
        inputs["joint_act"] = (rollout.control.joint_act, (0.2, 0.1))
    with wp.Tape() as tape:
        output = rollout.run()
    weights = rng.uniform(0.5, 1.0, output.shape) * rng.choice((-1.0, 1.0), output.shape)
    weights = weights.astype(np.float32)
    tape.backward(grads={output: wp.array(weights, dtype=float, device=device)})
    gradients = {name: array.grad.numpy().astype(np.float64) for name, (array, _) in inputs.items()}
    errors = {}
    for name, (array, steps) in inputs.items():
        length = np.linalg.norm(gradients[name])
        errors[name] = abs(
            slope_along(rollout, array, gradients[name] / length, steps, weights) / length - 1.0
        )
    print(scene, {name: f"{error:.1e}" for name, error in errors.items()})
    assert max(errors.values()) < RTOL, errors


def test_gradient_of_a_step_in_which_a_body_turns_round(device):
    """Newton's method does not find the velocity in the middle of this step; its derivatives are the same."""
    dt = 1.0 / 120.0
    model = free_body().finalize(device, requires_grad=True)
    rollout = Rollout(model, dt, steps=1)
    start = rollout.states[0]
    spin = np.array([182.0, 462.0, -57.0, 0.5, 0.3, 2.0], np.float32)
    start.joint_qd.assign(spin)
    with wp.Tape() as tape:
        output = rollout.run()
    weights = np.random.default_rng(2).uniform(0.5, 1.0, output.shape).astype(np.float32)
    tape.backward(grads={output: wp.array(weights, dtype=float, device=device)})
    for array, steps in ((start.joint_qd, (2.0, 1.0)), (start.joint_q, (0.004, 0.002))):
        gradient = array.grad.numpy().astype(np.float64)
        length = np.linalg.norm(gradient)
        slope = slope_along(rollout, array, gradient / length, steps, weights)
        assert slope == pytest.approx(length, rel=RTOL)


@pytest.mark.parametrize("scene", ["free_body", "double_pendulum", "arm"])
def test_forward_does_not_depend_on_requires_grad(scene, device):
    plain = make_rollout(scene, device, requires_grad=False)
    plain.run()
    recorded = make_rollout(scene, device)
    with wp.Tape():
        recorded.run()
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        a = getattr(plain.states[-1], name).numpy()
        b = getattr(recorded.states[-1], name).numpy()
        assert np.array_equal(a, b), name


def test_captured_gradient_equals_eager_one(device):
    def gradients(captured: bool) -> dict[str, np.ndarray]:
        rollout = make_rollout("arm", device)
        seed = wp.ones_like(rollout.bodies)
        with wp.Tape() as tape:
            rollout.run()
        tape.backward(grads={rollout.bodies: seed})
        if captured:
            with wp.ScopedCapture(device=device) as capture:
                tape.zero()
                with wp.Tape() as tape2:
                    rollout.run()
                tape2.zero()
                tape2.backward(grads={rollout.bodies: seed})
            wp.capture_launch(capture.graph)
        start = rollout.states[0]
        return {
            "joint_q": start.joint_q.grad.numpy(),
            "joint_qd": start.joint_qd.grad.numpy(),
            "joint_act": rollout.control.joint_act.grad.numpy(),
            "body_mass": rollout.model.body_mass.grad.numpy(),
        }

    eager, replayed = gradients(False), gradients(True)
    for name, value in eager.items():
        assert np.abs(value).max() > 0.0
        np.testing.assert_array_equal(value, replayed[name], err_msg=name)


def test_what_has_no_gradient_says_so(device):
    model = double_pendulum().finalize(device, requires_grad=True)
    state, ends = model.state(), model.state()
    q, qd = wp.clone(state.joint_q), wp.clone(state.joint_qd)
    silent = [
        lambda: newtonsim.dynamics.mass_matrix(model, state),
        lambda: newtonsim.dynamics.forward_dynamics(model, state),
        lambda: newtonsim.dynamics.kinetic_energy(model, state),
        lambda: newtonsim.eval_ik(model, state, q, qd),
    ]
    for function in silent:
        function()
        with wp.Tape(), pytest.raises(NotDifferentiableError):
            function()
    plain = double_pendulum().finalize(device)
    solver, control = newtonsim.FeatherstoneSolver(plain), plain.control(requires_grad=True)
    a, b = plain.state(), plain.state()
    with wp.Tape(), pytest.raises(ValueError, match="requires_grad=True"):
        solver.step(plain, a, b, control, None, 0.01)
    soft = newtonsim.FeatherstoneSolver(model, contact_mode="compliant")
    with wp.Tape(), pytest.raises(ValueError, match="contacts"):
        soft.step(model, state, ends, None, model.contact(), 0.01)


def test_recording_in_place_raises(device):
    model = free_body().finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    state = model.state()
    with wp.Tape(), pytest.raises(ValueError, match="must differ"):
        solver.step(model, state, state, None, None, 0.01)


def test_recording_without_gradients_in_the_model_raises(device):
    model = free_body().finalize(device)
    solver = newtonsim.FeatherstoneSolver(model)
    a, b = model.state(requires_grad=True), model.state(requires_grad=True)
    with wp.Tape(), pytest.raises(ValueError, match="requires_grad=True"):
        solver.step(model, a, b, None, None, 0.01)
