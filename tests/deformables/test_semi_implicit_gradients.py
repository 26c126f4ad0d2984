"""Gradients of SemiImplicitSolver: the tape's, over rollouts, against central differences and theory."""

import itertools

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.solvers import SemiImplicitSolver
from newtonsim.testing import random_model, random_state

GRAVITY = 9.81
RTOL = 5.0e-3


class Rollout:
    """States and inputs of a rollout.

    Args:
        model: A model with gradients.
        dt: Time step [s].
        steps: Number of steps.
        options: Of the solver.
    """

    def __init__(self, model: newtonsim.Model, dt: float, steps: int, **options):
        self.model, self.dt = model, dt
        self.solver = SemiImplicitSolver(model, **options)
        self.states = [model.state() for _ in range(steps + 1)]
        self.control = model.control()
        self.graph = None
        for state in self.states[1:]:
            state.particle_f, state.body_f = self.states[0].particle_f, self.states[0].body_f

    def run(self) -> newtonsim.State:
        for before, after in itertools.pairwise(self.states):
            self.solver.step(self.model, before, after, self.control, None, self.dt)
        return self.states[-1]

    def replay(self) -> newtonsim.State:
        """The same from a graph."""
        if self.graph is None:
            with wp.ScopedCapture(device=self.model.device) as capture:
                self.run()
            self.graph = capture.graph
        wp.capture_launch(self.graph)
        return self.states[-1]

    def check(self, output: str, inputs: dict[str, wp.array], sizes: dict[str, float], rtol=RTOL) -> None:
        """Compare the slope of a weighted output along the gradient of each input with its length.

        A difference along the gradient has the whole signal, so rounding is small; two of them are
        extrapolated to step zero. `sizes` are lengths of steps.
        """
        rng = np.random.default_rng(1)
        with wp.Tape() as tape:
            end = getattr(self.run(), output)
        shape = end.numpy().shape
        weights = (rng.uniform(0.5, 1.0, shape) * rng.choice((-1.0, 1.0), shape)).astype(np.float32)
        tape.backward(grads={end: wp.array(weights, dtype=end.dtype, device=end.device)})
        gradients = {name: a.grad.numpy().astype(np.float64) for name, a in inputs.items()}
        tape.zero()
        errors = {}
        for name, array in inputs.items():
            length = np.linalg.norm(gradients[name])
            assert 0.0 < length < np.inf, name
            found = self._slope(array, gradients[name] / length, sizes[name], output, weights)
            errors[name] = abs(found / length - 1.0)
        print({name: f"{error:.1e}" for name, error in errors.items()})
        assert max(errors.values()) < rtol, errors

    def _slope(self, array: wp.array, direction: np.ndarray, size: float, output: str, weights) -> float:
        base = array.numpy().copy()
        slopes = []
        for step in (size, 0.5 * size):
            moved, losses = [], []
            for sign in (1.0, -1.0):
                moved.append((base + sign * step * direction).astype(np.float32))
                array.assign(moved[-1])
                losses.append(np.sum(getattr(self.replay(), output).numpy().astype(np.float64) * weights))
            width = ((moved[0].astype(np.float64) - moved[1]) * direction).sum()
            slopes.append((losses[0] - losses[1]) / width)
        array.assign(base)
        return slopes[1] + (slopes[1] - slopes[0]) / 3.0


def points(builder: newtonsim.ModelBuilder, device: str) -> newtonsim.Model:
    """The model with particles that do not touch."""
    builder.particle_radius[:] = [0.0] * builder.particle_count
    return builder.finalize(device, requires_grad=True)


