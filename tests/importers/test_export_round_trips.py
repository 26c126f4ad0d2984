"""A model that is written and read again moves as before; other engines read the same mass matrix."""

import mujoco
import numpy as np
import pytest
from export_twins import Twins, robot
from oracles.compare import force_error, mass_matrix_error
from oracles.mujoco_oracle import MujocoOracle

import newtonsim
from newtonsim.examples import asset_path
from newtonsim.scene.enums import JointType
from newtonsim.solvers import FeatherstoneSolver
from newtonsim.testing import random_model

ROBOTS = (
    *("quadruped.xml", "humanoid.xml", "ant.xml", "half_cheetah.xml", "double_pendulum.xml"),
    *("arm7.urdf", "gripper.urdf", "cartpole.urdf"),
)
ARMATURE_VARIES = ("humanoid.xml", "half_cheetah.xml")
"""Their rotor inertia differs by joint, for which URDF has no place."""

AXES = (JointType.REVOLUTE, JointType.PRISMATIC, JointType.FIXED, JointType.COMPOUND, JointType.UNIVERSAL)


@pytest.mark.parametrize("suffix", ["xml", "urdf"])
@pytest.mark.parametrize("name", ROBOTS)
def test_same_dynamics(tmp_path, name, suffix):
    twins = Twins(robot(name), tmp_path / f"out.{suffix}")
    armature = not (suffix == "urdf" and name in ARMATURE_VARIES)
    for seed in range(3):
        ours, theirs = twins.mass_matrices(seed, armature)
        assert mass_matrix_error(theirs, ours) < 1.0e-5
        assert force_error(*twins.bias_forces(seed)[::-1], ours) < 1.0e-5


def test_a_free_robot_beside_a_floor_weighs_the_same(tmp_path):
    """Its file hangs on a link "world"; rotor inertia of the hinges is not for the floating joint there."""
    builder = robot("ant.xml", ground=True)
    first = builder.joint_qd_start[
        next(j for j, kind in enumerate(builder.joint_type) if kind != JointType.FREE)
    ]
    builder.joint_armature[first:] = [1.0] * (builder.joint_dof_count - first)
    twins = Twins(builder, tmp_path / "out.urdf")
    assert twins.report.read_with["armature"] == 1.0
    ours, theirs = twins.mass_matrices(0)
    assert mass_matrix_error(theirs, ours) < 1.0e-5


@pytest.mark.parametrize("suffix", ["xml", "urdf"])
def test_a_second_round_changes_nothing(tmp_path, suffix):
    first = Twins(robot("gripper.urdf"), tmp_path / f"first.{suffix}")
    second = Twins(first.again, tmp_path / f"second.{suffix}")
    assert second.report.bodies == first.report.bodies
    assert len(second.report.shapes) == len(first.report.shapes)
    ours, theirs = second.mass_matrices(0)
    assert mass_matrix_error(theirs, ours) < 1.0e-6


@pytest.mark.parametrize("name", ["quadruped.xml", "ant.xml", "humanoid.xml"])
def test_same_trajectory_on_the_ground(tmp_path, name):
    """Down to the last bits, as all numbers come back as they were; contact follows from the shapes."""
    twins = Twins(robot(name, ground=True), tmp_path / "out.xml")
    ours, theirs = twins.trajectories(100, FeatherstoneSolver)
    np.testing.assert_allclose(theirs, ours, atol=1.0e-5)


def test_same_trajectory_of_an_arm(tmp_path):
    twins = Twins(robot("arm7.urdf"), tmp_path / "out.urdf")
    ours, theirs = twins.trajectories(100, FeatherstoneSolver)
    np.testing.assert_allclose(theirs, ours, atol=1.0e-6)


