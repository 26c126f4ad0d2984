"""A file that moves for a while here and in MuJoCo, without contacts, at equal time step and integrator.

Beside FeatherstoneSolver, MuJoCo's integrator is `discrete`, whatever the file says: like this solver it
solves the constraints together with implicit damping and springs. Its constraint solver goes on until it has
converged, since files for mujoco_warp or MJX stop it after an iteration or two. Ours takes velocity-dependent
forces where MuJoCo does, at the start of the step, and rows by reference at its end. Beside MuJoCoSolver, all
options are those of the file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.actuators import ActuatedSolver, FileControls, solver_from_report
from newtonsim.errors import UnsupportedElementWarning
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.simulator import Simulator
from newtonsim.solvers import MuJoCoSolver

if TYPE_CHECKING:
    from newtonsim.fidelity.mujoco_oracle import MujocoOracle
    from newtonsim.fidelity.ours import Reading

SAMPLES = 25
CONTROL = 0.1
"""Largest control, as a share of what an actuator may be given."""

NEARBY = 1.0e-6
"""How far away [m or rad] MuJoCo is started once more, to see how much that matters."""

ROUNDING = 2.0**-24
"""Rounding in single precision, relative: where bodies go far, MuJoCo starts no less than that away."""

FINER = 4
"""How much shorter steps are that tell what comes of the length of steps."""

LEAST_ITERATIONS = {"iterations": 100, "ls_iterations": 50}
"""Iterations that MuJoCo's constraint solver may take at least, its defaults."""

TOLERANCE = 1.0e-8
"""Tolerance at which it stops at the latest, its default."""

SINGLE = "with its time step in single precision"
"""What a remark on a motion says of MuJoCo with as many digits of its time step as our solvers take."""

DIVERGES = "MuJoCo itself diverges"
"""How the remark on a motion begins that MuJoCo cannot follow with the time step of the file."""


@dataclass(frozen=True)
class Apart:
    """How far apart two motions are.

    Attributes:
        distance: Largest distance of the origins or the centres of mass of a body [m].
        body: Which one.
        time: When [s].
        nearby: How far MuJoCo is from itself [m] when it starts `beside` away.
        beside: How far that is [m or rad]: `NEARBY`, or what single precision rounds the places by.
        finer: The largest distance [m] with steps of a quarter of the length; None where it is not wanted.
        own: How far MuJoCo moves [m] when its steps are shortened so; None likewise.
        harder: What gives way in MuJoCo and is rigid here.
        rounded: How far MuJoCo is from itself [m] with its time step in single precision; None likewise.
        lost: When MuJoCo warns of a state or an acceleration that is not finite or huge [s], None if it does
            not; only what is before is compared.
    """

    distance: float
    body: str
    time: float
    nearby: float
    beside: float
    finer: float | None = None
    own: float | None = None
    harder: tuple[str, ...] = ()
    rounded: float | None = None
    lost: float | None = None

    @property
    def remark(self) -> str:
        """What explains the difference."""
        parts = [f"MuJoCo is {self.nearby:.1e} m from itself if it starts {self.beside:.2g} away"]
        if self.lost is not None:
            parts = [f"{DIVERGES} after {self.lost:.2g} s, {self.distance:.1e} m until then"]
            parts.append(f"{self.nearby:.1e} m from itself if it starts {self.beside:.2g} away")
        if self.rounded is not None:
            parts.append(f"{self.rounded:.1e} m from itself {SINGLE}")
        if self.finer is not None and self.own is not None:
            parts.append(f"with a {FINER}th of the time step, {self.finer:.1e} m")
            parts.append(f"{self.own:.1e} m from itself with the whole")
            if self.harder:
                parts.append(f"rigid here and soft in MuJoCo: {' and '.join(self.harder)}")
        return ", ".join(parts)


def compare(reading: Reading, oracle: MujocoOracle, seconds: float, seed: int, tolerance: float) -> Apart:
    """Move a file from its reference pose.

    Args:
        reading: The file here.
        oracle: The file in MuJoCo.
        seconds: How long [s].
        seed: Of the controls.
        tolerance: Distance [m] beyond which shorter steps are tried, too.
    """
    model = oracle.model
    ctrl = _controls(oracle, np.random.default_rng(seed))
    dt = float(model.opt.timestep)
    every = max(1, round(seconds / dt / SAMPLES))
    discrete = int(oracle.mujoco.mjtIntegrator.mjINT_DISCRETE)
    with _converging(oracle):
        theirs, lost = _move_theirs(oracle, ctrl, dt, every, discrete)
        beside = _beside(theirs[:lost])
        shift = beside * np.random.default_rng(seed).standard_normal(model.nv)
        nearby = _move_theirs(oracle, ctrl, dt, every, discrete, shift)[0]
    ours = _move_ours(reading, oracle, ctrl, dt, every)
    apart = _apart(oracle, ours, theirs, nearby, beside, lost, every * dt)
    if apart.distance <= tolerance or lost is not None:
        return apart
    fine, often = dt / FINER, FINER * every
    with _converging(oracle):
        shorter = _move_theirs(oracle, ctrl, fine, often, discrete)[0]
    finer = float(_distances(_move_ours(reading, oracle, ctrl, fine, often), shorter).max())
    own = float(_distances(theirs, shorter).max())
    return replace(apart, finer=finer, own=own, harder=harder(oracle))


