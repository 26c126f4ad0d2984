"""Linear models in closed form: against the general adjoint, differences of the step, and MuJoCo.

The general adjoint is another derivation, row by row in reverse; differences know neither.
"""

import sys

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.errors import NotDifferentiableError
from newtonsim.examples import asset_path
from newtonsim.runtime import compilation
from newtonsim.runtime.shards import Shard
from newtonsim.testing import random_model, random_state

UP = (0.0, 0.0, 1.0)
DT = 1.0 / 240.0
TREE_TYPES = [
    newtonsim.JointType[name]
    for name in ["REVOLUTE", "PRISMATIC", "BALL", "FIXED", "FREE", "COMPOUND", "UNIVERSAL", "DISTANCE", "D6"]
]


class General(newtonsim.FeatherstoneSolver):
    """A solver without closed form."""

    def make_linear_model(self, inputs: str):
        return None


def both(model, state, control=None, dt=DT, inputs="joint_f", steps=1, **options):
    """Linear models in closed form, and by the general adjoint."""
    solver = newtonsim.FeatherstoneSolver(model, **options)
    assert solver.make_linear_model(inputs) is not None
    closed = diff.linearize(model, solver, state, control, dt, steps, inputs)
    return closed, diff.linearize(model, General(model, **options), state, control, dt, steps, inputs)


def off(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest error of a block of a world, such as velocities by coordinates, over the size of the block."""
    n = found.shape[1] // 2
    columns = (slice(0, n), slice(n, 2 * n)) if found.shape[2] == 2 * n else (slice(None),)
    blocks = [(rows, by) for rows in (slice(0, n), slice(n, 2 * n)) for by in columns]
    return max(off_in_all(found[:, rows, by], expected[:, rows, by]) for rows, by in blocks)


def off_in_all(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest error of a world over the size of its matrix; differences have few digits in small blocks."""
    error, size = (np.linalg.norm(m, axis=(1, 2)) for m in (found - expected, expected))
    return float((error / size).max())


def robot(file: str, worlds: int = 1, ground: bool = True) -> newtonsim.Model:
    one = newtonsim.ModelBuilder(up_vector=UP)
    if file.endswith(".urdf"):
        newtonsim.utils.parse_urdf(
            str(asset_path(file)), one, stiffness=0.0, damping=0.0, ignore_inertial_definitions=False
        )
    else:
        newtonsim.utils.parse_mjcf(str(asset_path(file)), one, floating=True)
    builder = newtonsim.ModelBuilder(up_vector=UP)
    builder.replicate(one, worlds)
    if ground:
        builder.set_ground_plane(mu=0.8)
    return builder.finalize("cpu", requires_grad=True)


def dropped(model, steps: int, push: float, **options):
    """State and control after some steps with random joint forces."""
    solver = newtonsim.FeatherstoneSolver(model, **options)
    state, end, control = model.state(), model.state(), model.control()
    forces = np.random.default_rng(0).uniform(-push, push, (model.world_count, len(control.joint_f)))
    forces = forces[0].reshape(model.world_count, -1)
    forces[:, :6] = 0.0
    control.joint_f.assign(forces.reshape(-1).astype(np.float32))
    for _ in range(steps):
        solver.step(model, state, end, control, None, DT)
        state, end = end, state
    return state, control


@pytest.mark.parametrize("inputs", ["joint_f", "joint_act"])
@pytest.mark.parametrize("base", ["REVOLUTE", "FREE", "BALL", "D6"])
def test_all_joint_types_in_free_motion(base, inputs):
    """Frames, skew axes and off-centre masses; rounding is all that both may differ by."""
    model = random_model(3, body_count=10, base=newtonsim.JointType[base], joint_types=TREE_TYPES)
    model = model.finalize("cpu", requires_grad=True)
    state = random_state(model, 5, angle=0.4, speed=0.5)
    closed, general = both(model, state, inputs=inputs)
    assert off(closed.A, general.A) < 5e-5
    assert off(closed.B, general.B) < 5e-5


def test_free_flight_of_a_robot_against_differences():
    """An ant thrown into the air: smooth, so that differences are good to their truncation, (1e-3)²."""
    model = robot("ant.xml", ground=False)
    state = random_state(model, 2, angle=0.3, speed=1.0)
    solver = newtonsim.FeatherstoneSolver(model)
    closed = diff.linearize(model, solver, state, None, DT)
    difference = diff.linearize(model, solver, state, None, DT, method="difference", span=1e-3)
    assert off_in_all(closed.A, difference.A) < 1e-3
    assert off_in_all(closed.B, difference.B) < 1e-3


def test_an_arm_in_the_air_against_mujoco():
    """To first order in the step, what the integrators make of the forces does not count: h is 1e-4 s."""
    mujoco = pytest.importorskip("mujoco")
    h = 1e-4
    model = robot("arm7.urdf", ground=False)
    rng = np.random.default_rng(4)
    n = model.joint_dof_count
    q, qd, u = rng.uniform(-0.8, 0.8, n), rng.uniform(-1.0, 1.0, n), rng.uniform(-0.5, 0.5, n)
    state, control = model.state(), model.control()
    state.joint_q.assign(q.astype(np.float32))
    state.joint_qd.assign(qd.astype(np.float32))
    control.joint_f.assign(u.astype(np.float32))
    A, B = diff.linearize(model, newtonsim.FeatherstoneSolver(model), state, control, h)

    spec = mujoco.MjSpec.from_file(str(asset_path("arm7.urdf")))
    for joint in spec.joints:
        actuator = spec.add_actuator(name=f"drive {joint.name}", target=joint.name)
        actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
    spec.option.timestep = h
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    theirs = spec.compile()
    data = mujoco.MjData(theirs)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, qd, u
    C, D = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, n))
    mujoco.mjd_transitionFD(theirs, data, 1e-6, True, C, D, None, None)
    one = np.eye(2 * n)
    for block in (slice(0, n), slice(n, 2 * n)):
        # accelerations by coordinates, by velocities
        ours, peer = (A[0] - one)[n:, block] / h, (C - one)[n:, block] / h
        assert np.linalg.norm(ours - peer) < 5e-3 * np.linalg.norm(peer)
    assert np.linalg.norm(B[0, n:] - D[n:]) < 1e-3 * np.linalg.norm(D[n:])


