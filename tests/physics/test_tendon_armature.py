"""Armature of tendons: inertia, bias and motion are MuJoCo's, and those of two coupled sliders."""

import copy
import itertools

import mujoco
import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import ModelBuilder, NewtonsimError, TendonWrap, dynamics
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

ARMS = """<mujoco><compiler angle="radian"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <site name="low" pos="0 .1 .5"/><site name="high" pos=".5 0 1.2"/>
  <body name="upper" pos="0 0 1"><joint name="a" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/><site name="s1" pos=".2 0 .05"/>
    <body name="lower" pos=".3 0 0"><joint name="b" axis="0 1 .3"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass=".6"/>
      <site name="s2" pos=".2 .02 .05"/></body>
  </body>
  <body name="other" pos="0 .5 1"><joint name="c" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/><site name="s3" pos=".2 0 0"/></body>
  </worldbody><tendon>{}</tendon></mujoco>"""
FIXED = '<fixed name="t" {}><joint joint="a" coef=".7"/><joint joint="b" coef="-.4"/></fixed>'
SPATIAL = """<spatial name="v" {}><site site="low"/><site site="s1"/><site site="s2"/><pulley divisor="2"/>
  <site site="s3"/><site site="high"/></spatial>"""
DRIVEN = '<spatial name="u" armature=".4"><site site="low"/><site site="s1"/><site site="s2"/></spatial>'
NEAR = DRIVEN + FIXED.format('armature=".3" stiffness="20" springlength=".4"')
"""Tendons along one articulation."""
ACROSS = NEAR + SPATIAL.format('armature=".8"')
"""One more along two of them."""


def read(tendon: str):
    """The arms here and in MuJoCo."""
    text = ARMS.format(tendon)
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(text, builder, floating=None, ignore_inertial_definitions=False, stiffness=0.0, damping=0.0)
    return builder, mujoco.MjModel.from_xml_string(text)


def place(model, mj, seed: int):
    """A random state, here and in MuJoCo."""
    rng = np.random.default_rng(seed)
    data, state = mujoco.MjData(mj), model.state()
    data.qpos[:], data.qvel[:] = rng.uniform(-1.0, 1.0, mj.nq), rng.uniform(-3.0, 3.0, mj.nv)
    state.joint_q.assign(data.qpos.astype(np.float32))
    state.joint_qd.assign(data.qvel.astype(np.float32))
    mujoco.mj_forward(mj, data)
    return state, data


def dense_inertia(mj, data) -> np.ndarray:
    """M of MuJoCo without tendons, and a JᵀJ of each; MuJoCo itself leaves out what couples two chains."""
    M, J, step = np.zeros((mj.nv, mj.nv)), np.zeros((mj.ntendon, mj.nv)), 1e-6
    light, other = copy.copy(mj), mujoco.MjData(mj)
    light.tendon_armature[:] = 0.0
    for i in range(mj.nv):
        for sign in (1.0, -1.0):
            other.qpos[:] = data.qpos + sign * step * np.eye(mj.nv)[i]
            mujoco.mj_fwdPosition(mj, other)
            J[:, i] += sign * other.ten_length / (2.0 * step)
    other.qpos[:] = data.qpos
    mujoco.mj_fwdPosition(light, other)
    mujoco.mj_fullM(light, other, M)
    return M + J.T @ (mj.tendon_armature[:, None] * J)


