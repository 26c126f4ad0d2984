"""Armature, damping and dry friction of floating joints: equation of motion, derivatives by differences."""

import itertools

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff, dynamics
from newtonsim.kernels.views.pair_rows import PAIR_FRICTION_TURN
from newtonsim.testing import assert_gradients, random_model, random_state

DT = 1.0 / 240.0


def floating(
    seed: int = 3, bodies: int = 4, kinds: tuple[str, ...] = ("REVOLUTE", "BALL")
) -> newtonsim.Model:
    """A random tree on a free joint with armature and damping that differ by direction."""
    types = [newtonsim.JointType[name] for name in kinds]
    builder = random_model(
        seed, body_count=bodies, joint_types=types, base=newtonsim.JointType.FREE, up_vector=(0.0, 0.0, 1.0)
    )
    rng = np.random.default_rng(seed)
    dofs = builder.joint_dof_count
    builder.joint_armature[:] = rng.uniform(0.5, 2.0, dofs).tolist()
    builder.joint_damping[:] = rng.uniform(0.5, 2.0, dofs).tolist()
    return builder.finalize("cpu", requires_grad=True)


@pytest.mark.parametrize("bodies", [4, 40])
def test_the_equation_of_motion_holds(bodies):
    """Whether by elimination or from articulated inertias, as chains of more than 32 dofs are."""
    model = floating(bodies=bodies, kinds=("REVOLUTE",) if bodies > 10 else ("REVOLUTE", "BALL"))
    state = random_state(model, 1)
    force = np.random.default_rng(2).uniform(-1.0, 1.0, model.joint_dof_count).astype(np.float32)
    qdd = dynamics.forward_dynamics(model, state, wp.array(force, device="cpu"))
    M = dynamics.mass_matrix(model, state).numpy()[0].astype(float)
    acting = M @ qdd.numpy() + dynamics.bias(model, state).numpy()
    size = np.abs(dynamics.bias(model, state).numpy()).max()
    assert np.abs(acting - force).max() < 1e-4 * size
    inverse = dynamics.inverse_dynamics(model, state, qdd).numpy()
    assert np.abs(inverse - force).max() < 1e-4 * size


def test_armature_is_a_mass_at_the_origin_that_gravity_does_not_pull():
    """The force on a body that moves with the armature is that on one with a ball of its mass there."""
    turn = (0.1, 0.2, -0.3, 0.927)
    models, inertia = [], np.diag([0.02, 0.03, 0.04])
    for armature in (0.7, 0.0):
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        builder.gravity = 0.0
        body = builder.add_body(mass=2.0, com=(0.1, -0.2, 0.3), I_m=inertia)
        builder.add_articulation()
        builder.add_joint_free(body)
        if armature == 0.0:
            ball = builder.add_body(mass=0.7, I_m=1e-6 * np.eye(3))
            builder.add_joint_fixed(body, ball)
        builder.joint_armature[:6] = [0.0] * 3 + [armature] * 3
        models.append(builder.finalize("cpu"))
    forces = []
    for model in models:
        state = model.state()
        state.joint_q.assign([0.3, 0.2, 0.1, *(np.array(turn) / np.linalg.norm(turn))])
        state.joint_qd.assign([3.0, -2.0, 1.0, 0.5, 0.4, -0.3])
        qdd = wp.array([1.0, 2.0, 3.0, -4.0, 5.0, -6.0], dtype=float, device="cpu")
        forces.append(dynamics.inverse_dynamics(model, state, qdd).numpy())
        forces.append(dynamics.mass_matrix(model, state).numpy()[0].reshape(-1))
    assert forces[0] == pytest.approx(forces[2], abs=1e-4)
    assert forces[1] == pytest.approx(forces[3], abs=1e-5)


def test_derivatives_of_inverse_dynamics():
    """By velocities, against differences."""
    model = floating()
    state = random_state(model, 1)
    qdd = np.random.default_rng(2).uniform(-1.0, 1.0, model.joint_dof_count).astype(np.float32)
    given = wp.array(qdd, device="cpu")
    found = dynamics.dynamics_of(model).inverse_dynamics_derivatives(state, given)[1].numpy()[0]
    start, columns = state.joint_qd.numpy().copy(), []
    for k in range(model.joint_dof_count):
        ends = []
        for step in (0.5, -0.5):  # the forces are quadratic in the velocities
            moved = start.copy()
            moved[k] += step
            state.joint_qd.assign(moved)
            ends.append(dynamics.inverse_dynamics(model, state, given).numpy().astype(float))
        columns.append(ends[0] - ends[1])
    expected = np.array(columns).T
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_linear_models():
    model = floating()
    state = random_state(model, 2, angle=0.3, speed=1.0)
    solver = newtonsim.FeatherstoneSolver(model)
    assert solver.make_linear_model("joint_f") is not None
    closed = diff.linearize(model, solver, state, None, DT)
    difference = diff.linearize(model, solver, state, None, DT, method="difference", span=1e-3)
    for found, expected in ((closed.A, difference.A), (closed.B, difference.B)):
        assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)