def test_an_arm_with_motors_at_and_below_their_limits():
    """Position drives, one of them at its effort limit, a joint on its stop, dry friction: by differences."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    newtonsim.utils.parse_urdf(str(asset_path("arm7.urdf")), builder, ignore_inertial_definitions=False)
    n = builder.joint_dof_count
    builder.joint_axis_mode = [newtonsim.JOINT_MODE_TARGET_POSITION] * n
    builder.joint_target_ke = [400.0] * n
    builder.joint_target_kd = [20.0] * n
    builder.joint_effort_limit = [1e4] * 4 + [15.0] + [1.0] * 2
    # which the last two would meet before their drives are at the limit
    builder.joint_velocity_limit = [np.inf] * n
    builder.joint_friction = [0.0] * 3 + [0.2] + [0.0] * (n - 4)
    model = builder.finalize("cpu", requires_grad=True)
    upper = model.joint_limit_upper.numpy()
    state, control = model.state(), model.control()
    q = np.full(n, 0.3, np.float32)
    q[1] = upper[1] + 2e-3
    target = q + np.array([0.1, 0.5, -0.1, 0.1, -0.1, 2.0, -2.0], np.float32)[:n]
    state.joint_q.assign(q)
    qd = np.full(n, 0.05, np.float32)
    qd[4] = 1.5  # beyond the limit of its drive at the start of the step, and not at the end
    state.joint_qd.assign(qd)
    control.joint_act.assign(target)
    for smoothing in (0.0, 2e-3):
        closed, general = both(model, state, control, inputs="joint_act", smoothing=smoothing)
        solver = newtonsim.FeatherstoneSolver(model, smoothing=smoothing)
        difference = diff.linearize(
            model,
            solver,
            state,
            control,
            DT,
            inputs="joint_act",
            method="difference",
            span=5e-4,
            input_span=5e-3,
        )
        for name in "AB":
            assert off(getattr(closed, name), getattr(general, name)) < 1e-4, name
            assert off_in_all(getattr(closed, name), getattr(difference, name)) < 1e-3, name
        acts = np.abs(closed.B[0, n:]).max(axis=0)
        assert acts[5:].max() < 1e-2 * acts[:5].min(), "drives at their limit do not feel the target"


@pytest.mark.parametrize(("file", "steps"), [("ant.xml", 150), ("humanoid.xml", 120)])
@pytest.mark.parametrize("smoothing", [0.0, 1e-3])
@pytest.mark.parametrize("push", [0.0, 20.0])
def test_robots_on_the_ground(file, steps, smoothing, push):
    """Feet that stick, slide and creep; the pushed robots move on as the worlds differ.

    Both derivatives are in single precision, and weights of hard rows bring out 1e-7 of what they multiply.
    """
    model = robot(file, 3)
    state, control = dropped(model, steps, push, smoothing=smoothing)
    closed, general = both(model, state, control, smoothing=smoothing)
    assert off(closed.A, general.A) < 1e-3
    assert off(closed.B, general.B) < 1e-3


def test_a_softened_robot_at_rest_against_differences():
    """Contacts that give way have the same slopes on both sides, which differences over 0.2 mm see."""
    model = robot("ant.xml")
    options = {"smoothing": 1e-2}
    state, control = dropped(model, 300, 0.0, **options)
    assert np.abs(state.joint_qd.numpy()).max() < 0.1
    solver = newtonsim.FeatherstoneSolver(model, **options)
    closed = diff.linearize(model, solver, state, control, DT)
    difference = diff.linearize(
        model, solver, state, control, DT, method="difference", span=2e-4, input_span=0.05
    )
    assert np.linalg.norm(closed.A[0, model.joint_dof_count :, :3]) > 1.0, "contacts act"
    assert off_in_all(closed.A, difference.A) < 1e-3
    assert off_in_all(closed.B, difference.B) < 1e-3


@pytest.mark.parametrize(("smoothing", "close"), [(0.0, 1e-5), (1e-3, 2e-4)])
@pytest.mark.parametrize("steps", [1, 20])
def test_a_sled_on_four_corners(smoothing, close, steps):
    """Corners that slide, and turn, are redundant: what they bear is not determined, how they move is."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    sled = builder.add_body(wp.transform((0.0, 0.0, 0.0999), wp.quat_identity()))
    builder.add_joint_free(sled)
    builder.add_shape_box(sled, hx=0.3, hy=0.2, hz=0.1, density=300.0)
    mast = builder.add_body(wp.transform((0.0, 0.0, 0.5), wp.quat_identity()))
    hinge = wp.transform((0.0, 0.0, 0.1), wp.quat_identity())
    builder.add_joint_revolute(sled, mast, parent_xform=hinge, axis=(0.0, 1.0, 0.0))
    builder.add_shape_box(mast, pos=(0.0, 0.0, 0.2), hx=0.03, hy=0.03, hz=0.1, density=300.0)
    builder.set_ground_plane(mu=0.5)
    model = builder.finalize("cpu", requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model, smoothing=smoothing)
    state, end = model.state(), model.state()
    state.joint_qd.assign(np.array([0.0, 0.0, 0.8, 2.0, 0.5, 0.0, 1.0], np.float32))
    for _ in range(steps):
        solver.step(model, state, end, None, None, DT)
        state, end = end, state
    assert solver.contacts.view.world_count.numpy()[0] == 4
    closed, general = both(model, state, smoothing=smoothing)
    assert off(closed.A, general.A) < close
    assert off(closed.B, general.B) < close


