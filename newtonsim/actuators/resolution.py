"""Whether steps are short enough for the gains of explicit control."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.actuators.groups import PDGroup
from newtonsim.dynamics.quantities import Dynamics

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_GROWTH = 1.01
"""Growth per step that counts as unstable; floating bases have 1, which rounding blurs."""
_MOST_NAMED = 4


def warn_of_gains(model: Model, groups: Sequence[PDGroup], dt: float) -> None:
    """Warn if explicit control makes small motions of a robot grow from step to step, see `growth`.

    The robots of the first world that has actuators, in the pose of the model, with nothing in contact: what
    stands on the ground is stiffer. Delays and activations, which make it worse, do not count.

    Args:
        model: The model.
        groups: Explicit control of position.
        dt: Time of a solver step [s].
    """
    if not model.articulation_count:
        return
    gains, dofs = np.zeros((3, model.joint_dof_count)), []
    damping: np.ndarray = model.joint_damping.numpy()
    for group in groups:
        first: np.ndarray = group.world.numpy() == group.world.numpy().min(initial=model.world_count)
        dof: np.ndarray = group.dof.numpy()[first]
        axis: np.ndarray = group.axis.numpy()[first]
        gains[0, dof], gains[1, dof] = group.stiffness.numpy()[first], group.damping.numpy()[first]
        gains[2, dof] = damping[axis]
        dofs += dof.tolist()
    articulations: np.ndarray = model.articulation_start.numpy()
    starts: np.ndarray = model.joint_qd_start.numpy()[articulations]
    inertias = Dynamics(model).mass_matrix(model.state()).numpy()
    for robot in np.unique(np.searchsorted(starts, dofs, side="right") - 1):
        own = slice(starts[robot], starts[robot + 1])
        size = own.stop - own.start
        inertia = inertias[robot, :size, :size].astype(float)
        rate, share = growth(inertia, gains[0, own], gains[1, own], gains[2, own], dt)
        if rate <= _GROWTH:
            continue
        shorter = dt
        while (
            shorter > 1e-3 * dt
            and growth(inertia, gains[0, own], gains[1, own], gains[2, own], shorter)[0] > _GROWTH
        ):
            shorter *= 0.95
        moving = own.start + np.flatnonzero(share >= 0.5 * share.max())
        joints = np.searchsorted(model.joint_qd_start.numpy(), moving, side="right") - 1
        names = [repr(model.joint_key[joint]) for joint in dict.fromkeys(joints.tolist())]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        warnings.warn(
            f"actuators: gains of {', '.join(names[:_MOST_NAMED])}{more} are too large for explicit control "
            f"in steps of {dt:g} s: without contact, small motions grow by a factor of {rate:.3g} per step. "
            f"Shorter steps ({shorter:.2g} s), less damping, the inertia of the rotors (armature), or Drive, "
            "which is implicit, make it stable",
            stacklevel=5,
        )
        return


def growth(
    inertia: np.ndarray, stiffness: np.ndarray, damping: np.ndarray, passive: np.ndarray, dt: float
) -> tuple[float, np.ndarray]:
    """Return by which factor small motions under explicit PD control grow per step, and what moves.

    The spectral radius of the step v' = v - h (M + h B)⁻¹ (K q + D v), q' = q + h v', with the passive
    damping B implicit.

    Args:
        inertia: M, (n, n).
        stiffness: K of each degree of freedom, (n,).
        damping: D, likewise.
        passive: B, likewise.
        dt: h [s].

    Returns:
        The factor, and for each controlled degree of freedom its share in the motion that grows most, (n,).
    """
    one, none = np.eye(len(inertia)), np.zeros(len(inertia))
    mobility = np.linalg.inv(inertia + dt * np.diag(passive))
    by_q, by_v = -dt * mobility * stiffness, one - dt * mobility * damping
    values, vectors = np.linalg.eig(np.block([[one + dt * by_q, dt * by_v], [by_q, by_v]]))
    fastest = int(np.argmax(np.abs(values)))
    motion = np.abs(vectors[len(inertia) :, fastest])
    return float(np.abs(values[fastest])), np.where(stiffness + damping > 0.0, motion, none)
