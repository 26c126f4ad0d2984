"""The first backward pass of a solver loads all kernel files that it needs at once, by all cores."""

import numpy as np
import pytest
import warp as wp

from newtonsim import ModelBuilder
from newtonsim.runtime import compilation
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver


def falling_ball() -> ModelBuilder:
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.09), wp.quat_identity()))
    builder.add_joint_free(body)
    builder.add_shape_sphere(body, radius=0.1)
    builder.set_ground_plane()
    return builder


def gradient(kind: type) -> np.ndarray:
    """Gradient of the final velocity by the initial one."""
    model = falling_ball().finalize("cpu", requires_grad=True)
    solver, start, end = kind(model), model.state(), model.state()
    with wp.Tape() as tape:
        solver.step(model, start, end, None, None, 1.0 / 240.0)
    end.joint_qd.grad.fill_(1.0)
    tape.backward()
    return start.joint_qd.grad.numpy()


@pytest.mark.parametrize("kind", [FeatherstoneSolver, SemiImplicitSolver])
def test_the_first_backward_pass_loads_its_kernels_at_once(kind: type, monkeypatch):
    expected = gradient(kind)
    loads = []

    def load(modules, device):
        loads.append([*dict.fromkeys(modules)])
        return original(loads[-1], device)

    original = compilation.load
    monkeypatch.setattr(compilation, "load", load)
    monkeypatch.setattr(compilation, "_loaded", set())
    monkeypatch.setattr(compilation, "_kinds", set())
    found = gradient(kind)
    step, backward, *later = loads
    assert len(step) > 1
    assert len(backward) > 1
    assert later == []
    assert (found == expected).all()