@pytest.mark.parametrize("suffix", ["xml", "urdf"])
@pytest.mark.parametrize("base", [JointType.FREE, JointType.D6, JointType.FIXED])
def test_trees_of_all_joints(tmp_path, suffix, base):
    """Frames, axes and inertias at random; links of a millionth of the mass stand between axes in URDF."""
    builder = random_model(
        3, joint_types=(*AXES, JointType.D6, JointType.BALL), base=base, up_vector=(0, 0, 1)
    )
    twins = Twins(builder, tmp_path / f"out.{suffix}")
    if suffix == "urdf":
        assert twins.report.read_with["floating"] == (base == JointType.FREE)
    for seed in range(2):
        ours, theirs = twins.mass_matrices(seed, armature=False)
        assert mass_matrix_error(theirs, ours) < 1.0e-5
        assert force_error(*twins.bias_forces(seed)[::-1], ours) < 2.0e-5


def test_mujoco_reads_the_same_mass_matrix(tmp_path):
    for name in ("humanoid.xml", "arm7.urdf"):
        _compare_with_mujoco(Twins(robot(name), tmp_path / "robot.xml"))
    builder = random_model(5, joint_types=(*AXES, JointType.D6), base=JointType.FREE, up_vector=(0, 0, 1))
    _compare_with_mujoco(Twins(builder, tmp_path / "tree.xml"))


def _compare_with_mujoco(twins: Twins) -> None:
    oracle = MujocoOracle(str(twins.path), twins.again)
    ours, _ = twins.mass_matrices(1)
    state = twins.states(1)[1]
    oracle.set_state(state.joint_q.numpy(), state.joint_qd.numpy(), state.body_q.numpy())
    theirs = oracle.mass_matrix()[np.ix_(twins.dofs, twins.dofs)]
    assert mass_matrix_error(ours, theirs) < 1.0e-5
    bias = oracle.inverse_dynamics(np.zeros(len(theirs)))[twins.dofs]
    assert force_error(twins.bias_forces(1)[0], bias, theirs) < 1.0e-4


def test_only_axes_that_the_file_drove_get_actuators(tmp_path):
    """On request; then the file has the actuators of the one that was read, and no others."""
    source = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    read = newtonsim.utils.parse_mjcf(asset_path("half_cheetah.xml"), source, floating=None)
    source.joint_q[:] = [0.1] * source.joint_coord_count
    driven = {one["axis"] for one in read.actuators} - {None}
    twins = Twins(source, tmp_path / "out.xml", actuated_axes=driven)
    assert len(driven) < source.joint_axis_count
    assert [one["joint"] for one in twins.read.actuators] == [one["joint"] for one in read.actuators]
    mujoco.MjModel.from_xml_path(str(twins.path))
    np.testing.assert_allclose(twins.again.joint_target_ke.numpy(), twins.model.joint_target_ke.numpy())
    none = Twins(source, tmp_path / "none.xml", actuated_axes=())
    assert not none.read.actuators
    assert not none.again.joint_target_ke.numpy().any()
    with pytest.raises(newtonsim.ModelError, match="there is no axis 99"):
        newtonsim.utils.export_mjcf(source, tmp_path / "bad.xml", actuated_axes=[99])


