"""Time of the linear model of a step, A and B: newtonsim beside MuJoCo's mjd_transitionFD.

    python benchmarks/linear_models.py [--robots ant humanoid arm7] [--worlds 1024] [--ilqr] [--short]
                                       [--json OUT]

Both engines read the same file. Robots with a free base have come to lie on the ground, with rigid and with
softened contacts of ours; the arm hangs in the air. A call of ours takes a state and gives A and B as NumPy
arrays, with what Python takes: `one` is its time for one robot, `each` that for one of many in a single call,
on one thread, and `warm` that where contacts start from the impulses of the call before. MuJoCo takes forward
differences of its step (eps 1e-6, its own integrator and solver, which starts from the last solution), the
cheaper of its two kinds, with a control for each motor; ours has a column for each degree of freedom. Ratios
are times over those of MuJoCo. With `--ilqr` the arm and the ant are optimised, too, see `tasks.ilqr`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import warp as wp
from tasks import ilqr
from tasks.harness import DT, Timing, arguments, finish, installed, interleave, table, timing

import newtonsim
from newtonsim import diff
from newtonsim.examples import asset_path

FILES = {"ant": "ant.xml", "humanoid": "humanoid.xml", "arm7": "arm7.urdf"}
SMOOTHING = 1.0e-3
SETTLING = 480
"""Steps after which robots lie on the ground."""

Call = Callable[[int], None]


def main() -> None:
    parser = arguments(__doc__, device=False, blocks=15)
    parser.add_argument("--robots", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--worlds", type=int, default=1024, help="robots in a single call")
    parser.add_argument("--ilqr", action="store_true", help="time iLQR, which is made of linear models")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    notes: list[str] = []
    peers = [] if options.alone else installed({"mujoco": "mujoco"}, notes)
    how = timing(options, seconds=0.05)
    figures = []
    for robot in options.robots:
        for smoothing in (0.0,) if robot == "arm7" else (0.0, SMOOTHING):
            figures.append(measure(robot, smoothing, options.worlds, peers, how))
    header = ("robot", "contacts", "one [us]", "each [us]", "warm [us]", "mujoco [us]", "one", "each", "warm")
    print(table(header, [row(figure) for figure in figures]))
    results: dict[str, object] = {"figures": figures}
    if options.ilqr:
        robots = [robot for robot in options.robots if robot in ilqr.FILES]
        results["ilqr"] = optimised = ilqr.compare(robots, 60, peers, how)
        print(ilqr.report(optimised))
    finish(options, results, notes)


def measure(robot: str, smoothing: float, worlds: int, peers: list[str], how: Timing) -> dict[str, Any]:
    """Return the figures of a robot."""
    contestants = {
        "one": our_call(robot, smoothing, 1),
        "each": our_call(robot, smoothing, worlds),
        "warm": our_call(robot, smoothing, worlds, warm_start=True),
    }
    if peers:
        contestants["mujoco"] = mujoco_call(robot)
    times = interleave(contestants, how)
    figure: dict[str, Any] = {"robot": robot, "contacts": "softened" if smoothing else "rigid"}
    for name, sample in times.items():
        share = worlds if name in ("each", "warm") else 1
        figure[f"{name}_microseconds"] = sample.median / share * 1.0e6
    return figure


def row(figure: dict[str, Any]) -> list[object]:
    ours = [figure[f"{name}_microseconds"] for name in ("one", "each", "warm")]
    theirs = figure.get("mujoco_microseconds")
    ratios = ["-"] * 3 if theirs is None else [time / theirs for time in ours]
    return [figure["robot"], figure["contacts"], *ours, "-" if theirs is None else theirs, *ratios]


def our_call(robot: str, smoothing: float, worlds: int, warm_start: bool = False) -> Call:
    """Linearise a number of copies of a robot."""
    one = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    path = str(asset_path(FILES[robot]))
    if path.endswith(".urdf"):
        newtonsim.utils.parse_urdf(path, one, ignore_inertial_definitions=False)
    else:
        newtonsim.utils.parse_mjcf(path, one, floating=True)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(one, worlds)
    if robot != "arm7":
        builder.set_ground_plane()
    model = builder.finalize("cpu")
    solver = newtonsim.FeatherstoneSolver(model, smoothing=smoothing)
    simulator = newtonsim.Simulator(model, solver, DT)
    if robot != "arm7":
        simulator.step(SETTLING)
    linearizer = diff.Linearizer(model, solver, DT, warm_start=warm_start)
    state, control = model.state(), model.control()
    state.assign(simulator.state)
    for _ in range(2):  # the second call records
        A, B = linearizer(state, control)
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        raise RuntimeError(f"{robot}: the linear model is not finite")

    def work(count: int) -> None:
        for _ in range(count):
            linearizer(state, control)

    return work


def mujoco_call(robot: str) -> Call:
    """MuJoCo's differences."""
    mujoco: Any = import_module("mujoco")
    spec = mujoco.MjSpec.from_file(str(asset_path(FILES[robot])))
    if robot == "arm7":
        for joint in list(spec.joints):
            spec.add_actuator(target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    else:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    spec.option.timestep = DT
    model = spec.compile()
    data = mujoco.MjData(model)
    for _ in range(SETTLING if robot != "arm7" else 0):
        mujoco.mj_step(model, data)
    size = 2 * model.nv + model.na
    A, B = np.zeros((size, size)), np.zeros((size, model.nu))

    def work(count: int) -> None:
        for _ in range(count):
            mujoco.mjd_transitionFD(model, data, 1e-6, False, A, B, None, None)

    return work


if __name__ == "__main__":
    main()