def net(device: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder()
    rng = np.random.default_rng(0)
    for p in rng.uniform(-1.0, 1.0, (6, 3)):
        builder.add_particle(p, rng.normal(size=3), 0.5)
    for i, j in itertools.combinations(range(6), 2):
        builder.add_spring(i, j, 40.0, 0.5, 0.1)
    return points(builder, device)


def cloth(device: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder()
    builder.add_cloth_grid(
        pos=(0.0, 0.0, 0.0), rot=wp.quat_identity(), vel=(0.5, -1.0, 2.0), dim_x=3, dim_y=3, cell_x=0.1,
        cell_y=0.1, mass=0.05, fix_left=True, tri_ke=50.0, tri_ka=50.0, tri_kd=0.1, tri_drag=0.5,
        tri_lift=0.5, edge_ke=0.05, edge_kd=0.001,
    )  # fmt: skip
    return points(builder, device)


def block(device: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder()
    builder.add_soft_grid(
        pos=(0.0, 0.0, 0.0), rot=wp.quat_identity(), vel=(0.0, 0.0, 0.0), dim_x=2, dim_y=2, dim_z=2,
        cell_x=0.1, cell_y=0.1, cell_z=0.1, density=1.0e3, k_mu=3.0e3, k_lambda=5.0e3, k_damp=5.0e-3,
        fix_left=True,
    )  # fmt: skip
    return points(builder, device)


@pytest.mark.parametrize("scene", [net, cloth, block])
def test_elements(scene, device):
    model = scene(device)
    rollout = Rollout(model, 1.0e-3, 100)
    start, rng = rollout.states[0], np.random.default_rng(2)
    moved = start.particle_q.numpy() + rng.uniform(-0.02, 0.02, (model.particle_count, 3))
    start.particle_q.assign(moved.astype(np.float32))
    start.particle_f.assign(rng.uniform(-0.1, 0.1, moved.shape).astype(np.float32))
    inputs = {"x": start.particle_q, "v": start.particle_qd, "f": start.particle_f}
    sizes = {"x": 0.01, "v": 0.5, "f": 0.5, "mass": 0.02}
    inputs["mass"] = model.particle_mass
    if scene is net:
        inputs |= {"ke": model.spring_stiffness, "kd": model.spring_damping, "rest": model.spring_rest_length}
        inputs["control"] = model.spring_control
        sizes |= {"ke": 5.0, "kd": 0.2, "rest": 0.05, "control": 0.05}
    if scene is cloth:
        inputs |= {"tri": model.tri_materials, "edge": model.edge_bending_properties}
        inputs["activation"] = rollout.control.tri_activations
        sizes |= {"tri": 0.3, "edge": 0.005, "activation": 0.1}
    if scene is block:
        inputs |= {"tet": model.tet_materials, "activation": rollout.control.tet_activations}
        sizes |= {"tet": 2.0e-3, "activation": 0.1}
    for output in ("particle_q", "particle_qd"):
        rollout.check(output, inputs, sizes)


def arm(device: str) -> newtonsim.Model:
    """A chain of three rods with driven hinges."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    parent = -1
    for i in range(3):
        body = builder.add_body(key=f"rod{i}")
        builder.add_shape_box(body, pos=(0.0, 0.0, -0.1), hx=0.05, hy=0.05, hz=0.1, density=500.0)
        anchor = wp.transform((0.0, 0.0, 0.0 if i == 0 else -0.2), wp.quat_identity())
        axis = (0.0, 1.0, 0.0) if i != 1 else (1.0, 0.0, 0.0)
        builder.add_joint_revolute(
            parent, body, parent_xform=anchor, axis=axis, armature=0.0, target=0.3, target_ke=5.0,
            target_kd=0.1, mode=newtonsim.JOINT_MODE_TARGET_POSITION,
        )  # fmt: skip
        parent = body
    builder.joint_q[:] = [0.5, -0.3, 0.2]
    return builder.finalize(device, requires_grad=True)


def test_driven_chain(device):
    """Where the end goes, by the inputs of the joints, over 120 steps."""
    model = arm(device)
    rollout = Rollout(model, 5.0e-4, 120, joint_attach_ke=5.0e3, joint_attach_kd=20.0)
    start = rollout.states[0]
    newtonsim.eval_fk(model, start.joint_q, start.joint_qd, None, start)
    rollout.control.joint_f.assign([0.2, -0.1, 0.3])
    inputs = {"f": rollout.control.joint_f, "act": rollout.control.joint_act, "ke": model.joint_target_ke}
    inputs |= {"mass": model.body_mass, "inertia": model.body_inertia, "body_q": start.body_q}
    sizes = {"f": 0.2, "act": 0.1, "ke": 0.3, "mass": 0.1, "inertia": 1.0e-3, "body_q": 2.0e-4}
    for output in ("body_q", "joint_qd"):
        rollout.check(output, inputs, sizes, rtol=1.0e-2)


def test_every_joint_type(device):
    model = random_model(3, body_count=10).finalize(device, requires_grad=True)
    options = {"joint_attach_ke": 5.0e3, "joint_attach_kd": 20.0, "friction_smoothing": 500.0}
    rollout = Rollout(model, 5.0e-4, 100, **options)
    start = rollout.states[0]
    start.assign(random_state(model, 5, angle=0.4, speed=0.5))
    rng = np.random.default_rng(1)
    for array in (model.joint_damping, model.joint_friction):
        array.assign(rng.uniform(0.05, 0.2, model.joint_dof_count).astype(np.float32))
    force = rng.uniform(-2.0, 2.0, (model.body_count, 6)).astype(np.float32)
    start.body_f.assign(force)
    inputs = {"body_q": start.body_q, "body_qd": start.body_qd, "body_f": start.body_f}
    inputs |= {"joint_f": rollout.control.joint_f, "damping": model.joint_damping}
    sizes = {"body_q": 1.0e-3, "body_qd": 0.1, "body_f": 1.0, "joint_f": 0.5, "damping": 0.05}
    for output in ("body_q", "body_qd"):
        rollout.check(output, inputs, sizes, rtol=1.0e-2)


def test_muscle(device):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    body = builder.add_body(key="forearm")
    builder.add_shape_box(body, pos=(0.15, 0.0, 0.0), hx=0.15, hy=0.03, hz=0.03, density=1000.0)
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), armature=0.0)
    points = [(0.0, 0.0, 0.3), (0.02, 0.0, 0.1), (0.05, 0.0, 0.03)]
    builder.add_muscle([-1, -1, body], points, f0=100.0, lm=0.15, lt=0.12, lmax=0.14, pen=0.2)
    builder.muscle_activations[:] = [0.4]
    model = builder.finalize(device, requires_grad=True)
    rollout = Rollout(model, 5.0e-4, 200, joint_attach_ke=5.0e3, joint_attach_kd=20.0)
    inputs = {"activation": rollout.control.muscle_activations, "point": model.muscle_points}
    inputs["params"] = model.muscle_params
    sizes = {"activation": 0.1, "point": 2.0e-3, "params": 2.0e-3}
    rollout.check("joint_q", inputs, sizes, rtol=1.0e-2)


def bounce(device: str) -> newtonsim.Model:
    """A ball of 1 kg, whose lowest point is 0.2 m over springy ground."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    material = {"ke": 2.5e3, "kd": 0.0, "kf": 0.0, "mu": 0.0}
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.3), wp.quat_identity()))
    density = 1.0 / (4.0 / 3.0 * np.pi * 1.0e-3)
    builder.add_shape_sphere(body, radius=0.1, density=density, thickness=0.0, **material)
    builder.set_ground_plane(**material)
    return builder.finalize(device, requires_grad=True)


