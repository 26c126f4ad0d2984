"""What ``newtonsim run`` reports: the figures of a run, how they are computed, and their table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.cli.scene import UP, lowest_points, root_bodies
from newtonsim.geometry.transforms import quat_conjugate, quat_rotate

if TYPE_CHECKING:
    import warp as wp

    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

TOUCHING = 1.0e-3  # largest gap of a contact [m]
REST_SPEED = 0.05  # fastest centre of mass of a world at rest [m/s]
REST_TURN = 0.25  # and fastest rotation [rad/s]
UPRIGHT_TILT = math.radians(30.0)
# How far the base of a standing robot may be below its home height, which is zero or negative where the
# origin of the base is at its feet or below them.
STANDING_DROP_SHARE = 0.25  # of that height
STANDING_DROP_LEAST = 0.02  # [m]


@dataclass
class Figures:
    """The figures of a run; --json writes this object as it is.

    Counts are per world except `contacts`. Heights are those of the first free base, None if there is none.
    """

    file: str
    robot: str
    device: str
    worlds: int
    bodies: int
    joints: int
    dofs: int
    shapes: int
    mass: float
    time_step: float
    substeps: int
    steps: int
    simulated_seconds: float
    compile_seconds: float = 0.0
    wall_seconds: float = 0.0
    steps_per_second: float = 0.0
    real_time_factor: float = 0.0
    contacts: int = 0
    kinetic_energy: float = 0.0
    potential_energy: float = 0.0
    at_rest: int = 0
    home_height: float | None = None
    base_height_mean: float | None = None
    base_height_min: float | None = None
    base_height_max: float | None = None
    upright: int | None = None
    standing: int | None = None
    non_finite_worlds: list[int] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Home:
    """The first free base of a robot that stands on the ground in its home pose.

    Attributes:
        height: Height of the base above the ground [m].
        up: The vertical in the frame of the base (3,).
    """

    height: float
    up: np.ndarray

    @classmethod
    def of(cls, model: Model, state: State) -> Home | None:
        """Measure a state whose first world is in the home pose; return None if there is no free base."""
        bases = root_bodies(model)
        if not bases.size:
            return None
        pose = state.body_q.numpy()[bases[0, 0]].astype(np.float64)
        lowest = lowest_points(model, state)[0]
        height = pose[:3] @ UP - (lowest if np.isfinite(lowest) else 0.0)
        return cls(float(height), quat_rotate(quat_conjugate(pose[3:]), np.asarray(UP)))


def judge(model: Model, state: State, home: Home | None, figures: Figures) -> None:
    """Fill in the figures of the last state; non-finite worlds are counted, and left out of the rest."""
    from newtonsim import dynamics
    from newtonsim.collision.collide import collide

    worlds = figures.worlds
    body_q = state.body_q.numpy().reshape(worlds, -1, 7).astype(np.float64)
    body_qd = state.body_qd.numpy().reshape(worlds, -1, 6).astype(np.float64)
    joint_q = state.joint_q.numpy().reshape(worlds, -1)
    finite: Any = np.isfinite(body_q).all((1, 2)) & np.isfinite(body_qd).all((1, 2))
    finite = finite & np.isfinite(joint_q).all(1)
    figures.non_finite_worlds = np.flatnonzero(~finite).tolist()
    contacts = model.contact()
    collide(model, state, contacts)
    # The pass also finds points that are merely near.
    used = contacts.rigid_contact_shape0.numpy() >= 0
    figures.contacts = int(np.sum(used & (contacts.rigid_contact_distance.numpy() < TOUCHING)))
    if not finite.any():
        return
    figures.kinetic_energy = _mean_energy(dynamics.kinetic_energy(model, state), finite)
    figures.potential_energy = _mean_energy(dynamics.potential_energy(model, state), finite)
    turn, speed = np.linalg.norm(body_qd.reshape(worlds, -1, 2, 3), axis=-1).max(axis=1).T
    figures.at_rest = int(np.sum(finite & (speed < REST_SPEED) & (turn < REST_TURN)))
    if home is not None:
        base = body_q.reshape(-1, 7)[root_bodies(model)[:, 0]]
        height, cosine = base[:, :3] @ UP, quat_rotate(base[:, 3:], home.up) @ UP
        upright = finite & (cosine > math.cos(UPRIGHT_TILT))
        figures.home_height = home.height
        figures.base_height_mean = float(height[finite].mean())
        figures.base_height_min = float(height[finite].min())
        figures.base_height_max = float(height[finite].max())
        figures.upright = int(upright.sum())
        drop = max(STANDING_DROP_SHARE * abs(home.height), STANDING_DROP_LEAST)
        figures.standing = int((upright & (height > home.height - drop)).sum())


def _mean_energy(energy: wp.array, finite: np.ndarray) -> float:
    """Return the energy of a world [J], averaged over the finite ones; `energy` is per articulation."""
    per_world = energy.numpy().astype(np.float64).reshape(len(finite), -1).sum(axis=1)
    return float(per_world[finite].mean())


def table(figures: Figures) -> str:
    """Return the figures as a short table."""
    f = figures
    rows = [
        ("robot", f"{f.robot}: {f.bodies} bodies, {f.joints} joints, {f.dofs} dofs, {f.mass:.2f} kg"),
        ("worlds", f"{f.worlds} on {f.device}"),
        (
            "simulated",
            f"{f.simulated_seconds:g} s, {f.steps} steps of {f.time_step * 1e3:.4g} ms x {f.substeps}",
        ),
        ("kernels loaded in", f"{f.compile_seconds:.1f} s"),
        ("wall time", f"{f.wall_seconds:.2f} s"),
        ("environment steps", f"{f.steps_per_second:,.0f} per second"),
        ("real-time factor", f"{f.real_time_factor:,.1f}, all worlds together"),
        ("contacts", f"{f.contacts} ({f.contacts / f.worlds:.1f} per world)"),
        ("energy per world", f"kinetic {f.kinetic_energy:.3g} J, potential {f.potential_energy:.4g} J"),
    ]
    if f.base_height_mean is not None:
        low, high = f.base_height_min, f.base_height_max
        rows.append(("base height", f"mean {f.base_height_mean:.3f} m, {low:.3f} to {high:.3f} m"))
        rows.append(("upright", f"{f.upright} of {f.worlds}"))
        rows.append(("standing", f"{f.standing} of {f.worlds} (home height {f.home_height:.3f} m)"))
    rows.append(("at rest", f"{f.at_rest} of {f.worlds}"))
    rows.append(("non-finite worlds", _numbers(f.non_finite_worlds)))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _numbers(worlds: list[int]) -> str:
    """Return the indices of worlds as a shortened list."""
    if not worlds:
        return "none"
    more = f" and {len(worlds) - 20} more" if len(worlds) > 20 else ""
    return ", ".join(map(str, worlds[:20])) + more