def compare_mujoco_solver(
    reading: Reading, oracle: MujocoOracle, seconds: float, seed: int, tolerance: float
) -> Apart:
    """Move a file from its reference pose by MuJoCoSolver, with the options of the file.

    Args:
        reading: The file here.
        oracle: The file in MuJoCo.
        seconds: How long [s].
        seed: Of the controls.
        tolerance: Distance [m] beyond which MuJoCo is run with its time step in single precision, too.

    Raises:
        ModelError: MuJoCoSolver refuses the model.
    """
    model = oracle.model
    ctrl = _controls(oracle, np.random.default_rng(seed))
    dt, integrator = float(model.opt.timestep), int(model.opt.integrator)
    every = max(1, round(seconds / dt / SAMPLES))
    theirs, lost = _move_theirs(oracle, ctrl, dt, every, integrator)
    beside = _beside(theirs[:lost])
    shift = beside * np.random.default_rng(seed).standard_normal(model.nv)
    nearby = _move_theirs(oracle, ctrl, dt, every, integrator, shift)[0]
    ours = _follow(reading, oracle, _mujoco_solver, ctrl, dt, every)
    apart = _apart(oracle, ours, theirs, nearby, beside, lost, every * dt)
    if apart.distance <= tolerance:
        return apart
    rounded = _move_theirs(oracle, ctrl, float(np.float32(dt)), every, integrator)[0]
    return replace(apart, rounded=float(_distances(rounded, theirs)[:lost].max(initial=0.0)))


def _apart(
    oracle: MujocoOracle,
    ours: np.ndarray,
    theirs: np.ndarray,
    nearby: np.ndarray,
    beside: float,
    lost: int | None,
    interval: float,
) -> Apart:
    """How far apart two motions are up to the sample before which MuJoCo is lost."""
    apart = _distances(ours, theirs)
    if lost is not None:
        apart[lost:] = 0.0
    sample, body = np.unravel_index(int(apart.argmax()), apart.shape)
    return Apart(
        float(apart[sample, body]),
        oracle.bodies[int(body) % (oracle.model.nbody - 1) + 1],
        (int(sample) + 1) * interval,
        float(_distances(nearby, theirs).max()),
        beside,
        lost=None if lost is None else (lost + 1) * interval,
    )


def _beside(places: np.ndarray) -> float:
    """How far away [m or rad] MuJoCo starts once more, for a motion through these places."""
    return max(NEARBY, ROUNDING * float(np.abs(places).max(initial=0.0, where=np.isfinite(places))))


def harder(oracle: MujocoOracle) -> tuple[str, ...]:
    """What of a file gives way in MuJoCo and is rigid in our model of it, whatever its solref and solimp."""
    return ("dry friction of tendons",) if oracle.model.tendon_frictionloss.any() else ()


