"""A box on a slope of 20 degrees sticks or slides as Coulomb's law predicts.

Run it with ``python -m newtonsim.examples box_on_slope``.
"""

import math

import numpy as np

import newtonsim
from newtonsim.solvers import FeatherstoneSolver

SLOPE = math.radians(20.0)
NORMAL = (-math.sin(SLOPE), 0.0, math.cos(SLOPE))
DOWNHILL = np.array([-math.cos(SLOPE), 0.0, -math.sin(SLOPE)])
DT, SECONDS, GRAVITY = 1.0 / 240.0, 1.0, 9.81


def slide(friction: float) -> tuple[float, float]:
    """Let a box of 0.2 m lie on the slope for a second.

    Args:
        friction: Coefficient of friction of the box and the slope.

    Returns:
        Distance and velocity downhill at the end [m, m/s].
    """
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=-GRAVITY)
    half_turn = SLOPE / 2.0  # about -y, from the vertical to the normal
    start = np.array(NORMAL) * 0.1
    body = builder.add_body(origin=(*start, 0.0, -math.sin(half_turn), 0.0, math.cos(half_turn)), key="box")
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, mu=friction)
    builder.set_ground_plane(normal=NORMAL, mu=friction)
    model = builder.finalize()
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    sim.step(round(SECONDS / DT))
    moved = sim.state.body_q.numpy()[0, :3] - start
    return float(moved @ DOWNHILL), float(sim.state.body_qd.numpy()[0, 3:] @ DOWNHILL)


def main() -> None:
    """Compare the slide with Coulomb's law below and above the friction angle, tan 20 deg = 0.364."""
    for friction in (0.5, 0.2, 0.0):
        distance, velocity = slide(friction)
        acceleration = max(0.0, GRAVITY * (math.sin(SLOPE) - friction * math.cos(SLOPE)))
        expected = acceleration * SECONDS
        print(f"friction {friction:.1f}: {distance:.4f} m, {velocity:.4f} m/s, by Coulomb {expected:.4f} m/s")
        assert abs(velocity - expected) < 0.02, "the velocity should be that of Coulomb's law"


if __name__ == "__main__":
    main()
