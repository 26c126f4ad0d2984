"""Laws of constraint rows: nearest impulses that bounds allow, their slopes by finite differences."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.constraints.contact_rows import weighed_bound
from newtonsim.kernels.constraints.laws import (
    LawView,
    contact_law,
    coupled_slope,
    friction_law,
    row_law,
    slope_along,
    slope_matrix,
    smooth_friction_law,
    spin_by_contact,
    spin_law,
    unbounded_friction,
)
from newtonsim.kernels.constraints.rows import RowsView

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(
    __name__,
    contact_law,
    coupled_slope,
    friction_law,
    row_law,
    slope_along,
    slope_matrix,
    smooth_friction_law,
    spin_by_contact,
    spin_law,
    unbounded_friction,
    weighed_bound,
)

# step of finite differences, in single precision: rounding takes 1e-7 / STEP of what is of the order of one
STEP = 1.0e-3
ROWS = 400
CONES = pytest.mark.parametrize("pyramidal", [False, True], ids=["elliptic", "pyramidal"])


def single(values: np.ndarray) -> np.ndarray:
    """Rounded to single precision, so that both sides start from the same numbers."""
    return np.float32(values).astype(np.float64)


def limited(t: np.ndarray, bound: np.ndarray, pyramidal: bool) -> np.ndarray:
    """The nearest friction impulses (n, 2) within bounds (n)."""
    if pyramidal:
        return np.clip(t, -bound[:, None], bound[:, None])
    return t * np.minimum(1.0, bound / np.linalg.norm(t, axis=1))[:, None]


def matrices(device: str, law: dict[str, np.ndarray]) -> np.ndarray:
    """The slopes of three rows as matrices (n, 3, 3)."""
    return call(device, slope_matrix, law["slope"])


class RandomRows:
    """Rows with velocities, targets (an interval or one), and bounds (finite, one-sided or none)."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.v, self.centre = single(rng.normal(size=(2, ROWS)))
        self.R, self.softness = single(rng.uniform([[0.2], [0.0]], [[2.0], [1.0]], (2, ROWS)))
        self.target = single(np.sort(rng.normal(size=(ROWS, 2)), axis=1))
        self.target[::2, 1] = self.target[::2, 0]
        self.bounds = single(rng.uniform([-1.5, 0.0], [0.0, 1.5], (ROWS, 2)))
        self.bounds[::3] = [-1.0e30, 1.0e30]
        self.bounds[1::3, 0] = 0.0

    def law(self, device: str, v: np.ndarray) -> np.ndarray:
        return call(device, row_law, v, self.centre, self.R, self.softness, self.target, self.bounds)

    def reach(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Impulses that would bring the velocity to both ends of the target interval."""
        wanted = self.R[:, None] * self.centre[:, None] + self.target - v[:, None]
        low, high = (wanted / (self.R + self.softness)[:, None]).T
        return low, high

    def impulse(self, v: np.ndarray) -> np.ndarray:
        """Within the interval none; else up to its nearer end, as far as the bounds allow."""
        low, high = self.reach(v)
        wanted = np.where(low > 0.0, low, np.where(high < 0.0, high, 0.0))
        return np.clip(wanted, *self.bounds.T)


def test_impulse_of_a_row_is_its_projection(device):
    rows = RandomRows()
    law = rows.law(device, rows.v)
    np.testing.assert_allclose(law["impulse"], rows.impulse(rows.v), atol=1e-5)
    at_bound = (rows.impulse(rows.v) == rows.bounds.T).any(axis=0)
    assert np.sum(at_bound) > 50
    # neither in the interval nor at a bound does more velocity change anything
    still = at_bound | ((rows.target[:, 0] < rows.target[:, 1]) & (rows.impulse(rows.v) == 0.0))
    np.testing.assert_array_equal(law["slope"] == 0.0, still)


def test_slope_of_a_row_is_that_of_its_impulse(device):
    """In double precision; a row is linear on both sides of a kink, and none may be within the step."""
    rows = RandomRows()
    before, after = rows.impulse(rows.v - STEP), rows.impulse(rows.v + STEP)
    slope = -(after - before) / (2.0 * STEP)
    smooth = np.isclose(after - rows.impulse(rows.v), rows.impulse(rows.v) - before, atol=1e-12)
    assert np.sum(smooth) > 0.95 * ROWS
    found = rows.law(device, rows.v)["slope"]
    np.testing.assert_allclose(found[smooth], slope[smooth], rtol=1e-5, atol=1e-6)


def test_impulse_of_a_row_never_grows_with_its_velocity(device):
    rows = RandomRows()
    sweep = [rows.law(device, rows.v + shift)["impulse"] for shift in np.linspace(-4.0, 4.0, 41)]
    assert np.all(np.diff(sweep, axis=0) <= 1e-6)


@CONES
def test_friction_is_the_nearest_within_its_bound(device, pyramidal):
    rng = np.random.default_rng(1)
    t, bound = single(rng.normal(size=(ROWS, 2))), single(rng.uniform(0.1, 2.0, ROWS))
    bound[:20] = 0.0
    R = single(rng.uniform(0.2, 2.0, ROWS))
    law = call(device, friction_law, t, R, bound, pyramidal)
    exact = limited(t, bound, pyramidal)
    np.testing.assert_allclose(law["impulse"], np.insert(exact, 0, 0.0, axis=1), atol=1e-6)
    # slopes: of t by the velocity -1 / R, of the projection by central differences
    columns = []
    for shift in STEP * np.eye(2):
        ends = [limited(t + sign * shift, bound, pyramidal) for sign in (1.0, -1.0)]
        columns.append((ends[0] - ends[1]) / (2.0 * STEP * R[:, None]))
    smooth = np.abs(np.linalg.norm(t, axis=1) - bound) > 2.0 * STEP
    if pyramidal:
        smooth = np.all(np.abs(np.abs(t) - bound[:, None]) > 2.0 * STEP, axis=1)
    smooth &= np.linalg.norm(t, axis=1) > 0.1  # where the curvature of the circle does not count
    assert np.sum(smooth) > 0.9 * ROWS
    found = matrices(device, law)
    np.testing.assert_allclose(found[smooth, 1:, 1:], np.stack(columns, axis=2)[smooth], atol=1e-3)
    assert not found[:, 0].any()
    assert not found[:, :, 0].any()
    assert not found[:20].any()
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(found.astype(np.float64)).min() > -1e-5


def softened(slip: np.ndarray, width: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Friction against slips (n, 2): a parabola that reaches the bound at two widths."""
    speed = np.linalg.norm(slip, axis=1)
    x = np.minimum(speed / width, 2.0)
    return -(bound * x * (1.0 - 0.25 * x) / speed)[:, None] * slip


def test_softened_friction_and_its_slope(device):
    rng = np.random.default_rng(4)
    slip = single(rng.normal(size=(ROWS, 2)))
    width, bound = single(rng.uniform(0.2, 2.0, (2, ROWS)))
    law = call(device, smooth_friction_law, -slip, width, bound, False)
    np.testing.assert_allclose(law["impulse"][:, 1:], softened(slip, width, bound), atol=1e-5)
    speed = np.linalg.norm(slip, axis=1)
    assert np.sum(speed > 2.0 * width) > 50
    columns = []
    for shift in STEP * np.eye(2):
        ends = [softened(slip + sign * shift, width, bound) for sign in (1.0, -1.0)]
        columns.append((ends[1] - ends[0]) / (2.0 * STEP))
    # the slope has no jumps; at rest its own slope has one
    apart = speed > 0.1
    np.testing.assert_allclose(
        matrices(device, law)[apart, 1:, 1:], np.stack(columns, axis=2)[apart], rtol=1e-3, atol=3e-3
    )
    at_rest = call(device, smooth_friction_law, np.zeros((ROWS, 2)), width, bound, False)
    np.testing.assert_allclose(
        matrices(device, at_rest)[:, 1:, 1:], (bound / width)[:, None, None] * np.eye(2), rtol=1e-5
    )


def test_softened_pyramids_rub_along_each_tangent(device):
    rng = np.random.default_rng(5)
    slip = single(rng.normal(size=(ROWS, 2)))
    width, bound = single(rng.uniform(0.2, 2.0, (2, ROWS)))
    law = call(device, smooth_friction_law, -slip, width, bound, True)
    for axis in range(2):
        alone = slip * np.eye(2)[axis]
        np.testing.assert_allclose(
            law["impulse"][:, 1 + axis], softened(alone, width, bound)[:, axis], atol=1e-5
        )


class RandomContacts:
    """Contacts with velocities of rest, sliding and separation."""

    def __init__(self, device: str):
        rng = np.random.default_rng(2)
        self.device = device
        self.v, self.target = single(rng.normal(size=(2, ROWS, 3)))
        self.target[:, 1:] *= 0.1
        self.centre = single(rng.normal(size=(ROWS, 3)))
        self.centre[:, 0] = np.abs(self.centre[:, 0])
        self.R, self.bound = single(rng.uniform(0.2, 2.0, (ROWS, 2))), single(rng.uniform(0.1, 2.0, ROWS))
        self.softness = single(rng.choice([0.0, 0.5], ROWS))
        self.rows, self.laws = RowsView(), LawView()
        self.rows.contact.softness = self._put(self.softness)
        self.rows.contact.slip_width = self._put(np.zeros(ROWS))
        self.rows.contact.stretch = self._put(np.ones((ROWS, 2)), wp.vec2)
        self.rows.contact.target = self._put(self.target, wp.vec3)
        self.laws.centre.contact = self._put(self.centre, wp.vec3)
        self.laws.contact_R = self._put(self.R, wp.vec2)
        self.laws.contact_bound = self._put(self.bound)

    def _put(self, values: np.ndarray, dtype=float) -> wp.array:
        return wp.array(values, dtype=dtype, device=self.device)

    def law(self, v: np.ndarray, pyramidal: bool) -> np.ndarray:
        return call(self.device, contact_law, self.rows, self.laws, np.arange(ROWS), v, pyramidal)

    def impulse(self, v: np.ndarray, pyramidal: bool) -> np.ndarray:
        """The normal pushes as far as the target, friction as far as its bound."""
        left = self.target - v
        normal = (self.R[:, 0] * self.centre[:, 0] + left[:, 0]) / (self.R[:, 0] + self.softness)
        free = self.centre[:, 1:] + left[:, 1:] / self.R[:, 1:]
        friction = limited(free, self.bound, pyramidal)
        return np.column_stack([np.maximum(0.0, normal), friction])


@CONES
def test_contact_pushes_and_rubs(device, pyramidal):
    contacts = RandomContacts(device)
    law = contacts.law(contacts.v, pyramidal)
    np.testing.assert_allclose(law["impulse"], contacts.impulse(contacts.v, pyramidal), atol=1e-5)
    columns = []
    for shift in STEP * np.eye(3):
        ends = [contacts.impulse(contacts.v + sign * shift, pyramidal) for sign in (-1.0, 1.0)]
        columns.append((ends[0] - ends[1]) / (2.0 * STEP))
    slope = np.stack(columns, axis=2)
    # a kink within the step: one-sided differences differ
    smooth = np.ones(ROWS, bool)
    middle = contacts.impulse(contacts.v, pyramidal)
    for shift in STEP * np.eye(3):
        ends = [contacts.impulse(contacts.v + sign * shift, pyramidal) for sign in (-1.0, 1.0)]
        smooth &= np.abs(ends[0] + ends[1] - 2.0 * middle).max(axis=1) < 0.1 * STEP
    assert np.sum(smooth) > 0.9 * ROWS
    found = matrices(device, law)
    np.testing.assert_allclose(found[smooth], slope[smooth], rtol=1e-3, atol=2e-3)
    d = np.random.default_rng(6).normal(size=(ROWS, 3))
    along = np.einsum("ni,nij,nj->n", d, found.astype(np.float64), d)
    np.testing.assert_allclose(call(device, slope_along, law["slope"], d), along, rtol=1e-5, atol=1e-5)


FRICTION, ROLLING, TORSION = 0.7, 0.3, 0.2
"""Coefficients of contacts whose bounds follow their normal impulses."""


def fields(law: np.ndarray) -> dict[str, np.ndarray]:
    """Laws as arguments of other functions."""
    return {name: law[name] for name in law.dtype.names}


class FollowingContacts(RandomContacts):
    """Contacts with bounds of friction that follow the normal impulse at the velocity of each call."""

    def __init__(self, device: str, softened: bool):
        super().__init__(device)
        rng = np.random.default_rng(8)
        self.softened = softened
        self.spin_v, self.spin_centre = single(rng.normal(size=(2, ROWS, 3)))
        self.rows.contact.friction = self._put(np.full(ROWS, FRICTION))
        self.rows.contact.slip_width = self._put(np.full(ROWS, 0.5 if softened else 0.0))
        self.rows.spin.rolling = self._put(np.full(ROWS, ROLLING))
        self.rows.spin.torsion = self._put(np.full(ROWS, TORSION))
        self.rows.spin.delassus = self._put(np.full((ROWS, 2), 2.0), wp.vec2)
        self.rows.spin.target = self._put(np.zeros((ROWS, 3)), wp.vec3)
        self.laws.centre.spin = self._put(self.spin_centre, wp.vec3)

    def follow(self, v: np.ndarray) -> None:
        """Set the bounds to those of the normal impulse at v."""
        left = self.target - v
        push = (self.R[:, 0] * self.centre[:, 0] + left[:, 0]) / (self.R[:, 0] + self.softness)
        push = np.maximum(push, 0.0)
        self.laws.contact_bound = self._put(FRICTION * push)
        self.laws.spin_bound = self._put(np.column_stack([TORSION * push, ROLLING * push]), wp.vec2)

    def law(self, v: np.ndarray, pyramidal: bool) -> np.ndarray:
        self.follow(v)
        return super().law(v, pyramidal)

    def spin(self, v: np.ndarray, pyramidal: bool) -> np.ndarray:
        """Torsional and rolling friction when the contact has the velocity v."""
        self.follow(v)
        numbers = np.arange(ROWS)
        return call(self.device, spin_law, self.rows, self.laws, numbers, self.spin_v, pyramidal)

    def differences(self, law, pyramidal: bool) -> tuple[np.ndarray, np.ndarray]:
        """-dp/dv (n, 3, 3) of the impulses of a law by the contact's velocity, and where it has no kink."""
        columns, smooth = [], np.ones(ROWS, bool)
        middle = law(self.v, pyramidal)["impulse"].astype(np.float64)
        for shift in 4.0 * STEP * np.eye(3):
            ends = [law(self.v + sign * shift, pyramidal)["impulse"] for sign in (-1.0, 1.0)]
            low, high = np.float64(ends)
            columns.append((low - high) / (8.0 * STEP))
            smooth &= np.abs(low + high - 2.0 * middle).max(axis=1) < 0.2 * STEP
        return np.stack(columns, axis=2), smooth


@CONES
@pytest.mark.parametrize("softened", [False, True], ids=["rigid", "softened"])
def test_slope_contains_that_bounds_follow_the_normal_impulse(device, pyramidal, softened):
    contacts = FollowingContacts(device, softened)
    law = contacts.law(contacts.v, pyramidal)
    numbers = np.arange(ROWS)
    found = call(device, coupled_slope, contacts.rows, contacts.laws, numbers, fields(law))
    expected, smooth = contacts.differences(contacts.law, pyramidal)
    assert np.sum(smooth) > 0.7 * ROWS
    # friction that its bound limits, of contacts that press
    assert np.sum(smooth & (np.abs(expected[:, 1:, 0]).max(axis=1) > 0.05)) > 50
    np.testing.assert_allclose(found[smooth], expected[smooth], rtol=2e-3, atol=5e-3)


class WeightedContacts(FollowingContacts):
    """Contacts whose bounds of friction follow the direction in which their tangents are scaled, too."""

    def __init__(self, device: str):
        super().__init__(device, softened=False)
        self.stretch = np.ones((ROWS, 2))
        heavier = np.random.default_rng(9).uniform(1.2, 3.0, ROWS)
        self.stretch[np.arange(ROWS), np.arange(ROWS) % 2] = single(heavier)
        self.rows.contact.stretch = self._put(self.stretch, wp.vec2)

    def follow(self, v: np.ndarray) -> None:
        """Set the bounds to those of the normal impulse and of the direction of friction at v."""
        super().follow(v)
        t = call(self.device, unbounded_friction, self.rows, self.laws, np.arange(ROWS), v)
        bound = call(self.device, weighed_bound, t, self.laws.contact_bound.numpy(), self.stretch)
        self.laws.contact_bound = self._put(bound)


def test_weighted_friction_has_the_size_of_its_bound(device):
    """In proportion to what is left of each slip and to the square of its scale, by Delassus numbers."""
    contacts = WeightedContacts(device)
    contacts.centre[...] = 0.0
    contacts.laws.centre.contact.zero_()
    law = contacts.law(contacts.v, pyramidal=False)
    force = contacts.stretch * law["impulse"][:, 1:]
    normal = law["impulse"][:, 0]
    slides = (normal > 0.0) & (law["branch"] < 2)
    assert np.sum(slides) > 50
    np.testing.assert_allclose(np.linalg.norm(force, axis=1)[slides], FRICTION * normal[slides], rtol=1e-4)
    left = contacts.stretch * (contacts.target - contacts.v)[:, 1:]
    crossed = force[:, 0] * left[:, 1] - force[:, 1] * left[:, 0]
    np.testing.assert_allclose(crossed[slides], 0.0, atol=1e-5)


def test_slope_contains_that_bounds_follow_the_direction(device):
    contacts = WeightedContacts(device)
    law = contacts.law(contacts.v, pyramidal=False)
    found = call(device, coupled_slope, contacts.rows, contacts.laws, np.arange(ROWS), fields(law))
    expected, smooth = contacts.differences(contacts.law, pyramidal=False)
    assert np.sum(smooth) > 0.6 * ROWS
    sliding = smooth & (law["branch"] == 1)
    assert np.sum(sliding & (np.abs(expected[:, 1, 2] - expected[:, 2, 1]) > 0.05)) > 20
    np.testing.assert_allclose(found[smooth], expected[smooth], rtol=2e-3, atol=5e-3)


@CONES
@pytest.mark.parametrize("softened", [False, True], ids=["rigid", "softened"])
def test_slope_of_spin_contains_that_its_bounds_follow_the_normal_impulse(device, pyramidal, softened):
    contacts = FollowingContacts(device, softened)
    normal = contacts.law(contacts.v, pyramidal)["slope"][:, 0]
    law = contacts.spin(contacts.v, pyramidal)
    numbers = np.arange(ROWS)
    found = call(device, spin_by_contact, contacts.rows, contacts.laws, numbers, fields(law), normal)
    expected, smooth = contacts.differences(contacts.spin, pyramidal)
    assert np.sum(smooth) > 0.7 * ROWS
    assert np.sum(smooth & (np.abs(expected[:, 0, 0]) > 0.02)) > 30
    assert np.sum(smooth & (np.abs(expected[:, 1:, 0]).max(axis=1) > 0.02)) > 30
    np.testing.assert_allclose(found[smooth], expected[smooth], rtol=2e-3, atol=5e-3)


@CONES
def test_friction_opposes_the_slip(device, pyramidal):
    """Around a centre of zero, at the bound: by directions, or of a pyramid along each tangent."""
    contacts = RandomContacts(device)
    contacts.laws.centre.contact.zero_()
    p = contacts.law(contacts.v, pyramidal)["impulse"][:, 1:].astype(np.float64)
    slip = (contacts.v - contacts.target)[:, 1:]
    if pyramidal:
        at_bound = np.abs(p) == np.float32(contacts.bound)[:, None]
        assert np.sum(at_bound) > 100
        assert np.all(np.sign(p[at_bound]) == -np.sign(slip[at_bound]))
        return
    size = np.linalg.norm(p, axis=1)
    at_bound = size > contacts.bound - 1e-6
    assert np.sum(at_bound) > 100
    along = np.sum(p * slip, axis=1) / (size * np.linalg.norm(slip, axis=1))
    np.testing.assert_allclose(along[at_bound], -1.0, atol=1e-6)


@CONES
def test_contact_impulses_are_monotone(device, pyramidal):
    """(p(v) - p(u)) · (v - u) <= 0 for any two velocities."""
    contacts, rng = RandomContacts(device), np.random.default_rng(3)
    for size in (0.01, 0.3, 3.0):
        u = single(contacts.v + size * rng.normal(size=(ROWS, 3)))
        change = contacts.law(u, pyramidal)["impulse"] - contacts.law(contacts.v, pyramidal)["impulse"]
        assert np.all(np.sum(change.astype(np.float64) * (u - contacts.v), axis=1) < 1e-6)


def test_separating_contact_does_not_push(device):
    contacts = RandomContacts(device)
    away = single(contacts.v + np.array([100.0, 0.0, 0.0]))
    law = contacts.law(away, False)
    assert not law["impulse"][:, 0].any()
    assert not law["slope"][:, 0].any()
