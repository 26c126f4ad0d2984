"""Importer and dynamics together against MuJoCo, on gymnasium's files."""

import mujoco
import numpy as np
import pytest
import warp as wp
from oracles.compare import acceleration_error, force_error, mass_matrix_error, pose_error, relative_error
from oracles.mujoco_oracle import PASSIVE_FORCES, MujocoOracle, gymnasium_asset, rotation_matrix

import newtonsim
from newtonsim import dynamics
from newtonsim.solvers import FeatherstoneSolver
from newtonsim.testing import random_state

pytestmark = pytest.mark.filterwarnings("ignore::newtonsim.UnsupportedElementWarning")

TOLERANCE = 1.0e-4
STATES = 4


class Case:
    """A file in our importer and in MuJoCo."""

    def __init__(self, name: str, device: str) -> None:
        path = gymnasium_asset(name)
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        newtonsim.utils.parse_mjcf(path, builder, floating=None, ignore_inertial_definitions=False)
        self.model = builder.finalize(device)
        self.oracle = MujocoOracle(path, self.model)

    def draw(self, seed: int) -> None:
        self.state = random_state(self.model, seed)
        qd = self.state.joint_qd.numpy()
        self.oracle.set_state(self.state.joint_q.numpy(), qd, self.state.body_q.numpy())
        self.vector = np.random.default_rng(seed).normal(size=len(qd)).astype(np.float32)
        self.M = self.oracle.mass_matrix()

    def array(self, values: np.ndarray) -> wp.array:
        return wp.array(values, dtype=float, device=self.model.device)


@pytest.fixture(scope="module", params=["ant.xml", "humanoid.xml"])
def case(request: pytest.FixtureRequest, device: str) -> Case:
    return Case(request.param, device)


@pytest.fixture(params=range(STATES))
def drawn(request: pytest.FixtureRequest, case: Case) -> Case:
    case.draw(request.param)
    return case


def test_bodies_match(case: Case):
    mj, model = case.oracle.mj, case.model
    assert model.body_count == mj.nbody - 1
    assert model.joint_dof_count == mj.nv
    for body, name in enumerate(case.oracle.names()):
        assert not name or model.body_key[body] == name
        assert model.body_mass.numpy()[body] == pytest.approx(mj.body_mass[body + 1], rel=1.0e-5)
        np.testing.assert_allclose(model.body_com.numpy()[body], mj.body_ipos[body + 1], rtol=0, atol=1.0e-5)
        R = rotation_matrix(mj.body_iquat[body + 1])
        inertia = R @ np.diag(mj.body_inertia[body + 1]) @ R.T
        assert relative_error(model.body_inertia.numpy()[body], inertia) < 1.0e-5


def test_kinematics_matches(drawn: Case):
    poses, velocities = drawn.state.body_q.numpy(), drawn.state.body_qd.numpy()
    for body in range(drawn.model.body_count):
        assert pose_error(poses[body], drawn.oracle.pose(body)) < 1.0e-5
        expected = drawn.oracle.velocity(body)
        assert np.abs(velocities[body] - expected).max() < 1.0e-5 * max(1.0, np.abs(expected).max())


def test_mass_matrix_matches(drawn: Case):
    M = dynamics.mass_matrix(drawn.model, drawn.state).numpy()[0]
    assert mass_matrix_error(M, drawn.M) < TOLERANCE


def test_inverse_dynamics_matches(drawn: Case):
    tau = dynamics.inverse_dynamics(drawn.model, drawn.state, drawn.array(drawn.vector)).numpy()
    assert force_error(tau, drawn.oracle.inverse_dynamics(drawn.vector), drawn.M) < TOLERANCE


def test_forward_dynamics_matches(drawn: Case):
    qdd = dynamics.forward_dynamics(drawn.model, drawn.state, drawn.array(drawn.vector)).numpy()
    assert acceleration_error(qdd, drawn.oracle.forward_dynamics(drawn.vector), drawn.M) < TOLERANCE


def test_jacobian_matches(drawn: Case):
    jacobian = dynamics.jacobian(drawn.model, drawn.state).numpy()
    for body in range(drawn.model.body_count):
        expected = drawn.oracle.jacobian(body)
        assert np.abs(jacobian[body] - expected).max() < TOLERANCE * max(1.0, np.abs(expected).max())


def test_flight_with_springs_and_damping_matches(case: Case):
    """Half a second in the air: passive stiffness and damping of the file, and the integration, agree.

    MuJoCo's fourth-order Runge-Kutta at 1 ms is the truth; the limits are off in both.
    """
    seconds, dt = 0.5, 1.0 / 2000.0
    model, mj, data = case.model, case.oracle.mj, case.oracle.data
    case.draw(9)
    mj.opt.disableflags &= ~int(PASSIVE_FORCES)
    mj.opt.integrator, mj.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, 1.0e-3
    state = case.state
    joint_q = state.joint_q.numpy().copy()
    joint_q[:3] += 10.0 * np.eye(3)[2]
    state.joint_q.assign(joint_q)
    limits = model.joint_limit_lower.numpy().copy(), model.joint_limit_upper.numpy().copy()
    model.joint_limit_lower.fill_(-1.0e6)
    model.joint_limit_upper.fill_(1.0e6)
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    case.oracle.set_state(joint_q, state.joint_qd.numpy(), state.body_q.numpy())
    mujoco.mj_step(mj, data, round(seconds / mj.opt.timestep))
    solver, control = FeatherstoneSolver(model), model.control()
    for _ in range(round(seconds / dt)):
        solver.step(model, state, state, control, None, dt)
    model.joint_limit_lower.assign(limits[0])
    model.joint_limit_upper.assign(limits[1])
    mj.opt.disableflags |= int(PASSIVE_FORCES)
    poses = state.body_q.numpy()
    errors = [pose_error(poses[body], case.oracle.pose(body)) for body in range(model.body_count)]
    print(f"largest pose error after {seconds} s: {max(errors):.2e}")
    assert max(errors) < 3.0e-3
