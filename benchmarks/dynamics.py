"""Time of one call of joint-space dynamics: newtonsim beside pinocchio.

    python benchmarks/dynamics.py [--robots ant humanoid arm7] [--worlds 1024] [--short] [--json OUT]

Both engines read the same file. newtonsim is called through a `Dynamics` from Python, with the same arrays in
every call, pinocchio through its Python bindings, in a configuration with every joint moved and in motion.
`one` is the time of a call for one robot, `each` that for one of many in a single call, on one thread; ratios
are times over those of pinocchio. newtonsim computes in float32, pinocchio in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import warp as wp
from tasks.harness import Timing, arguments, finish, installed, interleave, table, timing

import newtonsim
from newtonsim.dynamics import Dynamics
from newtonsim.examples import asset_path
from newtonsim.testing import random_state

FILES = {"ant": "ant.xml", "humanoid": "humanoid.xml", "arm7": "arm7.urdf"}
QUANTITIES = (
    "mass_matrix",
    "inverse_dynamics",
    "forward_dynamics",
    "jacobian",
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
    "centroidal_matrix",
)

Call = Callable[[int], None]


def main() -> None:
    parser = arguments(__doc__, device=False, blocks=15)
    parser.add_argument("--robots", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--worlds", type=int, default=1024, help="robots in a single call")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    notes: list[str] = []
    peers = [] if options.alone else installed({"pinocchio": "pinocchio"}, notes)
    how = timing(options, seconds=0.02)
    figures = [figure for robot in options.robots for figure in measure(robot, options.worlds, peers, how)]
    header = ("robot", "quantity", "one [us]", "each [us]", "pinocchio [us]", "one", "each")
    print(table(header, [row(figure) for figure in figures]))
    finish(options, {"figures": figures}, notes)


def measure(robot: str, worlds: int, peers: list[str], how: Timing) -> list[dict[str, Any]]:
    """Return the figures of all quantities of a robot."""
    one, many = our_calls(robot, 1), our_calls(robot, worlds)
    theirs = pinocchio_calls(robot) if peers else {}
    found = []
    for quantity in QUANTITIES:
        contestants = {"one": one[quantity], "each": many[quantity]}
        if quantity in theirs:
            contestants["pinocchio"] = theirs[quantity]
        times = interleave(contestants, how)
        figure: dict[str, Any] = {"robot": robot, "quantity": quantity}
        for name, sample in times.items():
            share = worlds if name == "each" else 1
            figure[f"{name}_microseconds"] = sample.median / share * 1.0e6
        found.append(figure)
    return found


def row(figure: dict[str, Any]) -> list[object]:
    one, each = figure["one_microseconds"], figure["each_microseconds"]
    theirs = figure.get("pinocchio_microseconds")
    ratios = ("-", "-") if theirs is None else (one / theirs, each / theirs)
    return [figure["robot"], figure["quantity"], one, each, "-" if theirs is None else theirs, *ratios]


def our_calls(robot: str, worlds: int) -> dict[str, Call]:
    """Calls for a number of copies of a robot."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    path = str(asset_path(FILES[robot]))
    if path.endswith(".urdf"):
        newtonsim.utils.parse_urdf(path, builder)
    else:
        newtonsim.utils.parse_mjcf(path, builder)
    copies = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    copies.replicate(builder, worlds)
    model = copies.finalize("cpu")
    state, quantities = random_state(model, 1), Dynamics(model)
    vector = wp.full(model.joint_dof_count, 0.1, dtype=float, device="cpu")

    def call(quantity: str) -> Call:
        method = getattr(quantities, quantity)
        given = (state, vector) if "inverse" in quantity or "forward" in quantity else (state,)
        method(*given)
        method(*given)  # records

        def work(count: int) -> None:
            for _ in range(count):
                method(*given)

        return work

    return {quantity: call(quantity) for quantity in QUANTITIES}


def pinocchio_calls(robot: str) -> dict[str, Call]:
    """Calls of pinocchio."""
    pin: Any = import_module("pinocchio")
    path = str(asset_path(FILES[robot]))
    model = pin.buildModelFromUrdf(path) if path.endswith(".urdf") else pin.buildModelFromMJCF(path)
    data, rng = model.createData(), np.random.default_rng(1)
    q = pin.integrate(model, pin.neutral(model), rng.normal(size=model.nv))
    v, a = rng.normal(size=model.nv), np.full(model.nv, 0.1)
    calls: dict[str, Callable[[], object]] = {
        "mass_matrix": lambda: pin.crba(model, data, q),
        "inverse_dynamics": lambda: pin.rnea(model, data, q, v, a),
        "forward_dynamics": lambda: pin.aba(model, data, q, v, a),
        "jacobian": lambda: pin.computeJointJacobians(model, data, q),
        "inverse_dynamics_derivatives": lambda: pin.computeRNEADerivatives(model, data, q, v, a),
        "forward_dynamics_derivatives": lambda: pin.computeABADerivatives(model, data, q, v, a),
        "centroidal_matrix": lambda: pin.ccrba(model, data, q, v),
    }

    def repeated(call: Callable[[], object]) -> Call:
        def work(count: int) -> None:
            for _ in range(count):
                call()

        return work

    return {quantity: repeated(call) for quantity, call in calls.items()}


if __name__ == "__main__":
    main()