def test_worlds_have_the_models_of_single_ones():
    model, one = robot("ant.xml", 3), robot("ant.xml")
    state, control = dropped(model, 130, 20.0)
    A, B = diff.linearize(model, newtonsim.FeatherstoneSolver(model), state, control, DT)
    solver = newtonsim.FeatherstoneSolver(one)
    linearizer = diff.Linearizer(one, solver, DT)
    alone, alone_control = one.state(), one.control()
    for world in range(3):
        for name in ("joint_q", "joint_qd"):
            getattr(alone, name).assign(getattr(state, name).numpy().reshape(3, -1)[world])
        alone_control.joint_f.assign(control.joint_f.numpy().reshape(3, -1)[world])
        C, D = linearizer(alone, alone_control)
        np.testing.assert_allclose(A[world], C[0], rtol=1e-4, atol=1e-5 * np.abs(C).max())
        np.testing.assert_allclose(B[world], D[0], rtol=1e-4, atol=1e-5 * np.abs(D).max())


def test_threads_share_worlds_and_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    model = robot("arm7.urdf", 64, ground=False)
    solver, state, control = newtonsim.FeatherstoneSolver(model), model.state(), model.control()
    rng = np.random.default_rng(3)
    state.joint_q.assign(rng.uniform(-1.0, 1.0, model.joint_coord_count).astype(np.float32))
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(compilation, "core_count", lambda cores=cores: cores)
        linearizer = diff.Linearizer(model, solver, DT)
        for _ in range(3):  # made, recorded, replayed
            found.append(linearizer(state, control))
        assert len(linearizer._closed._shards) == cores
    for one in found[1:]:
        np.testing.assert_array_equal(one.A, found[0].A)
        np.testing.assert_array_equal(one.B, found[0].B)


