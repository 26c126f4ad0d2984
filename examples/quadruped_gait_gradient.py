"""Learn a trot from the gradient of the distance, through feet that touch, stick, slide and lift off.

The drives' targets are a trot with free numbers: a few Fourier coefficients for hip and knee, shared by the
legs, diagonal pairs half a period apart. Adam follows the mean gradient of worlds that start a little
differently, which smooths what contacts make rough. Run it with
``python -m newtonsim.examples quadruped_gait_gradient`` ; it needs ``newtonsim[plot]``.

Source of the smoothing: Suh et al., "Do differentiable simulators give better policy gradients?", ICML 2022.
"""

import sys
from pathlib import Path

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

WORLDS, DT, STEPS = 16, 1.0 / 240.0, 300
PERIOD = 0.4  # [s]
HARMONICS = 2
ITERATIONS = 40
LEGS_ON = np.array([0.0, 0.5, 0.5, 0.0])  # phase of each leg in periods: diagonal pairs together


@wp.kernel
def add_loss(
    body_q: wp.array[wp.transform], start: wp.array[wp.transform], bodies: int, out: wp.array[float]
):
    """One thread per world: the way run forward, less what is lost sideways."""
    w = wp.tid()
    way = wp.transform_get_translation(body_q[w * bodies]) - wp.transform_get_translation(start[w * bodies])
    wp.atomic_add(out, w, 0.5 * way[1] * way[1] - way[0])


@wp.kernel
def add_tilt(body_q: wp.array[wp.transform], bodies: int, share: float, height: float, out: wp.array[float]):
    """One thread per world: mean tilt of the trunk, turning aside, and height that is missing."""
    w = wp.tid()
    X = body_q[w * bodies]
    up = wp.quat_rotate(wp.transform_get_rotation(X), wp.vec3(0.0, 0.0, 1.0))
    ahead = wp.quat_rotate(wp.transform_get_rotation(X), wp.vec3(1.0, 0.0, 0.0))
    low = wp.min(0.0, wp.transform_get_translation(X)[2] - height)
    wp.atomic_add(out, w, share * (2.0 * (1.0 - up[2]) + 1.0 - ahead[0] + 100.0 * low * low))


