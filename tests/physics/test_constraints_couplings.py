"""Couplings of joints, distances, limits of loops, and what can be set on every constraint."""

import math

import numpy as np
import pytest
import warp as wp
from physics.linkages import four_bar, gap
from physics.scenes import GRAVITY, Run, add_hinge, diagonal_inertia, quaternion, z_up

import newtonsim
from newtonsim import JointMode, JointType, ModelError

DT = 1.0 / 240.0


def two_hinges(inertias=(0.02, 0.05), gravity: float = 0.0) -> newtonsim.ModelBuilder:
    """Two wheels about y whose centres of mass lie on their hinges."""
    builder = z_up(-gravity)
    for inertia in inertias:
        add_hinge(builder, length=0.0, inertia=inertia, limit_lower=-math.inf, limit_upper=math.inf)
    return builder


@pytest.mark.parametrize("ratio", [2.0, -0.5])
def test_gear_holds_its_ratio_under_load(device: str, ratio: float):
    """A torque on wheel 1 turns both: α1 = τ / (I1 + ratio² I0), with wheel 0 at ratio times the angle."""
    builder = two_hinges()
    builder.add_constraint_gear(0, 1, ratio)
    run = Run(builder.finalize(device), DT)
    torque = 0.3
    run.control.joint_f.assign([0.0, torque])
    run.run_for(2.0)
    acceleration = torque / (0.05 + ratio**2 * 0.02)
    np.testing.assert_allclose(run.joint_qd, [2.0 * ratio * acceleration, 2.0 * acceleration], rtol=1.0e-4)
    assert run.joint_q[0] == pytest.approx(ratio * run.joint_q[1], abs=1.0e-4)
    effort = run.solver.constraint_forces().numpy()[0, 0]
    assert effort == pytest.approx(0.02 * ratio * acceleration, rel=1.0e-3)


def test_mimic_joint_follows_and_carries_its_leader(device: str):
    """q1 = 0.5 q0 + 0.2 holds while weights on both links swing."""
    builder = z_up()
    for length in (0.4, 0.7):
        add_hinge(builder, length=length)
    builder.joint_mimic.append((1, 0, 0.5, 0.2))
    run = Run(builder.finalize(device), DT).start([1.0, 0.7])
    history = run.record(1200, "joint_q")[0]
    assert np.ptp(history[:, 0]) > 1.0
    np.testing.assert_allclose(history[:, 1], 0.5 * history[:, 0] + 0.2, rtol=0.0, atol=2.0e-5)


def test_polynomial_coupling(device: str):
    """A cam: q0 = 0.1 - 0.3 q1 + 0.2 q1² while wheel 1 turns through two radians."""
    builder = two_hinges()
    builder.add_constraint_coupling(0, 1, (0.1, -0.3, 0.2))
    run = Run(builder.finalize(device), DT).start([0.1, 0.0], [-0.3, 1.0])
    history = run.record(480, "joint_q")[0]
    assert np.ptp(history[:, 1]) > 1.5
    x = history[:, 1]
    np.testing.assert_allclose(history[:, 0], 0.1 - 0.3 * x + 0.2 * x**2, rtol=0.0, atol=1.0e-4)


def test_coupling_within_a_tree(device: str):
    """The second link of a chain turns against the first: it keeps its direction while the first swings."""
    builder = z_up()
    first = add_hinge(builder, length=0.5)
    add_hinge(builder, parent=first, length=0.3, inertia=0.05)
    builder.add_constraint_coupling(1, 0, (0.0, -1.0))
    run = Run(builder.finalize(device), DT).start([1.0, -1.0])
    history = run.record(480, "joint_q", "body_q")
    assert np.ptp(history[0][:, 0]) > 1.5
    np.testing.assert_allclose(history[1][:, 1, 4], 0.0, rtol=0.0, atol=1.0e-4)


def test_coupling_to_nothing_holds_a_joint(device: str):
    builder = z_up()
    add_hinge(builder, length=0.5)
    builder.add_constraint_coupling(0, -1, (0.3,))
    run = Run(builder.finalize(device), DT).run_for(2.0)
    assert run.joint_q[0] == pytest.approx(0.3, abs=1.0e-4)


