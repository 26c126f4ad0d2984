"""Tasks of the benchmark of gradients: one builder each, handed to every engine.

The loss is a sum of random weights times positions and axes of all bodies, or positions of all particles, at
the end; the inputs are initial velocities and forces at the joints, the same in all steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import newtonsim
from tasks.gradient_scenes import Setting, add_ball, arm2, arm7, box, cloth, free_body

ARM = (3.0, 3.0, 2.0, 2.0, 0.3, 0.3, 0.01)
"""Natural sizes of the torques of the arm [N m]."""

DROP = 0.4
"""Height that the sphere falls from [m]."""


@dataclass(frozen=True)
class Task:
    """What engines simulate.

    Attributes:
        name: Name in the tables.
        build: Returns the builder for a time step and for contacts that are springs and dampers, or not.
        dt: Time step [s].
        steps: Number of steps.
        contact: Whether anything touches.
        particles: Whether it consists of particles.
        height: Whether the loss is the height of the only body.
        torques: Natural sizes of the forces at the joints, which are inputs then [N m].
    """

    name: str
    build: Callable[[Setting], newtonsim.ModelBuilder]
    dt: float
    steps: int
    contact: bool = False
    particles: bool = False
    height: bool = False
    torques: tuple[float, ...] = ()

    def builder(self, dt: float, penalty: bool) -> newtonsim.ModelBuilder:
        """Return the scene for a solver with a time step [s]."""
        return self.build(Setting(dt, penalty))

    def scales(self, count: int) -> np.ndarray:
        """Natural sizes of so many inputs: 1 for velocities, which come first, and those of the forces."""
        return np.append(np.ones(count - len(self.torques)), self.torques)

    def weights(self, count: int) -> np.ndarray:
        """Weights of the loss: of positions and of the x-axis of each body (count, 6)."""
        if self.height:
            return np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]], np.float32)
        return np.random.default_rng(8).uniform(-1.0, 1.0, (count, 6)).astype(np.float32)


def _undamped(build: Callable[[Setting], newtonsim.ModelBuilder]) -> Callable:
    """Leave out joint damping and armature, which engines treat each in its own way."""

    def without(setting: Setting) -> newtonsim.ModelBuilder:
        builder = build(setting)
        builder.joint_damping[:] = [0.0] * len(builder.joint_damping)
        builder.joint_armature[:] = [0.0] * len(builder.joint_armature)
        return builder

    return without


def bounce(setting: Setting) -> newtonsim.ModelBuilder:
    """A ball of 1 kg that is dropped and bounces without loss."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=-9.81)
    material = {"mu": 0.0, "restitution": 1.0}
    if setting.penalty:
        material |= {"ke": 1.0e4, "kd": 0.0, "kf": 0.0}
    add_ball(builder, DROP, material)
    return builder


def bounce_slope(time: float) -> float:
    """Slope of the height at a time [s] with respect to the initial vertical velocity, for a lossless bounce.

    The fall lasts √(2h/g), and v₀ upwards makes it longer by v₀/g and leaves the speed of impact w as it is
    to first order: the height w s - g s²/2 of the time s since then changes by -(w - g s) v₀/g.
    """
    g = 9.81
    impact = math.sqrt(2.0 * g * DROP)
    since = time - impact / g
    return -(impact - g * since) / g


TASKS = {
    task.name: task
    for task in (
        Task("free body", free_body, 1.0 / 240.0, 60),
        Task("double pendulum", _undamped(lambda s: arm2(s, False)), 1.0 / 240.0, 60, torques=(1.0, 1.0)),
        Task("7-link arm", _undamped(lambda s: arm7(s, False)), 1.0 / 240.0, 60, torques=ARM),
        Task("sphere bounce", bounce, 1.0 / 480.0, 240, contact=True, height=True),
        Task("box sliding", lambda s: box(s, 1.5), 1.0 / 240.0, 60, contact=True),
        Task("cloth", cloth, 1.0 / 240.0, 60, particles=True),
    )
}
"""All tasks by name."""