class Trot:
    """Rollouts of a gait."""

    def __init__(self, seed: int = 0):
        robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        parse_mjcf(
            asset_path("quadruped.xml"),
            robot,
            floating=None,
            ignore_inertial_definitions=False,
            contact_restitution=0.0,
        )
        home = robot.keyframes[0]
        robot.joint_q[:], robot.joint_act[:] = home["joint_q"], home["joint_act"]
        scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        scene.replicate(robot, WORLDS, spacing=(0, 0, 0))
        scene.set_ground_plane()
        self.model = model = scene.finalize(requires_grad=True)
        self.home = np.array(home["joint_act"]).reshape(4, 3)
        self.state = model.state()
        noise = np.random.default_rng(seed)
        qd = noise.normal(scale=0.05, size=(WORLDS, model.joint_dof_count // WORLDS))
        self.state.joint_qd.assign(qd.astype(np.float32).ravel())
        newtonsim.eval_fk(model, self.state.joint_q, self.state.joint_qd, None, self.state)
        self.bodies = model.body_count // WORLDS
        self.rollout = diff.Rollout(
            model,
            FeatherstoneSolver(model, iterations=64),
            STEPS,
            DT,
            loss=self._loss,
            running=self._running,
            wrt=("control.joint_act",),
        )
        turns = np.arange(STEPS)[:, None] * DT / PERIOD + LEGS_ON
        waves = [f(2.0 * np.pi * k * turns) for k in range(1, HARMONICS + 1) for f in (np.sin, np.cos)]
        ramp = np.minimum(1.0, np.arange(STEPS) * DT / 0.2)
        self.waves = np.stack([np.ones_like(turns), *waves], axis=-1) * ramp[:, None, None]

    def _loss(self, state: newtonsim.State, losses: wp.array) -> None:
        wp.launch(add_loss, WORLDS, [state.body_q, self.state.body_q, self.bodies], [losses])

    def _running(self, step: wp.array, state: newtonsim.State, control: object, losses: wp.array) -> None:
        wp.launch(add_tilt, WORLDS, [state.body_q, self.bodies, 1.0 / STEPS, 0.26], [losses])

    def targets(self, gait: np.ndarray) -> np.ndarray:
        """Targets of the drives (STEPS, 12 WORLDS) of a gait (1 + 2 HARMONICS, hip and knee)."""
        act = np.broadcast_to(self.home, (STEPS, 4, 3)).copy()
        act[:, :, 1:] += self.waves @ gait
        return np.tile(act.reshape(STEPS, 12), WORLDS).astype(np.float32)

    def run(self, gait: np.ndarray) -> tuple[float, float, np.ndarray]:
        """Return the mean loss, the mean way run [m], and the loss's gradient with respect to the gait."""
        result = self.rollout(self.state, {"joint_act": self.targets(gait)})
        gradient = result.gradients["control.joint_act"].numpy().reshape(STEPS, WORLDS, 4, 3)
        by_world = np.einsum("tlk,twlj->wkj", self.waves, gradient[..., 1:])
        way = result.state.body_q.numpy().reshape(WORLDS, -1, 7)[:, 0, 0].mean()
        return float(result.losses.numpy().mean()), float(way), by_world.mean(axis=0)

    def play(self, gait: np.ndarray) -> float:
        """Simulate a gait without gradients, and return the mean way run [m]."""
        sim = newtonsim.Simulator(self.model, FeatherstoneSolver(self.model, iterations=64), DT)
        sim.state.assign(self.state)
        for target in self.targets(gait):
            sim.control.joint_act.assign(target)
            sim.step()
        return float(sim.state.body_q.numpy().reshape(WORLDS, -1, 7)[:, 0, 0].mean())


def main(folder: str = ".") -> None:
    """Improve a gait of small steps on the spot, and check how far it comes."""
    trot = Trot()
    gait = np.zeros((1 + 2 * HARMONICS, 2))
    gait[1], gait[2] = (0.05, 0.0), (0.0, -0.2)
    best, first, second = (-np.inf, gait), np.zeros_like(gait), np.zeros_like(gait)
    ways = []
    for iteration in range(1, ITERATIONS + 1):
        loss, way, gradient = trot.run(gait)
        ways.append(way)
        best = max(best, (way, gait), key=lambda pair: pair[0])
        if iteration % 10 == 1:
            print(
                f"{iteration:3d}: {way:+.2f} m in {STEPS * DT:.2f} s, loss {loss:+.3f}, "
                f"gradient {np.linalg.norm(gradient):.2f}"
            )
        gradient = gradient / max(1.0, np.linalg.norm(gradient))
        first, second = 0.8 * first + 0.2 * gradient, 0.95 * second + 0.05 * gradient**2
        scaled = first / (1.0 - 0.8**iteration) / (np.sqrt(second / (1.0 - 0.95**iteration)) + 1e-3)
        gait = gait - 0.03 * (1.0 - 0.8 * iteration / ITERATIONS) * scaled
    plot(trot, best[1], ways, Path(folder) / "quadruped_gait.png")
    print(f"from {ways[0]:+.2f} m to {best[0]:+.2f} m, {best[0] / (STEPS * DT):.2f} m/s on average")
    assert best[0] > 0.5, "the robot should run"
    assert abs(trot.play(best[1]) - best[0]) < 1e-6, "the gait should be the same without gradients"


def plot(trot: Trot, gait: np.ndarray, ways: list[float], path: Path) -> None:
    """Draw how the gait improved, and what it is."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
    left.plot(np.arange(1, len(ways) + 1), ways)
    left.set(xlabel="iteration", ylabel="way run [m]")
    steps = np.arange(STEPS) * DT
    act = trot.targets(gait)[:, :12].reshape(STEPS, 4, 3)
    for joint, name in ((1, "hip"), (2, "knee")):
        right.plot(steps, act[:, 0, joint], label=f"{name}, front left")
    right.set(xlabel="time [s]", ylabel="target [rad]")
    right.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(f"plot in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