def test_bouncing_ball(device):
    """Height at the end by the initial velocity v, of a ball that has bounced off a spring.

    It comes down with w = √(v² + 2 g h) after t = (v + w)/g, and leaves with w after a time d in contact:
    m x'' = -k x - m g gives d = (π + 2 atan(g/(ω w)))/ω. Then z = w s - g s²/2 with s = T - t - d.
    The slope of steps of 0.4 ms is 0.8 % off: it depends on where in a step the ball touches.
    """
    dt, steps, gap = 4.0e-4, 875, 0.2
    model = bounce(device)
    rollout = Rollout(model, dt, steps, angular_damping=0.0)
    with wp.Tape() as tape:
        end = rollout.run()
    seed = np.zeros((1, 7), np.float32)
    seed[0, 2] = 1.0
    tape.backward(grads={end.body_q: wp.array(seed, dtype=wp.transform, device=device)})
    found = rollout.states[0].body_qd.grad.numpy()[0, 5]

    def height(v: float) -> float:
        w, omega = np.sqrt(v * v + 2.0 * GRAVITY * gap), np.sqrt(2.5e3)
        s = dt * steps - (v + w) / GRAVITY - (np.pi + 2.0 * np.arctan(GRAVITY / (omega * w))) / omega
        return w * s - 0.5 * GRAVITY * s * s

    slope = (height(1.0e-5) - height(-1.0e-5)) / 2.0e-5
    assert end.body_q.numpy()[0, 2] - 0.1 == pytest.approx(height(0.0), abs=1.0e-3)
    assert found == pytest.approx(slope, rel=0.015)


