"""Kinematics and dynamics against pinocchio in random states.

TOLERANCE is the promise of the project for float32; typical errors are ten to a hundred times smaller.
"""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import warp as wp
from oracles.compare import acceleration_error, force_error, mass_matrix_error, pose_error, relative_error
from oracles.pinocchio_oracle import PinocchioOracle

import newtonsim
from newtonsim import dynamics
from newtonsim.scene.enums import JointType
from newtonsim.testing import TREE_JOINT_TYPES, poison, random_model, random_state

TOLERANCE = 1.0e-4
STATES = 12
ASSETS = Path(newtonsim.__file__).parent.parent / "examples" / "assets"


def build_arm() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.utils.parse_urdf(str(ASSETS / "arm7.urdf"), builder, ignore_inertial_definitions=False)
    return builder


def build_humanoid() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.utils.parse_mjcf(str(ASSETS / "humanoid.xml"), builder, floating=None)
    return builder


BUILDERS = {
    "every_joint_type": lambda: random_model(0),
    "free_base": lambda: random_model(1, base=JointType.FREE),
    "shuffled": lambda: random_model(2, shuffle=True, up_vector=(0.0, 0.0, 1.0)),
    "arm": build_arm,
    "humanoid": build_humanoid,
} | {
    f"only_{kind.name.lower()}": lambda kind=kind: random_model(3, joint_types=[kind], body_count=4)
    for kind in TREE_JOINT_TYPES
    if kind != JointType.FIXED
}