def test_several_steps_are_the_product_of_their_models():
    model = robot("ant.xml")
    state, control = dropped(model, 150, 5.0)
    closed, general = both(model, state, control, steps=4)
    assert off(closed.A, general.A) < 1e-3
    assert off(closed.B, general.B) < 1e-3


def test_a_linearizer_sees_what_has_changed():
    """Recorded for arrays: their contents, new ones, gravity, and options count at the next call."""
    model = robot("arm7.urdf", ground=False)
    solver = newtonsim.FeatherstoneSolver(model)
    linearizer = diff.Linearizer(model, solver, DT)

    def fresh(state, controls=None):
        return diff.linearize(model, newtonsim.FeatherstoneSolver(model), state, controls, DT)

    state = random_state(model, 1, angle=0.5, speed=0.5)
    for _ in range(3):
        np.testing.assert_array_equal(linearizer(state).A, fresh(state).A)
    state.joint_q.assign(random_state(model, 2).joint_q.numpy())
    np.testing.assert_array_equal(linearizer(state).A, fresh(state).A)
    model.gravity_vec.assign(np.array([[0.0, 0.0, -1.0]], np.float32))
    np.testing.assert_array_equal(linearizer(state).A, fresh(state).A)
    model.body_mass = wp.array(2.0 * model.body_mass.numpy(), dtype=float, requires_grad=True)
    np.testing.assert_array_equal(linearizer(state).A, fresh(state).A)
    other = random_state(model, 3)
    np.testing.assert_array_equal(linearizer(other).A, fresh(other).A)
    force = {"joint_f": np.full(model.joint_dof_count, 3.0, np.float32)}
    np.testing.assert_array_equal(linearizer(other, force).A, fresh(other, force).A)


@pytest.mark.parametrize("file", ["ant.xml", "humanoid.xml"])
def test_a_warm_start_saves_sweeps_and_is_as_right(file):
    # settled: the impulses of the last step are almost those of the next one
    model = robot(file, worlds=2)
    state, _ = dropped(model, 240, 0.0)
    exact = newtonsim.FeatherstoneSolver(model, tolerance=1e-7, iterations=2000)
    expected = diff.linearize(model, exact, state, None, DT)
    solver = newtonsim.FeatherstoneSolver(model)
    cold = diff.linearize(model, solver, state, None, DT)
    sweeps = solver.constraints.iterations.numpy().copy()
    assert sweeps.min() > 10
    linearizer = diff.Linearizer(model, newtonsim.FeatherstoneSolver(model), DT, warm_start=True)
    np.testing.assert_array_equal(linearizer(state).A, cold.A)  # nothing to start from
    linearizer = diff.Linearizer(model, solver, DT, warm_start=True)
    for _ in range(3):  # launched, recorded, replayed
        found = linearizer(state)
        assert (solver.constraints.iterations.numpy() < 0.2 * sweeps).all()
        for ours, cold_one, exact_one in zip(found, cold, expected):
            # impulses of 1e-5 m/s are left open, and derivatives of forces in proportion to them
            assert off_in_all(ours, exact_one) < max(1e-5, 1.1 * off_in_all(cold_one, exact_one))


def test_a_warm_start_does_not_carry_over_what_is_not_finite():
    model = robot("ant.xml", worlds=2)
    state, _ = dropped(model, 240, 0.0)
    solver = newtonsim.FeatherstoneSolver(model)
    expected = diff.linearize(model, solver, state, None, DT)
    linearizer = diff.Linearizer(model, solver, DT, warm_start=True)
    broken = model.state()
    broken.assign(state)
    velocities = state.joint_qd.numpy().copy()
    velocities[6] = np.nan  # a hip of the first world
    broken.joint_qd.assign(velocities)
    for _ in range(2):
        assert np.isnan(linearizer(broken).A[0]).any()
        found = linearizer(state)
        assert max(off_in_all(found.A, expected.A), off_in_all(found.B, expected.B)) < 1e-4