def small_ball(builder: newtonsim.ModelBuilder, origin, mass: float = 1.0) -> int:
    return builder.add_body(
        origin=wp.transform(origin, wp.quat_identity()), mass=mass, I_m=diagonal_inertia(0.01, 0.01, 0.01)
    )


def rod(kind: str, length: float) -> newtonsim.ModelBuilder:
    """A ball on a rod from the origin, by a joint of the tree or a constraint; it starts level."""
    builder = z_up()
    body = small_ball(builder, (length, 0.0, 0.0))
    limits = {"min_distance": length, "max_distance": length}
    if kind == "joint":
        builder.add_joint_distance(-1, body, **limits)
    else:
        builder.add_constraint_distance(-1, body, **limits)
    return builder


@pytest.mark.parametrize("kind", ["joint", "constraint"])
def test_rod_swings_as_a_pendulum_of_its_length(device: str, kind: str):
    """Speed at the lowest point √(2 g l), and the time to get there: K(1/√2) √(l/g)."""
    length, dt = 0.8, 1.0 / 1000.0
    run = Run(rod(kind, length).finalize(device), dt)
    history = run.record(900, "body_q", "body_qd")
    distance = np.linalg.norm(history[0][:, 0, :3], axis=1)
    np.testing.assert_allclose(distance, length, rtol=0.0, atol=1.0e-5)
    lowest = np.argmax(history[0][:, 0, 0] < 0.0)
    assert dt * lowest == pytest.approx(1.8540747 * math.sqrt(length / GRAVITY), rel=5.0e-3)
    speed = np.linalg.norm(history[1][lowest, 0, 3:])
    assert speed == pytest.approx(math.sqrt(2.0 * GRAVITY * length), rel=2.0e-3)
    np.testing.assert_allclose(history[1][:, 0, :3], 0.0, rtol=0.0, atol=1.0e-4)


@pytest.mark.parametrize("kind", ["joint", "constraint"])
def test_rope_goes_taut(device: str, kind: str):
    """A ball falls freely as long as the rope is slack, and hangs on it in the end."""
    builder = z_up()
    body = small_ball(builder, (0.0, 0.0, -0.2))
    add = builder.add_joint_distance if kind == "joint" else builder.add_constraint_distance
    add(-1, body, max_distance=1.0)
    run = Run(builder.finalize(device), DT)
    height = run.record(480, "body_q")[0][:, 0, 2]
    free = DT * np.arange(90)
    np.testing.assert_allclose(height[:90], -0.2 - 0.5 * GRAVITY * free * (free + DT), rtol=0.0, atol=1.0e-4)
    assert height.min() > -1.0 - 1.0e-3
    assert height[-1] == pytest.approx(-1.0, abs=1.0e-3)


def test_bodies_keep_their_least_distance(device: str):
    """Two balls on a collision course without shapes turn back at 0.3 m; momentum stays."""
    builder = z_up(0.0)
    balls = [small_ball(builder, (x, 0.0, 0.0), mass) for x, mass in ((-0.5, 1.0), (0.5, 3.0))]
    builder.add_constraint_distance(*balls, min_distance=0.3)
    run = Run(builder.finalize(device), DT)
    run.start(joint_qd=[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0])
    history = run.record(240, "body_q", "body_qd")
    distance = history[0][:, 1, 0] - history[0][:, 0, 0]
    assert distance.min() == pytest.approx(0.3, abs=1.0e-4)
    np.testing.assert_allclose(history[1][:, 0, 3] + 3.0 * history[1][:, 1, 3], -2.0, rtol=0.0, atol=1.0e-5)


def test_loop_slider_stops_at_its_limits(device: str):
    """A free body on a vertical loop slider falls to the lower limit and rests there."""
    builder = z_up()
    body = small_ball(builder, (0.1, 0.2, 0.0))
    slider = newtonsim.JointAxis((0.0, 0.0, 1.0), limit_lower=-0.4, limit_upper=0.1)
    frame = wp.transform((0.1, 0.2, 0.0), wp.quat_identity())
    builder.add_loop_joint(JointType.PRISMATIC, -1, body, frame, linear_axes=[slider])
    run = Run(builder.finalize(device), DT).run_for(2.0)
    np.testing.assert_allclose(run.body_q[0, :3], [0.1, 0.2, -0.4], rtol=0.0, atol=1.0e-3)
    run.start(joint_qd=[0.0, 0.0, 0.0, 0.0, 0.0, 5.0])
    assert run.record(120, "body_q")[0][:, 0, 2].max() == pytest.approx(0.1, abs=1.0e-3)


