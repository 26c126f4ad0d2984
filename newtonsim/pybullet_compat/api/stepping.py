"""Stepping: time, gravity, parameters of the physics engine, resetSimulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.pybullet_compat.clients.real_time import RealTimeClock
from newtonsim.pybullet_compat.engine.link_properties import differs
from newtonsim.pybullet_compat.surface.arguments import LARGEST
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.settings import OPTIONS, Settings

LEAST_TIME_STEP, LARGEST_TIME_STEP = 1.0e-12, 1000.0
"""Bounds of steps [s]: what falls during one stays within single precision, and so do inverse squares."""
_MOST = {"numSubSteps": 10_000, "numSolverIterations": 100_000}
"""Counts of which a step would not come to an end in any time that somebody waits."""


def stepSimulation(client: Client) -> tuple:
    """Advance by one time step.

    Returns:
        Nothing, or with reportSolverAnalytics one dict of the solve per world, in a tuple.
    """
    engine = client.engine
    if engine is None:
        engine = client.ensure()
    if client.settings.stands_still:
        engine.drop_all_forces()
        return ()
    engine.step()
    parameters = client.settings.parameters
    if not parameters or not parameters.get("reportSolverAnalytics"):
        return ()
    solve = engine.solver.constraints
    return tuple(
        {
            "islandId": world,
            "numBodies": len(client.bodies),
            "numIterationsUsed": int(iterations),
            "remainingResidual": float(residual),
        }
        for world, (iterations, residual) in enumerate(zip(solve.iterations.numpy(), solve.residual.numpy()))
    )


def resetSimulation(client: Client, flags: int = 0) -> None:
    """Remove everything; time step, substeps and search path stay."""
    client.reset_flags = flags
    client.reset()


def setGravity(client: Client, gravX: float, gravY: float, gravZ: float) -> None:
    """Set the gravity [m/s²], of each world its own where numbers come as arrays (W,).

    Clients of several worlds take vectors (3,) or (W, 3) in place of the three numbers as well.
    """
    settings = client.settings
    if client.num_worlds == 1 and settings.gravity.tolist() == [gravX, gravY, gravZ]:
        return
    gravity = np.stack(np.broadcast_arrays(gravX, gravY, gravZ), axis=-1)
    if np.abs(gravity).max() > LARGEST:
        raise error(f"gravity must be at most {LARGEST:g} m/s^2.")
    if client.chooses:
        every = np.array(np.broadcast_to(settings.gravity, (client.num_worlds, 3)))
        every[client.chosen] = gravity
        gravity = every
    settings.gravity = gravity[0] if gravity.ndim == 2 and not differs(gravity) else gravity
    if client.engine is not None:
        client.engine.settle_sensors()
        client.engine.model.gravity = settings.gravity


def setTimeStep(client: Client, timeStep: float) -> None:
    """Set the time of one stepSimulation [s].

    With 0 nothing moves, and forces for the next step are forgotten by it. Motors and contacts of the last
    step report its impulses over the new time, as in PyBullet.

    Raises:
        error: It is negative, or too large or too small to step with.
    """
    if timeStep < 0.0:
        raise error("timeStep must not be negative.")
    if timeStep > LARGEST_TIME_STEP:
        raise error(f"timeStep must be at most {LARGEST_TIME_STEP:g} s.")
    if 0.0 < timeStep < LEAST_TIME_STEP:
        raise error(f"timeStep must be at least {LEAST_TIME_STEP:g} s.")
    client.settings.stands_still = timeStep == 0.0
    if timeStep in (0.0, client.settings.time_step):
        return
    before, client.settings.time_step = client.settings.time_step, float(timeStep)
    for body in client.bodies.values():
        client.settle_motors(body)
        body.time_step_changed(before, float(timeStep))
    if client.engine is not None:
        client.engine.time_step_changed()
    client.call_hooks("time_step_changed", before / client.settings.time_step)


def setDefaultContactERP(client: Client, defaultContactERP: float) -> None:
    """Set the share of a penetration that one step removes."""
    setPhysicsEngineParameter(client, contactERP=defaultContactERP)


def setRealTimeSimulation(client: Client, enableRealTimeSimulation: int) -> None:
    """Let a thread step by the clock, or stop it; without effect in DIRECT mode."""
    if client.gui:
        client.part(RealTimeClock).run(bool(enableRealTimeSimulation))
    client.settings.real_time = bool(enableRealTimeSimulation)


def setInternalSimFlags(client: Client, flags: int) -> None:
    """Do nothing: PyBullet's flags are for its own debugging."""


