"""Models as MuJoCo sees them: the same poses, velocities, energies, forces and constraints."""

import gc
import warnings
import weakref

import mujoco
import numpy as np
import pytest
import warp as wp

from newtonsim import (
    JointAxis,
    JointMode,
    JointType,
    ModelBuilder,
    ModelError,
    NotDifferentiableError,
    eval_fk,
)
from newtonsim.geometry.transforms import as_transform, quat_matrix
from newtonsim.solvers import MuJoCoSolver

AXES = {
    JointType.PRISMATIC: (1, 0),
    JointType.REVOLUTE: (0, 1),
    JointType.UNIVERSAL: (0, 2),
    JointType.COMPOUND: (0, 3),
    JointType.D6: (2, 3),
}


def random_pose(rng: np.random.Generator) -> wp.transform:
    return wp.transform(*as_transform(np.append(rng.uniform(-0.3, 0.3, 3), rng.standard_normal(4)), "pose"))


def random_tree(rng: np.random.Generator) -> ModelBuilder:
    """A tree with a joint of every type, each between skew frames, on a free root and on the world."""
    builder = ModelBuilder(up_vector=(0, 0, 1))
    kinds = [k for k in JointType for _ in range(2)]
    bodies = [-1]
    for kind in [JointType.FREE, *rng.permutation(kinds).tolist()]:
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        body = builder.add_body(
            mass=rng.uniform(0.5, 2.0),
            com=rng.uniform(-0.1, 0.1, 3),
            I_m=turn @ np.diag(rng.uniform(0.02, 0.03, 3)) @ turn.T,
        )
        linear, angular = AXES.get(kind, (0, 0))
        basis = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        axes = [JointAxis(a, limit_lower=-1e6, limit_upper=1e6) for a in np.concatenate([basis, basis])]
        builder.add_joint(
            kind,
            int(rng.choice(bodies)),
            body,
            linear_axes=axes[:linear],
            angular_axes=axes[3 : 3 + angular],
            parent_xform=random_pose(rng),
            child_xform=random_pose(rng),
            armature=0.0,
        )
        bodies.append(body)
    return builder


def randomise(model, state, control, rng: np.random.Generator) -> None:
    """Write random coordinates, velocities and forces."""
    q = rng.uniform(-1.0, 1.0, model.joint_coord_count).astype(np.float32)
    kinds, starts = model.joint_type.numpy(), model.joint_q_start.numpy()
    for kind, end in zip(kinds, starts[1:]):
        if kind in (JointType.BALL, JointType.FREE, JointType.DISTANCE):
            q[end - 4 : end] /= np.linalg.norm(q[end - 4 : end])
    state.joint_q.assign(q)
    for array in (state.joint_qd, control.joint_f):
        array.assign(rng.uniform(-1.0, 1.0, model.joint_dof_count).astype(np.float32))
    state.body_f.assign(rng.uniform(-1.0, 1.0, (model.body_count, 6)).astype(np.float32))
    eval_fk(model, state.joint_q, state.joint_qd, None, state)


@pytest.fixture(scope="module")
def converted():
    """A random tree in a random state: model, state, control, solver, data of MuJoCo after mj_forward."""
    rng = np.random.default_rng(4)
    model = random_tree(rng).finalize(device="cpu")
    state, control = model.state(), model.control()
    randomise(model, state, control, rng)
    solver = MuJoCoSolver(model, use_mujoco=True, joint_damping=0.0)
    data = solver.mj_data
    solver.update_mjc_data(data, model, state)
    solver.apply_mjc_control(model, control, data)
    mujoco.mj_forward(solver.mj_model, data)
    return model, state, control, solver, data


def test_poses_and_velocities(converted):
    _, state, _, solver, data = converted
    ids = solver.conversion.view.body_id.numpy()
    poses, velocities = state.body_q.numpy(), state.body_qd.numpy()
    found = np.zeros(6)
    for body, number in enumerate(ids):
        np.testing.assert_allclose(data.xpos[number], poses[body, :3], atol=2e-6)
        rotation = quat_matrix(poses[body, 3:])
        np.testing.assert_allclose(data.xmat[number].reshape(3, 3), rotation, atol=3e-6)
        mujoco.mj_objectVelocity(solver.mj_model, data, mujoco.mjtObj.mjOBJ_BODY, number, found, 0)
        # MuJoCo says the velocity at the origin of the inertial frame, the centre of mass
        np.testing.assert_allclose(found, velocities[body], atol=1e-5)


