"""Arrays over memory of NumPy are what Warp would have made."""

import gc

import numpy as np
import pytest
import warp as wp

from newtonsim.scene.allocation import put, zeros

TYPES = (int, float, bool, wp.float64, wp.uint8, wp.uint64, wp.vec2i, wp.vec3, wp.mat33, wp.transform)


@wp.kernel
def add_one(values: wp.array(dtype=float)):
    i = wp.tid()
    values[i] += 1.0


def same(a: wp.array, b: wp.array) -> None:
    """Check that two arrays hold the same in the same way."""
    assert a.dtype is b.dtype
    assert (a.shape, a.strides, a.device) == (b.shape, b.strides, b.device)
    np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [0, 5, (3, 4), (0, 4)])
def test_zeros(device: str, dtype: type, shape: int | tuple[int, int]):
    same(zeros(shape, dtype, wp.get_device(device)), wp.zeros(shape, dtype=dtype, device=device))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(0,), (5,), (3, 4)])
def test_put(device: str, dtype: type, shape: tuple[int, ...]):
    tail = wp.zeros(1, dtype=dtype, device="cpu").numpy().shape[1:]
    values = np.random.default_rng(0).uniform(0.0, 9.0, shape + tail)
    given = wp.zeros(1, dtype=dtype, device="cpu").numpy().dtype
    values = values.astype(given)
    same(put(values, dtype, wp.get_device(device)), wp.array(values, dtype=dtype, device=device))


def test_values_are_copied_converted_and_outlive_their_source(device: str):
    values = np.arange(1000, dtype=np.int64)
    arrays = [put(values, float, wp.get_device(device)) for _ in range(50)]
    values[:] = -1
    del values
    gc.collect()
    wp.launch(add_one, 1000, [arrays[0]], device=device)
    np.testing.assert_array_equal(arrays[0].numpy(), np.arange(1000) + 1.0)
    for array in arrays[1:]:
        np.testing.assert_array_equal(array.numpy(), np.arange(1000))


def test_gradients_get_room(device: str):
    array = zeros(3, float, wp.get_device(device), requires_grad=True)
    assert array.grad.shape == (3,)
    assert put([1.0, 2.0], float, wp.get_device(device), requires_grad=True).grad.shape == (2,)
