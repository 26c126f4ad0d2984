"""Motion of bodies and particles against closed forms and conserved momenta; resets and rollouts."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.kernels.steps.integrate import integrate_bodies, integrate_particles
from newtonsim.kernels.steps.motion import inverse_of, move_bodies
from newtonsim.kernels.steps.nonfinite import MarksView, mark
from newtonsim.kernels.steps.reset import clear_flags, restore_worlds
from newtonsim.kernels.steps.rollouts import add_squares, carry_back, note_nonfinite, shrink
from newtonsim.runtime.teams import teams_from

call = DeviceFunctions(__name__, inverse_of, mark)

GRAVITY = np.array([0.3, 0.0, -9.81])


class Body:
    """A spinning body whose centre of mass is off its origin."""

    def __init__(self, device: str):
        self.device = device
        self.turn = Rotation.random(random_state=0)
        self.x, self.com = np.array([1.0, 2.0, 3.0]), np.array([0.1, -0.2, 0.3])
        self.moments, self.mass = np.array([0.2, 0.3, 0.5]), 2.0
        self.spin, self.speed = np.array([3.0, -1.0, 4.0]), np.array([0.5, 1.0, -2.0])
        pose = np.concatenate([self.x, self.turn.as_quat()])
        self.state = [
            self.array([pose], wp.transform),
            self.array([[*self.spin, *self.speed]], wp.spatial_vector),
        ]
        self.inertia = self.array([np.diag(self.moments)], wp.mat33)
        self.inverse = self.array([np.diag(1.0 / self.moments)], wp.mat33)

    def array(self, values, dtype=float) -> wp.array:
        return wp.array(values, dtype=dtype, device=self.device)

    def step(self, kernel, steps: int, dt: float) -> tuple[Rotation, np.ndarray, np.ndarray]:
        """Orientation, centre of mass and velocities after some steps."""
        force = self.array(np.zeros((1, 6)), wp.spatial_vector)
        com, mass, inverse = (
            self.array([self.com], wp.vec3),
            self.array([self.mass]),
            self.array([1.0 / self.mass]),
        )
        # the body is one of world 1 of two
        gravity = self.array([[1.0, 2.0, 3.0], GRAVITY], wp.vec3)
        world = wp.array([1], dtype=int, device=self.device)
        pair = [self.state, [wp.zeros_like(a) for a in self.state]]
        for _ in range(steps):
            given = [com, mass, self.inertia]
            if kernel is integrate_bodies:
                given = [com, mass, inverse, self.inertia, self.inverse]
            wp.launch(
                kernel, 1, [0, world, *pair[0], force, *given, gravity, 0.0, dt, *pair[1]], device=self.device
            )
            pair.reverse()
        q, qd = (a.numpy()[0].astype(np.float64) for a in pair[0])
        turn = Rotation.from_quat(q[3:])
        return turn, turn.apply(self.com) + q[:3], qd


@pytest.mark.parametrize("kernel", [integrate_bodies, move_bodies], ids=["euler", "midpoint"])
def test_one_step_of_a_free_body(device, kernel):
    body, dt = Body(device), 1e-3
    turn, centre, qd = body.step(kernel, 1, dt)
    v = body.speed + dt * GRAVITY
    np.testing.assert_allclose(qd[3:], v, rtol=1e-5)
    np.testing.assert_allclose(centre, body.turn.apply(body.com) + body.x + dt * v, atol=1e-5)
    # Euler's equation, and a turn with the spin, to first order in the step
    R = body.turn.as_matrix()
    inertia = R @ np.diag(body.moments) @ R.T
    alpha = -np.linalg.solve(inertia, np.cross(body.spin, inertia @ body.spin))
    np.testing.assert_allclose(qd[:3], body.spin + dt * alpha, atol=3e-4)
    np.testing.assert_allclose((turn * body.turn.inv()).as_rotvec() / dt, body.spin, atol=0.05)


def test_midpoint_rule_keeps_the_angular_momentum_of_a_tumbling_body(device):
    body, steps, dt = Body(device), 400, 5e-3
    turn, _, qd = body.step(move_bodies, steps, dt)

    def momentum(R: np.ndarray, spin: np.ndarray) -> np.ndarray:
        return R @ np.diag(body.moments) @ R.T @ spin

    start = momentum(body.turn.as_matrix(), body.spin)
    np.testing.assert_allclose(momentum(turn.as_matrix(), qd[:3]), start, rtol=1e-3, atol=2e-3)
    # its energy within what a rule of second order loses
    before, after = body.spin @ start, qd[:3] @ momentum(turn.as_matrix(), qd[:3])
    assert after == pytest.approx(before, rel=1e-2)


def test_particles_fall_and_are_no_faster_than_allowed(device):
    def array(values, dtype=float) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    x, v, f = np.random.default_rng(1).normal(size=(3, 4, 3))
    ends = [wp.zeros(4, dtype=wp.vec3, device=device) for _ in range(2)]
    inputs = [array([0] * 4, int)] + [array(y, wp.vec3) for y in (x, v, f)] + [array([1.0, 0.0, 1.0, 0.5])]
    inputs += [array(np.array([1, 1, 0, 1], np.uint32), wp.uint32), array([GRAVITY], wp.vec3), 1.0, 0.1]
    wp.launch(integrate_particles, 4, [0, *inputs, *ends], device=device)
    fast = v + 0.1 * (f * np.array([[1.0], [0.0], [0.0], [0.5]]) + GRAVITY)
    fast *= np.minimum(1.0, 1.0 / np.linalg.norm(fast, axis=1))[:, None]
    # held by having no mass, or by not being active
    fast[[1, 2]] = v[[1, 2]]
    np.testing.assert_allclose(ends[1].numpy(), fast, rtol=1e-5)
    moving = np.array([[1.0], [0.0], [0.0], [1.0]])
    np.testing.assert_allclose(ends[0].numpy(), x + 0.1 * moving * fast, rtol=1e-5)


def test_inverse_inertia_of_small_bodies_and_of_none(device):
    A = np.random.default_rng(2).normal(size=(3, 3))
    inertia = A @ A.T + np.eye(3)
    # a grain of dust: its determinant is no number of single precision
    found = call(device, inverse_of, [inertia, 1e-16 * inertia, np.zeros((3, 3))])
    np.testing.assert_allclose(found[0], np.linalg.inv(inertia), rtol=1e-3)
    np.testing.assert_allclose(found[1] * 1e-16, np.linalg.inv(inertia), rtol=1e-3)
    assert not found[2].any()


def test_marks_count_how_long_something_has_been_broken(device):
    marks = MarksView()
    marks.world = wp.zeros(2, dtype=bool, device=device)
    for name, count in {"any": 1, "steps": 1, "age": 3, "cause": 3}.items():
        setattr(marks, name, wp.zeros(count, dtype=int, device=device))
    for broken in (False, True, True):
        for element in range(3):
            call(device, mark, marks, [0, 1, -1][element], element, broken and element > 0, 5 + element)
    assert marks.steps.numpy()[0] == 3
    assert marks.age.numpy().tolist() == [0, 2, 2]
    assert marks.cause.numpy().tolist() == [0, 6, 7]
    # the last element belongs to no world
    assert marks.world.numpy().tolist() == [False, True]
    assert marks.any.numpy()[0] == 1


def test_reset_restores_masked_worlds_alone(device):
    def array(values, dtype=float) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    starts = [array(values, int) for values in ([0, 2, 5], [0, 1, 3], [0, 2, 4])]
    # body 3 stands between those of world 1, and belongs to none
    world = array([0, 0, 1, -1], int)
    source = [array(np.arange(5.0)), array(np.arange(3.0))]
    source += [array(np.full((4, n), 7.0), t) for n, t in ((7, wp.transform), (6, wp.spatial_vector))]
    target = [wp.full_like(a, -1.0) for a in source[:2]] + [wp.zeros_like(a) for a in source[2:]]
    force = array(np.ones((4, 6)), wp.spatial_vector)
    mask = array([False, True], bool)
    wp.launch(
        restore_worlds, 2, [teams_from(0), mask, *starts, world, *source, *target, force], device=device
    )
    assert target[0].numpy().tolist() == [-1, -1, 2, 3, 4]
    assert target[1].numpy().tolist() == [-1, 1, 2]
    assert target[2].numpy()[:, 0].tolist() == [0, 0, 7, 0]
    assert force.numpy()[:, 0].tolist() == [1, 1, 0, 1]
    flags = array([True, True], bool)
    wp.launch(clear_flags, 2, [0, mask, flags], device=device)
    assert flags.numpy().tolist() == [True, False]


def test_gradients_of_a_rollout_are_bounded_world_by_world(device):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(6, 8))
    world = wp.array([0, 1, -1, 1], dtype=int, device=device)
    rows, squares = wp.array(values, dtype=float, device=device), wp.zeros(2, dtype=wp.float64, device=device)
    # two columns to each entry of `world`
    wp.launch(add_squares, 8, [0, world, rows, 2, squares], device=device)
    parts = [values[:, :2], values[:, [2, 3, 6, 7]]]
    lengths = [np.linalg.norm(part) for part in parts]
    np.testing.assert_allclose(squares.numpy(), np.square(lengths), rtol=1e-5)
    longest = 0.5 * (lengths[0] + lengths[1])
    wp.launch(shrink, 8, [0, world, squares, longest, 2, rows], device=device)
    found = rows.numpy()
    kept = np.argmin(lengths)
    shrunk = [found[:, :2], found[:, [2, 3, 6, 7]]]
    np.testing.assert_allclose(shrunk[kept], parts[kept], rtol=1e-6)
    assert np.linalg.norm(shrunk[1 - kept]) == pytest.approx(longest, rel=1e-5)
    np.testing.assert_allclose(found[:, 4:6], values[:, 4:6], rtol=1e-6)


def test_last_state_without_a_finite_gradient_is_noted(device):
    def ints(values) -> wp.array:
        return wp.array(values, dtype=int, device=device)

    world, none = ints([0, 1, -1]), ints([-1, -1, -1])
    ahead = wp.array([1.0, np.nan, np.inf], dtype=float, device=device)
    behind = wp.zeros(3, dtype=float, device=device)
    wp.launch(carry_back, 3, [0, ints([4]), world, ahead, behind, none], device=device)
    assert none.numpy().tolist() == [-1, 3, 3]
    assert not ahead.numpy().any()
    np.testing.assert_array_equal(behind.numpy(), [1.0, np.nan, np.inf])
    values = np.zeros((3, 2))
    values[1, 0] = np.nan
    rows = wp.array(values, dtype=float, device=device)
    wp.launch(note_nonfinite, 2, [0, 10, ints([1, 0]), rows, 1, none], device=device)
    assert none.numpy().tolist() == [-1, 11, 3]
