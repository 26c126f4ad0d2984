"""Particles and triangles that rest on shapes, slide, stick, bounce and push bodies."""

import numpy as np
import pytest

import newtonsim
from newtonsim.scene.enums import GeoType
from newtonsim.simulator import Simulator
from newtonsim.solvers import XPBDSolver

GRAVITY = 9.81
DT = 1.0 / 240.0
SLOPE = 0.3  # [rad]


def run(builder, seconds: float, device, dt: float = DT, **options):
    """Positions, velocities and the simulator after a time."""
    options = {"iterations": 4, "soft_contact_relaxation": 1.0} | options
    mu = options.pop("mu", 0.5)
    bounce = options.pop("bounce", 0.0)
    model = builder.finalize(device)
    model.soft_contact_mu, model.soft_contact_restitution = mu, bounce
    simulation = Simulator(model, XPBDSolver(model, **options), dt=dt)
    simulation.step(round(seconds / dt))
    state = simulation.state
    return state.particle_q.numpy().astype(float), state.particle_qd.numpy().astype(float), simulation


def free_body(builder, mass: float, **place) -> int:
    """A body with six degrees of freedom and the inertia of a ball."""
    inertia = np.eye(3) * 0.4 * mass * 0.25**2
    return builder.add_body(mass=mass, I_m=inertia, **place)


@pytest.mark.parametrize("kind", ["box", "sphere", "capsule", "cylinder", "cone", "ellipsoid", "plane"])
def test_rest_on_top(kind, device):
    """A particle dropped onto the top of a shape stays at its radius and the wall's thickness above."""
    builder = newtonsim.ModelBuilder()
    top = {"box": 0.5, "sphere": 1.0, "capsule": 1.5, "cylinder": 0.5, "ellipsoid": 0.5, "plane": 0.0}
    turned = {}
    if kind == "cone":  # on its base
        turned = {"rot": (1.0, 0.0, 0.0, 0.0)}
    add = getattr(builder, f"add_shape_{kind}")
    body = {} if kind == "plane" else {"body": -1}
    add(**body, thickness=0.02, mu=0.5, **turned)
    height = top.get(kind, 0.5) + 0.1 + 0.02
    builder.add_particle((0.0, height + 0.05, 0.0), (0.0, 0.0, 0.0), 0.1, radius=0.1)
    x, v, _ = run(builder, 1.0, device)
    assert np.abs(x[0] - [0.0, height, 0.0]).max() < 1e-3
    assert np.abs(v).max() < 1e-2


@pytest.mark.parametrize(
    ("mu", "shape_mu", "slides"), [(0.2, 0.5, False), (0.1, 0.4, True), (0.6, 0.05, False)]
)
def test_slope(mu, shape_mu, slides, device):
    """Friction is the mean of the model's and the shape's: tan 0.3 = 0.309 lies between 0.325 and 0.25."""
    normal = (-np.sin(SLOPE), np.cos(SLOPE))
    builder = newtonsim.ModelBuilder()
    builder.add_shape_plane((*normal, 0.0, 0.0), width=0.0, length=0.0, mu=shape_mu, thickness=0.0)
    start = np.array([*normal, 0.0]) * 0.1
    builder.add_particle(start, (0.0, 0.0, 0.0), 0.1, radius=0.1)
    x, _, _ = run(builder, 1.0, device, mu=mu)
    moved = np.linalg.norm(x[0] - start)
    combined = 0.5 * (mu + shape_mu)
    expected = 0.5 * GRAVITY * (np.sin(SLOPE) - combined * np.cos(SLOPE)) if slides else 0.0
    assert abs(moved - expected) < 0.01


def test_ground_of_the_model(device):
    """Particles meet the ground plane while the model says so."""
    for ground in (True, False):
        builder = newtonsim.ModelBuilder()
        builder.set_ground_plane()
        builder.add_particle((0.0, 0.3, 0.0), (0.0, 0.0, 0.0), 0.1, radius=0.1)
        model = builder.finalize(device)
        model.ground = ground
        simulation = Simulator(model, XPBDSolver(model), dt=DT)
        simulation.step(240)
        height = simulation.state.particle_q.numpy()[0, 1]
        assert (height > 0.09) == ground


