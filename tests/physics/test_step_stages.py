"""Stages of a step that a solver was not asked for do nothing, and what a dry run passes leaves no trace."""

import numpy as np
import pytest

from newtonsim import Model, ModelBuilder
from newtonsim.kernels.views.model import TreeView
from newtonsim.runtime.compilation import dry_run, short_name
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.topology import topology_of
from newtonsim.solvers import BodyDamping, FeatherstoneSolver

DT = 0.01

STAGES = {
    "constraints.sleep": {"sleep": True},
    "penalty.contact_law": {"contact_mode": "compliant"},
}
"""Kernel files of stages, and the options that ask for them."""


def box_on_the_ground(device: str) -> Model:
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=(0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    builder.set_ground_plane()
    return builder.finalize(device)


def kernel_files(solver: FeatherstoneSolver) -> list[str]:
    """Files of the kernels that a step launches, in this order."""
    state = solver.model.state()
    with dry_run() as modules:
        solver.step(solver.model, state, state, None, None, DT)
    return [short_name(module) for module in modules]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_launches_only_where_it_was_asked_for(stage: str, device: str):
    model = box_on_the_ground(device)
    assert stage not in kernel_files(FeatherstoneSolver(model))
    assert stage in kernel_files(FeatherstoneSolver(model, **STAGES[stage]))


def test_stages_of_before_step_come_before_the_dynamics_and_can_be_taken_away(device: str):
    model = box_on_the_ground(device)
    solver = FeatherstoneSolver(model)
    plain = kernel_files(solver)
    solver.before_step = (BodyDamping(model),)
    damped = kernel_files(solver)
    assert "trees.damping" not in plain
    assert damped.index("trees.damping") < damped.index("trees.crba")
    solver.before_step = ()
    assert kernel_files(solver) == plain


def test_a_dry_run_is_no_step(device: str):
    solver = FeatherstoneSolver(box_on_the_ground(device))
    kernel_files(solver)
    with pytest.raises(RuntimeError, match="before the first step"):
        solver.contact_forces()


def test_another_topology_is_that_of_one_launcher_alone(device: str):
    model = box_on_the_ground(device)
    launch = Launcher(model, record_tape=False)
    tree = TreeView()
    other = launch.with_tree(tree)
    assert other.views.tree is tree
    assert launch.views.tree is topology_of(model).view
    assert other.views.joint is launch.views.joint


def test_speeds_are_limited_only_where_there_is_a_limit(device: str):
    model = box_on_the_ground(device)
    for limit, speed in ((None, 5.0), (2.0, 2.0)):
        solver, state = FeatherstoneSolver(model, speed_limit=limit), model.state()
        qd = np.zeros(6, np.float32)
        qd[5] = 5.0
        state.joint_qd.assign(qd)
        solver.step(model, state, state, None, None, 1.0e-6)
        assert state.joint_qd.numpy()[5] == pytest.approx(speed, rel=1.0e-5)