def test_kinetic_energy_is_that_of_the_bodies(converted):
    model, state, _, solver, data = converted
    mass, inertia = model.body_mass.numpy(), model.body_inertia.numpy()
    energy = 0.0
    for pose, velocity, m, I in zip(state.body_q.numpy(), state.body_qd.numpy(), mass, inertia):
        spin = quat_matrix(pose[3:]).T @ velocity[:3]
        energy += 0.5 * m * velocity[3:] @ velocity[3:] + 0.5 * spin @ I @ spin
    matrix = np.zeros((solver.mj_model.nv, solver.mj_model.nv))
    mujoco.mj_fullM(solver.mj_model, data, matrix)
    assert 0.5 * data.qvel @ matrix @ data.qvel == pytest.approx(energy, rel=1e-5)


def test_forces_do_the_same_work(converted):
    _, state, control, solver, data = converted
    given = float(control.joint_f.numpy() @ state.joint_qd.numpy())
    assert data.qfrc_applied @ data.qvel == pytest.approx(given, abs=1e-5)
    outside = float(np.sum(state.body_f.numpy() * state.body_qd.numpy()))
    with_forces = data.qfrc_smooth.copy()
    data.xfrc_applied[:] = 0.0
    mujoco.mj_forward(solver.mj_model, data)
    assert (with_forces - data.qfrc_smooth) @ data.qvel == pytest.approx(outside, abs=1e-4)


def test_state_comes_back(converted):
    model, state, _, solver, data = converted
    back = model.state()
    solver.update_newton_state(model, back, data)
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        a, b = getattr(state, name).numpy(), getattr(back, name).numpy()
        if name == "joint_q":  # a quaternion and its negative are one rotation
            a, b = np.abs(a), np.abs(b)
        np.testing.assert_allclose(b, a, atol=1e-5, err_msg=name)


def one_hinge(**options) -> ModelBuilder:
    builder = ModelBuilder(up_vector=(0, 0, 1), gravity=0.0)
    body = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_revolute(-1, body, axis=JointAxis((0, 1, 0), **options), key="hinge")
    return builder


@pytest.mark.parametrize(
    ("mode", "act", "effort"),
    [
        (JointMode.FORCE, 3.0, 3.0),
        (JointMode.FORCE, 30.0, 20.0),
        (JointMode.TARGET_POSITION, 0.5, 10.0 * (0.5 - 0.2) - 2.0 * 0.3),
        (JointMode.TARGET_POSITION, 9.0, 20.0),
        (JointMode.TARGET_VELOCITY, 0.5, 10.0 * (0.5 - 0.3)),
    ],
)
def test_drives(mode, act, effort):
    builder = one_hinge(mode=mode, target_ke=10.0, target_kd=2.0, effort_limit=20.0)
    model = builder.finalize(device="cpu")
    state, control = model.state(), model.control()
    for array, value in ((state.joint_q, 0.2), (state.joint_qd, 0.3), (control.joint_act, act)):
        array.fill_(value)
    solver = MuJoCoSolver(model, use_mujoco=True)
    solver.step(model, state, state, control, None, 1e-3)
    assert solver.mj_data.actuator_force[0] == pytest.approx(effort, rel=1e-6)
    assert solver.mj_data.qfrc_actuator[0] == pytest.approx(effort, rel=1e-6)


