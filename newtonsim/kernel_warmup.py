"""Compiling ahead of time: what a model needs, or everything."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.runtime import compilation
from newtonsim.runtime.devices import find_device

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


def warmup(model: Model | None = None, *, device: wp.DeviceLike = None, gradients: bool = False) -> list[str]:
    """Compile kernels into Warp's cache and load them, on all cores, so that nothing waits for them later.

    Args:
        model: What to compile for: simulating the model with FeatherstoneSolver, with XPBDSolver if there are
            elements of particles, or with SemiImplicitSolver if there are muscles; kinematics and energies.
            None for all kernels.
        device: Device where they will run if no model is given; None for the default device.
        gradients: Also compile for gradients. Models finalized with `requires_grad` always are.

    Returns:
        Names of the kernel modules that were not in the cache, and were compiled.
    """
    if model is None:
        modules, device = _all_modules(), find_device(device)
    else:
        modules, device = _modules_of(model), model.device
    compiled = compilation.load(modules, device)
    if gradients:
        compilation.enable_backward(*filter(compilation.is_differentiable, modules))
        compiled += compilation.load(modules, device)
    return compiled


def _modules_of(model: Model) -> list[wp.Module]:
    """Kernel modules that are needed to simulate a model."""
    from newtonsim import dynamics
    from newtonsim.kernels.steps import replay as steps_replay
    from newtonsim.kernels.steps import reset
    from newtonsim.runtime.shards import Shard
    from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver, XPBDSolver

    kind = FeatherstoneSolver
    if any(getattr(model, f"{name}_count") for name in ("spring", "tri", "edge", "tet")):
        kind = XPBDSolver
    if model.muscle_count:
        kind = SemiImplicitSolver
    solver, state, control = kind(model), model.state(), model.control()
    with compilation.dry_run() as modules:
        solver.step_worlds(Shard(model), state, state, control, None, 1.0 / 240.0)
        if model.joint_count:
            dynamics.kinetic_energy(model, state)
    repeating = [steps_replay.repeat_launches.module] if model.device.is_cpu else []
    return [*dict.fromkeys(modules), reset.restore_worlds.module, *repeating]


def kernel_module_names() -> list[str]:
    """Return the full names of all files of kernels and device functions, in all rooms of `kernels`."""
    import newtonsim.kernels

    walked = pkgutil.walk_packages(newtonsim.kernels.__path__, "newtonsim.kernels.")
    return [info.name for info in walked if not info.ispkg]


def _all_modules() -> list[wp.Module]:
    """All kernel modules."""
    names = kernel_module_names()
    kernels = (value for n in names for value in vars(importlib.import_module(n)).values())
    return list(dict.fromkeys(kernel.module for kernel in kernels if isinstance(kernel, wp.Kernel)))
