"""What constraint rows measure and want: rigid motion by finite differences, bounces by free flight."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.sparse.csgraph import connected_components
from scipy.spatial.transform import Rotation

from newtonsim.kernels.constraints.contact_rows import combine, contact_frame, contact_target
from newtonsim.kernels.constraints.dof_rows import limit_velocities
from newtonsim.kernels.constraints.pair_measures import (
    measure_row,
)
from newtonsim.kernels.constraints.rebounds import after_impact, time_of_impact
from newtonsim.kernels.constraints.records import first_tangent
from newtonsim.kernels.constraints.servos import position_error, rotation_vector
from newtonsim.kernels.constraints.sleep import SleepView, join_bodies, root_of
from newtonsim.kernels.constraints.smoothing import smooth_touch
from newtonsim.kernels.constraints.solve.gauss_seidel import limit_friction, soften_friction, target_impulse
from newtonsim.kernels.views import pair_rows
from newtonsim.kernels.views.model import TreeView

call = DeviceFunctions(
    __name__,
    combine,
    contact_frame,
    contact_target,
    limit_velocities,
    limit_friction,
    soften_friction,
    smooth_touch,
    target_impulse,
    measure_row,
    after_impact,
    time_of_impact,
    first_tangent,
    position_error,
    rotation_vector,
    join_bodies,
    root_of,
)


def bounce(gap: float, stored: float, pull: float, e: float, dt: float) -> tuple[float, float]:
    """Free flight with impacts, event by event: stored velocity at the end, and mean velocity."""
    y, v, left = gap, stored - 0.5 * pull * dt, dt
    for _ in range(100):
        to_ground = (v + np.sqrt(max(v * v + 2.0 * pull * y, 0.0))) / pull
        if to_ground > left:
            break
        y, v, left = 0.0, -e * (v - pull * to_ground), left - to_ground
    else:
        return 0.0, -gap / dt  # ever smaller bounces have come to their end
    y, v = y + v * left - 0.5 * pull * left * left, v - pull * left
    return v + 0.5 * pull * dt, (y - gap) / dt


def test_bounces_within_a_step_are_those_of_free_flight(device):
    rng = np.random.default_rng(0)
    dt = 0.05
    cases = np.stack(
        [
            rng.uniform(0.0, 0.02, 60),
            -rng.uniform(1.0, 3.0, 60),
            rng.uniform(5.0, 200.0, 60),
            rng.uniform(0.3, 1.0, 60),
        ],
        axis=1,
    )
    gap, stored, pull, e = cases.T
    impact = call(device, time_of_impact, gap, stored, pull, dt)
    found = call(device, after_impact, impact, gap, e, 1e-4, dt)
    exact = np.array([bounce(*case, dt) for case in cases])
    np.testing.assert_allclose(found, exact, atol=2e-3)
    # several cases bounce more than once
    assert np.sum(2.0 * e * impact[:, 0] / pull < dt - impact[:, 1]) > 5


def test_impulse_of_a_row_meets_its_conditions(device):
    rng = np.random.default_rng(1)
    n = 500
    v, old = rng.normal(size=(2, n))
    delassus, softness = rng.uniform(0.1, 2.0, n), rng.choice([0.0, 0.3], n)
    target = np.sort(rng.normal(size=(n, 2)), axis=1)
    target[:100, 1] = target[:100, 0]
    bounds = np.stack([-rng.uniform(0.0, 1.0, n), rng.uniform(0.0, 1.0, n)], axis=1)
    bounds = np.float32(bounds).astype(np.float64)
    p = call(device, target_impulse, v, old, delassus, softness, target, bounds).astype(np.float64)
    after = v + delassus * (p - old)
    low, high = target[:, 0] - softness * p, target[:, 1] - softness * p
    assert np.all((p >= bounds[:, 0] - 1e-6) & (p <= bounds[:, 1] + 1e-6))
    # an impulse within its bounds pushes just as far as the interval, none leaves what is inside
    inside = (p > bounds[:, 0]) & (p < bounds[:, 1])
    np.testing.assert_allclose(after[inside & (p > 0)], low[inside & (p > 0)], atol=1e-5)
    np.testing.assert_allclose(after[inside & (p < 0)], high[inside & (p < 0)], atol=1e-5)
    still = inside & (p == 0.0)
    assert np.all((after[still] >= low[still] - 1e-5) & (after[still] <= high[still] + 1e-5))
    # at a bound it pushes as hard as it may, and that is not enough
    assert np.all(after[p == np.float32(bounds[:, 1])] <= low[p == np.float32(bounds[:, 1])] + 1e-5)
    assert np.all(after[p == np.float32(bounds[:, 0])] >= high[p == np.float32(bounds[:, 0])] - 1e-5)


@pytest.mark.parametrize("pyramidal", [False, True])
def test_friction_is_the_nearest_point_of_the_cone(device, pyramidal):
    rng = np.random.default_rng(2)
    t, bound = rng.normal(size=(200, 2)), rng.uniform(0.1, 1.5, 200)
    found = call(device, limit_friction, t, bound, pyramidal)
    size = np.linalg.norm(t, axis=1)
    exact = np.clip(t, -bound[:, None], bound[:, None])
    if not pyramidal:
        exact = t * np.minimum(1.0, bound / size)[:, None]
    np.testing.assert_allclose(found, exact, atol=1e-6)


@pytest.mark.parametrize("pyramidal", [False, True])
def test_softened_friction_leaves_the_slip_that_it_wants(device, pyramidal):
    """What it is short of the impulse that leaves no slip is that of a parabola up to twice the width."""
    rng = np.random.default_rng(3)
    t, bound = rng.normal(size=(400, 2)), rng.uniform(0.1, 1.5, 400)
    width, delassus = rng.uniform(0.05, 2.0, (2, 400))
    bound[:20] = 0.0
    found = call(device, soften_friction, t, bound, width, delassus, pyramidal).astype(np.float64)
    slip = delassus[:, None] * (t - found)
    for friction, u in zip(found.T, slip.T) if pyramidal else ((found, slip),):
        speed = np.abs(u) if pyramidal else np.linalg.norm(u, axis=1)
        x = np.minimum(speed / width, 2.0)
        share = bound * x * (1.0 - 0.25 * x) / speed
        np.testing.assert_allclose(friction.T, (share * u.T), atol=2e-5)


def test_depth_of_a_softened_contact_is_its_mean_over_the_step(device):
    """With a width and a rate of one and no bound of speeds: means of the depth and of its square."""
    rng = np.random.default_rng(4)
    gap, approach = rng.uniform(-1.0, 1.0, (2, 500))
    approach[:50] = 0.0
    dt = 1.3
    touch = call(device, smooth_touch, gap, approach, 1.0, 1.0, 1.0e4, dt)
    times = (np.arange(20000) + 0.5) / 20000.0 * dt
    depth = np.maximum(0.0, -gap[:, None] - approach[:, None] * times)
    mean = depth.mean(axis=1)
    np.testing.assert_allclose(touch["share"], np.maximum(mean, 1e-6), rtol=1e-3, atol=1e-6)
    touches = mean > 1e-3
    assert np.sum(touches) > 200
    assert np.sum(~touches) > 50
    wanted = (depth**2).mean(axis=1)[touches] / mean[touches]
    np.testing.assert_allclose(touch["speed"][touches], wanted, rtol=2e-3)
    np.testing.assert_allclose(touch["speed"][mean == 0.0], -gap[mean == 0.0] / dt, rtol=1e-5)


def test_closing_gaps_and_penetrations(device):
    settings = {"dt": 0.01, "contact_skin": 1e-4, "contact_slop": 1e-3, "max_push_speed": 0.5}
    settings |= {"restitution_speed": 0.1}
    gap = [0.02, 5e-5, -5e-4, -3e-3, -1.0]
    target = call(device, contact_target, gap, 0.0, 0.0, 0.0, 50.0, 0, 1.0, settings)
    # a gap may close in the step; the slop stays, the rest goes at a bounded speed
    np.testing.assert_allclose(target["closing"], [-2.0, 0.0, 0.0, 0.1, 0.5], rtol=1e-5)
    # where joints hardly yield, only a share of the push is the target; gaps close all the same
    held = call(device, contact_target, gap, 0.0, 0.0, 0.0, 50.0, 0, 0.2, settings)
    np.testing.assert_allclose(held["closing"], [-2.0, 0.0, 0.0, 0.02, 0.1], rtol=1e-5)
    # an elastic body that meets the surface in this step leaves as fast as it came, one that does not waits
    hit = call(device, contact_target, [0.005, 0.5], -2.0, -2.0, 1.0, 50.0, 0, 1.0, settings)
    np.testing.assert_allclose(hit["rebound"], [2.0, -50.0], rtol=1e-5)
    # at 2 m/s it takes a quarter of the step to get there
    np.testing.assert_allclose(hit["moving"][0], (0.75 * 0.01 * 2.0 - 0.005) / 0.01, rtol=1e-4)


def test_velocities_within_limits_end_within_limits(device):
    settings = {"dt": 0.01, "limit_rate": 20.0, "max_limit_speed": 3.0}
    x = np.linspace(-1.5, 1.5, 31)
    low, high = call(device, limit_velocities, x, -1.0, 1.0, 1e4, 0.3, settings).T
    inside = np.abs(x) <= 1.0
    np.testing.assert_allclose(x[inside] + 0.01 * low[inside], -1.0, atol=1e-5)
    np.testing.assert_allclose(x[inside] + 0.01 * high[inside], 1.0, atol=1e-5)
    np.testing.assert_allclose(low[x < -1.01], np.minimum(20.0 * (-1.0 - x[x < -1.01]), 3.0), rtol=1e-4)
    fast = call(device, limit_velocities, x, -1.0, 1.0, 2.0, 0.3, settings)
    assert np.abs(fast).max() == 2.0


KINDS = {
    "offset": pair_rows.PAIR_OFFSET,
    "cosine": pair_rows.PAIR_COSINE,
    "rotation": pair_rows.PAIR_ROTATION,
    "twist": pair_rows.PAIR_TWIST,
    "swing": pair_rows.PAIR_SWING,
    "distance": pair_rows.PAIR_DISTANCE,
    "span": pair_rows.PAIR_SPAN,
}


class TwoBodies:
    """Two anchors in accelerated motion; where they are after a time, to second order."""

    def __init__(self, seed: int, count: int, spread: float):
        rng = np.random.default_rng(seed)
        self.rng, self.count = rng, count
        self.x, self.v, self.w, self.a, self.alpha = rng.normal(size=(5, 2, count, 3))
        turn = Rotation.from_rotvec(spread * rng.uniform(-1.0, 1.0, (count, 3)))
        first = Rotation.random(count, random_state=seed)
        self.q = [first, first * turn]

    def at(self, t: float) -> list[dict]:
        """BodyMotion of both after a time."""
        return [
            {
                "x": self.x[k] + t * self.v[k] + 0.5 * t * t * self.a[k],
                "q": (
                    Rotation.from_rotvec(t * self.w[k] + 0.5 * t * t * self.alpha[k]) * self.q[k]
                ).as_quat(),
                "w": self.w[k],
                "v": self.v[k],
                "alpha": self.alpha[k],
                "a": self.a[k],
            }
            for k in range(2)
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_wrench_and_curvature_of_a_row_are_derivatives_of_what_it_measures(device, kind):
    bodies = TwoBodies(3, 100, 0.8)
    axis0, axis1 = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    number = int(KINDS[kind])

    def measure(t: float) -> np.ndarray:
        return call(device, measure_row, number, *bodies.at(t), axis0, axis1)

    row, h = measure(0.0), 5e-3
    rate = (measure(h)["value"] - measure(-h)["value"]) / (2.0 * h)
    # both bodies are pushed at the anchor of body 1, unless the force is along the line between both; the
    # bodies of a span are pushed at their own anchors
    lever = bodies.x[1] - bodies.x[0]
    at0 = bodies.v[0] + (0.0 if kind == "span" else np.cross(bodies.w[0], lever))
    power = np.sum(row["force"] * (bodies.v[1] - at0), axis=1)
    power += np.sum(row["torque"] * (bodies.w[1] - bodies.w[0]), axis=1)
    if kind == "rotation":
        # the rate of a rotation vector is the spin to first order in the rotation alone
        bodies.q[1] = bodies.q[0]
        row = measure(0.0)
        rate = (measure(h)["value"] - measure(-h)["value"]) / (2.0 * h)
        power = np.sum(row["torque"] * (bodies.w[1] - bodies.w[0]), axis=1)
    np.testing.assert_allclose(rate, power, atol=5e-3, rtol=1e-2)
    if kind in ("offset", "cosine", "distance"):
        h = 2e-2
        bend = (measure(h)["value"] - 2.0 * row["value"] + measure(-h)["value"]) / (h * h)
        np.testing.assert_allclose(row["curvature"], bend, atol=3e-2, rtol=3e-2)


def test_rows_across_a_slide_push_each_body_at_its_own_anchor(device):
    """Along an axis of frame 0, which does not turn: then the power is the rate of what the row measures."""
    bodies, unit, h = TwoBodies(6, 100, 0.8), np.array([0.6, 0.0, 0.8]), 5.0e-3
    bodies.w[0] = bodies.alpha[0] = 0.0
    before, row, after = (
        call(device, measure_row, int(pair_rows.PAIR_ACROSS), *bodies.at(t), unit, unit) for t in (-h, 0.0, h)
    )
    np.testing.assert_allclose(row["force"], bodies.q[0].apply(unit), atol=1e-5)
    power = np.sum(row["force"] * (bodies.v[1] - bodies.v[0]), axis=1)
    np.testing.assert_allclose((after["value"] - before["value"]) / (2.0 * h), power, atol=5e-3, rtol=1e-2)
    assert not row["torque"].any()
    assert not row["curvature"].any()


@pytest.mark.parametrize("axis", range(3))
def test_angles_are_those_about_fixed_axes_in_turn(device, axis):
    bodies, unit = TwoBodies(5, 100, 1.2), np.eye(3)[axis]
    row = call(device, measure_row, int(pair_rows.PAIR_ANGLES), *bodies.at(0.0), unit, unit)
    relative = bodies.q[0].inv() * bodies.q[1]
    np.testing.assert_allclose(row["value"], relative.as_euler("xyz")[:, axis], atol=1e-4)
    np.testing.assert_allclose(row["torque"], bodies.q[0].apply(unit), atol=1e-5)
    assert not row["curvature"].any()


def test_swing_and_twist_make_up_the_rotation(device):
    bodies = TwoBodies(4, 100, 1.5)
    axis = np.array([1.0, 0.0, 0.0])
    values = {
        name: call(device, measure_row, int(KINDS[name]), *bodies.at(0.0), axis, axis)["value"]
        for name in ("rotation", "twist", "swing")
    }
    relative = bodies.q[0].inv() * bodies.q[1]
    np.testing.assert_allclose(values["rotation"], relative.as_rotvec()[:, 0], atol=1e-5)
    turned = relative.apply(axis)
    np.testing.assert_allclose(values["swing"], np.arccos(turned[:, 0]), atol=1e-4)
    # swing takes the axis to its place by the shortest way; what is left is a turn about the axis
    shortest = np.cross(axis, turned)
    shortest *= (values["swing"] / np.linalg.norm(shortest, axis=1))[:, None]
    left = (Rotation.from_rotvec(shortest).inv() * relative).as_rotvec()
    np.testing.assert_allclose(left, values["twist"][:, None] * axis, atol=1e-4)


@pytest.mark.parametrize("function", [contact_frame, first_tangent], ids=["frame", "tangent"])
def test_tangents_are_unit_vectors_across_the_normal(device, function):
    n = np.vstack([np.eye(3), -np.eye(3), Rotation.random(100, random_state=5).apply([1.0, 0.0, 0.0])])
    found = call(device, function, n)
    if function is first_tangent:
        found = np.stack([n, found, np.cross(n, found)], axis=1)
    np.testing.assert_allclose(np.linalg.det(found), 1.0, atol=1e-5)
    np.testing.assert_allclose(
        found @ found.transpose(0, 2, 1), np.tile(np.eye(3), (len(n), 1, 1)), atol=1e-5
    )


def test_turn_of_a_ball_joint_to_its_target(device):
    turns = Rotation.from_rotvec(np.random.default_rng(6).uniform(-1.8, 1.8, (50, 3)))
    vectors = call(
        device, rotation_vector, turns.as_quat() * np.random.default_rng(7).choice([-1, 1], (50, 1))
    )
    np.testing.assert_allclose(vectors, turns.as_rotvec(), atol=1e-5)
    target, now = Rotation.random(2, random_state=6)
    arrays = [wp.array(np.append([0.5], q.as_quat()), dtype=float, device=device) for q in (target, now)]
    # from now to the target, in the axes of the parent
    errors = call(device, position_error, 0, -1, 1, [0, 1, 2], *arrays)
    np.testing.assert_allclose(
        Rotation.from_rotvec(errors).as_matrix() @ now.as_matrix(), target.as_matrix(), atol=1e-5
    )
    arrays[0] = wp.array([2.0], dtype=float, device=device)
    assert call(device, position_error, 0, 0, -1, 0, *arrays)[0] == 1.5


def test_islands_are_the_connected_components_of_contacts(device):
    rng = np.random.default_rng(8)
    trees = 40
    links = rng.integers(-1, trees, (25, 2))
    tree, sleep = TreeView(), SleepView()
    tree.body_tree = wp.array(np.arange(trees), dtype=int, device=device)
    sleep.island = wp.array(np.arange(trees), dtype=int, device=device)
    asleep = np.zeros(trees, int)
    asleep[[3, 17]] = 1
    sleep.asleep = wp.array(asleep, dtype=int, device=device)
    graph = np.zeros((trees, trees))
    for a, b in links:
        call(device, join_bodies, tree, sleep, a, b)
        if min(a, b) >= 0 and not asleep[a] and not asleep[b]:
            graph[a, b] = 1
    roots = call(device, root_of, sleep, np.arange(trees))
    _, labels = connected_components(graph, directed=False)
    lowest = [np.flatnonzero(labels == label).min() for label in labels]
    np.testing.assert_array_equal(roots, lowest)


def test_materials_of_a_pair_are_mixed_by_mean_or_product(device):
    np.testing.assert_allclose(call(device, combine, 0.5, 0.8, [0, 1]), [0.65, 0.4], rtol=1e-6)
