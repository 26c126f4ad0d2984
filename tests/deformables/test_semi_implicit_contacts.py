"""Contacts of particles and triangles with shapes in SemiImplicitSolver."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.solvers import SemiImplicitSolver

GRAVITY = 9.81
MASS, RADIUS = 0.1, 0.05


def box_mesh() -> newtonsim.Mesh:
    """A cube of 0.4 m."""
    corners = 0.2 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [i for a, b, c, d in quads for i in (a, b, c, a, c, d)]
    return newtonsim.Mesh(corners, np.array(faces))


def add_shape(builder: newtonsim.ModelBuilder, kind: str, body: int) -> None:
    """A shape whose top is 0.2 m above the origin of the body, along its y axis."""
    options = {"thickness": 0.0, "mu": 0.3, "density": 500.0 if body >= 0 else 0.0}
    if kind == "sphere":
        builder.add_shape_sphere(body, radius=0.2, **options)
    elif kind == "box":
        builder.add_shape_box(body, hx=0.3, hy=0.2, hz=0.25, **options)
    elif kind == "capsule":
        builder.add_shape_capsule(body, radius=0.2, half_height=0.2, up_axis=0, **options)
    elif kind == "cylinder":
        builder.add_shape_cylinder(body, radius=0.2, half_height=0.2, up_axis=0, **options)
    elif kind == "cone":
        builder.add_shape_cone(body, radius=0.2, half_height=0.2, up_axis=1, **options)
    elif kind == "ellipsoid":
        builder.add_shape_ellipsoid(body, a=0.3, b=0.2, c=0.25, **options)
    elif kind == "mesh":
        builder.add_shape_mesh(body, mesh=box_mesh(), convex=False, **options)
    elif kind == "hull":
        builder.add_shape_mesh(body, mesh=box_mesh(), convex=True, **options)
    else:
        builder.add_shape_plane((0.0, 1.0, 0.0, -0.2), body=body, thickness=0.0, mu=0.3)


KINDS = ["plane", "sphere", "box", "capsule", "cylinder", "cone", "ellipsoid", "mesh", "hull"]


@pytest.mark.parametrize("kind", KINDS)
def test_particle_rests_where_the_spring_carries_it(kind, device):
    builder = newtonsim.ModelBuilder()
    builder.add_particle((0.0, 0.2 + RADIUS, 0.0), (0.0, 0.0, 0.0), MASS, radius=RADIUS)
    add_shape(builder, kind, -1)
    model = builder.finalize(device)
    model.soft_contact_kf = 0.0
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=5.0e-4)
    simulator.step(4000)
    expected = 0.2 + RADIUS - MASS * GRAVITY / model.soft_contact_ke
    assert simulator.state.particle_q.numpy()[0, 1] == pytest.approx(expected, abs=1.0e-5)


def test_particle_slides_by_the_mean_friction(device):
    for angle, slides in ((0.2, False), (0.7, True)):
        builder = newtonsim.ModelBuilder()
        builder.add_particle((0.0, RADIUS, 0.0), (0.0, 0.0, 0.0), MASS, radius=RADIUS)
        builder.set_ground_plane(mu=0.3)
        model = builder.finalize(device)
        model.soft_contact_mu, model.soft_contact_kf = 0.5, 500.0
        model.gravity = (GRAVITY * np.sin(angle), -GRAVITY * np.cos(angle), 0.0)
        simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=1.0e-4)
        simulator.step(2500)
        v0 = simulator.state.particle_qd.numpy()[0, 0]
        simulator.step(5000)
        slope = (simulator.state.particle_qd.numpy()[0, 0] - v0) / 0.5
        expected = GRAVITY * (np.sin(angle) - 0.4 * np.cos(angle)) if slides else 0.0
        assert slope == pytest.approx(expected, abs=0.02)
        assert slides or abs(v0) < 1.0e-3


def throw_particles(builder: newtonsim.ModelBuilder) -> None:
    """Particles from all sides towards the origin."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        p = rng.normal(size=3)
        p *= 0.6 / np.linalg.norm(p)
        builder.add_particle(p, -3.0 * p + rng.normal(size=3) * 0.3, 2.0, radius=RADIUS)


def throw_triangle(builder: newtonsim.ModelBuilder) -> None:
    """A triangle whose inside meets what is at the origin, corners too far off to touch it."""
    for p in ((-0.35, 0.25, -0.3), (0.3, 0.3, -0.3), (0.0, 0.25, 0.4)):
        builder.add_particle(p, (0.1, -2.0, 0.2), 1.0, radius=0.01)
    builder.add_triangle(0, 2, 1, 1.0e3, 1.0e3, 1.0)