@wp.kernel
def measure(q: wp.array(dtype=float), qd: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = q[i] + 0.1 * qd[wp.min(i, qd.shape[0] - 1)]


def test_gradients_of_a_rollout():
    """Of states, armature and damping."""
    model = floating()
    solver = newtonsim.FeatherstoneSolver(model)
    states = [model.state() for _ in range(6)]
    start = random_state(model, 2, angle=0.3, speed=1.0)
    states[0].joint_q.assign(start.joint_q)
    states[0].joint_qd.assign(start.joint_qd)
    out = wp.zeros(model.joint_coord_count, dtype=float, requires_grad=True)

    def run() -> wp.array:
        for before, after in itertools.pairwise(states):
            solver.step(model, before, after, None, None, 4.0 * DT)
        end = states[-1]
        wp.launch(measure, len(out), [end.joint_q, end.joint_qd], [out])
        return out

    groups = [
        ({"joint_q": states[0].joint_q}, (0.06, 0.03)),
        ({"joint_qd": states[0].joint_qd}, (0.2, 0.1)),
        ({"armature": model.joint_armature, "damping": model.joint_damping}, (0.2, 0.1)),
        ({"com": model.body_com}, (0.04, 0.02)),
    ]
    for arrays, steps in groups:
        assert_gradients(run, arrays, rtol=1e-2, samples=4, steps=steps)


@pytest.mark.parametrize("references", ["start", "end"])
@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_gradients_of_dry_friction_of_floating_and_ball_joints(size, references):
    """While they slip, and while they creep by their softness; com and pose are in the arm of the rows."""
    model = floating(bodies=3, kinds=("BALL",))
    model.joint_friction.assign(np.full(model.joint_dof_count, size, np.float32))
    if size > 10.0:
        model.joint_friction_solref.assign(np.full((model.joint_dof_count, 2), (0.1, 1.0), np.float32))
    solver = newtonsim.FeatherstoneSolver(model, references=references)
    assert len(solver.constraints.rows.pair.kind) == model.joint_dof_count + 2 * 2
    states = [model.state() for _ in range(2)]
    start = random_state(model, 2, angle=0.3, speed=4.0)
    states[0].joint_q.assign(start.joint_q)
    states[0].joint_qd.assign(start.joint_qd)
    out = wp.zeros(model.joint_coord_count, dtype=float, requires_grad=True)

    def run() -> wp.array:
        solver.reset()
        for before, after in itertools.pairwise(states):
            solver.step(model, before, after, None, None, 2.0 * DT)
        end = states[-1]
        wp.launch(measure, len(out), [end.joint_q, end.joint_qd], [out])
        return out

    run()
    rows = solver.constraints.rows.pair
    rubs = rows.kind.numpy() >= int(PAIR_FRICTION_TURN)
    slips = np.abs(rows.impulse.numpy()) >= rows.upper.numpy()
    assert slips[rubs].any() == (size < 10.0)
    groups = [
        ({"joint_q": states[0].joint_q}, (0.004, 0.002)),
        ({"joint_qd": states[0].joint_qd}, (0.02, 0.01)),
        ({"friction": model.joint_friction}, (0.4, 0.2)),
        ({"com": model.body_com}, (0.16, 0.08, 0.04)),
    ]
    if size > 10.0:
        del groups[2]  # where nothing slips, the bound makes no difference
    for arrays, steps in groups:
        assert_gradients(run, arrays, rtol=1e-2, samples=4, steps=steps)


def test_linear_models_with_dry_friction():
    """A world in which it acts is left to the adjoint."""
    model = floating(kinds=("REVOLUTE",))
    model.joint_friction.assign(
        np.r_[np.full(6, 0.3), np.zeros(model.joint_dof_count - 6)].astype(np.float32)
    )
    state = random_state(model, 2, angle=0.3, speed=1.0)
    solver = newtonsim.FeatherstoneSolver(model)
    closed = diff.linearize(model, solver, state, None, DT)
    difference = diff.linearize(model, solver, state, None, DT, method="difference", span=1e-3)
    for found, expected in ((closed.A, difference.A), (closed.B, difference.B)):
        assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)
