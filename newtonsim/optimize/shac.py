"""Short-horizon actor-critic: a policy by gradients through short motions, a critic for what comes after."""

from __future__ import annotations

import contextlib
import copy
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.optimize.checks import check_count, check_positive
from newtonsim.optimize.cost_rollout import CostRollout
from newtonsim.optimize.policies import (
    default_observation,
    import_torch,
    make_actor,
    make_network,
    one_thread,
    quaternion_entries,
)
from newtonsim.runtime.progress import OptimizationProgress

if TYPE_CHECKING:
    import torch

    from newtonsim.optimize.problem import Problem, Start

Observation = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""What a policy sees (worlds, n) of joint_q (worlds, C) and joint_qd (worlds, N); differentiable."""
Starts = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""Draws joint_q (count, C) and joint_qd (count, N) of a number of starts."""

_LONGEST = 10.0
"""Length of the gradient by a state of a world beyond which it is shortened, over that of a step's cost."""
_CRITIC_EPOCHS, _CRITIC_BATCH, _CRITIC_PACE = 4, 256, 0.4
_MANY = 0.1
"""Share of missing gradients beyond which a warning tells of them."""
_SMOOTH = 0.9
"""What a mean of costs over iterations keeps of the one before."""


@dataclass(frozen=True)
class Learned:
    """The result of learning a policy.

    Attributes:
        status: "iterations"; or "not finite" if half of the gradients were missing or not finite.
        history: Mean cost of a second [1/s] of each iteration, under the noise of the policy.
        cost: The lowest mean of about ten of them, whose policy is kept.
        skipped: Iterations whose gradient was not finite, and left out.
        seconds: Time that it took [s].
        left_out: Share of the controls whose gradient was left out, because a step of their world had none.
    """

    status: str
    history: list[float]
    cost: float
    skipped: int
    seconds: float
    left_out: float = 0.0

    def __str__(self) -> str:
        costs = f"cost of a second {self.history[0]:.4g} -> {self.cost:.4g}"
        found = f"{self.status}: {costs} in {len(self.history)} iterations, {self.seconds:.1f} s"
        return found + f", {self.left_out:.1%} of the gradients left out" * (self.left_out > 0.0)


