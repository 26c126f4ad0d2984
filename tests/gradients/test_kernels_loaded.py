"""The first backward pass of a solver loads all kernel files that it needs at once, by all cores."""

from collections.abc import Callable

import numpy as np
import pytest
import warp as wp

from newtonsim import ModelBuilder
from newtonsim.runtime import compilation
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver, VBDSolver, XPBDSolver


def falling_ball() -> ModelBuilder:
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.09), wp.quat_identity()))
    builder.add_joint_free(body)
    builder.add_shape_sphere(body, radius=0.1)
    builder.set_ground_plane()
    return builder


def hanging_mass() -> ModelBuilder:
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for z, mass in ((1.0, 0.0), (0.9, 0.1)):
        builder.add_particle(pos=(0.0, 0.0, z), vel=(0.0, 0.0, 0.0), mass=mass)
    builder.add_spring(0, 1, 100.0, 0.1, control=0.0)
    return builder


def ball_under_mass() -> ModelBuilder:
    builder = falling_ball()
    builder.add_particle(pos=(0.0, 0.0, 0.2), vel=(0.0, 0.0, 0.0), mass=0.1)
    return builder


def gradient(kind: type, describe: Callable[[], ModelBuilder], moved: str) -> np.ndarray:
    """Gradient of the final velocities of bodies or particles by the initial ones."""
    builder = describe()
    if kind is VBDSolver:
        builder.color()
    model = builder.finalize("cpu", requires_grad=True)
    solver, start, end = kind(model), model.state(), model.state()
    with wp.Tape() as tape:
        solver.step(model, start, end, None, None, 1.0 / 240.0)
    getattr(end, moved).grad.fill_(1.0)
    tape.backward()
    return getattr(start, moved).grad.numpy()


@pytest.mark.parametrize(
    ("kind", "describe", "moved"),
    [
        (FeatherstoneSolver, falling_ball, "joint_qd"),
        (SemiImplicitSolver, falling_ball, "joint_qd"),
        *((kind, falling_ball, "body_qd") for kind in (XPBDSolver, VBDSolver)),
        *((kind, hanging_mass, "particle_qd") for kind in (XPBDSolver, VBDSolver)),
        *((kind, ball_under_mass, "body_qd") for kind in (XPBDSolver, VBDSolver)),
    ],
)
def test_the_first_backward_pass_loads_its_kernels_at_once(
    kind: type, describe: Callable[[], ModelBuilder], moved: str, monkeypatch: pytest.MonkeyPatch
):
    expected = gradient(kind, describe, moved)
    loads = []

    def load(modules, device):
        loads.append([*dict.fromkeys(modules)])
        return original(loads[-1], device)

    original = compilation.load
    monkeypatch.setattr(compilation, "load", load)
    monkeypatch.setattr(compilation, "_loaded", set())
    monkeypatch.setattr(compilation, "_kinds", set())
    found = gradient(kind, describe, moved)
    if describe is not falling_ball:  # those of the adjoint of particles, when the solver is made
        made, *loads = loads
        assert len(made) > 1
    step, backward, *later = loads
    assert len(step) > 1
    assert len(backward) > 1
    assert later == []
    assert (found == expected).all()