def test_damping_that_an_explicit_step_cannot_take(tmp_path, monkeypatch):
    """1 - dt kd / I is the factor on the speed of a step: above 2 it grows, and that is told."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log there
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for damping, integrator in ((190.0, "euler"), (1e4, "implicitfast")):
            state = after_a_second(damping, integrator)
            assert abs(state.joint_qd.numpy()[0]) < 0.1
    with pytest.warns(UserWarning, match="MuJoCoSolver") as told:
        state = after_a_second(1e4, "euler")
    assert "'hinge') is up to 50 times" in str(told[0].message)
    assert "in worlds [0]" in str(told[1].message)
    assert not np.isfinite(state.joint_qd.numpy()).any()


def after_a_second(damping: float, integrator: str):
    """State of a hinge with a moment of 1 and a damped drive that starts at 0.1 rad/s, in steps of 10 ms."""
    options = {"mode": JointMode.TARGET_POSITION, "target_ke": 1.0, "target_kd": damping, "armature": 0.0}
    model = one_hinge(**options).finalize(device="cpu")
    solver, state = MuJoCoSolver(model, use_mujoco=True, integrator=integrator), model.state()
    state.joint_qd.fill_(0.1)
    for _ in range(100):
        solver.step(model, state, state, None, None, 0.01)
    solver.report()
    return state


def test_passive_terms_and_options():
    options = {"damping": 0.4, "stiffness": 7.0, "spring_ref": 0.1, "friction": 0.2, "armature": 0.3}
    builder = one_hinge(limit_lower=-0.5, limit_upper=0.6, mode=JointMode.TARGET_POSITION, **options)
    model = builder.finalize(device="cpu")
    mj = MuJoCoSolver(model, use_mujoco=True, integrator="implicitfast", cone="elliptic").mj_model
    assert mj.nu == 0  # a drive without gains
    assert (mj.dof_damping[0], mj.jnt_stiffness[0], mj.qpos_spring[0]) == pytest.approx((0.4, 7.0, 0.1))
    assert (mj.dof_frictionloss[0], mj.dof_armature[0]) == pytest.approx((0.2, 0.3))
    assert mj.jnt_limited[0]
    np.testing.assert_allclose(mj.jnt_range[0], (-0.5, 0.6), rtol=1e-6)
    assert (mj.opt.integrator, mj.opt.cone) == (
        mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
        mujoco.mjtCone.mjCONE_ELLIPTIC,
    )


@pytest.mark.parametrize("kind", ["ball", "free"])
def test_dry_friction_of_joints_without_axes_yields_as_the_model_says(kind: str):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=1.0, I_m=np.eye(3))
    if kind == "ball":
        builder.add_joint_ball(-1, body)
    else:
        builder.add_joint_free(body)
    dofs = len(builder.joint_qd)
    builder.joint_friction[:] = [0.5] * dofs
    builder.joint_friction_solref[:] = [(0.1, 1.5)] * dofs
    builder.joint_friction_solimp[:] = [(0.8, 0.9, 0.002, 0.4, 2.0)] * dofs
    mj_model = MuJoCoSolver(builder.finalize("cpu")).mj_model
    np.testing.assert_allclose(mj_model.dof_solref, [(0.1, 1.5)] * dofs, rtol=1e-6)
    np.testing.assert_allclose(mj_model.dof_solimp, [(0.8, 0.9, 0.002, 0.4, 2.0)] * dofs, rtol=1e-6)
    builder.joint_friction_solref[1] = (0.2, 1.5)
    with pytest.raises(ModelError, match=r"joint_friction_solref .* differs between its degrees"):
        MuJoCoSolver(builder.finalize("cpu"))


def test_damping_and_gears_for_those_without():
    model = one_hinge(mode=JointMode.FORCE).finalize(device="cpu")
    mj = MuJoCoSolver(model, use_mujoco=True, actuator_gears={"hinge": 5.0}).mj_model
    assert (mj.dof_damping[0], mj.actuator_gear[0, 0]) == (0.05, 5.0)
    with pytest.raises(ModelError, match="did you mean 'hinge'"):
        MuJoCoSolver(model, use_mujoco=True, actuator_gears={"hinges": 5.0})


def two_arms() -> ModelBuilder:
    """Two pendulums of one link each, side by side."""
    builder = ModelBuilder(up_vector=(0, 0, 1))
    for x in (0.0, 0.5):
        body = builder.add_body(
            origin=wp.transform((x, 0, 0), wp.quat_identity()), mass=1.0, I_m=0.01 * np.eye(3)
        )
        builder.add_joint_revolute(-1, body, parent_xform=((x, 0, 0), (0, 0, 0, 1)), axis=(0, 1, 0))
    return builder


def loop(kind: str) -> ModelBuilder:
    builder = two_arms()
    tip = ((0.0, 0.0, -0.3), (0.0, 0.0, 0.0, 1.0))
    at = ((0.5, 0.0, -0.3), (0.0, 0.0, 0.0, 1.0))
    if kind == "connect":
        builder.add_constraint_connect(0, 1, at[0], tip[0])
    elif kind == "weld":
        builder.add_constraint_weld(0, 1)
    elif kind == "hinge":
        builder.add_loop_joint(JointType.REVOLUTE, 0, 1, at, tip, angular_axes=[(0, 1, 0)])
    elif kind == "distance":
        builder.add_constraint_distance(0, 1, tip, tip, 0.5, 0.5)
    else:
        builder.add_constraint_coupling(0, 1, (0.0, -2.0))
    return builder


@pytest.mark.parametrize("kind", ["connect", "weld", "hinge", "distance", "coupling"])
def test_constraints_hold(kind):
    model = loop(kind).finalize(device="cpu")
    state, control = model.state(), model.control()
    control.joint_f.assign(np.array([1.0, 0.5], np.float32))
    solver = MuJoCoSolver(model, use_mujoco=True, solver="newton", iterations=50)
    for _ in range(200):
        solver.step(model, state, state, control, None, 2e-3)
    q = state.joint_q.numpy()
    if kind == "coupling":
        assert abs(q[1]) > 0.01
        assert q[0] == pytest.approx(-2.0 * q[1], abs=3e-3)
        return
    poses = state.body_q.numpy()
    first, second = (pose[:3] + quat_matrix(pose[3:]) @ (0.0, 0.0, -0.3) for pose in poses)
    if kind == "distance":
        assert abs(q[0]) > 0.01
        assert np.linalg.norm(first - second) == pytest.approx(0.5, abs=1e-3)
    else:  # both links are one rigid body on two pivots, which cannot move
        np.testing.assert_allclose(q, 0.0, atol=2e-2)


def test_constraint_can_be_released():
    model = loop("weld").finalize(device="cpu")
    state, control = model.state(), model.control()
    control.joint_f.fill_(1.0)
    solver = MuJoCoSolver(model, use_mujoco=True)
    model.constraint_enabled.fill_(0)
    for _ in range(50):
        solver.step(model, state, state, control, None, 2e-3)
    assert solver.mj_data.nefc == 0
    assert abs(state.joint_q.numpy()).min() > 0.1


def test_kinematic_body_moves_as_told():
    builder = ModelBuilder(up_vector=(0, 0, 1))
    body = builder.add_body(mass=0.0)
    builder.add_shape_box(body, hx=1.0, hy=1.0, hz=0.1, density=0.0)
    ball = builder.add_body(origin=wp.transform((0, 0, 0.19), wp.quat_identity()))
    builder.add_shape_sphere(ball, radius=0.1)
    model = builder.finalize(device="cpu")
    state = model.state()
    state.body_qd.assign(np.array([[0, 0, 0, 0, 0, 0.5], [0, 0, 0, 0, 0, 0.5]], np.float32))
    state.joint_qd.assign(np.array([0, 0, 0, 0, 0, 0.5], np.float32))
    solver = MuJoCoSolver(model, use_mujoco=True)
    for _ in range(100):
        solver.step(model, state, state, None, None, 4e-3)
    assert state.body_q.numpy()[0, 2] == pytest.approx(0.2, abs=1e-5)
    # MuJoCo's contacts take it for a body at rest: b v = k r with b = 2 / (d T), k = 1 / (d T)^2
    lag = 0.5 * 2.0 * 0.02 * 0.95
    assert state.body_q.numpy()[1, 2] == pytest.approx(0.4 - lag, abs=2e-3)


def refused() -> dict:
    """Builders of what MuJoCo cannot do, with a part of the message."""
    particles = ModelBuilder()
    particles.add_particle((0, 0, 0), (0, 0, 0), 1.0)
    plane = ModelBuilder()
    plane.add_shape_plane(width=1.0, length=2.0, key="deck")
    soft = two_arms()
    soft.add_constraint_weld(0, 1, max_force=3.0, key="glue")
    slider = two_arms()
    slider.add_loop_joint(JointType.PRISMATIC, 0, 1, linear_axes=[(1, 0, 0)], key="rail")
    ball = ModelBuilder()
    ball.add_joint_ball(-1, ball.add_body(mass=1.0, I_m=np.eye(3)), key="socket")
    ball.joint_swing_limit[0] = 0.5
    return {
        "particles": (particles, "particle"),
        "plane": (plane, "'deck'.*infinite"),
        "force": (soft, "'glue'.*max_force"),
        "slider": (slider, "'rail'.*1 sliding"),
        "ball": (ball, "'socket'.*swing and twist"),
    }


@pytest.mark.parametrize("name", list(refused()))
def test_refusals_name_the_element(name):
    builder, message = refused()[name]
    with pytest.raises(ModelError, match=message):
        MuJoCoSolver(builder.finalize(device="cpu"), use_mujoco=True)


WRONG = {
    **{"solver": "newtons", "integrator": None, "cone": 7, "geom_condim": 2, "geom_solref": (0.01,)},
    **{"iterations": 0, "ls_iterations": 1.5, "disableflags": "a", "ncon_per_env": 0, "impratio": 0.0},
    **{"tolerance": -1.0, "timestep": float("nan"), "separate_envs_to_worlds": "no", "actuated_axes": [9]},
}


def test_misspelt_option_and_foreign_data():
    model = one_hinge().finalize(device="cpu")
    with pytest.raises(TypeError, match="did you mean 'iterations'"):
        MuJoCoSolver(model, use_mujoco=True, iteration=3)
    for name, value in WRONG.items():
        with pytest.raises(ValueError, match=f"{name}: .*expected|{name}: the model has"):
            MuJoCoSolver(model, use_mujoco=True, **{name: value})
    with pytest.raises(ModelError, match="cannot write"):
        MuJoCoSolver(model, use_mujoco=True, save_to_mjcf="/nowhere/at/all.xml")
    empty = mujoco.MjModel.from_xml_string("<mujoco/>")
    with pytest.raises(ModelError, match="not created from this model"):
        MuJoCoSolver.update_mjc_data(mujoco.MjData(empty), model)


def test_equal_robots_are_numbered_each_as_a_whole():
    builder = ModelBuilder(up_vector=(0, 0, 1))
    for _ in range(2):
        parent = -1
        for name in ("arm", "hand"):
            body = builder.add_body(mass=1.0, I_m=np.eye(3), key=name)
            builder.add_joint_revolute(parent, body, axis=(0, 1, 0), key=f"{name}_joint")
            parent = body
    mj = MuJoCoSolver(builder.finalize(device="cpu"), use_mujoco=True).mj_model
    assert [mj.body(k).name for k in range(1, 5)] == ["arm", "hand", "arm_2", "hand_2"]
    assert [mj.joint(k).name for k in range(2, 4)] == ["arm_joint_2", "hand_joint_2"]


def test_a_body_may_be_called_world():
    """Links of URDF files often are, and so is MuJoCo's own body, which this one is not."""
    builder = ModelBuilder(up_vector=(0, 0, 1))
    body = builder.add_body(mass=2.0, com=(0.0, 0.0, -0.5), I_m=0.1 * np.eye(3), key="world")
    builder.add_joint_revolute(-1, body, axis=(0, 1, 0), key="world")
    mj = MuJoCoSolver(builder.finalize(device="cpu"), use_mujoco=True).mj_model
    assert (mj.body(0).name, mj.body(1).name, mj.joint(0).name) == ("world", "world_2", "world")
    assert (mj.body_mass[0], mj.body_mass[1]) == (0.0, 2.0)


def test_conversions_are_freed_with_their_data():
    model = one_hinge().finalize(device="cpu")
    solver = MuJoCoSolver(model, use_mujoco=True)
    data, conversion = mujoco.MjData(solver.mj_model), weakref.ref(solver.conversion)
    MuJoCoSolver.update_mjc_data(data, model)
    del solver
    gc.collect()
    assert conversion() is None


def test_scenes_without_bodies_or_shapes():
    for builder in (ModelBuilder(), one_hinge()):
        model = builder.finalize(device="cpu")
        state = model.state()
        MuJoCoSolver(model, use_mujoco=True).step(model, state, state, None, model.contact(), 1e-3)


def test_gradients_are_refused():
    model = one_hinge().finalize(device="cpu", requires_grad=True)
    solver, state = MuJoCoSolver(model, use_mujoco=True), model.state()
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="MuJoCoSolver"):
        solver.step(model, state, model.state(), None, None, 1e-3)
