"""Gradients through contacts of rigid bodies under XPBD and VBD, against differences of the same steps."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.errors import NotDifferentiableError
from newtonsim.solvers import VBDSolver, XPBDSolver

DT = 1.0 / 240.0
RTOL = 1.0e-2
REST_SPANS = (1.5e-4, 1.0e-4, 7.0e-5, 5.0e-5, 3.5e-5, 2.5e-5)
"""Steps of positions, within the penetration that scenes start with."""


@wp.kernel
def weigh(
    q: wp.array(dtype=wp.transform),
    qd: wp.array(dtype=wp.spatial_vector),
    bodies: int,
    losses: wp.array(dtype=float),
):
    w = wp.tid()
    for b in range(bodies):
        for i in range(7):
            wp.atomic_add(losses, w, q[w * bodies + b][i] * wp.sin(1.3 * float(i + 3 * b) + 0.7))
        for i in range(6):
            wp.atomic_add(losses, w, 0.2 * qd[w * bodies + b][i] * wp.cos(2.1 * float(i + 3 * b) + 0.3))


def loss(state: newtonsim.State, losses: wp.array) -> None:
    """A sum of all poses and velocities in which none cancels another."""
    worlds, bodies = len(losses), len(state.body_q) // len(losses)
    wp.launch(weigh, worlds, [state.body_q, state.body_qd, bodies, losses], device=losses.device)


def z_up() -> newtonsim.ModelBuilder:
    return newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))


def start(model: newtonsim.Model, velocities) -> newtonsim.State:
    state = model.state()
    state.body_qd.assign(np.array(velocities, np.float32))
    newtonsim.eval_ik(model, state, state.joint_q, state.joint_qd)
    return state


def make(kind: type, model: newtonsim.Model, sweeps: int = 100, **options):
    """A solver with so many sweeps over positions and velocities."""
    model.rigid_contact_torsional_friction = 0.01
    solver = kind(model, iterations=sweeps, **options)
    solver.constraints.velocity_sweeps = sweeps
    return solver


def check(solver, state, steps: int, *wrt: str, **options) -> None:
    report = diff.gradcheck(solver.model, solver, state, steps, DT, loss, wrt, tolerance=RTOL, **options)
    print(report)
    assert report.error < RTOL


def box(device: str) -> newtonsim.Model:
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1 - 5.0e-5), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.2, hy=0.15, hz=0.1, density=100.0, thickness=0.0, mu=0.4)
    builder.set_ground_plane(mu=0.4)
    return builder.finalize(device, requires_grad=True)


@pytest.mark.parametrize(
    ("kind", "speed", "steps"),
    [(XPBDSolver, 0.2, 20), (XPBDSolver, 1.0, 5), (VBDSolver, 1.0, 5)],
    ids=["sticks", "slides", "slides under VBD"],
)
def test_box(device: str, kind: type, speed: float, steps: int):
    model = box(device)
    state = start(model, [[0.0, 0.0, 0.0, speed, 0.3 * speed, 0.0]])
    solver = make(kind, model)
    check(solver, state, steps, "state.body_q", spans=REST_SPANS)
    check(solver, state, steps, "state.body_f", "model.shape_materials.mu", "model.gravity_vec")


def test_ball_that_rolls_on_a_box(device: str):
    """Between two bodies that move, the normal turns with one of them; torsion and rolling slide."""
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.4, hy=0.3, hz=0.1, density=100.0, mu=0.3)
    ball = builder.add_body(origin=wp.transform((0.05, 0.02, 0.29995), wp.quat_identity()))
    builder.add_shape_sphere(ball, radius=0.1, density=300.0, mu=0.5)
    builder.gravity = 0.0
    model = builder.finalize(device, requires_grad=True)
    state = start(model, [[0.1, 0.3, 0.2, 0.1, 0.0, 0.3], [2.0, 3.0, 1.0, 0.4, 0.1, -0.2]])
    solver = make(XPBDSolver, model)
    wrt = (
        "state.body_q",
        "state.body_qd",
        "model.body_com",
        "model.body_inertia",
        "model.shape_materials.mu",
    )
    check(solver, state, 3, *wrt, spans=REST_SPANS)


@pytest.mark.parametrize("substeps", [1, 2])
def test_leg_that_stands(device: str, substeps: int):
    """A foot on the ground under a body, with a drive between."""
    builder = z_up()
    builder.add_articulation()
    trunk = builder.add_body(
        mass=2.0, I_m=wp.mat33(np.diag([0.02, 0.03, 0.04])), com=wp.vec3(0.02, 0.01, 0.0)
    )
    builder.add_joint_free(trunk)
    shank = builder.add_body(
        mass=0.5, I_m=wp.mat33(np.diag([0.004, 0.005, 0.003])), com=wp.vec3(0.0, 0.0, -0.1)
    )
    builder.add_joint_revolute(
        trunk, shank, axis=(0.0, 1.0, 0.0), armature=0.0, target=0.3, target_ke=20.0, target_kd=0.5
    )
    builder.add_shape_sphere(shank, pos=wp.vec3(0.0, 0.0, -0.2), radius=0.02, density=0.0, mu=0.6)
    builder.set_ground_plane(mu=0.6)
    builder.joint_q[:] = [0.0, 0.0, 0.02 + 0.2 * np.cos(0.2) - 5.0e-5, 0.0, 0.0, 0.0, 1.0, 0.2]
    builder.joint_qd[:] = [0.1, 0.2, 0.3, 0.05, 0.0, 0.0, 0.1]
    model = builder.finalize(device, requires_grad=True)
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    solver = make(
        XPBDSolver, model, 200, substeps=substeps, joint_linear_relaxation=1.0, joint_angular_relaxation=1.0
    )
    wrt = (
        "state.body_f",
        "control.joint_act",
        "model.body_mass",
        "model.joint_target_ke",
        "model.gravity_vec",
    )
    check(solver, state, 4, *wrt, samples=4)


def test_ball_that_bounces(device: str):
    """With spin and friction, which slides."""
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.105), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, density=240.0, mu=0.1, restitution=0.7)
    builder.set_ground_plane(mu=0.1, restitution=0.7)
    model = builder.finalize(device, requires_grad=True)
    state = start(model, [[1.0, 2.0, 0.5, 3.0, 0.3, -2.0]])
    solver = make(XPBDSolver, model, enable_restitution=True)
    spans = (1.0e-2, 3.0e-3, 1.0e-3, 3.0e-4, 1.0e-4)
    materials = ("model.shape_materials.mu", "model.shape_materials.restitution")
    check(solver, state, 4, "state.body_q", "state.body_qd", *materials, spans=spans)


def test_box_that_bounces(device: str):
    """Tilted, it meets the ground with two corners, one after the other."""
    builder = z_up()
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.3)
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.135), turn))
    builder.add_shape_box(body, hx=0.1, hy=0.12, hz=0.1, density=400.0, mu=0.4, restitution=0.5)
    builder.set_ground_plane(mu=0.4, restitution=0.5)
    model = builder.finalize(device, requires_grad=True)
    state = start(model, [[0.3, 0.2, 0.0, 0.5, 0.2, -1.5]])
    solver = make(XPBDSolver, model, enable_restitution=True, substeps=2)
    wrt = ("state.body_q", "state.body_qd", "model.body_com", "model.shape_materials.restitution")
    check(solver, state, 5, *wrt, samples=4, spans=(1.0e-2, 3.0e-3, 1.0e-3, 3.0e-4, 1.0e-4))


def test_a_kick_that_is_not_differentiated_raises(device: str):
    """A thin rod that lands on its end turns by far in the step of the impact."""
    builder = z_up()
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.5)
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1), turn))
    builder.add_shape_box(body, hx=0.1, hy=0.005, hz=0.005, density=1.0e3, mu=0.5)
    builder.set_ground_plane(mu=0.5)
    model = builder.finalize(device, requires_grad=True)
    state = start(model, [[0.0, 0.0, 0.0, 0.0, 0.0, -20.0]])
    with pytest.raises(NotDifferentiableError, match="changed a body's turn"):
        diff.rollout(model, XPBDSolver(model), state, None, 2, 1.0 / 60.0, loss, ("state.body_qd",))


@wp.kernel
def read_height(q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    losses[0] = wp.transform_get_translation(q[0])[2]


@pytest.mark.parametrize(("rate", "restitution"), [(240, 1.0), (960, 0.6)])
def test_slope_of_a_bounce(device: str, rate: int, restitution: float):
    """Of the height at a time after it, by the first velocity: (g s - e v) / g, at s after an impact at v."""
    drop, seconds = 0.4, 0.5
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1 + drop), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, restitution=restitution)
    builder.set_ground_plane(restitution=restitution)
    model = builder.finalize(device, requires_grad=True)
    solver = XPBDSolver(model, enable_restitution=True)

    def height(state: newtonsim.State, losses: wp.array) -> None:
        wp.launch(read_height, 1, [state.body_q, losses], device=device)

    steps = round(rate * seconds)
    result = diff.rollout(model, solver, model.state(), None, steps, 1.0 / rate, height, ("state.body_qd",))
    speed = np.sqrt(2.0 * 9.81 * drop)
    left = seconds - speed / 9.81
    slope = (9.81 * left - restitution * speed) / 9.81
    assert result.gradients["state.body_qd"].numpy()[0, 5] == pytest.approx(slope, rel=5.0e-2)