def test_loop_hinge_stops_at_its_limits(device: str):
    """A pendulum on a loop hinge comes to rest against a limit 0.6 rad from hanging down."""
    builder = z_up()
    body = builder.add_body(mass=1.0, com=(0.0, 0.0, -0.5), I_m=diagonal_inertia(0.02, 0.02, 0.02))
    hinge = newtonsim.JointAxis((0.0, 1.0, 0.0), limit_lower=0.6, limit_upper=2.0)
    builder.body_q[body] = wp.transform(wp.vec3(0.0), wp.quat(*quaternion((0.0, 1.0, 0.0), 1.5)))
    builder.add_loop_joint(JointType.REVOLUTE, -1, body, angular_axes=[hinge])
    run = Run(builder.finalize(device), DT).run_for(3.0)
    np.testing.assert_allclose(run.body_q[0, 3:], quaternion((0.0, 1.0, 0.0), 0.6), rtol=0.0, atol=1.0e-3)
    assert np.abs(run.body_qd).max() < 1.0e-3


def test_constraints_switch_at_run_time(device: str):
    """A ball welded to the world hangs still, falls when the weld opens, and stops when it closes."""
    builder = z_up()
    ball = small_ball(builder, (0.0, 0.0, 0.0))
    builder.add_constraint_weld(-1, ball)
    run = Run(builder.finalize(device), DT).run_for(0.5)
    assert abs(run.body_q[0, 2]) < 1.0e-5
    run.model.constraint_enabled.assign([0])
    run.step(60)
    assert run.body_qd[0, 5] == pytest.approx(-GRAVITY * 60 * DT, rel=1.0e-4)
    run.model.constraint_enabled.assign([1])
    run.run_for(2.0)
    assert np.linalg.norm(run.body_q[0, :3]) < 1.0e-4


def test_constraint_force_is_bounded(device: str):
    """A weld that bears less than the weight lets the body fall at g - F/m."""
    builder = z_up()
    ball = small_ball(builder, (0.0, 0.0, 0.0), mass=2.0)
    builder.add_constraint_weld(-1, ball, max_force=8.0)
    run = Run(builder.finalize(device), DT).run_for(0.5)
    assert run.body_qd[0, 5] == pytest.approx(-(GRAVITY - 4.0) * 0.5, rel=1.0e-4)
    force = run.solver.constraint_forces().numpy()[0]
    np.testing.assert_allclose(force, [0.0, 0.0, 0.0, 0.0, 0.0, 8.0], rtol=0.0, atol=1.0e-3)


def test_compliance_sags_under_load(device: str):
    """A weld of 1e-3 m/N and 0.02 rad/(N m) under a weight at an arm of 0.1 m."""
    builder = z_up()
    body = builder.add_body(mass=2.0, com=(0.1, 0.0, 0.0), I_m=diagonal_inertia(0.02, 0.02, 0.02))
    builder.add_constraint_weld(-1, body, linear_compliance=1.0e-3, angular_compliance=0.02)
    run = Run(builder.finalize(device), DT).run_for(5.0)
    assert run.body_q[0, 2] == pytest.approx(-2.0 * GRAVITY * 1.0e-3, rel=1.0e-2)
    angle = 2.0 * math.asin(run.body_q[0, 4])
    assert angle == pytest.approx(2.0 * GRAVITY * 0.1 * math.cos(angle) * 0.02, rel=1.0e-2)


def test_recovery_time_is_the_time_constant_of_errors(device: str):
    """A weld starts 0.1 m off and closes the gap exponentially."""
    builder = z_up(0.0)
    ball = small_ball(builder, (0.1, 0.0, 0.0))
    builder.add_constraint_weld(-1, ball, wp.transform_identity(), recovery_time=0.5)
    run = Run(builder.finalize(device), DT).run_for(1.0)
    assert run.body_q[0, 0] == pytest.approx(0.1 * (1.0 - DT / 0.5) ** 240, rel=1.0e-3)


