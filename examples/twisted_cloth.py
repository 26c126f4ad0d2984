"""A cloth falls on a sphere, is picked up at two edges and twisted, without passing through itself.

Run it with ``python -m newtonsim.examples.twisted_cloth``.
"""

import numpy as np

import newtonsim
from newtonsim.solvers import VBDSolver

DT = 1.0 / 60.0
FALL, LIFT, TURN = 13, 30, 30
"""Steps until the cloth is picked up, until it is lifted, and for each turn."""
HEIGHT = 1.6
"""Of the axis about which the edges turn [m]."""


def sphere_and_cloth(cells: int) -> newtonsim.ModelBuilder:
    """One square metre of cloth, 0.9 kg, above a sphere.

    Args:
        cells: Cells along each side.
    """
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.set_ground_plane()
    builder.add_shape_sphere(-1, pos=(0.0, 0.0, 0.7), radius=0.25)
    cell = 1.0 / cells
    builder.add_cloth_grid(
        (-0.5, -0.5, 1.0),
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 0.0),
        cells,
        cells,
        cell,
        cell,
        0.9 / (cells + 1) ** 2,
        tri_ke=30.0,
        tri_ka=30.0,
        tri_kd=0.0,
        tri_drag=0.0,
        tri_lift=0.0,
        edge_ke=1.0e-4,
        edge_kd=0.0,
        particle_radius=0.2 * cell,
    )
    builder.color(include_bending=True)
    return builder


def twist(cells: int = 32, turns: float = 4.0) -> newtonsim.Simulator:
    """Simulate the whole scene; half of the turns at each edge.

    Args:
        cells: Cells along each side.
        turns: Turns of one edge against the other.
    """
    model = sphere_and_cloth(cells).finalize()
    model.soft_contact_radius, model.soft_contact_margin = 0.2 / cells, 0.35 / cells
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu = 100.0, 0.0, 0.3
    solver = VBDSolver(model, iterations=5, substeps=4, handle_self_contact=True)
    sim = newtonsim.Simulator(model, solver, DT)
    for _ in range(FALL):
        sim.step()
    columns = cells + 1
    left = np.arange(columns) * columns
    ends = np.concatenate([left, left + cells])
    flags = model.particle_flags.numpy().copy()
    flags[ends] = 0
    model.particle_flags.assign(flags)
    side = np.repeat([-1.0, 1.0], columns)
    across = np.tile(np.linspace(-0.5, 0.5, columns), 2)
    start = sim.state.particle_q.numpy()[ends].copy()
    straight = np.stack([0.5 * side, across, np.full(len(ends), HEIGHT)], axis=1)
    for step in range(LIFT):
        put(sim, ends, start + (step + 1) / LIFT * (straight - start))
    for step in range(round(TURN * turns)):
        angle = np.pi * (step + 1) / TURN * side
        turned = [0.5 * side, across * np.cos(angle), HEIGHT + across * np.sin(angle)]
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
    print(f"a rope {100.0 * thickness:.0f} cm thick of a cloth 100 cm wide")
    assert thickness < 0.5, "the cloth should be twisted to a rope"


if __name__ == "__main__":
    main()
