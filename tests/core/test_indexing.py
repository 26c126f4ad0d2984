"""Kernels of the package index plainly, those of users as Warp does, and arrays with gaps are refused."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.trees import tree_smooth
from newtonsim.runtime import indexing
from newtonsim.runtime.checked import config
from newtonsim.solvers import FeatherstoneSolver


@wp.kernel(enable_backward=False)
def read_from_the_end(values: wp.array(dtype=float), found: wp.array(dtype=float)):
    found[0] = values[-1]


def pendulum(device: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder()
    body = builder.add_body()
    builder.add_shape_sphere(body, radius=0.1)
    builder.add_joint_revolute(-1, body, axis=(0.0, 0.0, 1.0))
    return builder.finalize(device)


def test_arrays_with_gaps_are_refused(device: str):
    model = pendulum(device)
    gaps = wp.zeros(2, dtype=float, device=device)[::2]
    with pytest.raises(
        NewtonsimError, match=r"Model\.joint_armature: expected a contiguous array, got .*\(8,\)"
    ):
        model.joint_armature = gaps
    state = model.state()
    with pytest.raises(NewtonsimError, match=r"State\.joint_q: expected a contiguous array"):
        state.joint_q = gaps
    with pytest.raises(NewtonsimError, match=r"\bq: expected a contiguous array"):
        newtonsim.eval_fk(model, gaps, state.joint_qd, None, state)
    assert model.joint_armature.is_contiguous


def test_modules_of_the_package_index_plainly(device: str):
    model = pendulum(device)
    newtonsim.Simulator(model, FeatherstoneSolver(model), 0.01).step()
    options = tree_smooth.begin_trees.module.options["extra_build_options"]
    assert options is not None
    assert (options is indexing._OPTIONS) != config.checks_indices
    assert read_from_the_end.module.options["extra_build_options"] is None


def test_kernels_of_users_count_from_the_end(device: str):
    values = wp.array(np.arange(1.0, 4.0), dtype=float, device=device)
    found = wp.zeros(1, dtype=float, device=device)
    wp.launch(read_from_the_end, 1, [values, found], device=device)
    assert found.numpy()[0] == 3.0
