"""Gradients through contacts of rigid bodies under XPBD and VBD, against differences of the same steps."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
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


@pytest.mark.parametrize(("speed", "steps"), [(0.2, 20), (1.0, 5)], ids=["sticks", "slides"])
@pytest.mark.parametrize("kind", [XPBDSolver, VBDSolver])
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