def test_mujoco_starts_where_the_model_does(tmp_path):
    builder = random_model(7, joint_types=(*AXES, JointType.D6), base=JointType.FREE, up_vector=(0, 0, 1))
    rng = np.random.default_rng(0)
    builder.joint_q[:7] = [0.1, 0.2, 0.3, 0.5, 0.5, 0.5, 0.5]
    builder.joint_q[7:] = rng.normal(size=builder.joint_coord_count - 7).tolist()
    builder.joint_qd[:] = rng.normal(size=builder.joint_dof_count).tolist()
    twins = Twins(builder, tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(str(twins.path))
    data = mujoco.MjData(mj)
    mujoco.mj_resetDataKeyframe(mj, data, mj.key("initial").id)
    mujoco.mj_forward(mj, data)
    state = twins.model.state()
    newtonsim.eval_fk(twins.model, state.joint_q, state.joint_qd, None, state)
    for body, name in twins.report.bodies.items():
        at = mj.body(name).id
        pose, velocity = state.body_q.numpy()[body], state.body_qd.numpy()[body]
        np.testing.assert_allclose(data.xpos[at], pose[:3], atol=1.0e-5)
        assert abs(abs(data.xquat[at] @ pose[[6, 3, 4, 5]]) - 1.0) < 1.0e-5
        theirs = np.zeros(6)
        mujoco.mj_objectVelocity(mj, data, mujoco.mjtObj.mjOBJ_BODY, at, theirs, 0)
        np.testing.assert_allclose(theirs, velocity, atol=1.0e-4)


def test_initial_coordinates_come_back_each_time(tmp_path):
    """By a keyframe that the reader starts in and a second export takes for the same."""
    builder = random_model(7, joint_types=(*AXES, JointType.D6), base=JointType.FIXED, up_vector=(0, 0, 1))
    rng = np.random.default_rng(0)
    builder.joint_q[:] = rng.normal(size=builder.joint_coord_count).tolist()
    builder.joint_qd[:] = rng.normal(size=builder.joint_dof_count).tolist()
    first = Twins(builder, tmp_path / "first.xml")
    second = Twins(first.again, tmp_path / "second.xml")
    for twins in (first, second):
        for name, places in (("joint_q", twins.coords), ("joint_qd", twins.dofs)):
            ours, theirs = (getattr(one, name).numpy() for one in (twins.model, twins.again))
            np.testing.assert_allclose(theirs[places], ours, rtol=1.0e-6)
    state = first.model.state()
    newtonsim.eval_fk(first.model, state.joint_q, state.joint_qd, None, state)
    bodies = [first.read.bodies[name] for name in first.report.bodies.values()]
    np.testing.assert_allclose(first.again.body_q.numpy()[bodies], state.body_q.numpy(), atol=1.0e-5)
    assert [frame["name"] for frame in second.again.keyframes] == ["initial"]


def test_pinocchio_reads_the_same_mass_matrix(tmp_path):
    pin = pytest.importorskip("pinocchio")
    builder = random_model(5, joint_types=(*AXES, JointType.D6), base=JointType.FREE, up_vector=(0, 0, 1))
    for source, name in ((robot("arm7.urdf"), "arm"), (robot("humanoid.xml"), "human"), (builder, "tree")):
        twins = Twins(source, tmp_path / f"{name}.urdf")
        floating = twins.report.read_with["floating"]
        root = (pin.JointModelFreeFlyer(),) if floating else ()
        model = pin.buildModelFromUrdf(str(twins.path), *root)
        _compare_with_pinocchio(pin, model, twins, floating)


def _compare_with_pinocchio(pin, model, twins: Twins, floating: bool) -> None:
    state = twins.states(1)[0]
    q, dofs = state.joint_q.numpy(), twins.model.joint_qd_start.numpy()
    coords = twins.model.joint_q_start.numpy()
    move, place = np.zeros(model.nv), np.full(len(twins.dofs), -1)
    for joint, names in twins.report.joints.items():
        if dofs[joint] == dofs[joint + 1]:
            continue
        for i, name in enumerate(names):
            place[dofs[joint] + i] = model.joints[model.getJointId(name)].idx_v
            move[place[dofs[joint] + i]] = q[coords[joint] + i]
    T = np.zeros((model.nv, len(twins.dofs)))
    at = pin.integrate(model, pin.neutral(model), move)
    if floating:
        pose = state.body_q.numpy()[0].astype(np.float64)
        at[:7] = [*pose[:3], *(pose[3:] / np.linalg.norm(pose[3:]))]
        R = pin.Quaternion(at[3:7]).matrix()
        arm = R @ twins.model.body_com.numpy()[0]
        T[:3, :3], T[:3, 3:6], T[3:6, :3] = R.T @ pin.skew(arm), R.T, R.T
    for dof, column in enumerate(place):
        if column >= 0:
            T[column, dof] = 1.0
    M = np.triu(pin.crba(model, model.createData(), at))
    M = T.T @ (M + np.triu(M, 1).T) @ T
    ours, _ = twins.mass_matrices(1, armature=False)
    assert mass_matrix_error(ours, M) < 1.0e-5
