"""Signs that MuJoCo's integration is, or will be, unstable, and what mujoco_warp leaves out."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import UnsupportedElementWarning

if TYPE_CHECKING:
    import mujoco

_LISTED = 5


def warn_of_stiff_drives(mj_model: mujoco.MjModel, dt: float) -> None:
    """Warn of drives whose damping an explicit integrator makes grow instead of decay.

    Euler and RK4 take the force -kd qd of an actuator from the start of the step, so that a speed is
    multiplied by 1 - dt kd / m in a step (RK4 has about the same bound), with m the inertia that resists at
    the start: it grows from dt kd / m = 2 on.
    """
    import mujoco

    explicit = (mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtIntegrator.mjINT_RK4)
    on_joints = mj_model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
    if mj_model.opt.integrator not in explicit or not on_joints.any():
        return
    joints = mj_model.actuator_trnid[on_joints, 0]
    damping = -mj_model.actuator_biasprm[on_joints, 2] * mj_model.actuator_gear[on_joints, 0] ** 2
    ratio = dt * damping * mj_model.dof_invweight0[mj_model.jnt_dofadr[joints]]
    if (ratio > 2.0).any():
        worst = joints[np.argsort(-ratio)[: min(_LISTED, int((ratio > 2.0).sum()))]]
        names = ", ".join(repr(mj_model.joint(int(joint)).name) for joint in worst)
        warnings.warn(
            f"MuJoCoSolver: the damping of {int((ratio > 2.0).sum())} drives ({names}) is up to "
            f"{ratio.max() / 2.0:.3g} times what this integrator is stable with at dt={dt:g}: use "
            "integrator='implicitfast' or a smaller step",
            UserWarning,
            stacklevel=4,
        )


def warn_of_unstable_worlds(datas: list[mujoco.MjData], known: set[int]) -> None:
    """Warn of worlds in which MuJoCo met huge values, or NaN; `known` were reported before."""
    import mujoco

    kinds = [int(getattr(mujoco.mjtWarning, f"mjWARN_BADQ{letters}")) for letters in ("POS", "VEL", "ACC")]
    bad = [world for world, data in enumerate(datas) if any(data.warning[kind].number for kind in kinds)]
    new = [world for world in bad if world not in known]
    known.update(new)
    if new:
        warnings.warn(
            f"MuJoCoSolver: huge values or NaN in worlds {new}: use a smaller step or "
            "integrator='implicitfast'",
            UserWarning,
            stacklevel=4,
        )


def warn_of_what_warp_ignores(mj_model: mujoco.MjModel) -> None:
    """Warn of what MuJoCo 4 has and mujoco_warp takes for not being there."""
    asked = {
        "surfacevel": mj_model.geom_surfacevel,
        "adhesion of geoms": mj_model.geom_adhesion,
        "springyield": np.append(mj_model.jnt_springyield, mj_model.tendon_springyield),
    }
    found = [name for name, values in asked.items() if np.any(values)]
    if found:
        warnings.warn(
            f"MuJoCoSolver: mujoco_warp ignores {', '.join(found)}, which use_mujoco=True has",
            UnsupportedElementWarning,
            stacklevel=4,
        )
