"""What options do to gradients: sweeps that stop early, softened contact, and the length of a step."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.solvers import FeatherstoneSolver, VBDSolver, XPBDSolver
from tasks import pushing

GRAVITY = 9.81
SOLVERS = {"XPBD": XPBDSolver, "VBD": VBDSolver}
SPANS = (1e-2, 3e-3, 1e-3)
"""Spans of differences, in natural lengths."""

PUSHED = {
    "slider pushes a box": "slider at the box",
    "slider hits a box": "slider hits the box",
    "arm that pushes a box from rest": "arm from rest",
    "arm that swings into it": "arm swings",
    "ball that tips a high box": "box tips over",
}
"""Scenes of the table, and their names in `tasks.pushing`."""

INPUTS = {"joint_qd": "speeds", "joint_f": "forces, in tens of newtons", "joint_q": "positions"}


@wp.kernel
def add_particles(
    q: wp.array(dtype=wp.vec3),
    qd: wp.array(dtype=wp.vec3),
    weights: wp.array(dtype=wp.vec3),
    losses: wp.array(dtype=float),
):
    i = wp.tid()
    wp.atomic_add(losses, 0, wp.dot(weights[i], q[i] + 0.1 * qd[i]))


@wp.kernel
def add_places(body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    p = wp.transform_get_translation(body_q[wp.tid()])
    wp.atomic_add(losses, 0, p[0] + 2.0 * p[1] - p[2])


@wp.kernel
def add_height(body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    wp.atomic_add(losses, 0, wp.transform_get_translation(body_q[wp.tid()])[2])


def sweeps(short: bool) -> list[dict[str, object]]:
    """Return how far gradients are off where iterations stop early, and what warnings say."""
    rows = []
    for name in SOLVERS:
        exact, _ = cloth(name, 100 if short else 1000)
        for count in (2, 5, 10, 20, 40):
            found, warned = cloth(name, count)
            rows.append(_row(f"cloth of 3 x 3 cells, {name}", count, warned, found, exact))
    if not short:
        exact, _ = boxes(30_000, 1e-8)
        for count in (64, 128, 512, 1000):
            found, warned = boxes(count, 1e-7)
            rows.append(_row("10 kg slide on 0.1 kg, Featherstone", count, warned, found, exact))
    return rows


def _row(scene: str, count: int, warned: str, found: np.ndarray, exact: np.ndarray) -> dict[str, object]:
    away = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    return {
        "scene": scene,
        "iterations": count,
        "warning_says": warned,
        "error_of_the_gradient": percent(float(away)),
    }


def percent(*shares: float) -> str:
    """Return shares in per cent with two digits, or that they are below a thousandth of a per cent."""
    return " / ".join(_two_digits(100.0 * share) for share in shares) + " %"


def _two_digits(value: float) -> str:
    if value < 1.0e-3:
        return "below 0.001"
    return f"{value:.0f}" if value >= 10.0 else f"{value:.2g}"


def _watched(rollout: diff.Rollout, *arguments: object) -> tuple[dict[str, wp.array], str]:
    """Return gradients, and the share that the warning of an early end names, "no warning" without one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gradients = rollout(*arguments).gradients
    texts = [str(warning.message) for warning in caught]
    shares = [m[1] for text in texts if (m := re.search(r"(?:left|ended) (\d+)%", text))]
    return gradients, f"{shares[-1]} %" if shares else "no warning"


def cloth(solver: str, iterations: int) -> tuple[np.ndarray, str]:
    """Return the gradient of ten steps of creased cloth by its positions, and what the warning says.

    Args:
        solver: One of `SOLVERS`.
        iterations: Iterations of a step.
    """
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_cloth_grid(
        pos=(-0.2, -0.2, 0.8),
        rot=(0.0, 0.0, 0.0, 1.0),
        vel=(0.1, 0.2, 0.0),
        dim_x=3,
        dim_y=3,
        cell_x=0.1,
        cell_y=0.1,
        mass=0.02,
        tri_ke=100.0,
        tri_ka=60.0,
        edge_ke=1e-3,
        fix_left=True,
        particle_radius=0.01,
    )
    model = builder.finalize("cpu", requires_grad=True)
    weights = np.random.default_rng(0).normal(size=(model.particle_count, 3))
    weights = wp.array(weights, dtype=wp.vec3, device="cpu")

    def loss(state: newtonsim.State, losses: wp.array) -> None:
        inputs = [state.particle_q, state.particle_qd, weights]
        wp.launch(add_particles, model.particle_count, inputs, [losses], device="cpu")

    rollout = diff.Rollout(
        model, SOLVERS[solver](model, iterations=iterations), 10, 1.0 / 120.0, loss, wrt=("state.particle_q",)
    )
    state = model.state()
    rng = np.random.default_rng(1)
    moved = state.particle_q.numpy() + rng.uniform(-0.005, 0.005, (model.particle_count, 3))
    state.particle_q.assign(moved.astype(np.float32))
    gradients, warned = _watched(rollout, state)
    return gradients["state.particle_q"].numpy().astype(float), warned


