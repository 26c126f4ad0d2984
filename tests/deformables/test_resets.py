"""Worlds that start anew within a recorded step, under solvers that keep forces from step to step."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import add_hinge, z_up

import newtonsim
from newtonsim import JointMode, Simulator
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver, VBDSolver, XPBDSolver

DT, STEPS, LATER, WORLDS = 1.0 / 240.0, 30, 20, 4


def worlds(device: str) -> newtonsim.Model:
    """In each world a soft cube that falls on a box on the ground, and a driven arm with a limit."""
    one = z_up()
    one.add_soft_grid(
        pos=(0.42, 0.0, 0.11), rot=(0.0, 0.0, 0.0, 1.0), vel=(0.2, 0.0, 0.0), dim_x=2, dim_y=2, dim_z=2,
        cell_x=0.05, cell_y=0.05, cell_z=0.05, density=500.0, k_mu=1e3, k_lambda=1e3, k_damp=1e-3,
    )  # fmt: skip
    box = one.add_body(origin=wp.transform((0.5, 0.0, 0.0505), wp.quat_identity()))
    one.add_joint_free(box)
    one.add_shape_box(box, hx=0.05, hy=0.05, hz=0.05, density=300.0)
    drive = {"mode": JointMode.TARGET_POSITION, "target": 2.0, "target_ke": 40.0, "target_kd": 1.0}
    add_hinge(one, mass=0.5, length=0.3, inertia=0.004, limit_upper=0.05, limit_lower=-1.0, **drive)
    one.particle_max_velocity = 100.0
    builder = z_up()
    builder.replicate(one, WORLDS, spacing=(0.0, 0.0, 0.0))
    builder.set_ground_plane()
    return builder.finalize(device)


SOLVERS = {
    "XPBD": lambda m: XPBDSolver(m, iterations=3, warm_start=0.7),
    "VBD": lambda m: VBDSolver(m, iterations=4),
    "SemiImplicit": SemiImplicitSolver,
    "Featherstone": lambda m: FeatherstoneSolver(m, deformables=XPBDSolver(m, iterations=3, warm_start=0.7)),
}


def run(
    model: newtonsim.Model, solver: str, masks: list[np.ndarray], threads: int
) -> list[dict[str, np.ndarray]]:
    """States after each step, at whose end the masked worlds start anew."""
    mask = wp.zeros(WORLDS, dtype=bool, device=model.device)

    def after(launch: object, sim: Simulator) -> None:
        sim.reset_worlds(launch, mask)

    sim = Simulator(model, SOLVERS[solver](model), DT, substeps=8, threads=threads, after=after)
    states = []
    for masked in masks:
        mask.assign(masked)
        sim.step()
        states.append(
            {
                n: getattr(sim.state, n).numpy().copy()
                for n in ("joint_q", "body_q", "particle_q", "particle_qd")
            }
        )
    return states


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_world_that_starts_anew_within_a_recording_is_a_new_one(device: str, solver: str, threads: int):
    """It moves as from the beginning, to the bit, and the others as if nothing had been."""
    model, none = worlds(device), np.zeros(WORLDS, bool)
    some = np.array([False, True, False, True])
    undisturbed = run(model, solver, [none] * (STEPS + LATER), threads)
    disturbed = run(model, solver, [none] * (STEPS - 1) + [some] + [none] * LATER, threads)
    for step in range(STEPS, STEPS + LATER):
        for name in undisturbed[0]:
            expected = undisturbed[step][name].reshape(WORLDS, -1).copy()
            expected[some] = undisturbed[step - STEPS][name].reshape(WORLDS, -1)[some]
            np.testing.assert_array_equal(disturbed[step][name].reshape(WORLDS, -1), expected, err_msg=name)
