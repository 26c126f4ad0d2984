"""Time of iLQR: newtonsim.optimize.ILQR beside NumPy with MuJoCo's steps and mjd_transitionFD.

Both engines read the same file and begin at rest with controls of 0: the arm reaches a posture under gravity,
the ant draws its legs in as it falls, in the air, so that both solve the same problem. Costs are half the
weighted squares of the joints' distances and speeds, and of the torques, each step of 10 ms. The peer is that
of the textbooks: a backward sweep with a regularisation of the curvature by the controls, and a line search
over ten lengths, one rollout after the other (Tassa, Erez, Todorov, "Synthesis and stabilization of complex
behaviors through online trajectory optimization", IROS 2012). Both end when an iteration gains less than 1e-5
of the cost. `cost` is what each reached in its own engine.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import newtonsim
from newtonsim import optimize
from newtonsim.examples import asset_path
from tasks.harness import Timing, interleave, table

FILES = {"arm7": "arm7.urdf", "ant": "ant.xml"}
DT, HORIZON = 0.01, 50
POSITION, VELOCITY, TORQUE, FINAL, FINAL_VELOCITY = 1.0, 0.1, 1.0e-4, 20.0, 2.0
LENGTHS = 0.5 ** np.arange(10)
TOLERANCE = 1.0e-5

Call = Callable[[int], None]


def compare(robots: list[str], iterations: int, peers: list[str], how: Timing) -> list[dict[str, Any]]:
    """Return the figures of robots, of at most so many iterations."""
    return [measure(robot, HORIZON, iterations, peers, how) for robot in robots]


def report(figures: list[dict[str, Any]]) -> str:
    """Return a table of figures."""
    header = ("robot", "iLQR [ms]", "cost", "iterations", "mujoco [ms]", "cost", "iterations", "ratio")
    return table(header, [row(figure) for figure in figures])


def measure(robot: str, horizon: int, iterations: int, peers: list[str], how: Timing) -> dict[str, Any]:
    """Return the figures of a robot."""
    figure: dict[str, Any] = {"robot": robot}
    contestants = {"ours": our_solve(robot, horizon, iterations)}
    if peers:
        contestants["mujoco"] = PeerILQR(robot, horizon, iterations).solve
    calls: dict[str, Call] = {}
    for name, solve in contestants.items():
        figure[f"{name}_cost"], figure[f"{name}_iterations"] = solve()
        calls[name] = repeat(solve)
    for name, sample in interleave(calls, how, longest=4).items():
        figure[f"{name}_milliseconds"] = 1.0e3 * sample.median
    return figure


def repeat(solve: Callable[[], Any]) -> Call:
    def work(count: int) -> None:
        for _ in range(count):
            solve()

    return work


def row(figure: dict[str, Any]) -> list[object]:
    names = ("milliseconds", "cost", "iterations")
    ours = [figure[f"ours_{name}"] for name in names]
    if "mujoco_cost" not in figure:
        return [figure["robot"], *ours, "-", "-", "-", "-"]
    theirs = [figure[f"mujoco_{name}"] for name in names]
    return [figure["robot"], *ours, *theirs, ours[0] / theirs[0]]


def postures(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angles of the hinges at the start, in the middle of their ranges, and those to reach [rad]."""
    middle = 0.5 * (lower + upper)
    return middle, middle + 0.25 * np.array([(-1.0) ** k for k in range(len(middle))])