def _distances(places: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Distances of all points at all samples; infinite where one is lost."""
    apart = np.linalg.norm(places - others, axis=2)
    apart[~np.isfinite(apart)] = np.inf
    return apart


def _controls(oracle: MujocoOracle, rng: np.random.Generator) -> np.ndarray:
    """A control for each actuator, within a tenth of its range."""
    model = oracle.model
    ctrl = np.zeros(model.nu)
    for i, number in enumerate(rng.uniform(-CONTROL, CONTROL, model.nu)):
        low, high = model.actuator_ctrlrange[i] if model.actuator_ctrllimited[i] else (-1.0, 1.0)
        low, high = low if np.isfinite(low) else -1.0, high if np.isfinite(high) else 1.0
        ctrl[i] = min(max(0.0, low), high) + number * 0.5 * (high - low)
        ctrl[i] = min(max(ctrl[i], low), high)
    return ctrl


@contextmanager
def _converging(oracle: MujocoOracle) -> Iterator[None]:
    """Give MuJoCo's constraint solver the iterations that it needs, whatever the file allows it."""
    opt = oracle.model.opt
    kept = {name: getattr(opt, name) for name in (*LEAST_ITERATIONS, "tolerance")}
    for name, least in LEAST_ITERATIONS.items():
        setattr(opt, name, max(kept[name], least))
    opt.tolerance = min(opt.tolerance, TOLERANCE)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(opt, name, value)


def _move_theirs(
    oracle: MujocoOracle,
    ctrl: np.ndarray,
    dt: float,
    every: int,
    integrator: int,
    shift: np.ndarray | None = None,
) -> tuple[np.ndarray, int | None]:
    """Origins of all bodies at each sample, then their centres of mass (samples, 2 bodies, 3).

    The second result is the first sample that MuJoCo has warned before of a state or an acceleration that is
    not finite or huge, None if it has not. It does not start anew then, as it would by default.
    """
    mujoco, model = oracle.mujoco, oracle.model
    kept = int(model.opt.disableflags), int(model.opt.integrator), float(model.opt.timestep)
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= int(off.mjDSBL_CONTACT) | int(off.mjDSBL_AUTORESET)
    model.opt.integrator, model.opt.timestep = integrator, dt
    data: Any = mujoco.MjData(model)
    data.ctrl[:] = ctrl
    if shift is not None:
        mujoco.mj_integratePos(model, data.qpos, shift, 1.0)
    places, lost = [], None
    for sample in range(SAMPLES):
        mujoco.mj_step(model, data, every)
        if lost is None and _is_lost(oracle, data):
            lost = sample
        mujoco.mj_kinematics(model, data)
        places.append(np.concatenate([data.xpos[1:], data.xipos[1:]]))
    model.opt.disableflags, model.opt.integrator, model.opt.timestep = kept
    return np.array(places), lost


def _is_lost(oracle: MujocoOracle, data: Any) -> bool:
    """Whether MuJoCo has warned that a motion diverges."""
    kinds = oracle.mujoco.mjtWarning
    return any(
        data.warning[int(k)].number
        for k in (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
    )


def _move_ours(reading: Reading, oracle: MujocoOracle, ctrl: np.ndarray, dt: float, every: int) -> np.ndarray:
    """The same by FeatherstoneSolver."""
    return _follow(reading, oracle, _featherstone_solver, ctrl, dt, every)


def _featherstone_solver(reading: Reading, oracle: MujocoOracle, dt: float) -> ActuatedSolver:
    """FeatherstoneSolver with what a file asks for."""
    options = {"coriolis": "start", "references": "end", "iterations": 200, "tolerance": 1.0e-7}
    return solver_from_report(reading.report, reading.model, dt, **options)


def _mujoco_solver(reading: Reading, oracle: MujocoOracle, dt: float) -> ActuatedSolver:
    """MuJoCoSolver with the options of the file."""
    opt = oracle.model.opt
    numbers: dict[str, Any] = {
        name: int(getattr(opt, name)) for name in ("solver", "integrator", "cone", "disableflags")
    }
    sparse = {0: False, 1: True}.get(int(opt.jacobian))
    solver = solver_from_report(
        reading.report,
        reading.model,
        dt,
        MuJoCoSolver,
        use_mujoco=True,
        disable_contacts=True,
        joint_damping=0.0,
        iterations=max(1, int(opt.iterations)),
        ls_iterations=max(1, int(opt.ls_iterations)),
        tolerance=float(opt.tolerance),
        ls_tolerance=float(opt.ls_tolerance),
        impratio=float(opt.impratio),
        is_sparse=sparse,
        **numbers,
    )
    # no option of a conversion, since mujoco_warp has none of these
    solver.mj_model.opt.noslip_iterations = opt.noslip_iterations
    return solver


def _follow(
    reading: Reading,
    oracle: MujocoOracle,
    make: Callable[[Reading, MujocoOracle, float], ActuatedSolver],
    ctrl: np.ndarray,
    dt: float,
    every: int,
) -> np.ndarray:
    """Places at each sample by a solver; bodies that are not in our model are nowhere."""
    model, report = reading.model, reading.report
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)  # the report has it all
        solver = make(reading, oracle, dt)
    simulator = Simulator(model, solver, dt=dt)
    FileControls(report, model).write(simulator.control, ctrl)
    body = np.array([report.bodies.get(name, -1) for name in oracle.bodies[1:]])
    places = []
    for _ in range(SAMPLES):
        simulator.step(every)
        q = simulator.state.body_q.numpy().astype(np.float64)[body]
        q[body < 0] = np.nan
        places.append(
            np.concatenate([q[:, :3], q[:, :3] + quat_rotate(q[:, 3:], oracle.model.body_ipos[1:])])
        )
    return np.array(places)