@pytest.mark.parametrize("speed", [30.0, 200.0])
@pytest.mark.parametrize("kind", ["box", "mesh", "plane"])
def test_fast_particles_stay_in_front(kind, speed, device):
    """A wall of 1 cm, a sheet without thickness, and a half-space, hit at up to 3 m a step."""
    builder = newtonsim.ModelBuilder()
    if kind == "box":
        builder.add_shape_box(-1, hx=5.0, hy=0.005, hz=5.0)
    elif kind == "plane":
        builder.add_shape_plane(width=0.0, length=0.0)
    else:
        corners = np.array([[-5.0, 0.0, -5.0], [5.0, 0.0, -5.0], [5.0, 0.0, 5.0], [-5.0, 0.0, 5.0]])
        builder.add_shape_mesh(-1, mesh=newtonsim.Mesh(corners, [0, 2, 1, 0, 3, 2]), convex=False)
    heights = 0.1 + np.linspace(0.0, speed / 60.0, 25)
    for number, height in enumerate(heights):
        builder.add_particle((0.15 * (number - 12), height, 0.0), (0.0, -speed, 0.0), 0.1, radius=0.02)
    x, _, _ = run(builder, 0.1, device, dt=1.0 / 60.0)
    assert np.all(x[:, 1] > 0.0)


def test_a_wall_that_moves_takes_particles_along(device):
    """A thin plate thrown at particles at rest, 0.5 m a step."""
    builder = newtonsim.ModelBuilder()
    plate = free_body(builder, 50.0)
    builder.add_shape_box(plate, hx=0.005, hy=0.5, hz=0.5, density=0.0)
    for height in (-0.2, 0.0, 0.2):
        builder.add_particle((1.3, height, 0.0), (0.0, 0.0, 0.0), 0.001, radius=0.02)
    model = builder.finalize(device)
    model.gravity = (0.0, 0.0, 0.0)
    simulation = Simulator(model, XPBDSolver(model, iterations=4), dt=1.0 / 60.0)
    simulation.state.body_qd.assign(np.array([[0, 0, 0, 30.0, 0, 0]], np.float32))
    newtonsim.eval_ik(model, simulation.state, simulation.state.joint_q, simulation.state.joint_qd)
    simulation.step(6)
    assert np.all(simulation.state.particle_q.numpy()[:, 0] > simulation.state.body_q.numpy()[0, 0])


@pytest.mark.parametrize("bounce", [0.0, 0.5, 1.0])
def test_restitution(bounce, device):
    """A particle leaves a plane with its share of the speed, and of the energy of its fall."""
    builder = newtonsim.ModelBuilder()
    builder.add_shape_plane(width=0.0, length=0.0, thickness=0.0)
    builder.add_particle((0.0, 0.1 + 0.5, 0.0), (0.0, 0.0, 0.0), 0.1, radius=0.1)
    fall = np.sqrt(2.0 * 0.5 / GRAVITY)
    _, v, _ = run(builder, fall + 0.05, device, bounce=bounce, enable_restitution=True, dt=1e-3)
    expected = bounce * GRAVITY * fall - (GRAVITY * 0.05 if bounce else 0.0)
    assert abs(v[0, 1] - expected) < 0.03


def test_adhesion(device):
    """A sticky particle hangs under a ceiling, one that does not stick falls."""
    builder = newtonsim.ModelBuilder()
    builder.add_shape_box(-1, pos=(0.0, 0.5, 0.0), hx=2.0, hy=0.5, hz=2.0, thickness=0.0)
    for x in (-1.0, 1.0):
        builder.add_particle((x, -0.1, 0.0), (0.0, 0.0, 0.0), 0.1, radius=0.1)
    builder.particle_adhesion = [0.01, 0.0]
    x, _, _ = run(builder, 1.0, device)
    assert abs(x[0, 1] + 0.1) < 1e-3
    assert x[1, 1] < -4.0