def setTimeOut(client: Client, timeOutInSeconds: float) -> None:
    """Do nothing: a client in this process answers at once."""


def setPhysicsEngineParameter(client: Client, *values: Any, **given: Any) -> None:
    """Set parameters of the physics engine; those that are None or not given stay.

    Time step, substeps, restitution threshold, ERPs, contact slop, CFM and cone friction act on the solver,
    numSolverIterations above 50 too. What tunes algorithms that this solver does not have is kept and has no
    effect.
    """
    given = {**dict(zip(PARAMETERS, values)), **given}
    given = {name: value for name, value in given.items() if value is not None}
    settings, engine = client.settings, client.engine
    if settings.has(given):
        return
    _check_options(given)
    if (time_step := given.pop("fixedTimeStep", -1.0)) >= 0.0:
        setTimeStep(client, time_step)
    if (substeps := given.pop("numSubSteps", -1)) >= 0:
        settings.substeps = int(substeps)
        if engine is not None:
            engine.time_step_changed()
    if (iterations := given.pop("numSolverIterations", -1)) >= 0:
        settings.iterations = int(iterations)
    settings.parameters.update({name: value for name, value in given.items() if _meant(value)})
    if engine is not None:
        engine.options_changed()


def _check_options(given: dict[str, Any]) -> None:
    """Raise ValueError for what the solver would not take, before anything is changed."""
    from newtonsim.solvers.featherstone.options import ConstraintOptions

    for name, most in _MOST.items():
        if given.get(name, 0) > most:
            raise error(f"{name} must be at most {most}.")
    asked = Settings(parameters={name: value for name, value in given.items() if _meant(value)})
    options = ConstraintOptions()
    asked.apply_options(options)
    try:
        options.check()
    except NewtonsimError as problem:
        option, _, expected = str(problem).partition(": ")
        names = {target: name for name, target in OPTIONS.items()}
        raise error(f"{names.get(option, option)}: {expected}") from None


def _meant(value: object) -> bool:
    """Whether a parameter is one; negative numbers leave it alone."""
    return not isinstance(value, (int, float)) or value >= 0


PARAMETERS = (
    "fixedTimeStep",
    "numSolverIterations",
    "useSplitImpulse",
    "splitImpulsePenetrationThreshold",
    "numSubSteps",
    "collisionFilterMode",
    "contactBreakingThreshold",
    "maxNumCmdPer1ms",
    "enableFileCaching",
    "restitutionVelocityThreshold",
    "erp",
    "contactERP",
    "frictionERP",
    "enableConeFriction",
    "deterministicOverlappingPairs",
    "allowedCcdPenetration",
    "jointFeedbackMode",
    "solverResidualThreshold",
    "contactSlop",
    "enableSAT",
    "constraintSolverType",
    "globalCFM",
    "minimumSolverIslandSize",
    "reportSolverAnalytics",
    "warmStartingFactor",
    "sparseSdfVoxelSize",
    "numNonContactInnerIterations",
)
"""In the order in which functions.py passes them."""


def getPhysicsEngineParameters(client: Client) -> dict[str, float | int]:
    """Return the parameters that PyBullet reports; gravity as arrays (W,) where worlds have their own."""
    settings = client.settings
    x, y, z = settings.gravity.tolist() if settings.gravity.ndim == 1 else settings.gravity.T.copy()
    return {
        "fixedTimeStep": 0.0 if settings.stands_still else settings.time_step,
        "numSubSteps": settings.substeps,
        "numSolverIterations": settings.iterations,
        "useRealTimeSimulation": int(settings.real_time),
        "gravityAccelerationX": x,
        "gravityAccelerationY": y,
        "gravityAccelerationZ": z,
        "numNonContactInnerIterations": settings.parameters.get("numNonContactInnerIterations", 1),
    }
