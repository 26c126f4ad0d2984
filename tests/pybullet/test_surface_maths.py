"""Rotations, transforms and camera matrices against the real module, which rounds to 24 bits on the way."""

import math
from math import pi, sqrt

import numpy as np
import pytest

import newtonsim.pybullet_compat as ours

real = pytest.importorskip("pybullet")

HALF = sqrt(0.5)
EDGES = [(0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, -1.0), (1.0, 0.0, 0.0, 0.0), (0.0, -1.0, 0.0, 0.0)]
EDGES += [(0.0, HALF, 0.0, HALF), (0.0, -HALF, 0.0, HALF), (0.5, 0.5, 0.5, 0.5), (0.5, -0.5, 0.5, 0.5)]
EDGES += [(0.5, 0.5, 0.5, -0.5), (-0.5, 0.5, -0.5, -0.5), (-HALF, HALF, 0.0, 0.0), (0.0, 0.0, HALF, -HALF)]


def numbers(value):
    """Return the numbers of nested tuples; anything but tuples of floats is an error."""
    if isinstance(value, tuple):
        return [number for item in value for number in numbers(item)]
    assert type(value) is float
    return [value]


def check(name, *args, tolerance=2e-6):
    """Compare the results of both modules relative to their largest number."""
    expected, found = getattr(real, name)(*args), getattr(ours, name)(*args)
    assert len(expected) == len(found)
    expected, found = np.array(numbers(expected)), np.array(numbers(found))
    scale = max(1.0, np.nanmax(np.abs(np.nan_to_num(expected, posinf=0.0, neginf=0.0))))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * scale, err_msg=f"{name}{args}")


