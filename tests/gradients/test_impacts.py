"""Gradients through impacts that meet at once or are propagated, and through bounces that grip."""

import math

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.errors import NotDifferentiableError
from newtonsim.examples import asset_path
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0
GRAVITY = 9.81
RTOL = 1.0e-2
WRT = ("state.joint_qd", "model.body_mass", "model.shape_materials.restitution")


@wp.kernel
def weigh(
    q: wp.array(dtype=float), qd: wp.array(dtype=float), coords: int, dofs: int, losses: wp.array(dtype=float)
):
    w = wp.tid()
    for i in range(coords):
        wp.atomic_add(losses, w, q[w * coords + i] * wp.sin(1.3 * float(i) + 0.7))
    for i in range(dofs):
        wp.atomic_add(losses, w, 0.3 * qd[w * dofs + i] * wp.cos(2.1 * float(i) + 0.3))


def loss(state: newtonsim.State, losses: wp.array) -> None:
    """A sum of all coordinates and velocities in which none cancels another."""
    worlds = len(losses)
    q, qd = state.joint_q, state.joint_qd
    wp.launch(weigh, worlds, [q, qd, len(q) // worlds, len(qd) // worlds, losses], device=losses.device)


def z_up() -> newtonsim.ModelBuilder:
    return newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))


def start(model: newtonsim.Model, velocities) -> newtonsim.State:
    state = model.state()
    state.joint_qd.assign(np.array(velocities, np.float32).reshape(-1))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state


def row_of_balls(device: str, restitution: float, gaps: tuple[float, ...] = (0.001, 0.02)):
    """Unequal balls in a row without gravity, of which the last flies at the others."""
    builder = z_up()
    x = 0.0
    for i, gap in enumerate((0.0, *gaps)):
        x -= 0.2 + gap
        body = builder.add_body(origin=wp.transform((x, 0.0, 0.0), wp.quat_identity()))
        density = 300.0 + 100.0 * i
        builder.add_shape_sphere(body, radius=0.1, density=density, mu=0.0, restitution=restitution)
    builder.gravity = 0.0
    model = builder.finalize(device, requires_grad=True)
    return model, start(model, [[0.0] * 6] * len(gaps) + [[0.0, 0.0, 0.0, 2.0, 0.0, 0.0]])


@pytest.mark.parametrize("restitution", [1.0, 0.6])
def test_impact_along_a_row_of_balls(device: str, restitution: float):
    """Newton's cradle: what the first ball hits with, the last one flies off with."""
    model, state = row_of_balls(device, restitution)
    report = diff.gradcheck(model, FeatherstoneSolver(model), state, 6, DT, loss, WRT, samples=18)
    print(report)
    assert report.error < 1.0e-3


def test_slopes_of_newtons_cradle(device: str):
    """Equal elastic balls: the velocity of the first becomes that of the last, and no other depends on it."""

    @wp.kernel
    def read(qd: wp.array(dtype=float), which: int, losses: wp.array(dtype=float)):
        losses[0] = qd[which]

    builder = z_up()
    for i in range(4):
        body = builder.add_body(origin=wp.transform((0.201 * float(i), 0.0, 0.0), wp.quat_identity()))
        builder.add_shape_sphere(body, radius=0.1, density=500.0, mu=0.0, restitution=1.0)
    builder.gravity = 0.0
    model = builder.finalize(device, requires_grad=True)
    state = start(model, [[0.0, 0.0, 0.0, 2.0, 0.0, 0.0]] + [[0.0] * 6] * 3)
    for ball, slope in ((0, 0.0), (1, 0.0), (2, 0.0), (3, 1.0)):

        def velocity(end: newtonsim.State, losses: wp.array, ball: int = ball) -> None:
            wp.launch(read, 1, [end.joint_qd, 6 * ball + 3, losses], device=device)

        wrt = ("state.joint_qd",)
        result = diff.rollout(model, FeatherstoneSolver(model), state, None, 3, DT, velocity, wrt)
        assert result.gradients["state.joint_qd"].numpy()[3] == pytest.approx(slope, abs=1.0e-4)


def box_above_ground(device: str) -> newtonsim.Model:
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.11), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.1, hy=0.12, hz=0.1, density=400.0, mu=0.4, restitution=0.5)
    builder.set_ground_plane(mu=0.4, restitution=0.5)
    return builder.finalize(device, requires_grad=True)