def boxes(iterations: int, tolerance: float) -> tuple[np.ndarray, str]:
    """Return the gradient by velocities of a heavy box that slides on a light one, and what the warning says.

    Args:
        iterations: Most sweeps of a step, without Newton's method.
        tolerance: Where they end [m/s].
    """
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for k, mass in enumerate((0.1, 10.0)):
        turn = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.2 * k)
        half = (0.06, 0.072, 0.1) if k else (0.1, 0.12, 0.1)
        body = builder.add_body(origin=wp.transform((0.01 * k, 0.0, 0.1 + 0.2 * k), turn))
        material = {"mu": 0.1, "restitution": 0.0, "density": mass / (8.0 * math.prod(half))}
        builder.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2], **material)
    builder.set_ground_plane(mu=0.6, restitution=0.0)
    model = builder.finalize("cpu", requires_grad=True)
    state = model.state()
    state.joint_qd.assign(np.tile([0.0, 0.0, 0.0, 1.0, 0.2, 0.0], 2).astype(np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    solver = FeatherstoneSolver(model, iterations=iterations, tolerance=tolerance, factorizations=0)

    def loss(state: newtonsim.State, losses: wp.array) -> None:
        wp.launch(add_places, model.body_count, [state.body_q], [losses], device="cpu")

    rollout = diff.Rollout(model, solver, 20, 1.0 / 240.0, loss, wrt=("state.joint_qd",))
    gradients, warned = _watched(rollout, state)
    return gradients["state.joint_qd"].numpy().astype(float), warned


def smoothing(short: bool) -> list[dict[str, object]]:
    """Return how far gradients of what is pushed are from differences over three spans."""
    columns = {"rigid, 16 steps": (16, 0.0), "smoothing 5 mm, 16 steps": (16, 5e-3)}
    columns |= {} if short else {"smoothing 5 mm, 64 steps": (64, 5e-3)}
    rows = []
    for title, name in list(PUSHED.items())[: 1 if short else None]:
        found: dict[str, dict[str, str]] = {key: {} for key in INPUTS}
        for column, (steps, width) in columns.items():
            scene = pushing.scene_of(name, steps, width, "cpu")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # rigid contacts warn of what the table shows
                gradients = pushing.gradients_of(scene)
            for key in INPUTS:
                errors = pushing.error(scene.all_slopes(key, SPANS), gradients[key])
                found[key][column] = percent(*errors)
        rows += [{"scene": title, "input": INPUTS[key]} | found[key] for key in INPUTS]
    return rows


def bounces(short: bool) -> list[dict[str, object]]:
    """Return how far the slope of a bounce is from that in continuous time, by the length of a step."""
    rows = []
    for restitution in (1.0, 0.7):
        fall = math.sqrt(2.0 * 0.4 / GRAVITY)
        exact = 0.5 - fall - restitution * fall
        row: dict[str, object] = {"restitution": restitution}
        for parts in (1, 4) if short else (1, 4, 16):
            slope = _slope_of_a_bounce(restitution, parts)
            row[f"dt = 1/{240 * parts} s"] = percent(abs(slope - exact) / abs(exact))
        rows.append(row)
    return rows


def _slope_of_a_bounce(restitution: float, parts: int) -> float:
    """Return the derivative by the upward velocity of the height 0.5 s after a drop from 0.4 m [s]."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    ball = builder.add_body(origin=((0.0, 0.0, 0.5), (0.0, 0.0, 0.0, 1.0)))
    builder.add_shape_sphere(ball, radius=0.1, restitution=restitution)
    builder.set_ground_plane(restitution=restitution)
    model = builder.finalize("cpu", requires_grad=True)

    def loss(state: newtonsim.State, losses: wp.array) -> None:
        wp.launch(add_height, 1, [state.body_q], [losses], device="cpu")

    steps, dt = 120 * parts, 1.0 / (240.0 * parts)
    rollout = diff.Rollout(model, FeatherstoneSolver(model), steps, dt, loss, wrt=("state.joint_qd",))
    return float(rollout(model.state()).gradients["state.joint_qd"].numpy()[5])