def arms_with_a_limit(worlds: int) -> newtonsim.Model:
    """Arms that end in a ball joint, whose limit has a row between bodies: the closed form lacks it."""
    arm = newtonsim.ModelBuilder(up_vector=UP)
    upper = arm.add_body(mass=1.0, I_m=wp.diag(wp.vec3(0.01)), com=(0.0, 0.0, -0.2))
    arm.add_joint_revolute(-1, upper, axis=(0.0, 1.0, 0.0))
    lower = arm.add_body(mass=1.0, I_m=wp.diag(wp.vec3(0.01)), com=(0.0, 0.0, -0.2))
    arm.add_joint_ball(upper, lower, parent_xform=wp.transform((0.0, 0.0, -0.4), wp.quat_identity()))
    arm.joint_swing_limit = [0.0, 0.5]
    builder = newtonsim.ModelBuilder(up_vector=UP)
    builder.replicate(arm, worlds)
    return builder.finalize("cpu", requires_grad=True)


def swung(angles: list[float]) -> np.ndarray:
    """Coordinates of `arms_with_a_limit` whose ball joints swing by some angles; 0.5 is the limit."""
    turns = [wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), angle) for angle in angles]
    return np.array([[0.1, *turn] for turn in turns], np.float32).reshape(-1)


def test_what_the_closed_form_does_not_cover_is_left_to_the_adjoint():
    """A ball joint at its limit, and the same arm away from it."""
    model = arms_with_a_limit(1)
    state = model.state()
    for angle in (0.3, 0.52):
        state.joint_q.assign(swung([angle]))
        closed, general = both(model, state)
        assert off(closed.A, general.A) < 1e-4


@pytest.mark.parametrize("steps", [1, 3])
def test_only_worlds_that_the_closed_form_lacks_go_to_the_adjoint(
    monkeypatch: pytest.MonkeyPatch, steps: int
):
    """The others keep every bit of their closed form, and other worlds at their limits are found anew."""
    monkeypatch.setattr(sys.modules[diff.Linearizer.__module__], "_RECORDING", 0)
    model = arms_with_a_limit(6)
    solver, general = newtonsim.FeatherstoneSolver(model), General(model)
    linearizer = diff.Linearizer(model, solver, DT, steps)
    state = model.state()
    for angles, lacking in (
        ([0.3, 0.52, 0.2, 0.1, 0.53, 0.54], [range(1, 2), range(4, 6)]),
        ([0.3, 0.52, 0.2, 0.1, 0.53, 0.51], [range(1, 2), range(4, 6)]),
        ([0.52, 0.3, 0.2, 0.1, 0.3, 0.2], [range(0, 1)]),
    ):
        state.joint_q.assign(swung(angles))
        found = linearizer(state)
        expected = diff.linearize(model, general, state, None, DT, steps)
        assert off(found.A, expected.A) < 1e-4
        assert off(found.B, expected.B) < 1e-4
        assert linearizer._chosen.worlds == tuple(lacking)
        A, B, _ = linearizer._closed(state, None)
        kept = [world for world in range(6) if not any(world in run for run in lacking)]
        np.testing.assert_array_equal(found.A[kept], A[kept])
        np.testing.assert_array_equal(found.B[kept], B[kept])
        assert np.abs(A - expected.A).max() > 0.1, "the closed form lacks what acts"