@pytest.mark.parametrize("spin", [0.0, 0.3])
def test_box_that_lands_flat(device: str, spin: float):
    model = box_above_ground(device)
    state = start(model, [spin, 0.7 * spin, 0.0, 0.5, 0.2, -1.5])
    wrt = ("state.joint_qd", "model.shape_materials.restitution")
    report = diff.gradcheck(model, FeatherstoneSolver(model), state, 6, DT, loss, wrt)
    print(report)
    assert report.error < RTOL


def test_corners_that_rebound_apart_do_not_blow_up(device: str):
    """Two corners of a sliding box rest, two hit within the step: four wishes that no rigid box can fulfil.

    Where the sweeps end then depends on how many there are, so that the gradient is right to a tenth only; of
    the softened equations alone it would be a hundred times as large.
    """
    model = box_above_ground(device)
    state = start(model, [-0.2906146, 2.2578757, 0.68052965, 0.06317181, 0.09571157, -0.22332415])
    turn = [3.2269268e-04, -4.6597291e-03, 6.5374099e-02, 9.9784988e-01]
    state.joint_q.assign(np.array([8.64e-03, 2.8881574e-02, 1.0096158e-01, *turn], np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    solver = FeatherstoneSolver(model, iterations=100, tolerance=1.0e-7, factorizations=0)
    spans = (3.0e-3, 1.0e-3, 3.0e-4, 1.0e-4)
    report = diff.gradcheck(model, solver, state, 1, DT, loss, ("state.joint_qd",), spans=spans)
    print(report)
    part = report["state.joint_qd"]
    assert np.linalg.norm(part.gradient - part.difference) < 0.1 * np.linalg.norm(part.difference)


def test_end_that_is_lifted_by_the_impact_of_the_other(device: str):
    """What an impact propagates comes on top of the slow end's own rebound, within the same step."""
    builder = z_up()
    place = wp.transform((0.0, 0.0, 0.1005), wp.quat_identity())
    body = builder.add_body(origin=place, mass=1.0, I_m=np.diag([0.75] * 3))
    for x in (-0.5, 0.5):
        builder.add_shape_sphere(body, pos=(x, 0.0, 0.0), radius=0.1, density=0.0, mu=0.0, restitution=0.5)
    builder.set_ground_plane(mu=0.0, restitution=0.5)
    model = builder.finalize(device, requires_grad=True)
    # -0.3 m/s at one end, -2 m/s at the other
    state = start(model, [0.0, 1.7, 0.0, 0.0, 0.0, -1.15])
    report = diff.gradcheck(model, FeatherstoneSolver(model), state, 2, DT, loss, WRT)
    print(report)
    assert report.error < RTOL


@pytest.mark.parametrize("steps", [6, 20])
def test_quadruped_that_lands_on_its_feet(device: str, steps: int):
    """An imported robot with the restitution that importers give it."""
    builder = z_up()
    newtonsim.utils.parse_mjcf(str(asset_path("quadruped.xml")), builder, floating=True)
    builder.set_ground_plane(restitution=0.5)
    axes = len(builder.joint_act)
    builder.joint_target_ke[:] = [60.0] * axes
    builder.joint_target_kd[:] = [3.0] * axes
    builder.joint_axis_mode[:] = [int(newtonsim.JOINT_MODE_TARGET_POSITION)] * axes
    stance = [0.0, 0.8, -1.6] * (axes // 3)
    builder.joint_q[:] = [0.0, 0.0, 0.26, 0.0, 0.0, 0.0, 1.0, *stance]
    builder.joint_act[:] = stance
    model = builder.finalize(device, requires_grad=True)
    assert (model.shape_materials.restitution.numpy() == 0.5).all()
    solver = FeatherstoneSolver(model, iterations=200, tolerance=1.0e-7)
    state = start(model, [0.2, 0.1, 0.0, 0.1, 0.3, -0.5] + [0.0] * 12)
    # longer steps of states and targets move impacts into other time steps; masses have little effect
    short = (1.0e-2, 3.0e-3, 1.0e-3, 3.0e-4, 1.0e-4)
    for wrt, options in (
        (("state.joint_qd", "control.joint_act"), {"spans": short}),
        (("model.body_mass",), {}),
    ):
        report = diff.gradcheck(
            model, solver, state, steps, DT, loss, wrt, controls=model.control(), **options
        )
        print(report)
        assert report.error < RTOL


def test_long_chains_of_impacts_are_refused_by_name(device: str):
    model, state = row_of_balls(device, 1.0, (0.001,) * 6)
    with pytest.raises(NotDifferentiableError, match="propagated more than four times"):
        diff.rollout(model, FeatherstoneSolver(model), state, None, 3, DT, loss, ("state.joint_qd",))


def test_impacts_of_different_restitution_are_refused_by_name(device: str):
    builder = z_up()
    for i, restitution in enumerate((0.2, 0.5, 0.9)):
        body = builder.add_body(origin=wp.transform((-0.201 * float(i), 0.0, 0.0), wp.quat_identity()))
        builder.add_shape_sphere(body, radius=0.1, density=400.0, mu=0.0, restitution=restitution)
    builder.gravity = 0.0
    model = builder.finalize(device, requires_grad=True)
    state = start(model, [[0.0] * 6] * 2 + [[0.0, 0.0, 0.0, 2.0, 0.0, 0.0]])
    with pytest.raises(NotDifferentiableError, match="different restitution"):
        diff.rollout(model, FeatherstoneSolver(model), state, None, 3, DT, loss, ("state.joint_qd",))


def test_step_by_step_and_captured_rounds_agree(device: str):
    """A captured backward pass runs all rounds that there may be, another those that there are."""
    model, state = row_of_balls(device, 0.6)
    result = diff.rollout(model, FeatherstoneSolver(model), state, None, 4, DT, loss, ("state.joint_qd",))
    solver = FeatherstoneSolver(model)
    states = [model.state() for _ in range(5)]
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        getattr(states[0], name).assign(getattr(state, name))
    losses = wp.zeros(1, dtype=float, device=device, requires_grad=True)
    with wp.Tape() as tape:
        for k in range(4):
            solver.step(model, states[k], states[k + 1], None, None, DT)
        loss(states[4], losses)
    tape.backward(losses)
    np.testing.assert_array_equal(states[0].joint_qd.grad.numpy(), result.gradients["state.joint_qd"].numpy())


@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_recordings_leave_out_only_what_does_nothing(restitution: float):
    """Of a falling box that lands on an edge, rebounds or not, and slides; another one flies beside it."""
    builder = z_up()
    for height in (0.13, 2.0):
        one = z_up()
        body = one.add_body(origin=wp.transform((0.0, 0.0, height), wp.quat_rpy(0.1, 0.2, 0.0)))
        one.add_shape_box(body, hx=0.1, hy=0.08, hz=0.06, density=300.0, mu=0.3, restitution=restitution)
        builder.add_builder(one)
    builder.set_ground_plane(mu=0.3, restitution=restitution)
    model = builder.finalize("cpu", requires_grad=True)
    state = start(model, [[0.1, 0.2, 0.3, 1.0, 0.2, -1.0]] * 2)
    found = []
    for capture in (True, False):
        solver = FeatherstoneSolver(model)
        rollout = diff.Rollout(model, solver, 16, DT, loss, wrt=WRT, capture=capture, warn=False)
        found += [rollout(state).gradients for _ in range(1 + capture)]
    touched = solver.contacts.world_count.numpy() > 0
    assert touched.tolist() == [True, False]
    for other in found[1:]:
        for name in WRT:
            np.testing.assert_array_equal(other[name].numpy(), found[0][name].numpy())


def test_only_what_rebounds_is_solved_again(device: str):
    """Of a ball that lands slowly, which stops, and one that rebounds within the step.

    The first ends where the ground lets it, whatever its height and velocity; the second, at the height g,
    ends at e (v h - g) above the ground.
    """
    gap, e = 1.0e-3, 0.5
    builder = z_up()
    for _ in range(2):
        one = z_up()
        body = one.add_body(origin=wp.transform((0.0, 0.0, 0.1 + gap), wp.quat_identity()))
        one.add_shape_sphere(body, radius=0.1, density=300.0, mu=0.0, thickness=0.0, restitution=e)
        builder.add_builder(one)
    builder.set_ground_plane(mu=0.0, restitution=e)
    builder.gravity = 0.0
    model = builder.finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model, restitution_speed=0.5)

    def height(state: newtonsim.State, losses: wp.array) -> None:
        wp.launch(add_height, len(losses), [state.body_q, losses], device=losses.device)

    state = start(model, [[0.0, 0.0, 0.0, 0.0, 0.0, v] for v in (-0.4, -1.0)])
    wrt = ("state.joint_q", "state.joint_qd")
    gradients = diff.rollout(model, solver, state, None, 1, DT, height, wrt).gradients
    np.testing.assert_allclose(gradients["state.joint_q"].numpy().reshape(2, 7)[:, 2], [0.0, -e], atol=1.0e-4)
    by_velocity = gradients["state.joint_qd"].numpy().reshape(2, 6)[:, 5]
    np.testing.assert_allclose(by_velocity, [0.0, -e * DT], atol=1.0e-6)
    sweeps = solver.adjoint.constraints.stage.iterations.numpy()
    assert sweeps[0] == 0 < sweeps[1]


def test_head_on_collision_without_friction(device: str):
    """Nothing slips and nothing holds: the tangents of such a contact are free."""
    model, state = row_of_balls(device, 0.6, (0.02,))
    wrt = ("state.joint_q", *WRT)
    report = diff.gradcheck(model, FeatherstoneSolver(model), state, 6, DT, loss, wrt, samples=14)
    print(report)
    assert report.error < 1.0e-3


def gripping_ball(device: str, mu: float, lift: float = 0.0):
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.4 + lift), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, density=400.0, mu=mu, restitution=0.8)
    builder.set_ground_plane(mu=mu, restitution=0.8)
    return builder.finalize(device, requires_grad=True)


