"""How tests bring scenes to rest, and what they ask of them."""

import numpy as np

import newtonsim


def settle(sim: newtonsim.Simulator, longest: int, still: float = 1e-4, every: int = 1) -> None:
    """Step until nothing moves: velocities are cleared whenever the kinetic energy has passed a maximum.

    Barnes, "Form finding and analysis of tension structures by dynamic relaxation", 1999: at the maximum the
    slowest mode passes its place of rest.

    Args:
        sim: The simulator.
        longest: Most steps.
        still: Kinetic energy, over the largest so far, that counts as rest.
        every: Steps between two looks.
    """
    mass = sim.model.particle_mass.numpy().astype(float)
    last, largest = 0.0, 0.0
    for _ in range(longest // every):
        sim.step(every)
        v = sim.state.particle_qd.numpy()
        energy = 0.5 * float(np.sum(mass[:, None] * v.astype(float) ** 2))
        assert np.isfinite(energy)
        if energy < last:
            if energy < still * largest and last < still * largest:
                return
            sim.state.particle_qd.zero_()
            energy = 0.0
        last, largest = energy, max(largest, energy)