class SHAC:
    """Learns a policy, a function from states to controls, that minimises the long-term cost.

    Xu and others, "Accelerated policy learning with parallel differentiable simulation", 2022. In each
    iteration all worlds continue for the horizon of the problem; the policy follows the gradient of their
    discounted costs and of the critic's value after it, through `newtonsim.diff.Rollout`. The critic learns
    TD(λ) returns. Only running costs are used: there is no final state. Worlds in which a step has no
    gradient contribute none to it.

    Args:
        problem: Robot, costs, and bounds of the controls, which must be finite. Its horizon is the length of
            gradients: 8 to 32 controls.
        worlds: Number of robots that learn in parallel.
        starts: Draws starts of episodes; None for that of the builder with normal noise.
        spread: Standard deviation of this noise [rad, m, and per s].
        episode: Number of controls after which a robot restarts.
        observe: Observation of the policy; None for coordinates, with cosine and sine of hinges without
            limits, and velocities.
        discount: γ, ratio of the weight of the cost of each control to that of the one before.
        trace: λ of the returns.
        hidden: Units of the two hidden layers of both networks.
        rate: Learning rate of the policy; it falls to a tenth.
        critic_rate: That of the critic.
        seed: Of the random numbers.

    Attributes:
        problem: The problem.
        actor: The policy, a torch module; its weights are those of the best iterations.
        samples: Controls of single robots that it has learned from.

    Raises:
        ImportError: torch is not installed.
        NewtonsimError: An argument is out of range, bounds are not finite, or costs need a horizon.
        NotDifferentiableError: A cost has no gradient.
    """

    def __init__(
        self,
        problem: Problem,
        worlds: int = 64,
        starts: Starts | None = None,
        spread: float = 0.1,
        episode: int = 250,
        observe: Observation | None = None,
        discount: float = 0.99,
        trace: float = 0.95,
        hidden: int = 64,
        rate: float = 4e-3,
        critic_rate: float = 2e-3,
        seed: int = 0,
    ):
        torch = import_torch()
        for name, count in (("worlds", worlds), ("episode", episode), ("hidden", hidden)):
            check_count(name, count)
        for name, value in (("discount", discount), ("trace", trace)):
            if not 0.0 < check_positive(name, value) < 1.0:
                raise NewtonsimError(f"{name}: expected a number between 0 and 1, got {value!r}")
        _check_problem(problem)
        self.problem, self.worlds, self.episode = problem, int(worlds), int(episode)
        self.discount, self.trace = float(discount), float(trace)
        self._rates = check_positive("rate", rate), check_positive("critic_rate", critic_rate)
        self._motion = _Motion(problem, self.worlds)
        self._observe = observe or default_observation(problem.model)
        self._starts, self._spread = starts or self._about_builder, float(spread)
        self._rng, self._noise = np.random.default_rng(seed), torch.Generator().manual_seed(int(seed))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seed))
            self._restart(torch.ones(self.worlds, dtype=torch.bool))
            seen = self._observe(self._q, self._qd)
            self.actor = make_actor(seen, len(problem.entries), int(hidden))
            self.critic = make_network(seen.shape[1], 1, int(hidden))
        self._age = torch.randint(0, self.episode, (self.worlds,), generator=self._noise)
        self._scale, self._missing, self.samples = 0.0, 0, 0

    def train(self, iterations: int = 200) -> Learned:
        """Continue learning. Ctrl-C ends it with the best policy so far.

        Args:
            iterations: Number of iterations, each of the horizon of the problem.

        Returns:
            The progress; `actor` has the policy.

        Raises:
            NewtonsimError: The argument is out of range, or all costs are zero.
            NotDifferentiableError: The solver has no gradient.

        Warns:
            RuntimeWarning: The gradients of more than a tenth of the controls were left out.
        """
        torch = import_torch()
        check_count("iterations", iterations)
        begun, history, skipped, self._missing = time.perf_counter(), [], 0, 0
        best, smooth = (np.inf, self.actor.weights()), np.nan
        actor_steps = torch.optim.Adam(self.actor.parameters(), lr=self._rates[0], betas=(0.7, 0.95))
        critic_steps = torch.optim.Adam(self.critic.parameters(), lr=self._rates[1])
        target = copy.deepcopy(self.critic)
        try:
            with _quiet(), one_thread(), OptimizationProgress(type(self).__name__, iterations) as progress:
                for number in range(iterations):
                    actor_steps.param_groups[0]["lr"] = self._rates[0] * (1.0 - 0.9 * number / iterations)
                    seen, cost, after, ends, objective = self.collect(target)
                    self.samples += cost.numel()
                    skipped += not _step(actor_steps, objective, self.actor.parameters())
                    self._fit_critic(critic_steps, target, seen, cost, after, ends)
                    history.append(float(cost.mean()) / (self._scale * self.problem.interval))
                    smooth = history[-1] if number == 0 else _SMOOTH * smooth + (1.0 - _SMOOTH) * history[-1]
                    if number >= min(10, iterations - 1) and smooth < best[0]:
                        best = (smooth, self.actor.weights())
                    progress.tell(number + 1, history[-1])
        finally:  # after Ctrl-C, too
            self.actor.load_state_dict(best[1])
        left_out = self._missing / (iterations * self.problem.horizon * self.worlds)
        if left_out > _MANY:
            warnings.warn(
                f"SHAC: gradients of {left_out:.0%} of the controls were left out, because steps of their "
                "worlds had none: links turned far in a step, or constraints were not solved well enough; "
                "shorten the step (`dt` of the problem), or allow more work by options of the solver",
                RuntimeWarning,
                stacklevel=2,
            )
        status = "not finite" if 2 * skipped > iterations or left_out > 0.5 else "iterations"
        return Learned(status, history, best[0], skipped, time.perf_counter() - begun, left_out)

    def __call__(self, state: Start) -> np.ndarray:
        """Return the control of the policy for a state, without noise, (M,).

        Args:
            state: State of the robot: a State of one world, or (joint_q, joint_qd).

        Raises:
            NewtonsimError: The state does not fit.
        """
        torch = import_torch()
        q, qd = (torch.from_numpy(x)[None] for x in self.problem.read_start(state))
        with torch.no_grad():
            return self.act(q, qd)[0].numpy().astype(np.float64)

    def act(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Return the controls of the policy (n, M), without noise.

        Args:
            q: joint_q of n robots, (n, C).
            qd: Their joint_qd, (n, N).
        """
        return self._motion.controls(import_torch().tanh(self.actor(self._observe(q, qd))))

    def draw_starts(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw joint_q (count, C) and joint_qd (count, N) of starts of episodes, float32.

        Raises:
            NewtonsimError: `starts` returned other shapes, or numbers that are not finite.
        """
        model = self.problem.model
        shapes = (count, model.joint_coord_count), (count, model.joint_dof_count)
        q, qd = (np.asarray(x, np.float32) for x in self._starts(count, self._rng))
        if (q.shape, qd.shape) != shapes or not (np.isfinite(q).all() and np.isfinite(qd).all()):
            raise NewtonsimError(f"starts: expected finite numbers of shapes {shapes}")
        return q, qd

    def collect(self, critic: Any) -> tuple[torch.Tensor, ...]:
        """Continue all worlds for the horizon.

        Args:
            critic: Module that computes the value of end states.

        Returns:
            Observations (T, worlds, n), scaled costs (T, worlds), observations after them (T, worlds, n),
            ends of episodes (T, worlds), and the objective, from which gradients lead to the policy.
        """
        torch = import_torch()
        self._q, self._qd = self._q.detach(), self._qd.detach()
        if not self._scale:
            self._scale = self._find_scale()
        horizon, total = self.problem.horizon, torch.zeros(())
        weight, kept = torch.ones(self.worlds), []
        for t in range(horizon):
            seen = self._observe(self._q, self._qd)
            noise = torch.randn(self.worlds, len(self.problem.entries), generator=self._noise)
            action = torch.tanh(self.actor(seen) + self.actor.deviation() * noise)
            if action.requires_grad:
                action.register_hook(self._leave_out)
            cost, self._q, self._qd = self._motion(self._q, self._qd, action, self._shorten)
            cost, after = self._scale * cost, self._observe(self._q, self._qd)
            broken = ~torch.isfinite(cost.detach()) | ~torch.isfinite(after.detach()).all(dim=1)
            self._age += 1
            over = (self._age >= self.episode) | broken
            last = over | torch.tensor(t == horizon - 1)
            value = self.discount * critic(self.actor.normalise(after))[:, 0] / (1.0 - self.discount)
            step = torch.where(broken, 0.0, cost + torch.where(last, value, 0.0))
            total = total + (weight * step).sum()
            weight = torch.where(over, 1.0, self.discount * weight)
            after = torch.where(broken[:, None], seen, after)
            kept.append((seen.detach(), torch.where(broken, 0.0, cost).detach(), after.detach(), over))
            self._restart(over)
        columns = (torch.stack(column) for column in zip(*kept, strict=True))
        return *columns, total / (self.worlds * horizon)

    def _fit_critic(
        self,
        steps: torch.optim.Optimizer,
        target: Any,
        seen: torch.Tensor,
        cost: torch.Tensor,
        after: torch.Tensor,
        ends: torch.Tensor,
    ) -> None:
        """Regression on TD(λ) returns; values are scaled by 1 - γ, to the size of a cost."""
        torch = import_torch()
        self.actor.see(seen)
        with torch.no_grad():
            values = target(self.actor.normalise(after))[..., 0]
            later, wanted = values[-1], torch.zeros_like(cost)
            for t in reversed(range(len(cost))):
                mixed = torch.where(ends[t], values[t], (1.0 - self.trace) * values[t] + self.trace * later)
                later = (1.0 - self.discount) * cost[t] + self.discount * mixed
                wanted[t] = later
        inputs, wanted = self.actor.normalise(seen).flatten(0, 1), wanted.flatten()
        for _ in range(_CRITIC_EPOCHS):
            for batch in torch.randperm(len(inputs), generator=self._noise).split(_CRITIC_BATCH):
                error = (self.critic(inputs[batch])[:, 0] - wanted[batch]).square().mean()
                _step(steps, error, self.critic.parameters())
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), self.critic.parameters(), strict=True):
                slow.lerp_(fast, 1.0 - _CRITIC_PACE)

    def _find_scale(self) -> float:
        """One over the mean cost of a control where the robots are now."""
        torch = import_torch()
        with torch.no_grad():
            cost = self._motion(self._q, self._qd, torch.zeros(self.worlds, len(self.problem.entries)))[0]
        mean = float(cost[torch.isfinite(cost)].abs().mean())
        if not mean > 0.0:
            raise NewtonsimError("costs: SHAC needs running costs; final costs are not used")
        return 1.0 / mean

    def _shorten(self, gradient: torch.Tensor) -> torch.Tensor:
        """Bound the gradient by the state of each world: single falls would outweigh all else."""
        longest = _LONGEST / (self.worlds * self.problem.horizon)
        gradient, _ = _finite_rows(gradient)
        return gradient * (longest / gradient.norm(dim=1, keepdim=True).clamp(min=longest))

    def _leave_out(self, gradient: torch.Tensor) -> torch.Tensor:
        """Replace the gradient by the controls of worlds that have none by zero, and count these."""
        gradient, missing = _finite_rows(gradient)
        self._missing += missing
        return gradient

    def _restart(self, over: torch.Tensor) -> None:
        """Begin new episodes in some worlds."""
        torch = import_torch()
        count = int(over.sum())
        if not count:
            return
        drawn = self.draw_starts(count)
        if count == self.worlds:
            self._q, self._qd = (torch.from_numpy(x) for x in drawn)
            self._age = torch.zeros(self.worlds, dtype=torch.long)
            return
        self._age[over] = 0
        self._q = self._q.index_put((over,), torch.from_numpy(drawn[0]))
        self._qd = self._qd.index_put((over,), torch.from_numpy(drawn[1]))

    def _about_builder(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The start of the builder with noise, but for rotations that are quaternions."""
        model = self.problem.model
        q, qd = (np.tile(x.numpy(), (count, 1)) for x in (model.joint_q, model.joint_qd))
        free = np.setdiff1d(np.arange(q.shape[1]), quaternion_entries(model))
        q[:, free] += self._spread * rng.standard_normal((count, len(free)))
        return q, qd + self._spread * rng.standard_normal(qd.shape)


class _Motion:
    """One control of all worlds as a function of tensors."""

    def __init__(self, problem: Problem, worlds: int):
        from newtonsim.diff import torch_function

        torch = import_torch()
        names = ("state.joint_q", "state.joint_qd", f"control.{problem.inputs}")
        rollout = CostRollout(problem, names, worlds, "tape", endless=True, strict=False)
        self._advance = torch_function(rollout.rollout, names, outputs=("joint_q", "joint_qd"))
        rest = getattr(problem.model.control(), problem.inputs).numpy()
        self._rest = torch.tensor(rest)
        self._rest[problem.entries] = 0.0
        self._place = torch.zeros(len(problem.entries), len(rest))
        self._place[range(len(problem.entries)), problem.entries] = 1.0
        self._middle = torch.tensor(0.5 * (problem.high + problem.low), dtype=torch.float32)
        self._half = torch.tensor(0.5 * (problem.high - problem.low), dtype=torch.float32)

    def controls(self, action: torch.Tensor) -> torch.Tensor:
        """Controls within their bounds of actions between -1 and 1."""
        return self._middle + self._half * action

    def __call__(
        self, q: torch.Tensor, qd: torch.Tensor, action: torch.Tensor, hook: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Costs (worlds,), coordinates and velocities after a control."""
        inputs = self._rest + self.controls(action) @ self._place
        cost, q_next, qd_next = self._advance(q.reshape(-1), qd.reshape(-1), inputs.reshape(-1))
        q_next, qd_next = q_next.reshape(q.shape), qd_next.reshape(qd.shape)
        for tensor in (q_next, qd_next):
            if hook is not None and tensor.requires_grad:
                tensor.register_hook(hook)
        return cost, q_next, qd_next


def _finite_rows(gradient: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return a gradient (worlds, n) with zeros for worlds where it is not finite, and how many these are."""
    torch = import_torch()
    finite = torch.isfinite(gradient).all(dim=1, keepdim=True)
    return torch.where(finite, gradient, 0.0), int((~finite).sum())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out the warnings of single steps without a gradient, which SHAC counts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* has no gradient in worlds", RuntimeWarning)
        yield


def _step(steps: torch.optim.Optimizer, loss: torch.Tensor, parameters: Any) -> bool:
    """Make one step with a gradient of length at most 1; return whether it was finite."""
    torch = import_torch()
    steps.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    if torch.isfinite(norm):
        steps.step()
    return bool(torch.isfinite(norm))


def _check_problem(problem: Problem) -> None:
    if not (np.isfinite(problem.low).all() and np.isfinite(problem.high).all()):
        raise NewtonsimError("bounds: a policy needs finite ones")
    if problem.memory:
        raise NewtonsimError("costs: a policy does not know the previous control; use ControlCost")
    for cost in problem.costs:
        if cost.varies():
            raise NewtonsimError(f"{type(cost).__name__}: a policy needs references of one row")