class Draw:
    """Random arguments."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def vector(self):
        return self.random.uniform(-3.0, 3.0, 3).tolist()

    def unit(self):
        quaternion = self.random.normal(size=4)
        return (quaternion / np.linalg.norm(quaternion)).tolist()

    def quaternion(self):
        """Return a quaternion of any length."""
        return self.random.normal(size=4).tolist()

    def number(self, low, high):
        return float(self.random.uniform(low, high))


ARGUMENTS = {
    "getQuaternionFromEuler": lambda d: (d.vector(),),
    "getEulerFromQuaternion": lambda d: (d.quaternion(),),
    "getMatrixFromQuaternion": lambda d: (d.quaternion(),),
    "multiplyTransforms": lambda d: (d.vector(), d.quaternion(), d.vector(), d.quaternion()),
    "invertTransform": lambda d: (d.vector(), d.quaternion()),
    "getQuaternionSlerp": lambda d: (d.quaternion(), d.quaternion(), d.number(-0.5, 1.5)),
    "getQuaternionFromAxisAngle": lambda d: (d.vector(), d.number(-7.0, 7.0)),
    "getAxisAngleFromQuaternion": lambda d: (d.unit(),),
    "getDifferenceQuaternion": lambda d: (d.quaternion(), d.quaternion()),
    "getAxisDifferenceQuaternion": lambda d: (d.quaternion(), d.quaternion()),
    "calculateVelocityQuaternion": lambda d: (d.unit(), d.unit(), d.number(0.1, 2.0)),
    "rotateVector": lambda d: (d.quaternion(), d.vector()),
    "computeViewMatrix": lambda d: (d.vector(), d.vector(), d.vector()),
    "computeProjectionMatrix": lambda d: (
        *(d.number(-2.0, -1.0), d.number(1.0, 2.0), d.number(-2.0, -1.0), d.number(1.0, 2.0)),
        *(d.number(0.1, 1.0), d.number(5.0, 10.0)),
    ),
    "computeProjectionMatrixFOV": lambda d: (
        *(d.number(20.0, 120.0), d.number(0.5, 2.0), d.number(0.1, 1.0), d.number(5.0, 100.0)),
    ),
}
# Arc cosines and near-parallel vectors magnify the rounding of the real module.
TOLERANCES = {
    "getAxisAngleFromQuaternion": 2e-5,
    "calculateVelocityQuaternion": 2e-5,
    "getAxisDifferenceQuaternion": 2e-5,
    "computeViewMatrix": 2e-5,
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_random_arguments(name):
    draw = Draw(5)
    for _ in range(500):
        check(name, *ARGUMENTS[name](draw), tolerance=TOLERANCES.get(name, 2e-6))


@pytest.mark.parametrize("axis", [1, 2])
def test_view_matrix_of_angles(axis):
    draw = Draw(axis)
    for _ in range(300):
        angles = (draw.number(-400.0, 400.0), draw.number(-200.0, 200.0), draw.number(-200.0, 200.0))
        distance = draw.number(-3.0, 5.0)
        check("computeViewMatrixFromYawPitchRoll", draw.vector(), distance, *angles, axis, tolerance=1e-5)
    check("computeViewMatrixFromYawPitchRoll", [0, 0, 0], 1, 10, -90, 0, axis)


@pytest.mark.parametrize("quaternion", EDGES)
def test_edges(quaternion):
    other = [0.1, 0.2, 0.3, sqrt(1.0 - 0.14)]
    check("getEulerFromQuaternion", quaternion)
    check("getMatrixFromQuaternion", quaternion)
    check("getAxisAngleFromQuaternion", quaternion)
    check("invertTransform", [1, 2, 3], quaternion)
    check("multiplyTransforms", [1, 2, 3], quaternion, [3, 2, 1], [0, 0, 0, 1])
    for pair in (
        (quaternion, other),
        (other, quaternion),
        (quaternion, [0, 0, 0, 1]),
        (quaternion, quaternion),
    ):
        check("getDifferenceQuaternion", *pair)
        check("getQuaternionSlerp", *pair, 0.3)
        check("calculateVelocityQuaternion", *pair, 0.5, tolerance=1e-3)


@pytest.mark.parametrize("roll", [0.0, 0.7, -2.0])
@pytest.mark.parametrize("offset", [0.0, 1e-6, 4e-3, 5e-3, 1e-2])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gimbal_lock(roll, offset, sign):
    """Pitch near a right angle: roll is zero from a sine of 0.99999 on, and a rotation stays what it is."""
    quaternion = ours.getQuaternionFromEuler([roll, sign * (0.5 * pi - offset), 0.4])
    check("getEulerFromQuaternion", quaternion)
    again = ours.getQuaternionFromEuler(ours.getEulerFromQuaternion(quaternion))
    assert abs(np.dot(quaternion, again)) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("getMatrixFromQuaternion", ([0, 0, 0, 0],)),
        ("getEulerFromQuaternion", ([0, 0, 0, 0],)),
        ("multiplyTransforms", ([0, 0, 0], [0, 0, 0, 0], [1, 2, 3], [0, 0, 0, 1])),
        ("invertTransform", ([1, 2, 3], [0, 0, 0, 0])),
        ("getQuaternionSlerp", ([0, 0, 0, 0], [0, 0, 0, 1], 0.3)),
        ("getQuaternionFromAxisAngle", ([0, 0, 0], 1.0)),
        ("getAxisAngleFromQuaternion", ([0, 0, 0, 0],)),
        ("calculateVelocityQuaternion", ([0, 0, 0, 1], [0, 0, 0.1, 1], 0)),
        ("rotateVector", ([0, 0, 0, 0], [1, 2, 3])),
        ("computeViewMatrix", ([1, 2, 3], [1, 2, 3], [0, 0, 1])),
        ("computeViewMatrix", ([0, 0, 1], [0, 0, 0], [0, 0, 1])),
        ("computeProjectionMatrix", (1, 1, 1, 1, 0.1, 10)),
        ("computeProjectionMatrixFOV", (0, 1, 0.1, 10)),
        ("computeProjectionMatrixFOV", (60, 0, 0.1, 10)),
        ("computeProjectionMatrixFOV", (60, 1, 1, 1)),
    ],
)
def test_what_divides_by_zero(name, args):
    check(name, *args)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("getQuaternionFromEuler", ([1, 2],)),
        ("getQuaternionFromEuler", ([1, 2, 3, 4],)),
        ("getEulerFromQuaternion", ([1, 2],)),
        ("getMatrixFromQuaternion", ([1, 2],)),
        ("multiplyTransforms", ([1, 2], [0, 0, 0, 1], [0, 0, 0], [0, 0, 0, 1])),
        ("multiplyTransforms", ([1, 2, 3], [0, 0, 0, 1], None, None)),
        ("invertTransform", ([1, 2, 3], [1, 2])),
        ("getQuaternionSlerp", ([0, 0, 0], [0, 0, 0, 1], 0.3)),
        ("getQuaternionFromAxisAngle", ([1, 2], 1)),
        ("getAxisAngleFromQuaternion", ([1, 2],)),
        ("getDifferenceQuaternion", ([1, 2], [1])),
        ("getAxisDifferenceQuaternion", ([1, 2], [1])),
        ("calculateVelocityQuaternion", ([1, 2], [1], 1)),
        ("rotateVector", ([1, 2], [1])),
        ("computeViewMatrix", ([1, 2], [0], [0])),
        ("computeViewMatrixFromYawPitchRoll", ([0, 0], 1, 0, 0, 0, 2)),
    ],
)
def test_texts_of_errors(name, args):
    texts = []
    for module in (real, ours):
        with pytest.raises(module.error) as caught:
            getattr(module, name)(*args)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_arrays_and_keywords():
    array = np.array([0.1, 0.2, 0.3], dtype=np.float32)
    expected = real.getQuaternionFromEuler(array)
    found = ours.getQuaternionFromEuler(eulerAngles=array, physicsClientId=77)
    assert found == pytest.approx(expected, abs=1e-7)
    assert all(type(number) is float for number in found)


def test_other_upward_axes_are_refused():
    with pytest.raises(ours.error, match="upAxisIndex must be 1 or 2, not 0"):
        ours.computeViewMatrixFromYawPitchRoll([0, 0, 0], 1, 0, 0, 0, 0)


def test_small_rotations_keep_their_axis():
    """More exact than the real module, which takes x for the axis of angles below 0.002."""
    angle = 1e-5
    axis, found = ours.getAxisAngleFromQuaternion([0.0, math.sin(0.5 * angle), 0.0, math.cos(0.5 * angle)])
    assert axis == pytest.approx((0.0, 1.0, 0.0), abs=1e-4)
    assert found == pytest.approx(angle, rel=1e-4)