def test_sliding_box(device):
    """Where a box comes to by its start, and by the friction and stiffness of what it slides on."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    material = {"ke": 2.0e3, "kd": 10.0, "kf": 1.0e3, "mu": 0.4}
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.099), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.2, hy=0.15, hz=0.1, density=100.0, thickness=0.0, **material)
    builder.set_ground_plane(**material)
    model = builder.finalize(device, requires_grad=True)
    rollout = Rollout(model, 1.0e-3, 60, angular_damping=0.0, friction_smoothing=200.0)
    start = rollout.states[0]
    start.body_qd.assign([[0.0, 0.0, 0.3, 0.8, 0.3, 0.0]])
    inputs = {"v": start.body_qd, "mu": model.shape_materials.mu, "ke": model.shape_materials.ke}
    for output in ("body_q", "body_qd"):
        rollout.check(output, inputs, {"v": 0.05, "mu": 0.05, "ke": 50.0}, rtol=1.0e-2)


def test_forward_does_not_depend_on_gradients(device):
    for scene in (net, cloth, block, arm, bounce):
        ends = []
        for grad in (False, True):
            model = scene(device)
            plain = Rollout(model, 1.0e-3, 10)
            if not grad:
                for state in plain.states:
                    for name in ("particle_q", "particle_qd", "body_q", "body_qd", "joint_q", "joint_qd"):
                        array = getattr(state, name)
                        if array is not None:
                            setattr(state, name, wp.clone(array, requires_grad=False))
                plain.run()
            else:
                with wp.Tape():
                    plain.run()
            ends.append(plain.states[-1])
        for name in ("particle_q", "particle_qd", "body_q", "body_qd", "joint_q", "joint_qd"):
            if getattr(ends[0], name) is not None:
                a, b = (getattr(end, name).numpy() for end in ends)
                assert np.array_equal(a, b), (scene.__name__, name)


def test_captured_gradient_equals_eager_one(device):
    def gradients(captured: bool) -> list[np.ndarray]:
        rollout = Rollout(arm(device), 1.0e-3, 5)
        start, end = rollout.states[0], rollout.states[-1]
        seed = wp.ones_like(end.body_q)
        with wp.Tape() as tape:
            rollout.run()
        tape.backward(grads={end.body_q: seed})
        if captured:
            with wp.ScopedCapture(device=device) as capture:
                tape.zero()
                with wp.Tape() as again:
                    rollout.run()
                again.zero()
                again.backward(grads={end.body_q: seed})
            wp.capture_launch(capture.graph)
        return [start.body_q.grad.numpy(), start.body_qd.grad.numpy(), rollout.control.joint_act.grad.numpy()]

    for eager, replayed in zip(gradients(False), gradients(True)):
        assert np.abs(eager).max() > 0.0
        np.testing.assert_array_equal(eager, replayed)


def test_what_has_no_gradient_says_so(device):
    model = arm(device)
    solver, state, end = SemiImplicitSolver(model), model.state(), model.state()
    with wp.Tape(), pytest.raises(ValueError, match="must differ"):
        solver.step(model, state, state, None, None, 0.01)
    with wp.Tape(), pytest.raises(ValueError, match="contacts"):
        solver.step(model, state, end, None, model.contact(), 0.01)
    plain = random_model(3).finalize(device)
    a, b = plain.state(requires_grad=True), plain.state(requires_grad=True)
    with wp.Tape(), pytest.raises(ValueError, match="requires_grad=True"):
        SemiImplicitSolver(plain).step(plain, a, b, None, None, 0.01)
