"""Cost of gradients: robots on the ground, forward and backward, and their memory.

    python benchmarks/gradient_cost.py [quadruped] [--worlds 256] [--steps 1000] [--short] [--json OUT]

Quadrupeds stand on their drives; ants begin to fall onto their feet, without torques.

The loss is the height of all bodies after the last step of `newtonsim.diff.Rollout` at 1/240 s, by the
initial state and the targets or torques of the motors. `forward` is a step of `evaluate`, which makes none of
what only gradients need but the states; `backward` one of `backward`, which runs back through states that a
call has left. With the states of all steps kept ("tape") nothing is computed twice; with the checkpoints of
"sqrt" the steps run forward once more. Both are captured, take turns, and are measured by the processor's
time in one thread; `ratio` is the median of the ratios of the turns. `memory` is all that gradients take.
Materials with `restitution` have impacts to differentiate: measured for the shortest rollout.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import warp as wp
from tasks.harness import DT, arguments, table, write_json

import newtonsim
from newtonsim import diff
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

LOWEST = {"quadruped": 0.26, "ant": 0.2}
"""Robots, and heights that their trunks stay above [m]: a quadruped stands at 0.3, an ant lies at 0.25."""

WRT = ("state.joint_q", "state.joint_qd", "control.joint_act")


def main() -> None:
    parser = arguments(__doc__, blocks=7)
    parser.add_argument("robot", nargs="?", choices=LOWEST, default="quadruped")
    parser.add_argument("--worlds", type=int, default=256, help="robots (default: 256)")
    parser.add_argument("--steps", type=int, nargs="+", default=[100, 1000], help="steps (default: 100 1000)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    worlds, lengths, blocks = options.worlds, options.steps, options.blocks
    if options.short:
        worlds, lengths, blocks = min(worlds, 64), [min(lengths)], min(blocks, 5)
    cases = [(0.0, steps, checkpoint) for steps in lengths for checkpoint in ("tape", "sqrt")]
    figures = []
    for restitution, steps, checkpoint in [(0.5, min(lengths), "tape"), *cases]:
        model = build(options.robot, worlds, options.device, restitution)
        found = measure(model, steps, checkpoint, blocks, LOWEST[options.robot])
        figures.append({"robot": options.robot, "restitution": restitution} | found)
    print(table(list(figures[0]), [list(figure.values()) for figure in figures]))
    write_json(options.json, {"figures": figures}, options.device)


def build(name: str, worlds: int, device: str, restitution: float) -> newtonsim.Model:
    """Return copies of a robot over the ground in its home pose, with gradients."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    options = {"ignore_inertial_definitions": False, "contact_restitution": restitution}
    parse_mjcf(str(asset_path(f"{name}.xml")), robot, floating=None, **options)
    for home in robot.keyframes[:1]:
        robot.joint_q[:], robot.joint_act[:] = home["joint_q"], home["joint_act"]
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(robot, worlds)
    scene.set_ground_plane(restitution=restitution)
    return scene.finalize(device, requires_grad=True)


def moving_state(model: newtonsim.Model) -> newtonsim.State:
    """Return the model's pose with other small velocities in every world."""
    state = model.state()
    qd = np.random.default_rng(0).normal(scale=0.02, size=model.joint_dof_count)
    state.joint_qd.assign(qd.astype(np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state


@wp.kernel
def add_heights(
    body_q: wp.array(dtype=wp.transform), world: wp.array(dtype=int), losses: wp.array(dtype=float)
):
    b = wp.tid()
    wp.atomic_add(losses, world[b], wp.transform_get_translation(body_q[b])[2])


def measure(
    model: newtonsim.Model, steps: int, checkpoint: str, blocks: int, lowest: float
) -> dict[str, object]:
    """Time forward and backward passes in turn; no trunk may come lower than `lowest` [m]."""

    def loss(state: newtonsim.State, losses: wp.array) -> None:
        inputs = [state.body_q, model.body_world, losses]
        wp.launch(add_heights, model.body_count, inputs, device=model.device)

    solver = FeatherstoneSolver(model)
    rollout = diff.Rollout(model, solver, steps, DT, loss, wrt=WRT, checkpoint=checkpoint, warn=False)
    state = moving_state(model)
    acts = np.tile(model.joint_act.numpy(), (steps, 1))
    controls = {"joint_act": acts}
    result = rollout(state, controls)
    check(model, result, lowest)
    forward, backward = [], []
    clock = time.process_time if model.device.is_cpu else time.perf_counter
    for _ in range(blocks):
        forward.append(seconds(lambda: rollout.evaluate(state, controls), clock, model.device))
        rollout(state, controls)
        backward.append(seconds(rollout.backward, clock, model.device))
    unit = 1.0e6 / (steps * model.world_count)
    return {
        "checkpoint": checkpoint,
        "worlds": model.world_count,
        "steps": steps,
        "forward_microseconds": unit * statistics.median(forward),
        "backward_microseconds": unit * statistics.median(backward),
        "ratio": statistics.median(b / f for f, b in zip(forward, backward)),
        "memory_megabytes": rollout.memory / 1.0e6,
    }


def seconds(work: Callable[[], object], clock: Callable[[], float], device: wp.Device) -> float:
    """Time of a call, with all that it leaves to the device [s]."""
    wp.synchronize_device(device)
    start = clock()
    work()
    wp.synchronize_device(device)
    return clock() - start


def check(model: newtonsim.Model, result: diff.RolloutResult, lowest: float) -> None:
    """Raise unless all robots are over the ground and have a gradient."""
    height = result.state.body_q.numpy().reshape(model.world_count, -1, 7)[:, 0, 2]
    if not (height > lowest).all():
        raise RuntimeError(f"trunks should be above {lowest:g} m, not at {height.min():.3f} m")
    for name, gradient in result.gradients.items():
        if not np.isfinite(gradient.numpy()).all() or not gradient.numpy().any():
            raise RuntimeError(f"the gradient with respect to {name} is zero, or not finite")


if __name__ == "__main__":
    main()