def our_solve(robot: str, horizon: int, iterations: int) -> Callable[[], tuple[float, int]]:
    """Our solver for a robot, which returns the cost and how many iterations it took."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    path = str(asset_path(FILES[robot]))
    if path.endswith(".urdf"):
        newtonsim.utils.parse_urdf(
            path, builder, stiffness=0.0, damping=0.0, ignore_inertial_definitions=False
        )
    else:
        newtonsim.utils.parse_mjcf(path, builder, floating=True)
    model = builder.finalize("cpu")
    dofs, coords = model.joint_dof_count, model.joint_coord_count
    hinges = dofs - 6 if robot == "ant" else dofs
    weight = np.zeros(dofs)
    weight[dofs - hinges :] = 1.0
    target = model.joint_q.numpy().astype(float)
    rest = target.copy()
    limits = (getattr(model, f"joint_limit_{end}").numpy()[-hinges:] for end in ("lower", "upper"))
    rest[coords - hinges :], target[coords - hinges :] = postures(*limits)
    costs = [
        optimize.JointCost(
            position=POSITION * weight,
            velocity=VELOCITY * weight,
            final_position=FINAL * weight,
            final_velocity=FINAL_VELOCITY * weight,
            joint_q=target,
        ),
        optimize.ControlCost(TORQUE),
    ]
    actuated = list(range(dofs - hinges, dofs))
    problem = optimize.Problem(
        builder,
        costs,
        horizon,
        DT,
        inputs="joint_f",
        actuated=actuated,
        bounds=(-np.inf, np.inf),
        device="cpu",
    )
    ilqr = optimize.ILQR(problem)

    def solve() -> tuple[float, int]:
        zero = np.zeros((horizon, hinges))
        result = ilqr.solve((rest, np.zeros(dofs)), zero, iterations, TOLERANCE)
        return result.cost, len(result.history) - 1

    return solve


class PeerILQR:
    """iLQR in NumPy with MuJoCo.

    Args:
        robot: Name of the robot.
        horizon: Controls.
        iterations: Most iterations.
    """

    def __init__(self, robot: str, horizon: int, iterations: int):
        self.mj: Any = import_module("mujoco")
        spec = self.mj.MjSpec.from_file(str(asset_path(FILES[robot])))
        for actuator in list(spec.actuators):
            spec.delete(actuator)
        hinges = [j for j in spec.joints if j.type == self.mj.mjtJoint.mjJNT_HINGE]
        for joint in hinges:
            motor = spec.add_actuator(target=joint.name, trntype=self.mj.mjtTrn.mjTRN_JOINT)
            motor.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
            motor.ctrllimited = self.mj.mjtLimited.mjLIMITED_FALSE
        spec.option.timestep = DT
        self.model = spec.compile()
        self.data = self.mj.MjData(self.model)
        self.horizon, self.iterations, count = horizon, iterations, len(hinges)
        self.nv, self.nq, self.nu = self.model.nv, self.model.nq, self.model.nu
        self.weight = np.r_[np.zeros(self.nv - count), np.ones(count)]
        self.rest, self.target = (self.data.qpos.copy() for _ in range(2))
        start, end = postures(*self.model.jnt_range[-count:].T)
        self.rest[self.nq - count :], self.target[self.nq - count :] = start, end

    def away(self, q: np.ndarray) -> np.ndarray:
        """Distances of the coordinates from the goal."""
        found = np.zeros(self.nv)
        self.mj.mj_differentiatePos(self.model, found, 1.0, self.target, q)
        return found

    def weights(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Weights of coordinates and velocities of the state after control t."""
        if t == self.horizon - 1:
            return FINAL * self.weight, FINAL_VELOCITY * self.weight
        return DT * POSITION * self.weight, DT * VELOCITY * self.weight

    def rollout(
        self,
        q: np.ndarray,
        v: np.ndarray,
        controls: np.ndarray,
        change: np.ndarray,
        gains: np.ndarray,
        length: float,
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Cost, states and controls of a step of a length, with feedback about the states before it."""
        data, cost = self.data, 0.0
        self.mj.mj_resetData(self.model, data)
        data.qpos[:], data.qvel[:] = q[0], v[0]
        new_q, new_v, new_u = q.copy(), v.copy(), controls.copy()
        off = np.zeros(2 * self.nv)
        for t in range(self.horizon):
            self.mj.mj_differentiatePos(self.model, off[: self.nv], 1.0, q[t], data.qpos)
            off[self.nv :] = data.qvel - v[t]
            new_u[t] = controls[t] + length * change[t] + gains[t] @ off
            data.ctrl[:] = new_u[t]
            self.mj.mj_step(self.model, data)
            new_q[t + 1], new_v[t + 1] = data.qpos, data.qvel
            by_q, by_v = self.weights(t)
            cost += 0.5 * (by_q @ self.away(data.qpos) ** 2 + by_v @ data.qvel**2)
            cost += 0.5 * DT * TORQUE * new_u[t] @ new_u[t]
        return (cost if np.isfinite(cost) else np.inf), new_q, new_v, new_u

    def linearize(self, q: np.ndarray, v: np.ndarray, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A and B of every step."""
        size = 2 * self.nv
        A, B = np.zeros((self.horizon, size, size)), np.zeros((self.horizon, size, self.nu))
        for t in range(self.horizon):
            self.data.qpos[:], self.data.qvel[:], self.data.ctrl[:] = q[t], v[t], controls[t]
            self.mj.mjd_transitionFD(self.model, self.data, 1e-6, False, A[t], B[t], None, None)
        return A, B

    def sweep(
        self, q: np.ndarray, v: np.ndarray, controls: np.ndarray, A: np.ndarray, B: np.ndarray, damping: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Changes of controls, feedback, and the decrease of the cost that they promise."""
        size, decrease = 2 * self.nv, 0.0
        change, gains = np.zeros((self.horizon, self.nu)), np.zeros((self.horizon, self.nu, size))
        value, curvature = np.zeros(size), np.zeros((size, size))
        for t in reversed(range(self.horizon)):
            by_q, by_v = self.weights(t)
            w = value + np.r_[by_q * self.away(q[t + 1]), by_v * v[t + 1]]
            W = curvature + np.diag(np.r_[by_q, by_v])
            Qx, Qu = A[t].T @ w, B[t].T @ w + DT * TORQUE * controls[t]
            WB = W @ B[t]
            Qxx, Qux, Quu = A[t].T @ W @ A[t], WB.T @ A[t], B[t].T @ WB + DT * TORQUE * np.eye(self.nu)
            solved = np.linalg.solve(Quu + damping * np.diag(np.diagonal(Quu)), np.c_[Qu, Qux])
            k, K = -solved[:, 0], -solved[:, 1:]
            change[t], gains[t] = k, K
            decrease -= float(k @ Qu + 0.5 * k @ Quu @ k)
            value = Qx + K.T @ (Quu @ k + Qu) + Qux.T @ k
            curvature = Qxx + K.T @ Quu @ K + K.T @ Qux + Qux.T @ K
            curvature = 0.5 * (curvature + curvature.T)
        return change, gains, decrease

    def solve(self) -> tuple[float, int]:
        """Return the cost, and how many iterations it took."""
        q, v = np.tile(self.rest, (self.horizon + 1, 1)), np.zeros((self.horizon + 1, self.nv))
        u, damping = np.zeros((self.horizon, self.nu)), 1.0e-6
        none = np.zeros((self.horizon, self.nu, 2 * self.nv))
        cost, q, v, u = self.rollout(q, v, u, u, none, 0.0)
        for iteration in range(1, self.iterations + 1):
            A, B = self.linearize(q, v, u)
            before = cost
            while damping < 1.0e6 and cost == before:
                change, gains, decrease = self.sweep(q, v, u, A, B, damping)
                for length in LENGTHS:
                    tried = self.rollout(q, v, u, change, gains, length)
                    if before - tried[0] > 0.1 * length * decrease:
                        cost, q, v, u = tried
                        break
                damping = 0.2 * damping if cost < before else 10.0 * damping
            if before - cost <= TOLERANCE * cost:
                return cost, iteration
        return cost, self.iterations