class Case:
    """A model on a device, its oracle, and a random state of it."""

    def __init__(self, builder: newtonsim.ModelBuilder, device: str) -> None:
        self.model = builder.finalize(device)
        self.oracle = PinocchioOracle(self.model)
        self.dof_count = self.model.joint_dof_count

    def draw(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.state = random_state(self.model, seed)
        self.q = self.state.joint_q.numpy().astype(np.float64)
        self.qd = self.state.joint_qd.numpy().astype(np.float64)
        self.vector = rng.normal(size=self.dof_count).astype(np.float32)
        self.M = self.oracle.mass_matrix(self.q)

    def array(self, values: np.ndarray) -> wp.array:
        return wp.array(values, dtype=float, device=self.model.device)


@pytest.fixture(scope="module", params=BUILDERS)
def case(request: pytest.FixtureRequest, device: str) -> Case:
    return Case(BUILDERS[request.param](), device)


@pytest.fixture(params=range(STATES))
def drawn(request: pytest.FixtureRequest, case: Case) -> Case:
    case.draw(request.param)
    return case


def test_forward_kinematics_matches(case: Case):
    for seed in range(STATES):
        case.draw(seed)
        state = case.model.state()
        poison(state, "body_q", "body_qd")
        newtonsim.eval_fk(case.model, case.state.joint_q, case.state.joint_qd, None, state)
        poses, velocities = state.body_q.numpy(), state.body_qd.numpy()
        for body in case.oracle.bodies:
            assert pose_error(poses[body], case.oracle.pose(case.q, body)) < 1.0e-5
            expected = case.oracle.jacobian(case.q, body) @ case.qd
            assert np.abs(velocities[body] - expected).max() <= 1.0e-5 * max(1.0, np.abs(expected).max())


def test_mass_matrix_matches(drawn: Case):
    M = dynamics.mass_matrix(drawn.model, drawn.state).numpy()[0, : drawn.dof_count, : drawn.dof_count]
    assert mass_matrix_error(M, drawn.M) < TOLERANCE
    assert np.array_equal(M, M.T)
    bare = dynamics.mass_matrix(drawn.model, drawn.state, armature=False).numpy()[0]
    expected = drawn.M - np.diag(drawn.oracle.armature)
    assert mass_matrix_error(bare[: drawn.dof_count, : drawn.dof_count], expected) < TOLERANCE


def test_inverse_dynamics_matches(drawn: Case):
    tau = dynamics.inverse_dynamics(drawn.model, drawn.state, drawn.array(drawn.vector)).numpy()
    expected = drawn.oracle.inverse_dynamics(drawn.q, drawn.qd, drawn.vector)
    assert force_error(tau, expected, drawn.M) < TOLERANCE


def test_forward_dynamics_matches(drawn: Case):
    qdd = dynamics.forward_dynamics(drawn.model, drawn.state, drawn.array(drawn.vector)).numpy()
    expected = drawn.oracle.forward_dynamics(drawn.q, drawn.qd, drawn.vector)
    assert acceleration_error(qdd, expected, drawn.M) < TOLERANCE


def test_body_forces_match(drawn: Case):
    body_f = np.random.default_rng(7).normal(size=(drawn.model.body_count, 6)).astype(np.float32)
    drawn.state.body_f.assign(body_f)
    tau = dynamics.inverse_dynamics(drawn.model, drawn.state, drawn.array(drawn.vector)).numpy()
    expected = drawn.oracle.inverse_dynamics(drawn.q, drawn.qd, drawn.vector, body_f)
    assert force_error(tau, expected, drawn.M) < TOLERANCE
    qdd = dynamics.forward_dynamics(drawn.model, drawn.state, drawn.array(drawn.vector)).numpy()
    expected = drawn.oracle.forward_dynamics(drawn.q, drawn.qd, drawn.vector, body_f)
    assert acceleration_error(qdd, expected, drawn.M) < TOLERANCE


def test_jacobian_matches(drawn: Case):
    jacobian = dynamics.jacobian(drawn.model, drawn.state).numpy()[:, :, : drawn.dof_count]
    for body in drawn.oracle.bodies:
        expected = drawn.oracle.jacobian(drawn.q, body)
        assert np.abs(jacobian[body] - expected).max() < TOLERANCE * max(1.0, np.abs(expected).max())


def test_energy_and_center_of_mass_match(drawn: Case):
    kinetic = float(dynamics.kinetic_energy(drawn.model, drawn.state).numpy()[0])
    potential = float(dynamics.potential_energy(drawn.model, drawn.state).numpy()[0])
    assert kinetic == pytest.approx(drawn.oracle.kinetic_energy(drawn.q, drawn.qd), rel=TOLERANCE)
    expected = drawn.oracle.potential_energy(drawn.q)
    total_weight = drawn.model.body_mass.numpy().sum() * np.linalg.norm(drawn.model.gravity)
    assert abs(potential - expected) < TOLERANCE * total_weight
    com = dynamics.center_of_mass(drawn.model, drawn.state).numpy()[0]
    assert np.abs(com - drawn.oracle.center_of_mass(drawn.q)).max() < TOLERANCE


def test_arm_equals_pinocchio_reading_the_same_file(device: str):
    model = build_arm().finalize(device)
    arm = pin.buildModelFromUrdf(str(ASSETS / "arm7.urdf"))
    data = arm.createData()
    assert arm.nv == model.joint_dof_count
    # Column of our degree of freedom for each of pinocchio's, by joint name.
    ours = [
        int(model.joint_qd_start.numpy()[model.joint_key.index(arm.names[joint])])
        for joint in range(1, arm.njoints)
    ]
    for seed in range(STATES):
        state = random_state(model, seed)
        q = state.joint_q.numpy().astype(np.float64)[ours]
        qd = state.joint_qd.numpy().astype(np.float64)[ours]
        M = dynamics.mass_matrix(model, state, armature=False).numpy()[0][np.ix_(ours, ours)]
        expected = np.triu(pin.crba(arm, data, q))
        expected += np.triu(expected, 1).T
        assert mass_matrix_error(M, expected) < TOLERANCE
        zero = wp.zeros(model.joint_dof_count, dtype=float, device=device)
        tau = dynamics.inverse_dynamics(model, state, zero).numpy()[ours]
        assert force_error(tau, pin.rnea(arm, data, q, qd, np.zeros(arm.nv)), expected) < TOLERANCE
        pin.framesForwardKinematics(arm, data, q)
        for body, key in enumerate(model.body_key):
            pose = pin.SE3ToXYZQUAT(data.oMf[arm.getFrameId(key, pin.BODY)])
            assert pose_error(state.body_q.numpy()[body], pose) < 1.0e-5
    assert relative_error(model.joint_limit_lower.numpy()[ours], arm.lowerPositionLimit) < 1.0e-5
    assert relative_error(model.joint_limit_upper.numpy()[ours], arm.upperPositionLimit) < 1.0e-5


def test_articulations_are_separate_blocks(device: str):
    """Three different trees in one model give what each gives alone."""
    seeds = (0, 4, 5)
    together = newtonsim.ModelBuilder()
    for seed in seeds:
        together.add_builder(random_model(seed, body_count=9 + seed))
    model = together.finalize(device)
    state = random_state(model, 3)
    qdd = dynamics.forward_dynamics(model, state).numpy()
    jacobian = dynamics.jacobian(model, state).numpy()
    M = dynamics.mass_matrix(model, state).numpy()
    q_end = qd_end = body_end = 0
    for articulation, seed in enumerate(seeds):
        alone = random_model(seed, body_count=9 + seed).finalize(device)
        single = alone.state()
        n, bodies = alone.joint_dof_count, alone.body_count
        single.joint_q.assign(state.joint_q.numpy()[q_end : q_end + alone.joint_coord_count])
        single.joint_qd.assign(state.joint_qd.numpy()[qd_end : qd_end + n])
        expected = dynamics.forward_dynamics(alone, single).numpy()
        np.testing.assert_array_equal(qdd[qd_end : qd_end + n], expected)
        np.testing.assert_array_equal(M[articulation, :n, :n], dynamics.mass_matrix(alone, single).numpy()[0])
        assert not M[articulation, n:].any()
        assert not M[articulation, :, n:].any()
        np.testing.assert_array_equal(
            jacobian[body_end : body_end + bodies, :, :n], dynamics.jacobian(alone, single).numpy()
        )
        q_end, qd_end, body_end = q_end + alone.joint_coord_count, qd_end + n, body_end + bodies
