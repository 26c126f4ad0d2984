"""Launches by the names of a kernel's parameters."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.errors import LaunchError
from newtonsim.runtime import compilation
from newtonsim.runtime.launcher import Launcher

BODIES = 3


@wp.kernel
def weigh(
    first: int,
    x: wp.array(dtype=float),
    out: wp.array(dtype=float),
    factor: float,
    sums: wp.array(dtype=float),
):
    """One thread per body: out = factor x, and the sum of all x."""
    i = first + wp.tid()
    out[i] = factor * x[i]
    wp.atomic_add(sums, 0, x[i])


@pytest.fixture
def model() -> newtonsim.Model:
    builder = newtonsim.ModelBuilder()
    for _ in range(BODIES):
        builder.add_body()
    return builder.finalize(device="cpu")


def arrays(requires_grad: bool = False) -> tuple[wp.array, wp.array, wp.array]:
    options = {"device": "cpu", "requires_grad": requires_grad}
    x = wp.array([1.0, 2.0, 4.0], dtype=float, **options)
    return x, wp.zeros(BODIES, dtype=float, **options), wp.zeros(1, dtype=float, **options)


def test_values_go_where_they_are_named(model: newtonsim.Model):
    x, out, sums = arrays()
    launch = Launcher(model, record_tape=False)
    launch(weigh, "body", reads=dict(factor=3.0, x=x), writes=dict(sums=sums, out=out))
    np.testing.assert_array_equal(out.numpy(), [3.0, 6.0, 12.0])
    assert sums.numpy()[0] == 7.0
    reads, writes = dict(first=1, x=x, factor=-1.0), dict(out=out, sums=sums)
    compilation.launch(weigh, BODIES - 1, device="cpu", reads=reads, writes=writes)
    np.testing.assert_array_equal(out.numpy(), [3.0, -2.0, -4.0])


def test_kernels_of_users_are_launched_by_order(model: newtonsim.Model):
    x, out, sums = arrays()
    Launcher(model, record_tape=False).user_kernel(weigh, "body", x, out, 2.0, sums)
    np.testing.assert_array_equal(out.numpy(), [2.0, 4.0, 8.0])


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"factor": None}, "'factor' is missing"),
        ({"out": 1.0}, "'out' is given twice"),
        ({"factor": None, "factr": 1.0}, "there is no parameter 'factr'; did you mean 'factor'"),
        ({"first": 0}, "there is no parameter 'first'"),
    ],
)
def test_names_that_do_not_fit(model: newtonsim.Model, wrong: dict, fault: str):
    x, out, sums = arrays()
    reads = {name: value for name, value in (dict(x=x, factor=1.0) | wrong).items() if value is not None}
    launch = Launcher(model, record_tape=False)
    for call in (launch, launch.off_tape, launch.backward_only):
        with pytest.raises(LaunchError, match=f"weigh: .*{fault}"):
            call(weigh, "body", reads=reads, writes=dict(out=out, sums=sums))
    assert not out.numpy().any()


def test_tapes_see_what_is_written_last_as_outputs(model: newtonsim.Model):
    x, out, sums = arrays(requires_grad=True)
    with wp.Tape() as tape:
        launch = Launcher(model, record_tape=True)
        launch(weigh, "body", reads=dict(x=x, factor=3.0), writes=dict(out=out, sums=sums))
        launch.off_tape(weigh, "body", reads=dict(x=x, factor=5.0), writes=dict(out=out, sums=sums))
    (recorded,) = tape.launches
    inputs, outputs = recorded[3:5]
    assert (len(inputs), list(outputs)) == (4, [sums])
    sums.grad.fill_(1.0)
    out.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(BODIES, 4.0))
