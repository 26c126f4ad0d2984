"""A cloth falls on a sphere, is picked up at its ends and twisted, without passing through itself.

Run it with ``python -m newtonsim.examples twisted_cloth``.
"""

import numpy as np

import newtonsim
from newtonsim.solvers import VBDSolver

DT = 1.0 / 60.0
FALL, LIFT, TURN = 13, 30, 30
"""Steps until the cloth is picked up, until it is lifted, and for each turn."""
LENGTH, WIDTH = 2.0, 0.5
"""Of the cloth [m]."""
HEIGHT = 1.6
"""Of the axis about which the ends turn [m]."""
SHORTER = 0.25
"""Part of the length by which the twist brings the ends together."""


def sphere_and_cloth(cells: int) -> newtonsim.ModelBuilder:
    """One square metre of cloth, 0.9 kg, above a sphere.

    Args:
        cells: Cells across; four times as many along.
    """
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.set_ground_plane()
    builder.add_shape_sphere(-1, pos=(0.0, 0.0, 0.7), radius=0.25)
    cell = WIDTH / cells
    builder.add_cloth_grid(
        (-0.5 * LENGTH, -0.5 * WIDTH, 1.0),
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 0.0),
        4 * cells,
        cells,
        cell,
        cell,
        0.9 * cell * cell,
        tri_ke=100.0,
        tri_ka=100.0,
        tri_kd=0.0,
        tri_drag=0.0,
        tri_lift=0.0,
        edge_ke=1.0e-4,
        edge_kd=0.0,
        particle_radius=0.2 * cell,
    )
    builder.color(include_bending=True)
    return builder


def twist(cells: int = 12, turns: float = 4.0) -> newtonsim.Simulator:
    """Simulate the whole scene; half of the turns at each end.

    Args:
        cells: Cells across.
        turns: Turns of one end against the other.
    """
    model = sphere_and_cloth(cells).finalize()
    cell = WIDTH / cells
    model.soft_contact_radius, model.soft_contact_margin = 0.2 * cell, 0.35 * cell
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu = 100.0, 0.0, 0.3
    solver = VBDSolver(model, iterations=5, substeps=4, handle_self_contact=True)
    sim = newtonsim.Simulator(model, solver, DT)
    rest = model.particle_q.numpy()
    ends = np.flatnonzero(np.abs(rest[:, 0]) > 0.4999 * LENGTH)
    side, across = np.sign(rest[ends, 0]), rest[ends, 1]
    for _ in range(FALL):
        sim.step()
    flags = model.particle_flags.numpy().copy()
    flags[ends] = 0
    model.particle_flags.assign(flags)
    start = sim.state.particle_q.numpy()[ends].copy()
    straight = np.stack([0.5 * LENGTH * side, across, np.full(len(ends), HEIGHT)], axis=1)
    for step in range(LIFT):
        put(sim, ends, start + (step + 1) / LIFT * (straight - start))
    steps = round(TURN * turns)
    for step in range(steps):
        done = (step + 1) / steps
        angle, half = np.pi * turns * done * side, 0.5 * LENGTH * (1.0 - SHORTER * done**2)
        turned = [half * side, across * np.cos(angle), HEIGHT + across * np.sin(angle)]
        put(sim, ends, np.stack(turned, axis=1))
    return sim


def put(sim: newtonsim.Simulator, particles: np.ndarray, x: np.ndarray) -> None:
    """Step while held particles go to other places.

    Args:
        sim: The simulation.
        particles: Held particles (n,).
        x: Where they go [m], shape (n, 3).
    """
    q, qd = sim.state.particle_q.numpy().copy(), sim.state.particle_qd.numpy().copy()
    qd[particles] = (x - q[particles]) / DT
    q[particles] = x
    sim.state.particle_q.assign(q)
    sim.state.particle_qd.assign(qd)
    sim.step()


def main() -> None:
    """Twist the cloth and say how thick the rope is."""
    x = twist().state.particle_q.numpy()
    middle = x[np.abs(x[:, 0]) < 0.1]
    thickness = 2.0 * np.linalg.norm(middle[:, 1:] - middle[:, 1:].mean(axis=0), axis=1).max()
    print(f"a rope {100.0 * thickness:.0f} cm thick of a cloth 50 cm wide")
    assert thickness < 0.25, "the cloth should be twisted to a rope"


if __name__ == "__main__":
    main()