def test_momentum_with_a_free_body(device):
    """Particles shot at a ball off its centre: what they lose it gains, linear and angular."""
    builder = newtonsim.ModelBuilder()
    ball = free_body(builder, 2.0)
    builder.add_shape_box(ball, hx=0.25, hy=0.25, hz=0.25, density=0.0, mu=0.5)
    rng = np.random.default_rng(3)
    for _ in range(20):
        place = rng.uniform([0.8, -0.2, -0.2], [1.6, 0.2, 0.2])
        builder.add_particle(place, (-5.0, 1.0, 0.5), 0.05, radius=0.02)
    model = builder.finalize(device)
    model.gravity = (0.0, 0.0, 0.0)
    mass = model.particle_mass.numpy().astype(float)

    def momenta(state):
        x, v = state.particle_q.numpy().astype(float), state.particle_qd.numpy().astype(float)
        turn, speed = np.split(state.body_qd.numpy()[0].astype(float), 2)
        centre = state.body_q.numpy()[0, :3].astype(float)
        linear = (mass[:, None] * v).sum(axis=0) + 2.0 * speed
        inertia = 0.4 * 2.0 * 0.25**2  # isotropic
        spin = (mass[:, None] * np.cross(x, v)).sum(axis=0) + np.cross(centre, 2.0 * speed) + inertia * turn
        return linear, spin

    simulation = Simulator(model, XPBDSolver(model, iterations=8), dt=DT)
    before = momenta(simulation.state)
    simulation.step(120)
    after = momenta(simulation.state)
    assert np.linalg.norm(simulation.state.body_qd.numpy()[0, 3:]) > 0.5
    assert np.abs(after[0] - before[0]).max() < 1e-4 * np.linalg.norm(before[0])
    assert np.abs(after[1] - before[1]).max() < 2e-2 * np.linalg.norm(before[0])


def sheet(builder, height: float, size: float = 1.0) -> None:
    """One square of two triangles whose corners are held."""
    corners = [(-size, height, -size), (size, height, -size), (size, height, size), (-size, height, size)]
    for corner in corners:
        builder.add_particle(corner, (0.0, 0.0, 0.0), 1.0, radius=0.01)
    builder.add_triangles([0, 0], [2, 3], [1, 2])


@pytest.mark.parametrize("kind", [GeoType.SPHERE, GeoType.CONE, GeoType.BOX], ids=lambda kind: kind.name)
def test_shapes_between_particles_are_caught(kind, device):
    """A sheet of two large triangles falls onto a ball, a spike and an edge between its corners."""
    builder = newtonsim.ModelBuilder()
    if kind == GeoType.SPHERE:
        builder.add_shape_sphere(-1, pos=(0.3, 0.0, -0.2), radius=0.1)
    elif kind == GeoType.CONE:
        builder.add_shape_cone(-1, pos=(0.3, -0.4, -0.2), radius=0.1, half_height=0.5)
    else:
        turn = (0.0, 0.0, np.sin(np.pi / 8.0), np.cos(np.pi / 8.0))
        builder.add_shape_box(-1, rot=turn, hx=0.0707, hy=0.0707, hz=0.5)
    sheet(builder, 0.2)
    model = builder.finalize(device)
    solver = XPBDSolver(model, iterations=10)
    simulation = Simulator(model, solver, dt=DT)
    simulation.step(48)  # 0.2 s: a free fall of 0.2 m
    x = simulation.state.particle_q.numpy()
    # the plane through the corners still passes above the obstacle's top, at 0.1 m
    assert x[:, 1].mean() > 0.05
    assert simulation.state.particle_qd.numpy()[:, 1].mean() > -1.5


def test_too_many_contacts_are_reported(device):
    """A particle inside of five boxes keeps four contacts, and the solver says so."""
    builder = newtonsim.ModelBuilder()
    for _ in range(5):
        builder.add_shape_box(-1)
    builder.add_particle((0.0, 0.45, 0.0), (0.0, 0.0, 0.0), 1.0, radius=0.1)
    model = builder.finalize(device)
    state = model.state()
    with pytest.warns(RuntimeWarning, match="contacts of particles"):
        XPBDSolver(model).step(model, state, state, None, None, DT)


def test_worlds(device):
    """Copies of a world with obstacles come out bit for bit as the world alone, and see only their own."""
    one = newtonsim.ModelBuilder()
    one.add_shape_sphere(-1, pos=(0.1, 0.0, 0.0), radius=0.3)
    for k in range(40):
        one.add_particle(
            (0.05 * (k % 7 - 3), 0.5 + 0.1 * (k // 7), 0.02 * k), (0.0, 0.0, 0.0), 0.1, radius=0.04
        )
    alone, _, _ = run(one, 0.5, device)
    many = newtonsim.ModelBuilder()
    many.replicate(one, 3, spacing=(0.0, 0.0, 0.0))
    together, _, _ = run(many, 0.5, device)
    assert np.array_equal(together.reshape(3, -1, 3), np.broadcast_to(alone, (3, *alone.shape)))