def test_reset_forgets_impulses(device: str):
    """The same start gives the same motion to the last bit after a reset."""
    run = Run(four_bar(speed=3.0).finalize(device), DT)
    start = run.joint_q, run.joint_qd
    first = run.run_for(0.5).joint_q
    run.solver.reset(run.state, wp.array([True], dtype=bool, device=device))
    np.testing.assert_array_equal(run.start(*start).run_for(0.5).joint_q, first)
    assert gap(first) < 1.0e-4


def test_shapes_of_a_loop_pass_through_each_other_unless_asked(device: str):
    for filtered, pairs in ((True, 0), (False, 1)):
        builder = z_up(0.0)
        bodies = [builder.add_body() for _ in range(2)]
        for body in bodies:
            builder.add_shape_sphere(body, radius=0.1)
        builder.add_constraint_connect(*bodies, collision_filter=filtered)
        assert builder.finalize(device).shape_contact_pair_count == pairs


BAD = {
    "itself": (lambda b: b.add_constraint_weld(0, 0), "connects body 0 to itself"),
    "world": (lambda b: b.add_constraint_connect(-1, -1), "connects body -1 to itself"),
    "type": (lambda b: b.add_loop_joint(JointType.FREE, 0, 1), "FREE cannot close a loop"),
    "axes": (lambda b: b.add_loop_joint(JointType.REVOLUTE, 0, 1), "takes \\(linear, angular\\) axes"),
    "limits": (
        lambda b: b.add_loop_joint(
            JointType.UNIVERSAL, 0, 1, angular_axes=[newtonsim.JointAxis((1, 0, 0), -1, 1), (0, 1, 0)]
        ),
        "several angular axes",
    ),
    "joint": (lambda b: b.add_constraint_coupling(7, 0), "7 is not a joint"),
    "axis": (lambda b: b.add_constraint_coupling(0, 1, axis=1), "has no axis 1"),
    "same": (lambda b: b.add_constraint_coupling(0, 0), "coupled to itself"),
    "long": (lambda b: b.add_constraint_coupling(0, 1, range(6)), "1 to 5 coefficients"),
    "force": (lambda b: b.add_constraint_weld(0, 1, max_force=-1.0), "max_force must not be negative"),
    "anchor": (lambda b: b.add_constraint_connect(0, 1, (0.0, 0.0)), "anchor"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_makes_no_constraint_is_refused(case: str):
    call, message = BAD[case]
    builder = two_hinges()
    with pytest.raises(ModelError, match=message):
        call(builder)
    assert builder.constraint_count == 0
    builder.finalize("cpu")


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="max_forc"):
        two_hinges().add_constraint_weld(0, 1, max_forc=1.0)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda b: b.constraint_child.__setitem__(0, 9), "constraint 'lock': child 9 is not a valid body"),
        (lambda b: b.constraint_type.__setitem__(0, 5), "constraint 'lock': its type"),
        (lambda b: b.constraint_distance_lower.__setitem__(0, 2.0), "least distance is above"),
        (lambda b: b.constraint_axis_dim.__setitem__(0, (0, 1)), "its axes do not follow"),
        (lambda b: b.constraint_key.pop(), "constraint_key: expected 1 entries"),
    ],
)
def test_inconsistent_lists_are_refused(edit, message: str):
    builder = two_hinges()
    builder.add_constraint_distance(0, 1, max_distance=1.0, key="lock")
    builder.add_constraint_connect(0, 1, key="pin")
    if "entries" in message:
        del builder.constraint_key[1]
        message = "constraint_key: expected 2 entries"
    edit(builder)
    with pytest.raises(ModelError, match=message):
        builder.finalize("cpu")


def test_constraints_between_worlds_are_refused():
    world = two_hinges()
    builder = newtonsim.ModelBuilder(up_vector=world.up_vector)
    builder.replicate(world, 2)
    builder.add_constraint_connect(0, 2, key="bridge")
    with pytest.raises(ModelError, match="'bridge': it connects two worlds"):
        builder.finalize("cpu")


