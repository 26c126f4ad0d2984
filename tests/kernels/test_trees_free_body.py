"""Free bodies in closed form: the same numbers as from the passes over trees, which GPUs take for them."""

import numpy as np
import pytest
import warp as wp
from emulated_teams import Memory, emulate

import newtonsim
from newtonsim.runtime import capture
from newtonsim.scene.levels import levels_of
from newtonsim.solvers import FeatherstoneSolver

STAGES = ("begin_trees", "finish_trees", "advance_trees")
UNUSED = ("dof_X", "dof_A", "floor")
"""What only the passes themselves read."""
COUNT = 40


def free_bodies() -> newtonsim.Model:
    """Bodies with any inertia and centre of mass, some of which touch the ground."""
    rng = np.random.default_rng(2)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for i in range(COUNT):
        pose = wp.transform(
            rng.normal(size=3) + np.array([3.0 * i, 0.0, 2.0]), wp.normalize(wp.quat(*rng.normal(size=4)))
        )
        A = rng.normal(size=(3, 3))
        inertia = 0.1 * (A @ A.T + np.trace(A @ A.T) * np.eye(3))
        body = builder.add_body(
            origin=pose,
            mass=rng.uniform(0.1, 10.0),
            com=0.2 * rng.normal(size=3),
            I_m=inertia,
        )
        builder.add_shape_sphere(body, radius=1.5 if i % 4 == 0 else 0.1, density=0.0)
    builder.set_ground_plane()
    return builder.finalize("cpu")


def stages_of(model: newtonsim.Model) -> list[wp.Launch]:
    """Record a step amid a motion, with wrenches and generalised forces."""
    rng = np.random.default_rng(3)
    solver, state, control = FeatherstoneSolver(model), model.state(), model.control()
    state.joint_qd.assign(rng.normal(size=6 * COUNT) * np.tile([20.0, 5.0, 0.1, 1.0, 1.0, 1.0], COUNT))
    control.joint_f.assign(rng.normal(size=6 * COUNT))

    def step() -> None:
        state.body_f.assign(rng.normal(size=(COUNT, 6)))
        solver.step(model, state, state, control, None, 1.0 / 240.0)

    step()
    with capture._collect() as commands:
        step()
    return commands


def numbers_of(command: wp.Launch) -> dict[str, np.ndarray]:
    """All arrays of a launch by name, those of views as well."""
    found = {}
    for argument, value in zip(command.kernel.adj.args, command.fwd_args):
        members = vars(value) if hasattr(value, "__ctype__") and not isinstance(value, wp.array) else {}
        found |= {argument.label: value} | {
            f"{argument.label}.{key}": array for key, array in members.items()
        }
    return {
        name: array.numpy().astype(np.float64).copy()
        for name, array in found.items()
        if isinstance(array, wp.array) and array.size and name.split(".")[-1] not in UNUSED
    }


@pytest.mark.parametrize("stage", STAGES)
def test_closed_form_gives_the_numbers_of_the_passes(stage: str):
    model = free_bodies()
    levels = levels_of(model, wide=True)
    for command in stages_of(model):
        if command.kernel.key == stage:
            memory = Memory(capture._arrays_of(command.fwd_args))
            before = memory.copy()
            emulate(command, levels, [0])
            expected = numbers_of(command)
            memory.put_back(before)
            command.launch()
            found = numbers_of(command)
            assert len(expected) > 10
            for name, values in expected.items():
                np.testing.assert_array_equal(found[name], values, err_msg=name)
            return
        command.launch()
    pytest.fail(f"no launch of {stage}")