@pytest.mark.parametrize(
    ("throw", "kind"),
    [
        (throw_particles, "sphere"),
        (throw_particles, "box"),
        (throw_particles, "capsule"),
        (throw_triangle, "sphere"),
        (throw_triangle, "box"),
    ],
)
def test_momentum_goes_from_particles_to_bodies(throw, kind, device):
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    add_shape(builder, kind, builder.add_body())
    throw(builder)
    model = builder.finalize(device)
    # friction between points that cannot spin turns them
    model.particle_mu.zero_()
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, 0.0), dt=5.0e-4)
    m = model.particle_mass.numpy().astype(np.float64)[:, None]
    mass, inertia = float(model.body_mass.numpy()[0]), model.body_inertia.numpy()[0].astype(np.float64)

    def momenta() -> np.ndarray:
        state = simulator.state
        x, v = state.particle_q.numpy().astype(np.float64), state.particle_qd.numpy().astype(np.float64)
        q, qd = state.body_q.numpy()[0].astype(np.float64), state.body_qd.numpy()[0].astype(np.float64)
        R = np.array(wp.quat_to_matrix(wp.quat(*q[3:].tolist())), np.float64).reshape(3, 3)
        linear = (m * v).sum(axis=0) + mass * qd[3:]
        spin = R @ inertia @ R.T @ qd[:3] + mass * np.cross(q[:3], qd[3:])
        return np.concatenate([linear, spin + np.cross(x, m * v).sum(axis=0)])

    before, size = momenta(), np.abs(m * simulator.state.particle_qd.numpy()).sum()
    simulator.step(600)
    qd = simulator.state.body_qd.numpy()[0]
    assert np.linalg.norm(qd[:3]) > 0.01
    assert np.linalg.norm(qd[3:]) > 0.01
    assert np.abs(momenta() - before).max() < 1.0e-4 * size


def test_adhesion_holds_a_particle_under_a_ceiling(device):
    """It pulls by ke times the gap up to half of its reach, and less beyond."""
    for mass, holds in ((MASS, True), (0.6, False)):
        builder = newtonsim.ModelBuilder()
        builder.add_particle((0.0, -RADIUS - 1.0e-4, 0.0), (0.0, 0.0, 0.0), mass, radius=RADIUS)
        builder.add_shape_plane((0.0, -1.0, 0.0, 0.0), body=-1, thickness=0.0)
        builder.particle_adhesion[:] = [0.01]
        model = builder.finalize(device)
        simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=2.0e-4)
        for _ in range(20):
            simulator.step(200)
            if holds:
                simulator.state.particle_qd.zero_()
        y = simulator.state.particle_q.numpy()[0, 1]
        if holds:
            # it swings about there: nothing damps a gap
            assert y == pytest.approx(-RADIUS - MASS * GRAVITY / model.soft_contact_ke, abs=1.0e-3)
        else:
            assert y < -1.0


class Push:
    """A rollout of a particle against a body that ends while they touch."""

    def __init__(self, kind: str, device: str):
        builder = newtonsim.ModelBuilder()
        builder.gravity = 0.0
        pose = wp.transform((0.02, -0.01, 0.03), wp.quat_rpy(0.1, 0.2, -0.3))
        body = builder.add_body(origin=pose)
        if kind == "plane":
            builder.add_shape_sphere(body, pos=(0.0, -1.0, 0.0), radius=0.1, density=500.0)
        add_shape(builder, kind, body)
        at = (0.02, 0.2 + 0.9 * RADIUS, 0.02) if kind != "cone" else (0.11, 0.06, 0.04)
        at = wp.transform_point(pose, wp.vec3(*at))
        builder.add_particle(at, (0.5, -1.0, 0.3), MASS, radius=RADIUS)
        self.model = builder.finalize(device, requires_grad=True)
        self.model.soft_contact_kd = 1.0
        # friction that is smooth over the whole range of speeds
        self.solver = SemiImplicitSolver(self.model, 0.0, friction_smoothing=500.0)
        self.states = [self.model.state() for _ in range(21)]
        start = self.states[0]
        start.body_qd.assign([[0.4, -0.3, 0.6, 0.1, 0.2, -0.2]])

    def run(self, name: str) -> np.ndarray:
        for before, after in zip(self.states, self.states[1:]):
            self.solver.step(self.model, before, after, None, None, 1.0e-3)
        return getattr(self.states[-1], name).numpy().astype(np.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_a_push(kind, device):
    scene = Push(kind, device)
    start = scene.states[0]
    v0 = start.particle_qd.numpy()[0]
    rng = np.random.default_rng(0)
    for output in ("particle_qd", "body_qd"):
        with wp.Tape() as tape:
            end = scene.run(output)
        weights = rng.uniform(0.5, 1.0, end.shape) * rng.choice((-1.0, 1.0), end.shape)
        array = getattr(scene.states[-1], output)
        tape.backward(grads={array: wp.array(weights.astype(np.float32), dtype=array.dtype, device=device)})
        if output == "particle_qd":
            assert np.linalg.norm(end - v0) > 0.1
        inputs = {
            "x": (start.particle_q, 1.0e-3),
            "v": (start.particle_qd, 0.02),
            "X": (start.body_q, 1.0e-3),
        }
        inputs["V"] = (start.body_qd, 0.02)
        gradients = {name: values.grad.numpy().astype(np.float64) for name, (values, _) in inputs.items()}
        tape.zero()
        # quaternions stay of length one
        turn, q = gradients["X"][0, 3:], start.body_q.numpy()[0, 3:].astype(np.float64)
        turn -= (turn @ q) * q
        for name, (values, size) in inputs.items():
            length = np.linalg.norm(gradients[name])
            direction, base, slopes = gradients[name] / length, values.numpy().copy(), []
            for step in (size, 0.5 * size):
                ends = []
                for sign in (1.0, -1.0):
                    moved = base + sign * step * direction
                    if name == "X":
                        moved[:, 3:] /= np.linalg.norm(moved[:, 3:])
                    values.assign(moved.astype(np.float32))
                    ends.append(np.sum(scene.run(output) * weights))
                slopes.append((ends[0] - ends[1]) / (2.0 * step))
            values.assign(base)
            slope = slopes[1] + (slopes[1] - slopes[0]) / 3.0
            assert slope == pytest.approx(length, rel=1.0e-2), (output, name)
