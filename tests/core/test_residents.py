"""Kernels that read views from the device's memory see what the views hold when they are launched."""

import gc

import numpy as np
import pytest
import warp as wp

from newtonsim.runtime.residents import keep_on_device, resident_views

wp.set_module_options({"enable_backward": False})


@wp.struct
class Inner:
    values: wp.array(dtype=float)


@wp.struct
class View:
    inner: Inner
    factor: float


@wp.func(inline=False)
def multiplied(view: wp.ref[View], i: int) -> float:
    return view.factor * view.inner.values[i]


@wp.kernel
def multiply(first: int, view: wp.array(dtype=View), count: int, result: wp.array(dtype=float)):
    i = first + wp.tid()
    if i < count:
        result[i] = multiplied(view[0], i)


def view_of(device: str, values: list[float], factor: float) -> View:
    view = View()
    view.inner.values = wp.array(values, dtype=float, device=device)
    view.factor = factor
    return view


def launch(device: str, view: View, **options):
    result = wp.zeros(3, dtype=float, device=device)
    arguments = resident_views(multiply, [view, 3, result], wp.get_device(device))
    return result, wp.launch(multiply, 3, [0, *arguments], device=device, **options)


def test_a_view_is_read_as_it_is_at_the_launch(device: str):
    view = view_of(device, [1.0, 2.0, 3.0], 2.0)
    assert launch(device, view)[0].numpy().tolist() == [2.0, 4.0, 6.0]
    view.factor = 3.0
    assert launch(device, view)[0].numpy().tolist() == [3.0, 6.0, 9.0]
    view.inner.values = wp.array([4.0, 5.0, 6.0], dtype=float, device=device)
    assert launch(device, view)[0].numpy().tolist() == [12.0, 15.0, 18.0]


def test_a_recorded_launch_goes_on_with_the_view_of_its_time(device: str):
    view = view_of(device, [1.0, 2.0, 3.0], 2.0)
    result, command = launch(device, view, record_cmd=True)
    view.factor = 5.0
    launch(device, view)
    gc.collect()
    command.launch()
    assert result.numpy().tolist() == [2.0, 4.0, 6.0]


def test_an_unchanged_view_is_put_on_the_device_once(device: str):
    view = view_of(device, [1.0, 2.0, 3.0], 2.0)
    keep_on_device(wp.get_device(device), view)
    first, *_ = resident_views(multiply, [view, 3, None], wp.get_device(device))
    second, *_ = resident_views(multiply, [view, 3, None], wp.get_device(device))
    assert first.ptr == second.ptr


def test_a_view_changed_in_a_capture_is_refused_where_memory_would_be_captured():
    if not wp.is_cuda_available():
        pytest.skip("a capture on the CPU does not know memory of NumPy")
    view = view_of("cuda", [1.0, 2.0, 3.0], 2.0)
    with wp.ScopedCapture(device="cuda"), pytest.raises(RuntimeError, match="View has changed"):
        resident_views(multiply, [view, 3, None], wp.get_device("cuda"))


def test_arrays_behind_a_view_are_kept(device: str):
    view = view_of(device, [1.0, 2.0, 3.0], 2.0)
    resident, *_ = resident_views(multiply, [view, 3, None], wp.get_device(device))
    assert [array.ptr for array in resident.pointed_to] == [view.inner.values.ptr]
    np.testing.assert_array_equal(resident.pointed_to[0].numpy(), [1.0, 2.0, 3.0])
