"""Robots that push, grip and tip: gradients of how far, beside differences over several spans."""

from __future__ import annotations

import functools

import numpy as np

from tasks import pushing_scenes as scenes

STATE = ("state.joint_q", "state.joint_qd", "control.joint_f", "model.body_mass")
# builder, steps of rest before, velocities and forces of the first axes, and the coordinate that is the loss
SCENES = {
    "slider at the box": (lambda: scenes.slider(gap=0.0), 120, (0.5,), (12.0,), 1),
    "slider from rest": (lambda: scenes.slider(gap=0.0), 120, (0.0,), (12.0,), 1),
    "slider hits the box": (lambda: scenes.slider(gap=0.012), 120, (0.5,), (0.0,), 1),
    "slider hits the box later in a step": (lambda: scenes.slider(gap=0.013), 120, (0.5,), (0.0,), 1),
    "arm from rest": (scenes.arm, 120, (0.0, 0.0), (3.0, 1.0), 3),
    "arm swings": (scenes.arm, 120, (1.0, 0.5), (1.0, 0.3), 3),
    "arm and a heavy ball": (lambda: scenes.arm(scenes.add_heavy_ball), 60, (0.8, 0.3), (0.5, 0.2), 3),
    "fingers close": (scenes.gripper, 0, (0.2, 0.15), (20.0, 20.0), 2),
    "box tips over": (scenes.tipper, 120, (0.3,), (10.0,), 1),
}
"""Scenes by their names."""


@functools.cache
def scene_of(name: str, steps: int, smoothing: float, device: str) -> scenes.Scene:
    """Return a scene at rest, with its velocities and forces.

    Args:
        name: One of `SCENES`.
        steps: Number of steps.
        smoothing: Width of contacts [m], 0 for rigid ones.
        device: Device.
    """
    make, rest, speeds, forces, coordinate = SCENES[name]
    builder, options = make(), {"smoothing": smoothing}
    q, qd = scenes.settled(builder, rest, options, device)
    qd[: len(speeds)] = speeds
    force = np.zeros(len(qd))
    force[: len(forces)] = forces
    return scenes.Scene(builder, q, qd, ("joint_q", coordinate), steps, options, device, force)


def gradients_of(scene: scenes.Scene) -> dict[str, np.ndarray]:
    """Return gradients in natural lengths, by the last part of the names of inputs."""
    rollout, arguments = scene.rollout(STATE)
    found = {name.split(".")[1]: g.numpy().astype(float) for name, g in rollout(*arguments).gradients.items()}
    found["joint_f"] *= 10.0
    found["body_mass"] *= 0.5 * rollout.model.body_mass.numpy()
    return found


def error(slopes: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the largest difference of an entry over the largest entry, for each span."""
    return np.abs(slopes - gradient[:, None]).max(axis=0) / np.abs(slopes).max(axis=0)