@wp.kernel
def add_way(body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    w = wp.tid()
    wp.atomic_add(losses, w, wp.transform_get_translation(body_q[w])[0])


def way(state: newtonsim.State, losses: wp.array) -> None:
    wp.launch(add_way, len(losses), [state.body_q, losses], device=losses.device)


def exact_way(v: float, slip: float, down: float, fall: float, duration: float, mu: float) -> float:
    """Where a ball is that is thrown down, bounces once and flies on.

    A sphere that grips loses 2/7 of its slip along the surface, if friction suffices for that.
    """
    speed = math.sqrt(down * down + 2.0 * GRAVITY * fall)
    time = (speed - down) / GRAVITY
    after = v - min(2.0 / 7.0 * slip, mu * 1.8 * speed)
    return v * time + after * (duration - time)


@pytest.mark.parametrize("mu", [0.02, 0.3])
@pytest.mark.parametrize("rate", [120, 480])
def test_way_and_slope_of_a_ball_that_bounces_and_grips(device: str, rate: int, mu: float):
    """Position and its slope with respect to v_z and the closed form, over phases of the impact in a step."""
    v, spin, down, duration = 1.0, 3.0, 2.5, 0.25
    for lift in (0.0, 0.003, 0.006, 0.009):
        model = gripping_ball(device, mu, lift)
        state = start(model, [0.0, spin, 0.0, v, 0.0, -down])
        solver = FeatherstoneSolver(model, iterations=100, tolerance=1.0e-7)
        steps = round(rate * duration)
        result = diff.rollout(model, solver, state, None, steps, 1.0 / rate, way, ("state.joint_qd",))
        # stored velocities belong to the middle of the last interval
        ahead = down + 0.5 * GRAVITY / rate
        drop = 0.3 + lift
        exact = exact_way(v, v - 0.1 * spin, ahead, drop, duration, mu)
        eps = 1.0e-5
        sides = [exact_way(v, v - 0.1 * spin, ahead + d, drop, duration, mu) for d in (-eps, eps)]
        slope = -(sides[1] - sides[0]) / (2.0 * eps)
        gradient = result.gradients["state.joint_qd"].numpy()
        found = float(result.losses.numpy()[0])
        print(f"mu {mu}, 1/{rate} s, lift {lift}: {found:.5f} {exact:.5f}, {gradient[5]:.5f} {slope:.5f}")
        assert found == pytest.approx(exact, abs=1.0e-4)
        assert gradient[5] == pytest.approx(slope, abs=1.0e-4)


@wp.kernel
def add_height(body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    w = wp.tid()
    wp.atomic_add(losses, w, wp.transform_get_translation(body_q[w])[2])


def test_height_and_slope_of_a_ball_that_is_pushed_out(device: str):
    """What is left of a penetration beyond the slop falls by the same share in every step."""
    depth, steps, slop, recovery = 2.0e-3, 5, 1.0e-4, 0.028
    model = gripping_ball(device, mu=0.3, lift=-0.3 - depth)
    solver = FeatherstoneSolver(model, contact_slop=slop, recovery_time=recovery, contact_erp=1.0)

    def height(state: newtonsim.State, losses: wp.array) -> None:
        wp.launch(add_height, len(losses), [state.body_q, losses], device=losses.device)

    state = start(model, [0.0] * 6)
    result = diff.rollout(model, solver, state, None, steps, DT, height, ("state.joint_q",))
    left = (1.0 - DT / recovery) ** steps
    rest = 0.1 - slop + 2.0 * newtonsim.ModelBuilder.default_shape_thickness
    expected = rest + (0.1 - depth - rest) * left
    assert float(result.losses.numpy()[0]) == pytest.approx(expected, abs=2.0e-7)
    assert result.gradients["state.joint_q"].numpy()[2] == pytest.approx(left, rel=1.0e-3)