@pytest.mark.parametrize("tendon", [NEAR, ACROSS])
@pytest.mark.parametrize("seed", range(3))
def test_dynamics_are_those_of_mujoco(tendon: str, seed: int):
    builder, mj = read(tendon)
    model = builder.finalize("cpu")
    state, data = place(model, mj, seed)
    M = dense_inertia(mj, data)
    blocks = dynamics.mass_matrix(model, state).numpy()
    np.testing.assert_allclose(blocks[0], M[:2, :2], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(blocks[1, 0, 0], M[2, 2], rtol=1e-5)
    if tendon == NEAR:
        whole = np.zeros_like(M)
        mujoco.mj_fullM(mj, data, whole)
        np.testing.assert_allclose(M, whole, atol=1e-8)
    bias = dynamics.bias(model, state).numpy()
    np.testing.assert_allclose(bias, data.qfrc_bias, rtol=1e-4, atol=1e-4)
    acceleration, force = np.random.default_rng(seed).uniform(-2.0, 2.0, (2, 3))
    qdd = wp.array(acceleration, dtype=float, device="cpu")
    tau = dynamics.inverse_dynamics(model, state, qdd).numpy()
    np.testing.assert_allclose(tau, M @ acceleration + data.qfrc_bias, rtol=1e-4, atol=1e-4)
    found = dynamics.forward_dynamics(model, state, wp.array(force, dtype=float, device="cpu")).numpy()
    wanted = np.linalg.solve(M, force - data.qfrc_bias)
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


def test_operational_inertia_contains_the_tendons():
    """The mobility of each body is J M⁻¹ Jᵀ with MuJoCo's M."""
    builder, mj = read(ACROSS)
    model = builder.finalize("cpu")
    state, data = place(model, mj, 5)
    inverse = np.linalg.inv(dense_inertia(mj, data))
    found = dynamics.dynamics_of(model).operational_inertia(state, damping=0.5).numpy()
    for b in range(3):
        linear, angular = np.zeros((2, 3, mj.nv))
        mujoco.mj_jacBodyCom(mj, data, linear, angular, b + 1)
        J = np.concatenate([angular, linear])
        np.testing.assert_allclose(
            found[b], np.linalg.inv(J @ inverse @ J.T + 0.5 * np.eye(6)), rtol=1e-3, atol=1e-4
        )


def test_derivatives_with_fixed_tendons_and_not_with_spatial_ones():
    """∂q̈/∂τ is the inverse of M, and the other derivatives are differences of `forward_dynamics`."""
    builder, mj = read(FIXED.format('armature=".3"'))
    model = builder.finalize("cpu")
    state, data = place(model, mj, 3)
    of = dynamics.dynamics_of(model)
    by_q, by_qd, by_f = (a.numpy().copy() for a in of.forward_dynamics_derivatives(state))
    np.testing.assert_allclose(by_f[0], np.linalg.inv(dense_inertia(mj, data))[:2, :2], rtol=1e-4, atol=1e-4)
    for found, name in ((by_q, "joint_q"), (by_qd, "joint_qd")):
        array = getattr(state, name)
        start = array.numpy().copy()
        for i in range(2):
            ends = []
            for sign in (1.0, -1.0):
                array.assign(start + sign * 1e-2 * np.eye(3, dtype=np.float32)[i])
                ends.append(of.forward_dynamics(state).numpy()[:2].copy())
            slope = (ends[0] - ends[1]) / 2e-2
            np.testing.assert_allclose(found[0, :, i], slope, rtol=2e-3, atol=5e-3)
        array.assign(start)
    model = read(NEAR)[0].finalize("cpu")
    with pytest.raises(NewtonsimError, match="armature of spatial tendons"):
        dynamics.dynamics_of(model).forward_dynamics_derivatives(model.state())


def test_arms_with_heavy_tendons_move_as_in_mujoco():
    builder, mj = read(NEAR)
    light = copy.copy(mj)
    light.tendon_armature[:] = 0.0
    ends = []
    for one in (mj, light):
        one.opt.timestep, one.opt.integrator = 0.002, mujoco.mjtIntegrator.mjINT_DISCRETE
        data = mujoco.MjData(one)
        mujoco.mj_step(one, data, 500)
        ends.append(data.qpos.copy())
    model = builder.finalize("cpu")
    solver, state = FeatherstoneSolver(model, coriolis="start", iterations=100, tolerance=1e-7), model.state()
    for _ in range(500):
        solver.step(model, state, state, None, None, 0.002)
    assert np.abs(ends[0] - ends[1]).max() > 0.1  # armature matters
    np.testing.assert_allclose(state.joint_q.numpy(), ends[0], atol=5e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_arms_that_a_tendon_couples(seed: int):
    """M (v⁺ - v) = h (f - c) with the whole M, also where MuJoCo leaves entries out, and f at the end."""
    builder, mj = read(ACROSS)
    model = builder.finalize("cpu")
    state, data = place(model, mj, seed)
    force, M = data.qfrc_passive - data.qfrc_bias, dense_inertia(mj, data)
    h, J = 0.01, np.array([0.7, -0.4, 0.0])  # of the spring in NEAR
    wanted = np.linalg.solve(M + h * h * 20.0 * np.outer(J, J), M @ data.qvel + h * force)
    FeatherstoneSolver(model, coriolis="start", iterations=100, tolerance=1e-7).step(
        model, state, state, None, None, 0.01
    )
    np.testing.assert_allclose(state.joint_qd.numpy(), wanted, rtol=2e-4, atol=2e-5)


def sliders(armature: float = 0.0) -> ModelBuilder:
    builder = ModelBuilder(gravity=0.0)
    for mass in (2.0, 3.0):
        body = builder.add_body(mass=mass, I_m=np.eye(3))
        builder.add_joint_prismatic(-1, body, axis=(1.0, 0.0, 0.0), armature=0.0)
    builder.add_tendon_fixed([(0, 1.0), (1, -0.5)], armature=armature)
    return builder


@pytest.mark.parametrize("worlds", [1, 3])
def test_two_sliders_accelerate_with_the_inertia_of_both(worlds: int):
    """(M + a c cᵀ) q̈ = f holds exactly in each step, with c the factors of the tendon."""
    several = ModelBuilder(gravity=0.0)
    for _ in range(worlds):
        several.add_builder(sliders(4.0), separate_collision_group=False)
    model = several.finalize("cpu")
    solver, state, control = FeatherstoneSolver(model), model.state(), model.control()
    force = np.array([5.0, -1.0])
    control.joint_f.assign(np.tile(force, worlds).astype(np.float32))
    for _ in range(100):
        solver.step(model, state, state, control, None, 0.01)
    c = np.array([1.0, -0.5])
    M = np.diag([2.0, 3.0]) + 4.0 * np.outer(c, c)
    wanted = np.linalg.solve(M, force)
    np.testing.assert_allclose(state.joint_qd.numpy(), np.tile(wanted, worlds), rtol=1e-5)


def test_gradient_by_armature_is_that_of_the_closed_form():
    """v = t (M + a c cᵀ)⁻¹ f, so ∂v/∂a = -t (M + a c cᵀ)⁻¹ c (c·q̈)."""
    model = sliders(4.0).finalize("cpu", requires_grad=True)
    solver, control = FeatherstoneSolver(model), model.control()
    force, steps, dt = np.array([5.0, -1.0]), 10, 0.01
    control.joint_f.assign(force.astype(np.float32))
    states = [model.state() for _ in range(steps + 1)]
    tape = wp.Tape()
    with tape:
        for before, after in itertools.pairwise(states):
            solver.step(model, before, after, control, None, dt)
    for i in range(2):
        tape.zero()
        seed = wp.array(np.eye(2)[i], dtype=float, device="cpu")
        tape.backward(grads={states[-1].joint_qd: seed})
        c = np.array([1.0, -0.5])
        inverse = np.linalg.inv(np.diag([2.0, 3.0]) + 4.0 * np.outer(c, c))
        wanted = -steps * dt * (inverse @ c) * (c @ inverse @ force)
        assert model.tendon_armature.grad.numpy()[0] == pytest.approx(wanted[i], rel=1e-4)


def test_inverse_dynamics_has_a_gradient_through_the_tendons():
    builder, mj = read(ACROSS)
    model = builder.finalize("cpu", requires_grad=True)
    state, _ = place(model, mj, 2)
    weights = np.array([0.4, -1.0, 0.7], np.float32)
    qdd = wp.array([0.5, 1.0, -2.0], dtype=float, device="cpu")
    tape = wp.Tape()
    with tape:
        tau = dynamics.inverse_dynamics(model, state, qdd)
    tape.backward(grads={tau: wp.array(weights, dtype=float, device="cpu")})
    for array in (state.joint_q, state.joint_qd, model.tendon_armature):
        start, gradient = array.numpy().copy(), array.grad.numpy()
        assert np.abs(gradient).max() > 0.01
        for i in range(len(start)):
            ends = []
            for sign in (1.0, -1.0):
                array.assign(start + sign * 1e-2 * np.eye(len(start), dtype=np.float32)[i])
                ends.append(weights @ dynamics.inverse_dynamics(model, state, qdd).numpy())
            assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=5e-3, abs=5e-3)
        array.assign(start)


def test_a_path_that_wraps_has_no_armature():
    builder = sliders()
    path = [(-1, (0, 0, 1)), TendonWrap(0, (0, 0, 0), 0.1), (1, (0, 0, 1))]
    with pytest.raises(newtonsim.ModelError, match="armature is not available with a TendonWrap"):
        builder.add_tendon_spatial(path, armature=1.0)
    assert builder.tendon_count == 1
    with pytest.raises(newtonsim.ModelError, match="tendon_armature -1 is negative"):
        sliders(-1.0).finalize("cpu")
