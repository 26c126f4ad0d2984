"""Seven-joint arms draw circles by torques, stiff in the plane and soft across it, under a load of 20 N.

Operational-space control runs in the recorded step, and so does the circle: nothing returns to Python. Run it
with ``python -m newtonsim.examples hand_on_a_circle``.
"""

from collections.abc import Callable

import numpy as np
import warp as wp

import newtonsim
from newtonsim.actuators import OperationalSpaceControl
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf

DT, RADIUS, SPEED, LOAD = wp.constant(1.0 / 240.0), wp.constant(0.1), wp.constant(2.0), 20.0
"""Time step [s], radius [m] and angular velocity [rad/s] of the circle, weight on the hand [N]."""
ACROSS = np.array([4000.0, 1000.0, 400.0])
"""Stiffness of each world along z [N/m], which is 4000 N/m along x and y."""


@wp.kernel
def circle(
    first: int,
    center: wp.array(dtype=wp.transform),
    clock: wp.array(dtype=float),
    target: wp.array(dtype=wp.transform),
    target_qd: wp.array(dtype=wp.spatial_vector),
    target_qdd: wp.array(dtype=wp.spatial_vector),
):
    """One thread per world: the place on the circle, its velocity and its acceleration."""
    w = first + wp.tid()
    out = RADIUS * wp.vec3(wp.cos(SPEED * clock[w]), wp.sin(SPEED * clock[w]), 0.0)
    still, middle = wp.vec3(0.0), wp.transform_get_translation(center[w])
    target[w] = wp.transform(middle + out, wp.transform_get_rotation(center[w]))
    target_qd[w] = wp.spatial_vector(still, SPEED * wp.cross(wp.vec3(0.0, 0.0, 1.0), out))
    target_qdd[w] = wp.spatial_vector(still, -SPEED * SPEED * out)
    clock[w] = clock[w] + DT


def main() -> None:
    """Let the arms go around once, and compare how far the load pushes them with what it does to springs."""
    arm = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    motors = dict(stiffness=0.0, damping=0.0, armature=0.1)  # no drives, and inertia behind gears
    parse_urdf(asset_path("arm7.urdf"), arm, **motors, enable_self_collisions=False)
    arm.joint_q[:] = [0.0, 0.5, 0.0, -1.2, 0.0, 1.4416, 0.0]  # the hand points down
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(arm, len(ACROSS), spacing=(0, 0, 0))
    model = scene.finalize()

    gains = dict(stiffness=(200.0, 200.0, 200.0, 4000.0, 4000.0, 4000.0), damping=(10, 10, 10, 200, 200, 200))
    control = OperationalSpaceControl(model, "link_7", decoupled=False, **gains)
    stiffness = control.stiffness.numpy()
    stiffness[:, 5] = ACROSS  # rotations first; along the axes of the target, whose z points down
    control.stiffness.assign(stiffness)
    start, clock = wp.clone(control.target), wp.zeros(len(ACROSS), dtype=float, device=model.device)

    def before(launch: Callable, sim: newtonsim.Simulator) -> None:
        writes = dict(target=control.target, target_qd=control.target_qd, target_qdd=control.target_qdd)
        launch(circle, "world", reads=dict(center=start), writes=dict(clock=clock, **writes))
        control(launch, sim)

    sim = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), DT, before=before)
    hands = newtonsim.View(sim, "link_7")
    hands.bodies.f[:, 0, 5] = -LOAD
    sim.step(round(2.0 * np.pi / SPEED / DT))
    x, y, z = 1000.0 * (hands.bodies.q[:, 0, :3] - start.numpy()[:, :3]).T
    off, sag = np.abs(np.hypot(x, y) - 1000.0 * RADIUS), 1000.0 * LOAD / ACROSS
    for world, stiffness in enumerate(ACROSS):
        print(f"{stiffness:4.0f} N/m: {off[world]:.2f} mm off the circle, {-z[world]:.1f} mm below it")
    assert np.all(off < 0.5), "the hands should be on the circle"
    assert np.allclose(-z, sag, rtol=0.03), "the load should push them as far as springs"


if __name__ == "__main__":
    main()