def test_mimic_of_a_joint_without_axes_is_refused():
    builder = two_hinges()
    ball = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_ball(-1, ball, key="hip")
    builder.joint_mimic.append((0, 2, 1.0, 0.0))
    with pytest.raises(ModelError, match="'hip' has no axis 0"):
        builder.finalize("cpu")


@pytest.mark.filterwarnings("ignore:.*left with a residual:RuntimeWarning")
@pytest.mark.parametrize("rate", [60, 120, 240])
def test_a_stiff_drive_that_pushes_a_coupling_against_a_limit_stays_calm(device: str, rate: int):
    """The drive would turn by 1.5 rad, and the limit lets it turn by 0.25: its pull is borne, at rest."""
    builder = z_up()
    endless = {"limit_lower": -math.inf, "limit_upper": math.inf}
    for limits, drive in (
        ({"limit_lower": -0.2, "limit_upper": 0.2}, {}),
        ({"limit_lower": -0.05, "limit_upper": 0.05}, {}),
        (endless, {"target": 1.5, "target_ke": 1e4, "target_kd": 10.0, "mode": JointMode.TARGET_POSITION}),
    ):
        bar = builder.add_body(mass=0.64, com=(0.05, 0.0, 0.0), I_m=diagonal_inertia(2e-4, 2e-3, 2e-3))
        builder.add_joint_revolute(-1, bar, axis=(0.0, 1.0, 0.0), armature=0.0, **limits, **drive)
    builder.add_constraint_coupling(0, 1, (0.0, 1.0))
    builder.add_constraint_coupling(2, 1, (0.0, 5.0))
    run = Run(builder.finalize(device), 1.0 / rate)
    q, qd = run.record(3 * rate, "joint_q", "joint_qd")
    np.testing.assert_allclose(q[rate:], np.tile([0.05, 0.05, 0.25], (len(q) - rate, 1)), atol=0.02)
    # the way to the limit takes a step
    assert np.abs(qd).max() < 1.1 * 0.25 * rate


@pytest.mark.filterwarnings("ignore:.*left with a residual:RuntimeWarning")
@pytest.mark.parametrize("rate", [60, 240])
def test_coupled_links_of_fingers_meet_their_limits(device: str, rate: int):
    """A limit of one link stops both, and whichever bears it changes; speeds were left wrong by 500 rad/s."""
    builder = z_up()
    palm = builder.add_body(mass=0.2, I_m=diagonal_inertia(2e-4, 2e-4, 2e-4))
    builder.add_joint_free(palm)
    for k in range(4):
        parent, place = palm, (0.02 * k, 0.05, 0.0)
        for mass, upper in ((0.01, 1.68), (0.005, 1.68 if k % 2 else 2.0)):
            link = builder.add_body(mass=mass, com=(0.0, 0.02, 0.0), I_m=diagonal_inertia(2e-6, 2e-7, 2e-6))
            ends = {"parent_xform": wp.transform(place, wp.quat_identity()), "armature": 0.0}
            builder.add_joint_revolute(
                parent, link, axis=(1.0, 0.0, 0.0), limit_lower=0.0, limit_upper=upper, **ends
            )
            parent, place = link, (0.0, 0.04, 0.0)
        builder.joint_mimic.append((2 * k + 2, 2 * k + 1, 1.06, 0.0))
    run, rng = Run(builder.finalize(device), 1.0 / rate), np.random.default_rng(2)
    residual, apart = [], []
    for step in range(2 * rate):
        if step % (rate // 10) == 0:
            torques = rng.uniform(-2e-3, 2e-3, 8)
            run.control.joint_f.assign(np.concatenate([np.zeros(6), torques]).astype(np.float32))
        run.step()
        residual.append(run.solver.constraints.residual.numpy().max())
        q = run.joint_q[7:].reshape(4, 2)
        apart.append(np.abs(q[:, 1] - 1.06 * q[:, 0]).max())
    # rounding leaves some, as the palm falls by tens of metres a second
    assert max(residual) < 5e-3
    assert max(apart) < 0.02
