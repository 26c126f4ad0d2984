"""Derivatives from noisy values: smooth and steep functions, kinks and jumps at hand and near, rounding."""

import numpy as np
import pytest

from newtonsim.diff.differences import NEIGHBOURS, SPANS, Limit, estimate, measure_noise

STEPS = np.array(SPANS)
SLOPE = 0.372


def scan(f, noise=0.0, rng=None, **options):
    """Estimate of the slope of a function at zero, with noise that is drawn anew and known."""
    rng = rng or np.random.default_rng(0)
    high, low, middle = (f(x) + noise * rng.normal(size=np.shape(x)) for x in (STEPS, -STEPS, np.zeros(())))
    return estimate(STEPS, high, low, float(middle), noise, **options)


def test_noise_is_measured_among_neighbours():
    """Independent noise on a steep and curved function, and rounding to float32 of a large value."""
    rng = np.random.default_rng(0)
    smooth = np.sin(30.0 * NEIGHBOURS)[:, None]
    found = measure_noise(smooth + 1.0e-5 * rng.normal(size=(8, 2000)))
    assert np.median(found) == pytest.approx(1.0e-5, rel=0.2)
    assert np.quantile(found, 0.01) > 2.0e-6
    assert np.quantile(found, 0.99) < 2.5e-5
    places = 100.0 + rng.uniform(0.0, 1.0, 2000)
    rounded = np.float32(places + 40.0 * NEIGHBOURS[:, None]).astype(float)
    ulp = 2.0**-17
    assert np.median(measure_noise(rounded)) == pytest.approx(ulp / np.sqrt(12.0), rel=0.2)
    assert measure_noise(3.0 * smooth)[0] < 1e-9


def test_a_smooth_function():
    f = lambda x: np.float32(np.sin(1.0 + x)).astype(float)  # noqa: E731
    found = scan(f)
    assert found.value == pytest.approx(np.cos(1.0), rel=1e-5)
    assert abs(found.value - np.cos(1.0)) < found.uncertainty < 1e-4
    assert found.kink < 1e-4


@pytest.mark.parametrize(
    ("f", "noise"),
    [
        (lambda x: SLOPE * x + 5.0 * np.sin(3.0 * x) - 15.0 * x, 1.0e-4),
        (lambda x: SLOPE * x, 1.0e-5),
        (lambda x: SLOPE * (np.exp(5.0 * x) - 1.0) / 5.0, 1.0e-6),
        (lambda x: SLOPE * np.sin(30.0 * x) / 30.0 + np.cos(20.0 * x), 1.0e-7),
        (lambda x: SLOPE * x + 0.1 * (x > 0.02), 1.0e-6),
    ],
    ids=["cubic", "linear", "exponential", "steep", "jump-nearby"],
)
def test_estimates_are_as_far_off_as_they_say(f, noise):
    """Noise drawn anew many times: none is far off unnoticed, and doubts are not exaggerated."""
    rng = np.random.default_rng(0)
    found = [scan(f, noise, rng) for _ in range(200)]
    off = np.array([abs(e.value - SLOPE) / e.uncertainty for e in found])
    assert np.mean(off < 2.0) > 0.99
    assert off.max() < 5.0
    assert np.median(off) > 0.02


def test_a_kink_is_found_or_avoided():
    """Kinks from 1e-6 to 0.3 away: either the slope of the own side is found, or it is not called certain."""
    rng = np.random.default_rng(1)
    certain = 0
    for _ in range(300):
        slope, change = rng.normal(size=2)
        place = 10.0 ** rng.uniform(-6.0, -0.5) * rng.choice((-1.0, 1.0))
        found = scan(
            lambda x: slope * x + change * (np.maximum(x - place, 0.0) - max(-place, 0.0)),  # noqa: B023
            1.0e-6,
            rng,
        )
        true = slope + (change if place < 0.0 else 0.0)
        allowed = 3.0e-3 * abs(found.value)
        if found.uncertainty < allowed and found.kink < 2.0 * max(allowed, found.uncertainty):
            certain += 1
            assert found.value == pytest.approx(true, rel=1e-2)
    assert certain > 100


def test_a_kink_right_here_is_measured():
    found = scan(lambda x: np.abs(x) + x**2 + 3.0 * x, 1.0e-6)
    assert found.kink == pytest.approx(2.0, rel=1e-3)
    assert found.value == pytest.approx(3.0, rel=1e-3)


def test_rounding_and_jumps_are_told_apart():
    """An effect below noise is lost to rounding; a jump right here is none, and gives no certain slope."""
    faint = scan(lambda x: 1.0e-6 * x, 1.0e-5)
    assert faint.limit is Limit.ROUNDING
    assert faint.uncertainty > abs(faint.value)
    jump = scan(lambda x: x + 0.01 * (x > 0.0), 1.0e-7)
    assert jump.limit is Limit.JUMPS
    assert jump.uncertainty > 3.0e-3
    bent = scan(lambda x: 0.01 * x + np.minimum(x - 1.0e-3, 0.0), 1.0e-4)
    assert bent.limit is Limit.RANGE or bent.kink > 0.1


def test_jumps_all_along_are_the_slope_that_counts():
    """997 jumps of 0.01 in a unit on a slope of 1."""
    found = scan(lambda x: x + 0.01 * np.floor(997.0 * x), 1.0e-7)
    assert found.limit is Limit.JUMPS
    assert found.value == pytest.approx(1.0 + 9.97, rel=1e-2)


def test_end_of_a_range_is_approached_from_inside():
    """max(x, 0) + x² at zero: the values below are those of another branch."""
    found = scan(lambda x: np.maximum(x, 0.0) + x**2, one_sided=True)
    assert found.value == pytest.approx(1.0, rel=1e-4)
    assert found.kink == 0.0


def test_values_that_are_not_finite_are_left_out():
    found = scan(lambda x: np.where(np.abs(x) > 0.05, np.nan, 2.0 * x), 1.0e-7)
    assert found.value == pytest.approx(2.0, rel=1e-4)
    assert not np.isfinite(scan(lambda x: np.full(np.shape(x), np.nan)).value)