def test_contacts_without_a_rule_are_refused():
    """A cone on the edge of its base beside a box: what no features tell has no derivative."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.3), wp.quat_identity()))
    builder.add_joint_free(body)
    other = builder.add_body(
        origin=wp.transform((0.0, 0.0, 0.3), wp.quat_identity()), mass=0.1, I_m=wp.diag(wp.vec3(0.01))
    )
    builder.add_joint_fixed(body, other)
    turn = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.8)
    builder.add_shape_cone(body, radius=0.15, half_height=0.25, rot=turn, density=100.0)
    builder.add_shape_cylinder(
        -1,
        pos=(0.0, 0.0, 0.0),
        rot=wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.3),
        radius=0.2,
        half_height=0.12,
    )
    model = builder.finalize("cpu", requires_grad=True)
    solver, state, end = newtonsim.FeatherstoneSolver(model), model.state(), model.state()
    linearizer = diff.Linearizer(model, solver, DT)

    def fall(state, end) -> None:
        for _ in range(120):
            linearizer(state)
            solver.step(model, state, end, None, None, DT)
            state, end = end, state

    with pytest.raises(NotDifferentiableError, match="shapes have no gradient"):
        fall(state, end)


def spinning(joint: str, gravity: float = -9.81) -> newtonsim.Model:
    """Single bodies of random inertia in three worlds, free or about a point beside their centre of mass."""
    builder, rng = newtonsim.ModelBuilder(up_vector=UP, gravity=gravity), np.random.default_rng(3)
    for _ in range(3):
        one = newtonsim.ModelBuilder(up_vector=UP, gravity=gravity)
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        inertia = turn @ np.diag(rng.uniform(0.6, 1.0, 3) * 0.02) @ turn.T
        body = one.add_body(mass=0.5, com=wp.vec3(*rng.uniform(-0.1, 0.1, 3)), I_m=wp.mat33(inertia))
        axes = wp.normalize(wp.quat(*rng.normal(size=4)))
        if joint == "free":
            one.add_joint_free(body)
        else:
            one.add_joint_ball(-1, body, parent_xform=wp.transform((0.0, 0.0, 1.0), axes))
        builder.add_builder(one)
    return builder.finalize("cpu", requires_grad=True)


@pytest.mark.parametrize("joint", ["free", "ball"])
@pytest.mark.parametrize("dt", [DT, 1.0 / 60.0])
def test_single_bodies_that_turn(joint, dt):
    """Their spin in the middle of the step is that of the implicit midpoint rule; up to 0.6 rad in a step."""
    model = spinning(joint)
    state = random_state(model, 5, angle=0.8, speed=30.0)
    closed, general = both(model, state, dt=dt)
    assert off(closed.A, general.A) < 2e-4
    assert off(closed.B, general.B) < 2e-4
    given = (model, newtonsim.FeatherstoneSolver(model), state, None, dt)
    difference = diff.linearize(*given, method="difference", span=1e-2)
    assert off_in_all(closed.A, difference.A) < 3e-3


def pushed_box(worlds: int = 2, **options) -> newtonsim.Model:
    """An arm whose tip presses a free box along the ground."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    for world in range(worlds):
        one = newtonsim.ModelBuilder(up_vector=UP)
        parent = -1
        for k in range(2):
            link = one.add_body()
            start = wp.transform((-0.42, 0.0, 0.1) if k == 0 else (0.2, 0.0, 0.0), wp.quat_identity())
            one.add_joint_revolute(parent, link, parent_xform=start, axis=(0.0, 0.0, 1.0), armature=0.0)
            one.add_shape_sphere(link, pos=(0.2, 0.0, 0.0), radius=0.02, density=1000.0, mu=0.3)
            parent = link
        box = one.add_body(origin=wp.transform((0.099 + 0.0005 * world, 0.01, 0.1002), wp.quat_identity()))
        one.add_joint_free(box)
        one.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, density=200.0, mu=0.3)
        builder.add_builder(one)
    builder.set_ground_plane(mu=0.3)
    return builder.finalize("cpu", requires_grad=True)


@pytest.mark.parametrize("options", [{}, {"smoothing": 5e-3}], ids=["rigid", "softened"])
def test_an_arm_that_pushes_a_free_box(options):
    """Contacts between arm, box and ground act on a body whose spin is that of the midpoint rule."""
    model = pushed_box()
    solver, control = newtonsim.FeatherstoneSolver(model, **options), model.control()
    forces = np.zeros((2, model.joint_dof_count // 2), np.float32)
    forces[:, 0] = 3.0, 5.0
    control.joint_f.assign(forces.reshape(-1))
    state, end = model.state(), model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    for _ in range(40):
        solver.step(model, state, end, control, None, DT)
        state, end = end, state
    solver = newtonsim.FeatherstoneSolver(model, **options)
    linear = solver.make_linear_model("joint_f")
    linear.step(Shard(model), state, end, control, DT)
    assert not len(linear.not_covered())
    closed, general = both(model, state, control, **options)
    assert off_in_all(closed.A, general.A) < 1e-3
    assert off_in_all(closed.B, general.B) < 1e-3
